// SPDX-License-Identifier: BSD-3-Clause
// Other programs at the place of a peer, and more who connect than there are descriptors for.
#include <catch2/catch.hpp>

#include <array>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "crash/na_side.hpp"
#include "na/util/ip.hpp"

namespace {

using namespace crash;
using support::Link;
using support::Party;

enum class Manners : std::uint8_t {
    hangs_up,
    resets,
    speaks_first,  // as those of SSH and SMTP do
    answers,       // as those of HTTP do, and hangs up
};

// Until it is told to end, over the link. Answers how many came.
unsigned keep_house(Link& link, int listener, Manners manners) {
    unsigned guests = 0;
    std::vector<na::util::UniqueFd> inside;
    while (!link.readable()) {
        std::vector<pollfd> set{{listener, POLLIN, 0}};
        for (const auto& fd : inside) {
            set.push_back({fd.get(), POLLIN, 0});
        }
        ::poll(set.data(), set.size(), 10);
        for (std::size_t i = inside.size(); i != 0; --i) {
            if (set[i].revents != 0) {
                std::array<char, 256> said{};
                if (recv(inside[i - 1].get(), said.data(), said.size(), MSG_DONTWAIT) > 0) {
                    const std::string_view answer = "HTTP/1.1 400 Bad Request\r\n\r\n";
                    (void)!send(inside[i - 1].get(), answer.data(), answer.size(), MSG_NOSIGNAL);
                }
                inside.erase(inside.begin() + static_cast<std::ptrdiff_t>(i - 1));
            }
        }
        if (set[0].revents == 0) {
            continue;
        }
        na::util::UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
        if (!fd) {
            continue;
        }
        ++guests;
        const std::string_view greeting = "SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n";
        const linger at_once{.l_onoff = 1, .l_linger = 0};
        switch (manners) {
            case Manners::resets:
                setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
                break;
            case Manners::speaks_first:
                (void)!send(fd.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL);
                inside.push_back(std::move(fd));
                break;
            case Manners::answers:
                inside.push_back(std::move(fd));
                break;
            default:
                break;
        }
    }
    link.take_text();
    return guests;
}

na::util::UniqueFd listen_at(const na::util::IpEndpoint& place) {
    na::util::UniqueFd fd(
        socket(place.address.v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int yes = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_storage name{};
    const socklen_t size = place.address.fill(name, place.port);
    PARTY_REQUIRE(bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), size) == 0);
    PARTY_REQUIRE(listen(fd.get(), 64) == 0);
    return fd;
}

// Answers whether it came so far.
bool has_port() {
    if (!support::ip_endpoint(support::options().example).empty()) {
        return true;
    }
    support::skip("its places are no ports that another program could have");
    return false;
}

const NaSide::Options kCaller{.listen = false};

std::string at_port(NaSide& side, std::uint16_t port) {
    const std::string uri = side.uri();
    return uri.substr(0, uri.find("://")) + "://127.0.0.1:" + std::to_string(port);
}

// A message there, and one that is waited for: both end, whatever is there.
struct Exchange {
    Exchange(NaSide& side, na_addr_t* to)
        : out(side, 200), in(side, 200), send(side), receive(side) {
        PARTY_REQUIRE(receive.receive_expected(in, to, 7) == NA_SUCCESS);
        PARTY_REQUIRE(send.send_unexpected(out, out.size, to, Inbox::kPing) == NA_SUCCESS);
    }
    bool over() const { return !send.in_flight() && !receive.in_flight(); }
    Message out, in;
    NaOp send, receive;
};

// Few; without pauses they would be thousands.
constexpr unsigned kFewGuests = 400;

}  // namespace

TEST_CASE("another program is where a peer is thought to be", "[na][foreign]") {
    if (!has_port()) {
        return;
    }
    std::vector<Manners> all{Manners::hangs_up, Manners::resets, Manners::speaks_first};
    if (support::options().protocol.find("ucx+") == std::string::npos) {
        all.push_back(Manners::answers);
    } else {
        support::skip("who waits for the caller's first word, as it does, is taken for a peer");
    }
    // (Processes begin before anything is opened.)
    std::vector<std::unique_ptr<Party>> others;
    others.reserve(all.size());
    for (const Manners manners : all) {
        others.push_back(std::make_unique<Party>(Party::As::process, [=](Link& link) {
            const auto fd = listen_at({*na::util::IpAddress::parse("127.0.0.1"), 0});
            sockaddr_in name{};
            socklen_t size = sizeof name;
            PARTY_REQUIRE(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&name), &size) == 0);
            link.put(std::to_string(ntohs(name.sin_port)));
            const unsigned guests = keep_house(link, fd.get(), manners);
            link.put(std::to_string(guests));
        }));
    }
    for (std::size_t i = 0; i < others.size(); ++i) {
        INFO("manners " << i);
        Link& link = others[i]->link();
        const auto port = static_cast<std::uint16_t>(std::stoi(link.take_text()));
        NaSide side(kCaller);
        {
            Exchange exchange(side, side.peer(at_port(side, port)));
            CHECK(support::until([&] { return exchange.over(); }, [&] { side.turn(100); }));
            CHECK(exchange.send.ret == NA_HOSTUNREACH);
            CHECK(exchange.receive.ret == NA_HOSTUNREACH);
        }
        link.put("end");
        CHECK(std::stoul(link.take_text()) < kFewGuests);
        side.close();
    }
}

