// SPDX-License-Identifier: BSD-3-Clause
// One transport of a context: its NA context, the operations and message buffers of handles, tags,
// and how many receives for requests are posted.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "bulk/bulk.hpp"
#include "hg/counters.hpp"
#include "hg/shares.hpp"
#include "hg/wire.hpp"
#include "na/core/context.hpp"
#include "na/util/lock.hpp"
#include "na/util/unshared.hpp"

namespace hg {

class Context;
class Port;

// What one handle needs of a transport: two operations, and a buffer for each. Belongs to its port;
// whoever has taken it is its user.
struct Kit {
    Port* port = nullptr;
    na::Operation* send = nullptr;
    na::Operation* recv = nullptr;
    std::byte* input = nullptr;   // a request, headroom first
    std::byte* output = nullptr;  // a response, likewise
    std::byte* ack = nullptr;     // a response header, likewise
    na::plugin::Region* region = nullptr;
    Kit* next = nullptr;  // in the port's free list
};

class Port {
 public:
    Port(Context& context, bulk::Rail rail, std::unique_ptr<na::Context> na);
    ~Port();
    Port(const Port&) = delete;
    Port& operator=(const Port&) = delete;

    Context& context() const noexcept { return context_; }
    bulk::Rail rail() const noexcept { return rail_; }
    na::Context& na() const noexcept { return *na_; }

    // Bytes of a message buffer, headroom included, and the headroom itself.
    std::size_t size(na::Lane lane) const noexcept { return size_[index(lane)]; }
    std::size_t headroom(na::Lane lane) const noexcept { return headroom_[index(lane)]; }
    // Where payloads start in Kit::input, Kit::output; and the largest one.
    std::size_t input_at() const noexcept { return payload_at_[index(na::Lane::unexpected)]; }
    std::size_t output_at() const noexcept { return payload_at_[index(na::Lane::expected)]; }
    std::size_t input_room() const noexcept { return room_[index(na::Lane::unexpected)]; }
    std::size_t output_room() const noexcept { return room_[index(na::Lane::expected)]; }

    // Any thread. take_kit() throws std::bad_alloc; the operations of a kit that is given back are
    // idle.
    Kit* take_kit();
    void give_kit(Kit* kit) noexcept;

    // A tag that no other request of this process to the same peer has had for long, and a number
    // that goes with it and that nobody guesses. Tags of contexts of one class differ in their low
    // bits.
    static constexpr std::uint32_t kMix = 0x9e3779b1U;
    static constexpr std::uint32_t kUnmix = 0x0e8b2f51U;  // its inverse
    static_assert(kMix * kUnmix == 1);
    struct Ticket {
        std::uint32_t tag;
        std::uint32_t cookie;
    };
    // For who has the transport's lock.
    Ticket next_ticket() noexcept {
        for (;;) {
            const std::uint32_t n = tickets_.load(std::memory_order_relaxed);
            na::util::add_unshared(tickets_, tag_step_);
            const std::uint32_t tag = n & tag_mask_;
            if (tag != tag_mask_) [[likely]] {  // which is that of bundles
                return {.tag = tag, .cookie = (n * kMix) ^ salt_};
            }
        }
    }

    // How many tickets were given since that one, by its cookie; to any peer.
    std::uint32_t tickets_since(std::uint32_t cookie) const noexcept {
        const std::uint32_t n = (cookie ^ salt_) * kUnmix;
        return (tickets_.load(std::memory_order_relaxed) - n) / tag_step_;
    }

    // Small messages may leave together.
    bool gathers() const noexcept { return gathers_; }
    // Messages go neither together nor with a checksum, and the transport takes small ones at once,
    // and leaves all receives to the core.
    bool plain() const noexcept { return plain_; }
    // The same where they may go together, or the transport wants to hear of receives.
    bool injects() const noexcept { return injects_; }

    // What those who encode and decode messages of this port have to know of it.
    static constexpr std::uint8_t kCodecSm = 1 << 0;         // the peer is on this host
    static constexpr std::uint8_t kCodecBulkEager = 1 << 1;  // contents may go with descriptors
    std::uint8_t codec_flags() const noexcept { return codec_flags_; }

