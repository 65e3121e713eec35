// SPDX-License-Identifier: BSD-3-Clause
#include "support/two_process.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/rest.hpp"
#include "support/watchdog.hpp"

// Present with address and leak sanitizer only.
extern "C" int __lsan_do_recoverable_leak_check() __attribute__((weak));
// UCX's shared memory does not free the table of an endpoint that cannot attach to its peer, which
// has gone meanwhile: the error path of uct_mm_ep_t's initialisation (src/uct/sm/mm/base/mm_ep.c of
// openucx/ucx, 1.13.1 and 2025's alike; no report of it is known). By library: the packaged ones
// have no symbols for their static functions.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
    return "leak:libuct.so\n";
}

namespace support {
namespace {

constexpr std::size_t kLargest = 64 * 1024;
constexpr int kSlice = 500;  // ms between looks at the deadline

std::runtime_error system_error(const char* what) {
    return std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

// The life of a forked party; its exit status tells whether the body threw.
[[noreturn]] void run_child(Link& link, const Party::Body& body) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // no orphan outlives a test that crashed
    watchdog(options().limit_s, "the forked party");
    rest_when_told();
    int status = 0;
    try {
        body(link);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "in the forked party: %s\n", e.what());
        status = 1;
    }
    if (status == 0 && __lsan_do_recoverable_leak_check != nullptr &&
        __lsan_do_recoverable_leak_check() != 0) {
        status = 1;
    }
    std::fflush(nullptr);
    _exit(status);  // not exit(): destructors of the runner's objects belong to the parent
}

}  // namespace

void party_failed(const char* file, int line, const std::string& what) {
    throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": failed: " + what);
}

// --- Link
// ------------------------------------------------------------------------------------------------------------

Link::~Link() {
    close();
}

void Link::close() noexcept {
    if (fd_ >= 0) {
        ::close(std::exchange(fd_, -1));
    }
}

void Link::put(std::span<const std::byte> bytes) {
    if (bytes.empty() || bytes.size() > kLargest) {
        throw std::runtime_error("a link takes 1 to 65536 bytes");
    }
    if (send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size())) {
        throw system_error("the other party is gone");
    }
}

bool Link::readable() const {
    pollfd set{.fd = fd_, .events = POLLIN, .revents = 0};
    return poll(&set, 1, 0) > 0;
}

std::vector<std::byte> Link::take() {
    const Resting resting;
    Deadline deadline(kDeadline, Deadline::Look::late);
    for (pollfd set{.fd = fd_, .events = POLLIN, .revents = 0}; poll(&set, 1, kSlice) <= 0;) {
        if (deadline.passed()) {
            throw std::runtime_error("no message from the other party");
        }
    }
    std::vector<std::byte> bytes(kLargest);
    const ssize_t n = recv(fd_, bytes.data(), bytes.size(), 0);
    if (n <= 0) {
        throw std::runtime_error("the other party is gone");
    }
    bytes.resize(static_cast<std::size_t>(n));
    return bytes;
}

std::string Link::take_text() {
    const std::vector<std::byte> bytes = take();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// --- Party
// -----------------------------------------------------------------------------------------------------------

Party::Ends Party::make_ends() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        throw system_error("socketpair");
    }
    return {ends[0], ends[1]};
}

Party::Party(As as, Body body) : Party(as, std::move(body), make_ends()) {}

Party::Party(As as, Body body, Ends ends) : link_(ends.here) {
    if (as == As::thread) {
        thread_ = std::thread([this, body = std::move(body), fd = ends.there] {
            Link link(fd);
            try {
                body(link);
            } catch (const std::exception& e) {
                failure_ = std::string("in the other thread: ") + e.what();
            }
        });
        return;
    }
    std::fflush(nullptr);  // what is buffered would come out twice
    pid_ = fork();
    if (pid_ < 0) {
        ::close(ends.there);
        throw system_error("fork");
    }
    if (pid_ == 0) {
        link_.close();
        Link link(ends.there);
        run_child(link, body);
    }
    ::close(ends.there);
}

Party::~Party() {
    if (joined_) {
        return;
    }
    link_.close();  // a body that waits for us gives up
    if (is_process()) {
        ::kill(pid_, SIGKILL);
    }
    join();
}

std::string Party::join() {
    if (std::exchange(joined_, true)) {
        return failure_;
    }
    if (!is_process()) {
        thread_.join();
        return failure_;
    }
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0) {
        if (errno != EINTR) {
            return failure_ = "waitpid failed";
        }
    }
    if (WIFSIGNALED(status)) {
        failure_ = std::string("the other process ended by signal ") + strsignal(WTERMSIG(status));
    } else if (WEXITSTATUS(status) != 0) {
        failure_ = "the other process failed with status " + std::to_string(WEXITSTATUS(status));
    }
    return failure_;
}

void Party::kill(int signal) {
    if ((signal == SIGKILL || signal == SIGSTOP) && bring_to_rest(pid_) && signal == SIGSTOP) {
        return;
    }
    ::kill(pid_, signal);
    if (signal == SIGKILL) {
        join();
    }
}

}  // namespace support
