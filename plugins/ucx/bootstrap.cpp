// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ucx/bootstrap.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace na::ucx {
namespace {

constexpr int kBacklog = 1024;
constexpr int kAnswers = 32;  // in one call: who knocks without end keeps nobody else waiting

std::string make_frame(const Addresses& addresses) {
    std::byte head[Frame::kSize];
    Frame{.far_size = static_cast<std::uint32_t>(addresses.far.size()),
          .size = static_cast<std::uint32_t>(addresses.all.size()),
          .process = static_cast<std::uint32_t>(getpid()),
          .machine = this_machine(),
          .reach = this_reach()}
        .write(head);
    return std::string(reinterpret_cast<const char*>(head), sizeof head) + addresses.far +
           addresses.all;
}

util::UniqueFd spare() noexcept {
    return util::UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

bool says_gone(int error) noexcept {
    return error == ECONNREFUSED || error == ECONNRESET || error == EHOSTUNREACH ||
           error == ENETUNREACH || error == EHOSTDOWN || error == ETIMEDOUT || error == ENETDOWN ||
           error == EPIPE;
}

}  // namespace

Result<BootstrapPort> listen_at(const util::IpAddress& address, std::uint16_t port) {
    sockaddr_storage storage{};
    const socklen_t size = address.fill(storage, port);
    const auto fail = [&](const char* doing) {
        const int error = errno;
        return Error{
            error == EADDRINUSE ? Status::addrinuse : status_of_errno(error),
            fmt::format("cannot {} {} port {}: {}{}", doing, address.text(), port,
                        std::strerror(error), error == EACCES ? util::why_refused(port) : "")};
    };
    BootstrapPort made;
    made.fd.reset(socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!made.fd) {
        return fail("make a socket for");
    }
    const int on = 1;
    // Connections that are over shall not keep a restarted process from its port.
    setsockopt(made.fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address.v6) {
        setsockopt(made.fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    }
    if (bind(made.fd.get(), reinterpret_cast<const sockaddr*>(&storage), size) != 0) {
        return fail("bind to");
    }
    if (listen(made.fd.get(), kBacklog) != 0) {
        return fail("listen at");
    }
    socklen_t got = sizeof storage;
    if (getsockname(made.fd.get(), reinterpret_cast<sockaddr*>(&storage), &got) != 0) {
        return fail("look at");
    }
    made.port = ntohs(address.v6 ? reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port
                                 : reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
    return made;
}

namespace {

// FNV-1a: nothing hangs on the number that a peer could not claim anyway.
class Hash {
 public:
    void mix(std::uint8_t byte) noexcept { value_ = (value_ ^ byte) * 0x100000001b3U; }
    void mix(std::uint64_t number) noexcept {
        for (unsigned i = 0; i < 8; ++i) {
            mix(static_cast<std::uint8_t>(number >> (8 * i)));
        }
    }
    std::uint64_t value() const noexcept { return value_; }

 private:
    std::uint64_t value_ = 0xcbf29ce484222325U;
};

// The boot of this kernel, and name spaces of it. False: not to be found out.
bool mix_spaces(Hash& hash, std::initializer_list<const char*> spaces) noexcept {
    std::string boot;
    try {
        std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
    } catch (const std::exception&) {
        return false;
    }
    for (const char c : boot) {
        hash.mix(static_cast<std::uint8_t>(c));
    }
    for (const char* name : spaces) {
        struct stat space {};
        if (stat(name, &space) != 0) {
            return false;
        }
        hash.mix(std::uint64_t{space.st_ino});
    }
    return !boot.empty();
}

}  // namespace

std::uint64_t this_machine() noexcept {
    Hash hash;
    return mix_spaces(hash, {"/proc/self/ns/pid"}) ? hash.value() : 0;
}

std::uint64_t this_reach() noexcept {
    Hash hash;
    if (!mix_spaces(hash, {"/proc/self/ns/net", "/proc/self/ns/pid", "/proc/self/ns/ipc",
                           "/proc/self/ns/user"})) {
        return 0;
    }
    struct stat memory {};
    hash.mix(stat("/dev/shm", &memory) == 0 ? std::uint64_t{memory.st_dev} : 0);
    hash.mix(std::uint64_t{geteuid()});
    return hash.value();
}

Door::Door(BootstrapPort port, Porter& porter)
    : port_(std::move(port)), porter_(porter), reserve_(spare()) {}

void Door::tell(const Addresses& addresses) {
    frame_ = make_frame(addresses);
}

void Door::ready(std::uint32_t) {
    for (int n = 0; n < kAnswers && answer_one(); ++n) {
    }
}

// False: nobody is waiting.
bool Door::answer_one() noexcept {
    util::UniqueFd who(accept4(port_.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!who) {
        if (errno != EMFILE && errno != ENFILE) {
            return errno == ECONNABORTED || errno == EINTR || errno == EPROTO;
        }
        // A connection that is left waiting would keep us awake.
        reserve_.reset();
        who.reset(accept4(port_.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        const bool more = static_cast<bool>(who);
        if (more) {
            // The reserve is in use: admit() sees that there is none, and says so in the log.
            answer(who.get(), porter_.admit());
        }
        who.reset();
        reserve_ = spare();
        return more;
    }
    answer(who.get(), porter_.admit());
    return true;
}

void Door::answer(int fd, Frame::Refusal refusal) noexcept {
    std::byte head[Frame::kSize];
    const void* bytes = frame_.data();
    std::size_t size = frame_.size();
    if (refusal != Frame::Refusal::none) {
        Frame{.refusal = refusal}.write(head);
        bytes = head;
        size = sizeof head;
    }
    // A fresh socket has room for this.
    const bool sent =
        send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(size);
    ++(sent && refusal == Frame::Refusal::none ? answered_ : refused_);
}

Dial::Dial(const std::string& to) : bytes_(Frame::kSize + 2 * Frame::kMaxAddress) {
    const auto* address = reinterpret_cast<const sockaddr*>(to.data());
    fd_.reset(socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd_) {
        end(State::failed, errno);
        return;
    }
    if (connect(fd_.get(), address, static_cast<socklen_t>(to.size())) != 0 &&
        errno != EINPROGRESS) {
        end(says_gone(errno) ? State::gone : State::failed, errno);
    }
}

Dial::State Dial::end(State state, int error) noexcept {
    error_ = error;
    return state_ = state;
}

bool Dial::far() const noexcept {
    const std::uint64_t here = this_reach();
    return here != 0 && frame_.reach != 0 && frame_.reach != here;
}

// What is behind the address that counts, is nobody's.
Dial::State Dial::choose() noexcept {
    if (!far()) {
        return end(State::done, 0);
    }
    std::fill_n(bytes_.begin() + Frame::kSize + frame_.far_size, frame_.size, std::byte{});
    return end(frame_.far_size != 0 ? State::done : State::apart, 0);
}

Dial::State Dial::go_on() noexcept {
    while (state_ == State::waiting) {
        const std::size_t wanted =
            Frame::kSize + (known_ ? std::size_t{frame_.far_size} + frame_.size : 0);
        const ssize_t n = recv(fd_.get(), bytes_.data() + got_, wanted - got_, MSG_DONTWAIT);
        if (n < 0) {
            if (errno == EAGAIN || errno == ENOTCONN || errno == EINTR) {
                return state_;
            }
            return end(says_gone(errno) ? State::gone : State::failed, errno);
        }
        if (n == 0) {
            // It went before it had answered; or says little, and is not one of us.
            return end(got_ == 0 ? State::gone : State::wrong, ECONNRESET);
        }
        got_ += static_cast<std::size_t>(n);
        if (!Frame::begins({bytes_.data(), got_})) {
            return end(State::wrong, 0);
        }
        if (got_ != wanted) {
            continue;
        }
        if (known_) {
            return choose();
        }
        if (!frame_.read({bytes_.data(), Frame::kSize})) {
            return end(State::wrong, 0);
        }
        if (frame_.refusal != Frame::Refusal::none) {
            return end(frame_.refusal == Frame::Refusal::soon ? State::soon : State::full, 0);
        }
        known_ = true;
    }
    return state_;
}

}  // namespace na::ucx
