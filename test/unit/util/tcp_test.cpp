// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/tcp.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "na/util/fd.hpp"

using na::util::IpEndpoint;
using na::util::SilenceWatch;
using na::util::UniqueFd;

namespace {

const auto kLoopback = na::util::IpAddress::parse("127.0.0.1").value();
// Twice of what any user may ask for (net.core.rmem_max as it was for long: 208 KiB).
constexpr int kRoom = 2 * 208 * 1024;

IpEndpoint local_end(int fd) {
    sockaddr_in name{};
    socklen_t size = sizeof name;
    REQUIRE(getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) == 0);
    return {kLoopback, ntohs(name.sin_port)};
}

UniqueFd listener() {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_storage any{};
    const socklen_t size = kLoopback.fill(any, 0);
    REQUIRE(bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), size) == 0);
    REQUIRE(listen(fd.get(), 4) == 0);
    return fd;
}

struct Connection {
    explicit Connection(int to) : made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_storage name{};
        const socklen_t size = kLoopback.fill(name, local_end(to).port);
        REQUIRE(connect(made.get(), reinterpret_cast<const sockaddr*>(&name), size) == 0);
        taken.reset(accept4(to, nullptr, nullptr, SOCK_CLOEXEC));
        REQUIRE(taken);
    }
    UniqueFd made;
    UniqueFd taken;
};

int option(const UniqueFd& fd, int level, int name) {
    int value = -1;
    socklen_t size = sizeof value;
    REQUIRE(getsockopt(fd.get(), level, name, &value, &size) == 0);
    return value;
}

bool asked(const UniqueFd& fd) {
    return option(fd, SOL_SOCKET, SO_KEEPALIVE) != 0;
}

}  // namespace

