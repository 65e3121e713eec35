// SPDX-License-Identifier: BSD-3-Clause
#include "run.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <thread>

#include "processes.hpp"

namespace perf {
namespace {

constexpr unsigned kTimeoutMs = 100;
// A server that nothing comes to: it is stopped by a message, or by a signal, which may be late.
constexpr unsigned kServerTimeoutMs = 1000;
constexpr std::uint64_t kShowEveryNs = 100'000'000;
constexpr std::uint64_t kLongTickNs = 200'000;
constexpr unsigned kMostTurnsPerTick = 16;
constexpr std::uint64_t kStalledNs = 10'000'000'000;

// The lanes that a thread drives. With fewer lanes than threads several threads share one.
std::vector<Lane*> lanes_of(const Lanes& lanes, unsigned thread, unsigned threads) {
    std::vector<Lane*> mine;
    if (threads >= lanes.size()) {
        mine.push_back(lanes[thread % lanes.size()].get());
        return mine;
    }
    for (std::size_t i = thread; i < lanes.size(); i += threads) {
        mine.push_back(lanes[i].get());
    }
    return mine;
}

// One round over a thread's lanes.
void turn_all(const std::vector<Lane*>& lanes, bool busy, unsigned timeout_ms) {
    if (lanes.size() == 1) {
        lanes.front()->turn(busy ? 0 : timeout_ms);
        return;
    }
    bool any = false;
    for (Lane* lane : lanes) {
        any = lane->turn(0) || any;
    }
    if (busy || any) {
        return;
    }
    std::vector<pollfd> fds;
    for (Lane* lane : lanes) {
        if (lane->must_not_sleep()) {
            return;
        }
        fds.push_back({lane->descriptor(), POLLIN, 0});
    }
    poll(fds.data(), fds.size(), static_cast<int>(timeout_ms));
}

template <typename Function>
void on_threads(const Driving& driving, Function&& function) {
    std::vector<std::thread> others;
    for (unsigned i = 1; i < driving.threads; ++i) {
        others.emplace_back([&driving, &function, i] {
            try_pin(driving.cpus, i);  // check_cpus() has been there
            function(i);
        });
    }
    function(0);
    for (std::thread& other : others) {
        other.join();
    }
}

}  // namespace

// What the first thread keeps: the clock is read there only.
struct Run::Blocks {
    Result& result;
    const std::function<void(double)>& shown;
    const Limits& limits;
    std::uint64_t start_ns;
    std::uint64_t length_ns;
    std::size_t slots;
    std::uint64_t last_ns;
    std::uint64_t last_done = 0;
    std::uint64_t shown_ns = 0;
    Patience patience{};

    // The clock costs as much as a turn in which nothing has come: one turn in so many is followed
    // by a tick, fewer where turns are long, so that the end is not missed by sixteen of them.
    unsigned turns = 0;
    unsigned turns_per_tick = 1;
    std::uint64_t ticked_ns = start_ns;

