// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/sm/rendezvous.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

namespace na::sm {

const char* to_string(Verdict verdict) noexcept {
    switch (verdict) {
        case Verdict::accepted:
            return "accepted";
        case Verdict::version:
            return "its library has another version of the shared-memory layout";
        case Verdict::identity:
            return "it does not believe that our name is ours";
        case Verdict::limit:
            return "it has no room for another peer";
        case Verdict::malformed:
            return "it could not read our greeting";
        case Verdict::user:
            return "it does not admit this user: add the id to its NA_SM_ALLOW_UIDS";
        case Verdict::files:
            return "it has no descriptor left for another peer: raise its limit on open files "
                   "(ulimit -n)";
        case Verdict::namespaces:
            return "it is in another pid namespace";
    }
    return "for an unknown reason";
}

Status status_of(Verdict verdict) noexcept {
    switch (verdict) {
        case Verdict::accepted:
            return Status::success;
        case Verdict::version:
            return Status::protonosupport;
        case Verdict::identity:
        case Verdict::user:
            return Status::permission;
        case Verdict::limit:
        case Verdict::files:
            return Status::busy;
        case Verdict::namespaces:
            return Status::addrnotavail;
        case Verdict::malformed:
            break;
    }
    return Status::protocol_error;
}

Error refusal(Verdict verdict) {
    return {status_of(verdict),
            fmt::format("it is alive, and refused the connection: {}", to_string(verdict))};
}

Result<UniqueFd> bind_socket(const SocketName& name, int backlog) {
    UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket) {
        return os_error(errno, "cannot make a socket");
    }
    if (bind(socket.get(), name.get(), name.length) != 0) {
        return os_error(errno, "cannot bind the endpoint's name");
    }
    if (backlog > 0 && listen(socket.get(), backlog) != 0) {
        return os_error(errno, "cannot listen on the endpoint's name");
    }
    return socket;
}

ConnectResult connect_socket(const SocketName& name) noexcept {
    ConnectResult result;
    result.socket.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!result.socket) {
        result.error = errno;
        return result;
    }
    while (connect(result.socket.get(), name.get(), name.length) != 0) {
        result.error = errno;
        if (errno == EINTR) {
            continue;
        }
        if (errno == ECONNREFUSED || errno == ENOENT) {
            result.how = Connected::refused;
        } else if (errno == EAGAIN) {
            result.how = Connected::busy;
        }
        return result;
    }
    result.error = 0;
    result.how = Connected::yes;
    result.peer = credentials_of(result.socket.get());
    return result;
}

Credentials credentials_of(int socket) noexcept {
    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
        return {0, static_cast<uid_t>(-1)};
    }
    return {credentials.pid, credentials.uid};
}

int send_message(int socket, const void* message, std::size_t bytes,
                 std::span<const int> fds) noexcept {
    iovec data{const_cast<void*>(message), bytes};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)] = {};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    if (!fds.empty()) {
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
        cmsghdr* c = CMSG_FIRSTHDR(&header);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
        std::memcpy(CMSG_DATA(c), fds.data(), sizeof(int) * fds.size());
    }
    while (sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

bool is_shortage(int error) noexcept {
    return error == ETOOMANYREFS || error == EAGAIN || error == ENOBUFS || error == ENOMEM;
}

void receive_message(int socket, Received& into) noexcept {
    iovec data{into.buffer, sizeof into.buffer};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)];
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;

    for (UniqueFd& fd : into.fds) {
        fd.reset();
    }
    into.fd_count = 0;
    into.truncated = false;
    into.bytes = 0;
    ssize_t n = -1;
    // A peer that closes its end before it has read all of ours leaves ECONNRESET, once, in front
    // of what it sent.
    bool reset = false;
    while ((n = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0 &&
           (errno == EINTR || (errno == ECONNRESET && !std::exchange(reset, true)))) {
    }
    if (n < 0) {
        const bool later = errno == EAGAIN || errno == ENOMEM || errno == ENOBUFS;
        into.what = later ? Received::What::nothing : Received::What::hang_up;
        return;
    }
    // An empty message cannot be told from the end; descriptors may come with it all the same.
    into.what = n == 0 ? Received::What::hang_up : Received::What::message;
    into.bytes = static_cast<std::size_t>(n);
    into.truncated = (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
    for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
            if (into.fd_count < kMaxFds) {
                into.fds[into.fd_count++].reset(fd);
            } else {
                close(fd);
            }
        }
    }
}

Verdict check(const Hello& hello, const char*& why) noexcept {
    if (hello.magic != kHelloMagic || hello.control != Control::hello) {
        why = "a greeting that is none";
        return Verdict::malformed;
    }
    if (hello.version != kLayoutVersion) {
        why = "a peer whose library has another version";
        return Verdict::version;
    }
    if (!hello.geometry.valid() || hello.name_length == 0 || hello.name_length > kMaxName ||
        hello.bit >= kReadyBits) {
        why = "a greeting with values out of range";
        return Verdict::malformed;
    }
    return Verdict::accepted;
}

}  // namespace na::sm
