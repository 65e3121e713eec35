// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/tcp.hpp"

#include <cstdlib>
#include <memory>

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace na::util {
namespace {

using Name = int (*)(int, sockaddr*, socklen_t*);

// Port 0: it has no such name, or none of IP.
IpEndpoint name_of(int fd, Name name) noexcept {
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    auto* const address = reinterpret_cast<sockaddr*>(&storage);
    IpEndpoint end;
    if (name(fd, address, &size) != 0) {
        return end;
    }
    if (const auto ip = IpAddress::from(address)) {
        end.address = *ip;
        end.port = ntohs(storage.ss_family == AF_INET
                             ? reinterpret_cast<const sockaddr_in&>(storage).sin_port
                             : reinterpret_cast<const sockaddr_in6&>(storage).sin6_port);
    }
    return end;
}

void set(int fd, int level, int option, int value) noexcept {
    setsockopt(fd, level, option, &value, sizeof value);
}

void give_up_after(int fd, std::chrono::seconds patience) noexcept {
    const auto seconds = static_cast<int>(patience.count());
    // With the time-out set, what nobody confirms ends the connection, and so do probes of a silent
    // one, the number of which does not matter then.
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, seconds * 1000);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

}  // namespace

std::size_t limit_patience(const IpEndpoint& there, const IpEndpoint& here,
                           std::chrono::seconds patience) noexcept {
    const std::unique_ptr<DIR, int (*)(DIR*)> all(opendir("/proc/self/fd"), closedir);
    std::size_t found = 0;
    while (const dirent* entry = all != nullptr ? readdir(all.get()) : nullptr) {
        char* end = nullptr;
        const long fd = std::strtol(entry->d_name, &end, 10);
        if (end == entry->d_name || *end != '\0') {
            continue;
        }
        const int socket = static_cast<int>(fd);
        const IpEndpoint peer = name_of(socket, getpeername);
        if (peer.port == 0 || peer.address != there.address ||
            (peer.port != there.port && name_of(socket, getsockname).port != here.port)) {
            continue;
        }
        give_up_after(socket, patience);
        ++found;
    }
    return found;
}

}  // namespace na::util
