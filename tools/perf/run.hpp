// SPDX-License-Identifier: BSD-3-Clause
// Keeps operations in flight and counts them. A lane is one context, with the operations that are
// in flight on it (slots); threads drive lanes. The tools supply both; what is measured is the same
// for all of them.
//
// Threads: a lane may be driven by several threads at once, if its context was opened for that. A
// slot is touched by the thread that runs its callback, one at a time; a slot whose operation has
// several callbacks says for itself how they may meet. By the time that a post returns another
// thread may have run the callback and started the next operation: nothing is touched after it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "clock.hpp"
#include "result.hpp"

namespace perf {

class Run;

// How an operation ended: nullptr is well, else the name of what went wrong, a string that stays.
using Outcome = const char*;

// One operation, started again as soon as it has ended, until the run is over.
class Slot {
 public:
    Slot() = default;
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    virtual ~Slot() = default;

 protected:
    // Posts the operation; its callback calls finished(). If it could not be posted: why, and no
    // callback comes.
    virtual Outcome start() = 0;
    // The operation has ended; one that failed ends the run.
    void finished(Outcome outcome);

    // Calls `what` and adds the time that it takes to one of those below.
    template <typename What>
    static auto timed(std::uint64_t& total, What&& what) {
        const std::uint64_t start = now_ns();
        const auto answer = what();
        total += now_ns() - start;
        return answer;
    }
    // Of the operations of a run, for those that register memory (Result).
    std::uint64_t registering_ns_ = 0;
    std::uint64_t deregistering_ns_ = 0;

 private:
    friend class Run;
    void launch();

    Run* run_ = nullptr;
    std::atomic<std::uint64_t> done_{0};
    std::uint64_t limit_ = 0;
    std::uint64_t started_ns_ = 0;
    Histogram latency_;
};

class Lane {
 public:
    virtual ~Lane() = default;
    // Progress, for at most so long if nothing comes, and callbacks. true: there was one.
    virtual bool turn(unsigned timeout_ms) = 0;
    // For a thread that sleeps on several lanes: whether it must not sleep now, and the descriptor
    // (-1: has none).
    virtual bool must_not_sleep() = 0;
    virtual int descriptor() const = 0;

    std::vector<std::unique_ptr<Slot>> slots;
};

using Lanes = std::vector<std::unique_ptr<Lane>>;

struct Limits {
    std::uint64_t loops = 0;  // operations per slot; 0: until the time is over
    double seconds = 0;       // 0: until the loops are done
};

struct Driving {
    unsigned threads = 1;
    bool busy = false;      // never sleeps
    std::vector<int> cpus;  // of the threads, in turn; empty: wherever the system puts them
    unsigned sample = 8;    // of so many operations one is timed; a power of two
};

class Run {
 public:
    Run(const Lanes& lanes, const Driving& driving) : lanes_(lanes), driving_(driving) {}

    // `shown` is called now and then with the share that is done, for a progress line.
    Result measure(const Limits& limits, const std::function<void(double)>& shown = {});
    // What the first operation that failed said; nullptr: none has.
    Outcome why() const noexcept { return why_.load(); }

 private:
    friend class Slot;
    struct Blocks;

    void drive(unsigned thread, Blocks* blocks);
    void slot_over() noexcept;
    void fail(Outcome why) noexcept;

    const Lanes& lanes_;
    const Driving& driving_;
    std::uint64_t deadline_ns_ = 0;  // 0: none
    std::uint64_t end_ns_ = 0;
    std::atomic<bool> stop_{false};
    std::atomic<Outcome> why_{nullptr};
    std::atomic<std::size_t> in_flight_{0};
};

// Says once when nothing has ended for ten seconds: a server that is stopped, or works on something
// else, is no failure, but who waits should know.
class Patience {
 public:
    // `done`: how much has ended, by now.
    void look(std::uint64_t now, std::uint64_t done);

 private:
    std::uint64_t moved_ns_ = now_ns();  // when something had ended since the last look
    std::uint64_t done_ = 0;
    bool complained_ = false;
};

// Drives lanes until `stop` is set; for servers. `stop` is looked at after each turn.
void serve(const Lanes& lanes, const Driving& driving, const std::atomic<bool>& stop);

inline void Slot::launch() {
    if ((done_.load(std::memory_order_relaxed) & (run_->driving_.sample - 1)) == 0) {
        started_ns_ = now_ns();
    }
    if (const Outcome why = start(); why != nullptr) [[unlikely]] {
        run_->fail(why);
        run_->slot_over();
    }
}

inline void Slot::finished(Outcome outcome) {
    const std::uint64_t done = done_.load(std::memory_order_relaxed);
    if ((done & (run_->driving_.sample - 1)) == 0) {
        latency_.add(now_ns() - started_ns_);
    }
    // One writer at a time; the thread that counts reads it now and then.
    done_.store(done + 1, std::memory_order_relaxed);
    if (outcome != nullptr) [[unlikely]] {
        run_->fail(outcome);
    }
    if (done + 1 == limit_ || run_->stop_.load(std::memory_order_relaxed)) [[unlikely]] {
        run_->slot_over();
        return;
    }
    launch();
}

}  // namespace perf
