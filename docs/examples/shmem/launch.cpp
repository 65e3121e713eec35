// SPDX-License-Identifier: BSD-3-Clause
#include "launch.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <system_error>

namespace shmem {
namespace {

constexpr std::size_t kCard = 16 * 1024;

struct Process {
    pid_t pid = -1;
    int fd = -1;
};

// The next message of a process; empty: it has ended.
std::vector<std::byte> hear(const Process& p) {
    std::vector<std::byte> bytes(kCard);
    const ssize_t n = recv(p.fd, bytes.data(), bytes.size(), 0);
    bytes.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return bytes;
}

void tell(const Process& p, const std::vector<std::byte>& bytes) {
    // (One that has ended is found out when it is waited for.)
    [[maybe_unused]] const ssize_t n = send(p.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

// False: one has ended without saying that it needs nobody any more, whichever comes first.
bool all_are_done(const std::vector<Process>& all) {
    std::vector<pollfd> waiting;
    for (const Process& p : all) {
        waiting.push_back({.fd = p.fd, .events = POLLIN, .revents = 0});
    }
    for (std::size_t left = all.size(); left != 0;) {
        if (poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) {
            throw std::system_error(errno, std::generic_category(), "poll");
        }
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (waiting[i].fd < 0 || waiting[i].revents == 0) {
                continue;
            }
            if (hear(all[i]).empty()) {
                return false;
            }
            waiting[i].fd = -1;  // poll() leaves it out
            --left;
        }
    }
    return true;
}

// Address and heap of everybody to everybody, then everybody's end to everybody.
bool serve(const std::vector<Process>& all) {
    std::vector<std::vector<std::byte>> cards;
    for (const Process& p : all) {
        for (int i = 0; i < 2; ++i) {
            cards.push_back(hear(p));
            if (cards.back().empty()) {
                return false;
            }
        }
    }
    for (const Process& p : all) {
        for (const auto& card : cards) {
            tell(p, card);
        }
    }
    if (!all_are_done(all)) {
        return false;
    }
    for (const Process& p : all) {
        tell(p, {std::byte{1}});
    }
    return true;
}

int run(const std::function<int(const Place&)>& body, const Place& place) {
    try {
        return body(place);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "process %d: %s\n", place.me, e.what());
    }
    return 1;
}

int status_of(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return 1;
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int launch(int processes, const std::function<int(const Place&)>& body) {
    std::vector<Process> all;
    for (int me = 0; me < processes; ++me) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
            throw std::system_error(errno, std::generic_category(), "socketpair");
        }
        std::fflush(nullptr);
        const pid_t pid = fork();
        if (pid < 0) {
            throw std::system_error(errno, std::generic_category(), "fork");
        }
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody is left behind
            for (const Process& p : all) {
                close(p.fd);
            }
            close(ends[0]);
            const int status = run(body, {.me = me, .processes = processes, .launcher = ends[1]});
            std::fflush(nullptr);
            _exit(status);
        }
        close(ends[1]);
        all.push_back({.pid = pid, .fd = ends[0]});
    }
    const bool good = serve(all);
    int result = good ? 0 : 1;
    for (const Process& p : all) {
        close(p.fd);  // whoever still waits for us ends
    }
    for (const Process& p : all) {
        const int status = status_of(p.pid);
        result = result > 1 || status == 0 ? result : status;
    }
    return result;
}

}  // namespace shmem
