// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/tcp.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <linux/tcp.h>  // its tcp_info is the whole one

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

int get(int fd, int level, int option) noexcept {
    int value = 0;
    socklen_t size = sizeof value;
    return getsockopt(fd, level, option, &value, &size) == 0 ? value : 0;
}

constexpr int kMostQuestions = 127;  // as many as can be: the end is ours to say

bool asked(int fd) noexcept {
    return get(fd, SOL_SOCKET, SO_KEEPALIVE) != 0 &&
           get(fd, IPPROTO_TCP, TCP_KEEPCNT) == kMostQuestions;
}

// Calls `visit` with each descriptor of this process.
template <typename Visit>
void for_each_descriptor(Visit&& visit) {
    const std::unique_ptr<DIR, int (*)(DIR*)> all(opendir("/proc/self/fd"), closedir);
    while (const dirent* entry = all != nullptr ? readdir(all.get()) : nullptr) {
        char* end = nullptr;
        const int fd = static_cast<int>(std::strtol(entry->d_name, &end, 10));
        if (end != entry->d_name && *end == '\0') {
            visit(fd);
        }
    }
}

}  // namespace

std::vector<ListeningSocket> listening_sockets() {
    std::vector<int> fds;
    for_each_descriptor([&](int fd) {
        if (get(fd, SOL_SOCKET, SO_ACCEPTCONN) != 0) {
            fds.push_back(fd);
        }
    });
    std::vector<ListeningSocket> list;
    for (const int fd : fds) {
        if (const IpEndpoint at = name_of(fd, getsockname); at.port != 0) {
            list.push_back({fd, at});
        }
    }
    return list;
}

void close_on_exec(const IsOurs& ours) noexcept {
    for_each_descriptor([&](int fd) {
        const int flags = fcntl(fd, F_GETFD);
        if (flags < 0 || (flags & FD_CLOEXEC) != 0) {
            return;
        }
        int type = 0;
        socklen_t size = sizeof type;
        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM) {
            return;
        }
        const IpEndpoint own = name_of(fd, getsockname);
        if (own.port != 0 && ours(own, name_of(fd, getpeername))) {
            fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
        }
    });
}

void keep_asking(int fd) noexcept {
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, kMostQuestions);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

bool silent(int fd, std::chrono::milliseconds least) noexcept {
    constexpr unsigned kQuestions = 3;
    tcp_info info{};
    socklen_t size = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           info.tcpi_last_ack_recv >= least.count() &&
           std::max(info.tcpi_probes, info.tcpi_retransmits) >= kQuestions;
}

constexpr int kRoom = 1 << 20;  // the kernel sets twice as much aside

void make_room_for_peers(const IpEndpoint& here) noexcept {
    // What the kernel gives at least where users may ask for 208 KiB (net.core.rmem_max). Who has
    // that is left alone, for who is given a size gets no more of it later (tcp(7), tcp_rmem).
    constexpr int kEnough = 400 * 1024;
    for_each_descriptor([&](int fd) {
        if (get(fd, SOL_SOCKET, SO_ACCEPTCONN) == 0) {
            return;
        }
        const IpEndpoint name = name_of(fd, getsockname);
        if (name.port == here.port && name.port != 0 &&
            (name.address == here.address || name.address.is_any()) &&
            get(fd, SOL_SOCKET, SO_RCVBUF) < kEnough) {
            // Not as below: who connects meanwhile would keep the mark.
            set(fd, SOL_SOCKET, SO_RCVBUF, kRoom);
        }
    });
}

void make_room(const IpEndpoint& place) noexcept {
    for_each_descriptor([&](int fd) {
        const IpEndpoint peer = name_of(fd, getpeername);
        if (peer.port == place.port && peer.port != 0 && peer.address == place.address) {
            // Unlike SO_RCVBUF this knows no limit for users, and the kernel may still give more.
            // Not back to what it was: that may be what another thread has just set.
            set(fd, SOL_SOCKET, SO_RCVLOWAT, kRoom);
            set(fd, SOL_SOCKET, SO_RCVLOWAT, 1);
        }
    });
}

Ways ways_to(const IpEndpoint& place, const IpEndpoint& here, int aside) noexcept {
    Ways ways;
    for_each_descriptor([&](int fd) {
        const IpEndpoint peer = name_of(fd, getpeername);
        if (fd == aside || peer.port == 0 || !(peer.address == place.address)) {
            return;
        }
        const std::uint16_t own = name_of(fd, getsockname).port;
        if (peer.port == place.port) {
            ways.to += (own + 1U) * 2'654'435'761U;  // in whatever order they are found
        } else {
            ways.from |= own == here.port;
        }
    });
    return ways;
}

std::size_t hang_up_on_strangers(const IpEndpoint& here) noexcept {
    constexpr std::uint8_t kEstablished = 1;  // TCP_ESTABLISHED, in a header that excludes this one
    std::size_t ended = 0;
    for_each_descriptor([&](int fd) {
        const IpEndpoint name = name_of(fd, getsockname);
        tcp_info info{};
        socklen_t size = sizeof info;
        if (name.port != 0 && name.port == here.port && name.address == here.address &&
            getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
            size >= offsetof(tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received &&
            info.tcpi_state == kEstablished && info.tcpi_bytes_received == 0) {
            shutdown(fd, SHUT_RDWR);
            ++ended;
        }
    });
    return ended;
}

template <typename Each>
void SilenceWatch::each(const IpEndpoint& here, Each&& each) const noexcept {
    for_each_descriptor([&](int fd) {
        const IpEndpoint peer = name_of(fd, getpeername);
        if (peer.port != 0 && std::any_of(places_.begin(), places_.end(), [&](const IpEndpoint& p) {
                return p.address == peer.address &&
                       (p.port == peer.port || name_of(fd, getsockname).port == here.port);
            })) {
            each(fd);
        }
    });
}

void SilenceWatch::add(const IpEndpoint& there, std::int64_t now) {
    if (places_.empty()) {
        next_look_ = now + kInterval;
    }
    if (std::find(places_.begin(), places_.end(), there) == places_.end()) {
        places_.push_back(there);
    }
}

bool SilenceWatch::due(std::int64_t now) noexcept {
    if (places_.empty() || now < next_look_) {
        return false;
    }
    next_look_ = now + kInterval;
    return true;
}

std::size_t SilenceWatch::look(const IpEndpoint& here) noexcept {
    std::size_t ended = 0;
    each(here, [&](int fd) {
        if (get(fd, SOL_SOCKET, SO_KEEPALIVE) == 0) {  // else its owner asks
            keep_asking(fd);
        }
        if (silent(fd, silence_)) {
            shutdown(fd, SHUT_RDWR);
            ++ended;
        }
    });
    return ended;
}

void SilenceWatch::clear(const IpEndpoint& here) noexcept {
    each(here, [](int fd) {
        if (asked(fd)) {
            set(fd, SOL_SOCKET, SO_KEEPALIVE, 0);
        }
    });
    places_.clear();
}

}  // namespace na::util
