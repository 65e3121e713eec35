// SPDX-License-Identifier: BSD-3-Clause
// What a loaded machine withholds: time in which somebody of this test was ready to run and had no
// processor. Deadlines that leave it out are no failure of a busy machine.
//
// Who had the processor instead is not asked. So a test with more threads that never sleep than
// there are processors has its waiting for itself left out, too: its deadlines come later on a
// quiet machine as well, with a few such threads up to four times as late. Other tests' are as
// strict there as any.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace support {

class Hindrance {
 public:
    // Of this process and all that descend from it, from now on. (Of the latter those are missed
    // that are not among the first 2048 processes of the machine, and of threads those beyond 512.)
    void start() noexcept;
    // How much of the time since then is not to be counted: what the thread that had to wait most
    // has waited, or, as threads wait for each other, what all have waited together, the latter up
    // to three quarters of the time, so that those that only turn in circles end. Nothing where the
    // kernel does not tell. Safe in a signal handler, as start() is.
    std::chrono::nanoseconds so_far() const noexcept;

 private:
    struct Thread {
        std::int32_t id;
        std::int64_t waited;  // ns, in a run queue
    };
    static constexpr std::size_t kMost = 512;
    static std::size_t list(std::span<Thread, kMost> threads) noexcept;

    std::array<Thread, kMost> threads_;  // [0, count_)
    std::size_t count_ = 0;
    std::chrono::steady_clock::time_point began_;
};

}  // namespace support
