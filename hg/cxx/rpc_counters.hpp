// SPDX-License-Identifier: BSD-3-Clause
// The counters behind Engine::stats(): one set per RPC, found by its id without a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hg/detail/core.hpp"
#include "hg/stats.hpp"

namespace hg::detail {

// Any thread; each counter by itself.
class RpcCounters {
 public:
    struct Side {
        std::atomic<std::uint64_t> failed{0};
        std::atomic<std::uint64_t> expired{0};
        std::atomic<std::uint64_t> bytes_sent{0};
        std::atomic<std::uint64_t> bytes_received{0};
        std::atomic<std::int64_t> total{0};    // ns
        std::atomic<std::int64_t> longest{0};  // ns
        std::array<std::atomic<std::uint64_t>, Latency::kBuckets> latency{};

        void sent(std::size_t bytes) noexcept {
            bytes_sent.fetch_add(bytes, std::memory_order_relaxed);
        }
        void received(std::size_t bytes) noexcept {
            bytes_received.fetch_add(bytes, std::memory_order_relaxed);
        }
        void expire() noexcept { expired.fetch_add(1, std::memory_order_relaxed); }
        void fail() noexcept { failed.fetch_add(1, std::memory_order_relaxed); }
        void end(Clock::time_point begun) noexcept;
        RpcStats::Side read() const;
    };

    explicit RpcCounters(const RpcInfo& rpc) : id(rpc.id), name(rpc.name) {}
    const std::uint64_t id;
    const std::string name;
    Side calls;
    Side requests;

 private:
    friend class RpcTable;
    RpcCounters* next_ = nullptr;
};

// All RPCs that were called or served; they stay as long as the table.
class RpcTable {
 public:
    RpcTable() = default;
    RpcTable(const RpcTable&) = delete;
    RpcTable& operator=(const RpcTable&) = delete;
    ~RpcTable();

    RpcCounters& of(const RpcInfo& rpc);  // throws std::bad_alloc
    std::vector<RpcStats> read() const;   // in the order of names

 private:
    static constexpr std::size_t kHeads = 256;
    std::atomic<RpcCounters*> heads_[kHeads] = {};
};

}  // namespace hg::detail
