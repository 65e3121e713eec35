// SPDX-License-Identifier: BSD-3-Clause
// A server runs out of descriptors: peers that it has go on, newcomers are told, and when there are
// descriptors again the next newcomer is served. Nothing ends the server.
#include <catch2/catch.hpp>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "crash/few_files.hpp"
#include "crash/na_side.hpp"
#include "crash/nursery.hpp"
#include "crash/residue.hpp"
#include "na/util/fd.hpp"
#include "na/util/tcp.hpp"

namespace {

using namespace crash;
using na::util::UniqueFd;
using support::Link;
using support::Party;

constexpr unsigned kCrowd = 24;
constexpr std::size_t kLeft = 16;  // descriptors that the server has for that many

// A peer of a crowd: what it wants and what became of that.
struct Guest {
    explicit Guest(const std::string& uri, std::uint64_t number)
        : side({.listen = false}),
          request(side, 64),
          response(side, 64),
          receive(side),
          send(side) {
        na_addr_t* const to = side.peer(uri);
        request.set_number(number);
        PARTY_REQUIRE(receive.receive_expected(response, to, static_cast<na_tag_t>(number)) ==
                      NA_SUCCESS);
        const na_return_t ret = send.send_unexpected(request, request.size, to, Inbox::kPing);
        PARTY_REQUIRE((ret == NA_SUCCESS || ret == NA_BUSY));
    }
    bool well() const { return send.in_flight() || send.ret == NA_SUCCESS || send.ret == NA_BUSY; }

    NaSide side;
    Message request;
    Message response;
    NaOp receive;
    NaOp send;
};

// Comes all at once, waits until it has been heard or refused, and stays.
Nursery crowds() {
    return Nursery(
        [](std::uint64_t size, const std::string& uri, const std::function<void()>& ready) {
            NA_Set_log_level("none");
            std::vector<std::unique_ptr<Guest>> guests;
            for (std::uint64_t i = 0; i < size; ++i) {
                guests.push_back(std::make_unique<Guest>(uri, i + 1));
            }
            for (int turns = 0; turns < 100; ++turns) {
                for (const auto& guest : guests) {
                    guest->side.turn();
                    PARTY_REQUIRE(guest->well());
                }
                usleep(1000);
            }
            ready();
            const support::Resting resting;
            for (;;) {
                pause();
            }
        });
}

// A process that comes, is served, and goes. The server may not have noticed yet that others went:
// then the newcomer is refused, and asks again.
Nursery newcomers() {
    return Nursery([](std::uint64_t n, const std::string& uri, const std::function<void()>& ready) {
        NA_Set_log_level("none");
        NaSide side({});
        Message request(side, 64);
        Message response(side, 64);
        NaOp receive(side);
        NaOp send(side);
        na_addr_t* const server = side.peer(uri);
        const auto served = [&] {
            request.set_number(++n);
            PARTY_REQUIRE(receive.receive_expected(response, server, static_cast<na_tag_t>(n)) ==
                          NA_SUCCESS);
            const na_return_t ret =
                send.send_unexpected(request, request.size, server, Inbox::kPing);
            PARTY_REQUIRE((ret == NA_SUCCESS || ret == NA_BUSY));
            if (ret != NA_SUCCESS) {
                receive.cancel();
            }
            PARTY_REQUIRE(support::until([&] { return !receive.in_flight() && !send.in_flight(); },
                                         [&] { side.turn(10); }));
            PARTY_REQUIRE((receive.ret == NA_SUCCESS || receive.ret == NA_BUSY ||
                           receive.ret == NA_CANCELED));
            return receive.ret == NA_SUCCESS;
        };
        PARTY_REQUIRE(support::until(served, [&] { side.turn(10); }));
        side.close();
        ready();
    });
}

// A peer that was there before: pings when it is told to.
void resident(Link& link) {
    NaSide side({});
    na_addr_t* const server = side.peer(link.take_text());
    std::uint64_t number = 0;
    do {
        ping(side, server, ++number);
        link.put("served");
    } while (link.take_text() == "again");
    side.close();
}

// Connections to the ports that this process listens at, whoever opened them.
std::vector<UniqueFd> sockets_for(std::size_t count) {
    std::vector<UniqueFd> list;
    for (std::size_t i = 0; i < count; ++i) {
        list.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        PARTY_REQUIRE(list.back());
    }
    return list;
}

std::vector<UniqueFd> take_all() {
    std::vector<UniqueFd> taken;
    for (;;) {
        UniqueFd one(open("/dev/null", O_RDONLY | O_CLOEXEC));
        if (!one) {
            return taken;
        }
        taken.push_back(std::move(one));
    }
}

}  // namespace