    // Receives for requests. `posted`: in the transport; `active`: those, and the handles that
    // still hold the buffer that their request came in. Handles are posted while active is below
    // the budget, which grows when all are taken, up to the limit of requests at a time and some
    // for those beyond, which are refused.
    // The count of what is posted is written under the transport's lock: with a Posting, or in a
    // handler.
    void request_posted() noexcept { na::util::add_unshared(posted_, 1); }
    std::int32_t request_taken() noexcept {  // answers how many are left
        const std::int32_t left = posted_.load(std::memory_order_relaxed) - 1;
        posted_.store(left, std::memory_order_release);
        return left;
    }
    std::int32_t posted() const noexcept { return posted_.load(std::memory_order_acquire); }
    bool enter_budget() noexcept;
    void leave_budget() noexcept { add(active_, -1); }
    bool raise_budget() noexcept;  // false: it does not grow, or not any further
    // Requests that gave their buffer back before their end.
    void buffer_released() noexcept {
        add(released_, 1);
        leave_budget();
    }
    void released_ended() noexcept { add(released_, -1); }
    // A request that is another handle's from now on: its receive is free.
    void request_moved() noexcept { add(released_, 1); }
    // More requests are there than the limit allows, as far as is known; inside the handler of one
    // that has just come.
    bool overloaded() const noexcept {
        return budget_.load(std::memory_order_relaxed) > limit_ ||
                       released_.load(std::memory_order_relaxed) != 0
                   ? requests() - kept_.load(std::memory_order_relaxed) > limit_
                   : false;
    }
    // Whether that one is served all the same: some are answered, and only kept. If there was a
    // look for such just now, there is none, and up to a sixteenth of the limit is not used.
    bool makes_room() noexcept;
    // One that was kept comes back. False: it is not for further requests, the budget is less by
    // it.
    bool kept_ended() noexcept;

    Counters counters;
    Shares shares;

    // A request waits for trigger, inside its handler; its callback begins.
    void request_due() noexcept { turns_.given(); }
    void request_begun() noexcept { turns_.begun(); }

 private:
    struct Slab;
    static std::size_t index(na::Lane lane) noexcept { return static_cast<std::size_t>(lane); }
    // Answers the value before.
    template <typename T>
    T add(std::atomic<T>& value, T n) const noexcept {
        if (threaded_) {
            return value.fetch_add(n, std::memory_order_seq_cst);
        }
        const T before = value.load(std::memory_order_relaxed);
        na::util::add_unshared(value, n);
        return before;
    }
    void add_slab();
    std::int32_t most() const noexcept;  // of the budget

    Context& context_;
    const bulk::Rail rail_;
    const bool threaded_;
    const std::uint8_t codec_flags_;
    std::unique_ptr<na::Context> na_;
    na::Turns& turns_;
    std::size_t size_[na::kLanes];
    std::size_t headroom_[na::kLanes];
    std::size_t payload_at_[na::kLanes];
    std::size_t room_[na::kLanes];
    std::uint32_t tag_mask_;
    bool gathers_ = false;
    bool plain_ = false;
    bool injects_ = false;
    std::uint32_t tag_step_;  // beyond the bits that the ids of contexts need
    std::uint32_t salt_;
    std::atomic<std::uint32_t> tickets_;  // the low bits are those of the context's id
    std::atomic<std::int32_t> posted_{0};
    std::int32_t requests() const noexcept {
        return active_.load(std::memory_order_relaxed) - posted_.load(std::memory_order_relaxed) +
               released_.load(std::memory_order_relaxed);
    }
    std::atomic<std::int32_t> active_{0};
    std::atomic<std::int32_t> released_{0};
    std::atomic<std::int32_t> budget_;
    const std::int32_t increment_;
    const std::int32_t limit_;           // requests at a time; -1: each is refused
    std::atomic<std::int32_t> kept_{0};  // handles that are answered, and were found by a look
    std::uint64_t next_look_ = 0;  // when there are so many answers; under the transport's lock

    na::util::OptionalLock lock_;  // guards what follows
    Kit* free_ = nullptr;
    std::vector<std::unique_ptr<Slab>> slabs_;
};

}  // namespace hg