TEST_CASE("connections with one place are asked whether it lives, others are not", "[tcp]") {
    const UniqueFd here = listener();
    const UniqueFd there = listener();
    const UniqueFd elsewhere = listener();
    const UniqueFd datagrams(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    Connection ours(there.get());
    Connection theirs(here.get());
    Connection other(elsewhere.get());
    const IpEndpoint me = local_end(here.get());

    SilenceWatch watch;
    IpEndpoint another = local_end(there.get());
    another.address = na::util::IpAddress::parse("127.0.0.2").value();
    watch.add(another, 0);
    CHECK(watch.look(me) == 0);
    CHECK_FALSE(asked(ours.made));

    // The one that was made to it, and the one that came to us from its host.
    watch.add(local_end(there.get()), 0);
    CHECK(watch.look(me) == 0);
    CHECK(asked(ours.made));
    CHECK(asked(theirs.taken));
    for (const UniqueFd* fd : {&ours.taken, &theirs.made, &other.made, &other.taken}) {
        CHECK_FALSE(asked(*fd));
    }
    CHECK_FALSE(watch.empty());
    watch.clear(me);
    CHECK(watch.empty());
    CHECK_FALSE(asked(ours.made));
    CHECK_FALSE(asked(theirs.taken));
}

// Who lives confirms, whether somebody reads there or not, and whether anything was sent or not.
TEST_CASE("connections with a host that answers stay", "[tcp]") {
    using namespace std::chrono_literals;
    const UniqueFd here = listener();
    const UniqueFd there = listener();
    Connection full(there.get());
    Connection idle(there.get());
    std::vector<char> bytes(1 << 20, 'x');
    std::size_t sent = 0;
    for (ssize_t n = 0; (n = send(full.made.get(), bytes.data(), bytes.size(),
                                  MSG_DONTWAIT | MSG_NOSIGNAL)) > 0;) {
        sent += static_cast<std::size_t>(n);
    }
    SilenceWatch watch(1500ms);
    watch.add(local_end(there.get()), 0);
    const auto end = std::chrono::steady_clock::now() + 7s;
    while (std::chrono::steady_clock::now() < end) {
        REQUIRE(watch.look(local_end(here.get())) == 0);
        std::this_thread::sleep_for(100ms);  // the looks are what is tested
    }
    watch.clear(local_end(here.get()));
    while (sent != 0) {
        const ssize_t n = recv(full.taken.get(), bytes.data(), bytes.size(), 0);
        REQUIRE(n > 0);
        sent -= static_cast<std::size_t>(n);
    }
    REQUIRE(send(idle.made.get(), "y", 1, 0) == 1);
    CHECK(recv(idle.taken.get(), bytes.data(), 1, 0) == 1);
}

TEST_CASE("looks for silence are an interval apart, whoever is lost meanwhile", "[tcp]") {
    constexpr std::int64_t kInterval = SilenceWatch::kInterval;
    SilenceWatch watch;
    CHECK_FALSE(watch.due(kInterval));
    watch.add({kLoopback, 1}, kInterval);
    CHECK_FALSE(watch.due(2 * kInterval - 1));
    watch.add({kLoopback, 2}, 2 * kInterval - 1);
    CHECK(watch.due(2 * kInterval));
    CHECK_FALSE(watch.due(3 * kInterval - 1));
    CHECK(watch.due(3 * kInterval));
}

TEST_CASE("who listens has room, and so have those who come then", "[tcp]") {
    const UniqueFd here = listener();
    const UniqueFd there = listener();
    const Connection before(here.get());
    const int usual = option(before.taken, SOL_SOCKET, SO_RCVBUF);
    REQUIRE(usual < kRoom);  // else nothing is shown
    na::util::make_room_for_peers(local_end(here.get()));
    const Connection after(here.get());
    CHECK(option(after.taken, SOL_SOCKET, SO_RCVBUF) >= kRoom);
    // Neither those who came before, nor other listeners, nor who connects.
    const Connection other(there.get());
    for (const UniqueFd* fd : {&before.taken, &other.taken, &other.made, &after.made, &there}) {
        CHECK(option(*fd, SOL_SOCKET, SO_RCVBUF) < kRoom);
    }
    na::util::make_room_for_peers({});
    CHECK(option(there, SOL_SOCKET, SO_RCVBUF) < kRoom);
}

TEST_CASE("connections to a place have room, others have not", "[tcp]") {
    const UniqueFd here = listener();
    const UniqueFd there = listener();
    const Connection connection(here.get());
    const Connection other(there.get());
    na::util::make_room(local_end(here.get()));
    CHECK(option(connection.made, SOL_SOCKET, SO_RCVBUF) >= kRoom);
    CHECK(option(connection.made, SOL_SOCKET, SO_RCVLOWAT) == 1);
    for (const UniqueFd* fd : {&connection.taken, &other.made, &other.taken, &here, &there}) {
        CHECK(option(*fd, SOL_SOCKET, SO_RCVBUF) < kRoom);
    }
    na::util::make_room({});
    CHECK(option(other.made, SOL_SOCKET, SO_RCVBUF) < kRoom);
}

// Each says when it may be read, whoever made room meanwhile.
TEST_CASE("several threads make room, and peers connect meanwhile", "[tcp][threads]") {
    const UniqueFd here = listener();
    const na::util::IpEndpoint place = local_end(here.get());
    const Connection first(here.get());
    std::atomic<bool> over{false};
    std::vector<std::thread> threads;
    for (int n = 0; n < 3; ++n) {
        threads.emplace_back([&] {
            while (!over) {
                na::util::make_room(place);
                na::util::make_room_for_peers(place);
            }
        });
    }
    std::vector<Connection> suspects;  // (A descriptor may be taken for who had its number before.)
    for (int n = 0; n < 3000; ++n) {
        Connection next(here.get());
        if (option(next.taken, SOL_SOCKET, SO_RCVLOWAT) != 1) {
            suspects.push_back(std::move(next));
        }
    }
    over = true;
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (const Connection& suspect : suspects) {
        CHECK(option(suspect.taken, SOL_SOCKET, SO_RCVLOWAT) == 1);
    }
    CHECK(option(first.made, SOL_SOCKET, SO_RCVLOWAT) == 1);
    CHECK(option(first.taken, SOL_SOCKET, SO_RCVLOWAT) == 1);
    CHECK(option(here, SOL_SOCKET, SO_RCVLOWAT) == 1);
}

// What a library does that looks at the head of a message before it takes it.
TEST_CASE("messages whose head is looked at first go on where there is room", "[tcp]") {
    constexpr std::size_t kHead = 64;
    constexpr std::size_t kMost = 16384;
    constexpr std::size_t kTotal = std::size_t{100} << 20;
    const bool to_listener = GENERATE(true, false);
    const unsigned seed = GENERATE(range(1U, 5U));
    INFO("seed " << seed << (to_listener ? ", to who listens" : ", to who connected"));
    const UniqueFd here = listener();
    na::util::make_room_for_peers(local_end(here.get()));
    const Connection connection(here.get());
    na::util::make_room(local_end(here.get()));
    const int from = (to_listener ? connection.made : connection.taken).get();
    const int to = (to_listener ? connection.taken : connection.made).get();
    std::minstd_rand random(seed);
    std::vector<char> out(kHead + kMost), in(kMost);
    std::size_t size = 0, sent = 0, left = 0, got = 0;
    auto last = std::chrono::steady_clock::now();
    bool stuck = false;
    while (got < kTotal && !stuck) {
        const std::size_t before = got;
        for (auto n = random() % 4; n != 0; --n) {
            if (sent == size) {
                const std::uint64_t payload = 1 + random() % kMost;
                size = kHead + payload;
                sent = 0;
                std::memcpy(out.data(), &payload, sizeof payload);
            }
            const ssize_t n_sent =
                send(from, out.data() + sent, size - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
            sent += static_cast<std::size_t>(std::max<ssize_t>(n_sent, 0));
        }
        for (auto n = random() % 4; n != 0; --n) {
            if (left == 0 &&
                recv(to, in.data(), kHead, MSG_PEEK | MSG_DONTWAIT) == ssize_t{kHead}) {
                REQUIRE(recv(to, in.data(), kHead, 0) == ssize_t{kHead});
                std::memcpy(&left, in.data(), sizeof left);
            }
            const ssize_t n_got =
                left == 0 ? 0
                          : recv(to, in.data(),
                                 random() % 2 == 0 ? left : std::min<std::size_t>(left, 1024),
                                 MSG_DONTWAIT);
            left -= static_cast<std::size_t>(std::max<ssize_t>(n_got, 0));
            got += static_cast<std::size_t>(std::max<ssize_t>(n_got, 0));
        }
        const auto now = std::chrono::steady_clock::now();
        last = got != before ? now : last;
        stuck = now - last > std::chrono::seconds(10);
    }
    CHECK_FALSE(stuck);
}

TEST_CASE("who has connected to us and said nothing is hung up on, others are not", "[tcp]") {
    const UniqueFd here = listener();
    const UniqueFd there = listener();
    const Connection idle(here.get());
    const Connection busy(here.get());
    const Connection other(there.get());
    REQUIRE(send(busy.made.get(), "x", 1, MSG_NOSIGNAL) == 1);
    char c = 0;
    REQUIRE(recv(busy.taken.get(), &c, 1, 0) == 1);
    IpEndpoint another = local_end(here.get());
    another.address = na::util::IpAddress::parse("127.0.0.2").value();
    CHECK(na::util::hang_up_on_strangers({}) == 0);
    CHECK(na::util::hang_up_on_strangers(another) == 0);
    CHECK(na::util::hang_up_on_strangers(local_end(here.get())) == 1);
    CHECK(recv(idle.made.get(), &c, 1, 0) == 0);
    CHECK(na::util::hang_up_on_strangers(local_end(here.get())) == 0);  // once
    for (const UniqueFd* fd : {&busy.made, &other.made, &other.taken}) {
        CHECK(recv(fd->get(), &c, 1, MSG_DONTWAIT) == -1);
    }
}