TEST_CASE("a crowd comes for which there are too few descriptors", "[na][files]") {
    for (const Waiting waiting : {Waiting::blocking, Waiting::busy}) {
        INFO((waiting == Waiting::busy ? "busy" : "blocking"));
        Party old(Party::As::process, resident);
        Nursery visitors = newcomers();
        Nursery crowd = crowds();
        const std::size_t before = count_descriptors();
        NaSide side({.waiting = waiting});
        {
            Inbox inbox(side);
            const auto pump = [&] { side.turn(1); };
            const auto served = [&] {
                PARTY_REQUIRE(support::until([&] { return old.link().readable(); }, pump));
                return old.link().take_text() == "served";
            };
            const std::string uri = side.uri();
            old.link().put(uri);
            CHECK(served());
            NA_Set_log_level("none");  // the library says what it lacks, which is right
            {
                const FewFiles limit(kLeft);
                const pid_t all = crowd.start(kCrowd, uri, pump);
                old.link().put("again");
                CHECK(served());
                Nursery::kill(all);
                crowd.reap(pump);
                // The limit is as it was.
                visitors.start(1, uri, pump);
                visitors.reap(pump);
            }
            NA_Set_log_level("error");
            old.link().put("again");
            CHECK(served());
            old.link().put("end");
            inbox.close();
        }
        side.close();
        CHECK(old.join() == "");
        CHECK(descriptors_are_back(before));
    }
}

TEST_CASE("the program takes all descriptors for a while", "[na][files]") {
    Party old(Party::As::process, resident);
    Nursery visitors = newcomers();
    Nursery crowd = crowds();
    NaSide side({});
    {
        Inbox inbox(side);
        const auto pump = [&] { side.turn(1); };
        const auto served = [&] {
            PARTY_REQUIRE(support::until([&] { return old.link().readable(); }, pump));
            return old.link().take_text() == "served";
        };
        const std::string uri = side.uri();
        old.link().put(uri);
        CHECK(served());
        NA_Set_log_level("none");
        {
            // Strangers knock at each port that the process has while nobody can be let in.
            const auto ports = na::util::listening_sockets();
            const std::vector<UniqueFd> strangers = sockets_for(ports.size());
            const FewFiles limit(kLeft);
            std::vector<UniqueFd> taken = take_all();
            for (std::size_t i = 0; i < ports.size(); ++i) {
                sockaddr_storage to{};
                const socklen_t size = ports[i].at.address.fill(to, ports[i].at.port);
                (void)connect(strangers[i].get(), reinterpret_cast<const sockaddr*>(&to), size);
            }
            const pid_t all = crowd.start(4, uri, pump);
            old.link().put("again");
            CHECK(served());
            Nursery::kill(all);
            crowd.reap(pump);
        }
        visitors.start(1, uri, pump);
        visitors.reap(pump);
        NA_Set_log_level("error");
        old.link().put("again");
        CHECK(served());
        old.link().put("end");
        inbox.close();
    }
    side.close();
    CHECK(old.join() == "");
    // What the library beneath kept of the descriptors that it lost is in nobody's way later.
    for (int later = 0; later < 3; ++later) {
        NaSide next({});
        Inbox inbox(next);
        const auto pump = [&] { next.turn(1); };
        visitors.start(1, next.uri(), pump);
        visitors.reap(pump);
        inbox.close();
        next.close();
    }
}