    void after_turn(Run& run) {
        if (++turns >= turns_per_tick) {
            turns = 0;
            tick(run);
        }
    }
    void tick(Run& run);
};

void Run::Blocks::tick(Run& run) {
    const std::uint64_t now = now_ns();
    const bool long_turns = now - ticked_ns > kLongTickNs;
    turns_per_tick = long_turns ? 1 : std::min(2 * turns_per_tick, kMostTurnsPerTick);
    ticked_ns = now;
    if (run.deadline_ns_ != 0 && now >= run.deadline_ns_) {
        run.stop_.store(true, std::memory_order_relaxed);
    }
    if (now - last_ns < length_ns) {
        return;
    }
    std::uint64_t done = 0;
    for (const auto& lane : run.lanes_) {
        for (const auto& slot : lane->slots) {
            done += slot->done_.load(std::memory_order_relaxed);
        }
    }
    patience.look(now, done);
    // Those in flight together may end together: a block has several rounds of them.
    if (done - last_done >= std::max<std::uint64_t>(kBlockOperations, 4 * slots)) {
        result.add_block(static_cast<double>(now - last_ns), done - last_done);
        last_ns = now;
        last_done = done;
    }
    if (shown && now - shown_ns >= kShowEveryNs) {
        shown_ns = now;
        shown(limits.loops != 0 ? static_cast<double>(done) / (static_cast<double>(limits.loops) *
                                                               static_cast<double>(slots))
                                : static_cast<double>(now - start_ns) / (limits.seconds * 1e9));
    }
}

void Patience::look(std::uint64_t now, std::uint64_t done) {
    if (done != done_) {
        done_ = done;
        moved_ns_ = now;
    } else if (now - moved_ns_ >= kStalledNs && !complained_) {
        complained_ = true;
        fmt::print(stderr, "nothing has ended for {} s: does the server still run?\n",
                   kStalledNs / 1'000'000'000);
    }
}

void Run::fail(Outcome why) noexcept {
    Outcome none = nullptr;
    why_.compare_exchange_strong(none, why);
    stop_.store(true);
}

void Run::slot_over() noexcept {
    if (in_flight_.fetch_sub(1) == 1) {
        end_ns_ = now_ns();
        in_flight_.store(SIZE_MAX);  // said after the time is written: the threads may leave
    }
}

void Run::drive(unsigned thread, Blocks* blocks) {
    const std::vector<Lane*> mine = lanes_of(lanes_, thread, driving_.threads);
    if (thread < lanes_.size()) {
        for (Lane* lane : mine) {
            for (auto& slot : lane->slots) {
                slot->launch();
            }
        }
    }
    while (in_flight_.load(std::memory_order_acquire) != SIZE_MAX) {
        turn_all(mine, driving_.busy, kTimeoutMs);
        if (blocks != nullptr) {
            blocks->after_turn(*this);
        }
    }
}

Result Run::measure(const Limits& limits, const std::function<void(double)>& shown) {
    Result result;
    std::size_t slots = 0;
    for (const auto& lane : lanes_) {
        for (auto& slot : lane->slots) {
            slot->run_ = this;
            slot->done_.store(0);
            slot->limit_ = limits.loops == 0 ? UINT64_MAX : limits.loops;
            slot->latency_ = {};
            slot->registering_ns_ = 0;
            slot->deregistering_ns_ = 0;
            ++slots;
        }
    }
    if (slots == 0) {
        return result;
    }
    result.in_flight = slots;
    stop_.store(false);
    why_.store(nullptr);
    in_flight_.store(slots);
    const std::uint64_t start = now_ns();
    deadline_ns_ =
        limits.seconds > 0 ? start + static_cast<std::uint64_t>(limits.seconds * 1e9) : 0;
    const auto block_ns =
        std::max<std::uint64_t>(static_cast<std::uint64_t>(limits.seconds * 1e9 / 4000), 250'000);
    Blocks blocks{result, shown, limits, start, block_ns, slots, start};
    on_threads(driving_, [this, &blocks](unsigned i) { drive(i, i == 0 ? &blocks : nullptr); });
    result.elapsed_ns = end_ns_ - start;
    result.good = why_.load() == nullptr;
    for (const auto& lane : lanes_) {
        for (const auto& slot : lane->slots) {
            result.operations += slot->done_.load();
            result.latency.merge(slot->latency_);
            result.registering_ns += slot->registering_ns_;
            result.deregistering_ns += slot->deregistering_ns_;
        }
    }
    return result;
}

void serve(const Lanes& lanes, const Driving& driving, const std::atomic<bool>& stop) {
    on_threads(driving, [&](unsigned i) {
        const std::vector<Lane*> mine = lanes_of(lanes, i, driving.threads);
        while (!stop.load(std::memory_order_relaxed)) {
            turn_all(mine, driving.busy, kServerTimeoutMs);
        }
    });
}

}  // namespace perf
