// SPDX-License-Identifier: BSD-3-Clause
#include "hg/cxx/rpc_counters.hpp"

#include <algorithm>
#include <memory>

namespace hg::detail {

void RpcCounters::Side::end(Clock::time_point begun) noexcept {
    const auto time = std::chrono::duration_cast<Latency::Time>(Clock::now() - begun);
    latency[Latency::bucket(time)].fetch_add(1, std::memory_order_relaxed);
    total.fetch_add(time.count(), std::memory_order_relaxed);
    std::int64_t most = longest.load(std::memory_order_relaxed);
    while (most < time.count() &&
           !longest.compare_exchange_weak(most, time.count(), std::memory_order_relaxed)) {
    }
}

RpcStats::Side RpcCounters::Side::read() const {
    RpcStats::Side side;
    for (std::size_t i = 0; i < Latency::kBuckets; ++i) {
        side.latency.counts[i] = latency[i].load(std::memory_order_relaxed);
    }
    side.count = side.latency.count();
    side.latency.total = Latency::Time(total.load(std::memory_order_relaxed));
    side.latency.longest = Latency::Time(longest.load(std::memory_order_relaxed));
    side.failed = failed.load(std::memory_order_relaxed);
    side.expired = expired.load(std::memory_order_relaxed);
    side.bytes_sent = bytes_sent.load(std::memory_order_relaxed);
    side.bytes_received = bytes_received.load(std::memory_order_relaxed);
    return side;
}

RpcTable::~RpcTable() {
    for (auto& head : heads_) {
        const RpcCounters* next = head.load(std::memory_order_relaxed);
        while (next != nullptr) {
            delete std::exchange(next, next->next_);
        }
    }
}

RpcCounters& RpcTable::of(const RpcInfo& rpc) {
    std::atomic<RpcCounters*>& head = heads_[rpc.id % kHeads];
    RpcCounters* first = head.load(std::memory_order_acquire);
    std::unique_ptr<RpcCounters> made;
    for (;;) {
        for (RpcCounters* c = first; c != nullptr; c = c->next_) {
            if (c->id == rpc.id) {
                return *c;
            }
        }
        if (made == nullptr) {
            made = std::make_unique<RpcCounters>(rpc);
        }
        made->next_ = first;
        if (head.compare_exchange_strong(first, made.get(), std::memory_order_acq_rel,
                                         std::memory_order_acquire)) {
            return *made.release();
        }
    }
}

std::vector<RpcStats> RpcTable::read() const {
    std::vector<RpcStats> all;
    for (const auto& head : heads_) {
        for (const RpcCounters* c = head.load(std::memory_order_acquire); c != nullptr;
             c = c->next_) {
            all.push_back(
                {.name = c->name, .calls = c->calls.read(), .requests = c->requests.read()});
        }
    }
    std::sort(all.begin(), all.end(),
              [](const RpcStats& a, const RpcStats& b) { return a.name < b.name; });
    return all;
}

}  // namespace hg::detail
