// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/tcp.hpp"

#include <catch2/catch.hpp>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "na/util/fd.hpp"

using na::util::IpEndpoint;
using na::util::limit_patience;
using na::util::UniqueFd;

namespace {

const auto kLoopback = na::util::IpAddress::parse("127.0.0.1").value();

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

bool limited(const UniqueFd& fd, int seconds) {
    const int timeout = option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT);
    const int watched = option(fd, SOL_SOCKET, SO_KEEPALIVE);
    CHECK((timeout == 0) == (watched == 0));
    return timeout == seconds * 1000;
}

}  // namespace

TEST_CASE("connections with one place get the kernel's patience limited, others do not", "[tcp]") {
    using namespace std::chrono_literals;
    const UniqueFd here = listener();
    const UniqueFd there = listener();
    const UniqueFd elsewhere = listener();
    const UniqueFd datagrams(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    Connection ours(there.get());
    Connection theirs(here.get());
    Connection other(elsewhere.get());

    IpEndpoint another = local_end(there.get());
    another.address = na::util::IpAddress::parse("127.0.0.2").value();
    CHECK(limit_patience(another, local_end(here.get()), 10s) == 0);

    // The one that was made to it, and the one that came to us from its host.
    CHECK(limit_patience(local_end(there.get()), local_end(here.get()), 10s) == 2);
    CHECK(limited(ours.made, 10));
    CHECK(limited(theirs.taken, 10));
    for (const UniqueFd* fd : {&ours.taken, &theirs.made, &other.made, &other.taken}) {
        CHECK(limited(*fd, 0));
    }
}