TEST_CASE("another program has the place of a peer that died", "[na][foreign]") {
    if (!has_port()) {
        return;
    }
    Party peer(Party::As::process, [&](Link& link) {
        NaSide side({.name = support::lasting_host("")});
        Inbox inbox(side);
        link.put(side.uri());
        for (;;) {
            side.turn(100);
        }
    });
    Party other(Party::As::process, [&](Link& link) {
        const auto place = na::util::parse_endpoint(link.take_text());
        PARTY_REQUIRE(place);
        const auto fd = listen_at({place->address, place->port});
        link.put("there");
        const unsigned guests = keep_house(link, fd.get(), Manners::hangs_up);
        link.put(std::to_string(guests));
    });
    const std::string uri = peer.link().take_text();
    NaSide side(kCaller);
    na_addr_t* const to = side.peer(uri);
    ping(side, to, 1);
    {
        Message in(side, 200);
        NaOp waiting(side);
        REQUIRE(waiting.receive_expected(in, to, 9) == NA_SUCCESS);
        // Nobody looks until the other one is there.
        peer.kill(SIGKILL);
        other.link().put(support::ip_endpoint(uri));
        REQUIRE(other.link().take_text() == "there");
        CHECK(support::until([&] { return !waiting.in_flight(); }, [&] { side.turn(100); }));
        CHECK(waiting.ret == NA_HOSTUNREACH);
        Exchange exchange(side, to);
        CHECK(support::until([&] { return exchange.over(); }, [&] { side.turn(100); }));
        CHECK(exchange.send.ret == NA_HOSTUNREACH);
        CHECK(exchange.receive.ret == NA_HOSTUNREACH);
    }
    other.link().put("end");
    CHECK(std::stoul(other.link().take_text()) < kFewGuests);
    side.close();
}

TEST_CASE("no descriptor is left for who connects, and nobody burns the processor",
          "[na][foreign]") {
    if (!has_port()) {
        return;
    }
    if (support::options().protocol.find("ofi+sockets") != std::string::npos) {
        support::skip("a thread of libfabric's own looks for them, time and again (docs/ofi.md)");
        return;
    }
    Party server(Party::As::process, [&](Link& link) {
        NaSide side({});
        Inbox inbox(side);
        link.put(side.uri());
        const auto until_told = [&] {
            while (!link.readable()) {
                side.turn(10);
            }
            link.take_text();
        };
        until_told();
        // As many as are there, and ten.
        const int next = dup(0);
        rlimit limit{};
        PARTY_REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
        const rlim_t usual = limit.rlim_cur;
        limit.rlim_cur = static_cast<rlim_t>(next) + 10;
        PARTY_REQUIRE(close(next) == 0 && setrlimit(RLIMIT_NOFILE, &limit) == 0);
        link.put("narrow");
        until_told();  // they are here
        const auto now = [](clockid_t clock) {
            timespec t{};
            clock_gettime(clock, &t);
            return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
        };
        for (int i = 0; i < 20; ++i) {
            side.turn(20);
        }
        // Who burns the processor does so all the time; a machine that stood still meanwhile, as
        // virtual ones do, makes a process look like that once.
        std::string verdict = "burns";
        for (int second = 0; second < 3 && verdict != "calm"; ++second) {
            const double cpu = now(CLOCK_PROCESS_CPUTIME_ID);
            const double start = now(CLOCK_MONOTONIC);
            while (now(CLOCK_MONOTONIC) - start < 1) {
                side.turn(50);
            }
            const double used = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
            verdict = used < 0.4 ? "calm" : verdict + ' ' + std::to_string(used);
        }
        link.put(verdict);
        limit.rlim_cur = usual;
        PARTY_REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        until_told();
        inbox.close();
        side.close();
    });
    const std::string uri = server.link().take_text();
    NaSide side(kCaller);
    na_addr_t* const to = side.peer(uri);
    ping(side, to, 1);
    server.link().put("narrow");
    REQUIRE(server.link().take_text() == "narrow");
    const auto place = na::util::parse_endpoint(support::ip_endpoint(uri));
    REQUIRE(place);
    sockaddr_storage name{};
    const socklen_t size = place->address.fill(name, place->port);
    std::vector<na::util::UniqueFd> crowd;
    for (int i = 0; i < 40; ++i) {
        crowd.emplace_back(socket(name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        (void)connect(crowd.back().get(), reinterpret_cast<const sockaddr*>(&name), size);
    }
    server.link().put("here");
    CHECK(server.link().take_text() == "calm");
    crowd.clear();
    ping(side, to, 2);
    {
        NaSide newcomer(kCaller);
        ping(newcomer, newcomer.peer(uri), 3);
        newcomer.close();
    }
    side.close();
    server.link().put("end");
    CHECK(server.join().empty());
}
