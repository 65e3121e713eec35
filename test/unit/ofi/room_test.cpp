// SPDX-License-Identifier: BSD-3-Clause
// Connections of a provider that looks at the head of a message before it takes it have room for
// what comes behind (na/util/tcp.hpp, make_room).
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "na/util/ip.hpp"
#include "spies.hpp"
#include "support/options.hpp"
#include "support/until.hpp"

using support::until;

namespace {

std::uint16_t port_of(const na::Domain& domain) {
    const std::string uri = domain.uri();
    return na::util::parse_endpoint(uri.substr(uri.find("//") + 2)).value().port;
}

std::uint16_t port(int fd, int (*name)(int, sockaddr*, socklen_t*)) {
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    if (name(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
        return 0;
    }
    return storage.ss_family == AF_INET
               ? ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port)
           : storage.ss_family == AF_INET6
               ? ntohs(reinterpret_cast<const sockaddr_in6&>(storage).sin6_port)
               : std::uint16_t{0};
}

// Of the connections between these ports: how many there are, and the least room for what comes.
struct Rooms {
    std::size_t connections = 0;
    int least = INT_MAX;
};
Rooms rooms(const std::set<std::uint16_t>& ports) {
    Rooms rooms;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        const int fd = std::atoi(entry.path().filename().c_str());
        const std::uint16_t peer = port(fd, getpeername);
        if (peer == 0 || (!ports.contains(peer) && !ports.contains(port(fd, getsockname)))) {
            continue;
        }
        int room = 0;
        socklen_t size = sizeof room;
        REQUIRE(getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, &size) == 0);
        rooms.least = std::min(rooms.least, room);
        ++rooms.connections;
    }
    return rooms;
}

}  // namespace

TEST_CASE("connections of sockets have room at both ends", "[ofi][room]") {
    const std::string protocol = "ofi+sockets";
    if (!can_open(protocol)) {
        support::skip(protocol + " cannot be opened here");
        return;
    }
    Side a(protocol);
    Side b(protocol);
    const na::Address peer = a.domain.lookup(b.domain.uri()).value();
    na::Operation send(a.context), receive(b.context);
    const na::Buffer out = a.domain.make_buffer(100).value();
    const na::Buffer in = b.domain.make_buffer(1000).value();
    bool sent = false, came = false;
    b.context.recv_unexpected(receive, in, [&](na::Status, const na::Message&) { came = true; })
        .value();
    a.context.send_unexpected(send, peer, 1, out.first(100), [&](na::Status) { sent = true; })
        .value();
    REQUIRE(until([&] { return sent && came; },
                  [&] {
                      a.pump();
                      b.pump();
                  }));
    const Rooms all = rooms({port_of(a.domain), port_of(b.domain)});
    CHECK(all.connections >= 2);
    CHECK(all.least >= 1 << 20);
}
