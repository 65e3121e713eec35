// SPDX-License-Identifier: BSD-3-Clause
// Two processes on two processors, and the course of a measurement between them: for the floors and
// for the peers.
#pragma once

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "../clock.hpp"
#include "../options.hpp"
#include "../processes.hpp"
#include "../result.hpp"

namespace perf {

inline void need(bool good, const char* what) {
    if (!good) {
        throw Failure(fmt::format("{}: {}", what, std::strerror(errno)));
    }
}

// The other side: runs `body` on the second processor until it returns or the object goes.
class Other {
 public:
    template <typename Body>
    Other(const Options& options, Body&& body) {
        const pid_t parent = getpid();
        // Who polls memory for the other side would wait for ever.
        struct sigaction on_end {};
        on_end.sa_handler = [](int) {
            constexpr char kText[] = "the other side has ended\n";
            (void)!write(STDERR_FILENO, kText, sizeof kText - 1);
            _exit(1);
        };
        on_end.sa_flags = SA_NOCLDSTOP;
        sigaction(SIGCHLD, &on_end, nullptr);
        pid_ = fork();
        need(pid_ >= 0, "fork");
        if (pid_ == 0) {
            signal(SIGCHLD, SIG_DFL);
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            try {
                pin(options.cpus, 1);
                if (getppid() == parent) {
                    body();
                }
            } catch (const std::exception& e) {
                fmt::print(stderr, "{}: {}\n", options.tool, e.what());
            }
            std::fflush(nullptr);
            _exit(0);
        }
        pin(options.cpus, 0);
    }
    Other(const Other&) = delete;
    Other& operator=(const Other&) = delete;
    ~Other() {
        signal(SIGCHLD, SIG_DFL);
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    pid_t pid() const noexcept { return pid_; }

 private:
    pid_t pid_;
};

// The same course as that of the tools: a warm-up, blocks of as many operations at least, one
// operation in a few timed by itself.
template <typename Operation>
Result measure(const Options& o, Operation&& operation) {
    const auto until = [&](Result* result, std::uint64_t end, std::uint64_t block) {
        std::uint64_t done = 0;
        std::uint64_t block_start = now_ns();
        std::uint64_t block_done = 0;
        for (std::uint64_t now = block_start; now < end;) {
            const std::uint64_t start = now_ns();
            operation();
            now = now_ns();
            for (unsigned i = 1; i < o.sample; ++i) {
                operation();
            }
            done += o.sample;
            if (result != nullptr) {
                result->latency.add(now - start);
                if (now - block_start >= block && done - block_done >= kBlockOperations) {
                    const std::uint64_t end_of_block = now_ns();
                    result->add_block(static_cast<double>(end_of_block - block_start),
                                      done - block_done);
                    block_start = end_of_block;
                    block_done = done;
                }
            }
        }
        return done;
    };
    const auto length = static_cast<std::uint64_t>(o.seconds * 1e9);
    until(nullptr, now_ns() + length / 10, length);
    Result result;
    const std::uint64_t start = now_ns();
    result.operations =
        until(&result, start + length, std::max<std::uint64_t>(length / 4000, 250'000));
    result.elapsed_ns = now_ns() - start;
    return result;
}

}  // namespace perf
