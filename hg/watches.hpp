// SPDX-License-Identifier: BSD-3-Clause
// What a target learns of its callers while it serves them: that one has canceled its call, or that
// the peer is gone.
//
//   cancel   The origin of a canceled RPC sends a notice, a request header with wire::kCancel and
//   the
//            tag and cookie of the RPC, best effort. A notice that finds no watch is kept for a
//            program that asks later.
//   death    A watch has a receive from the peer, with a tag that no message has. The transport
//            ends that receive with its peer.
//
// Nothing is watched unless the program asks: neither costs anything on the path of a call.
// A notice counts only for a request of the peer that sends it, and with the cookie of that
// request. The notices that are kept are bounded, and few of them are any one peer's.
//
// Threads: any, outside of handlers, but for canceled().
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "hg/completion.hpp"
#include "hg/handle_parts.hpp"
#include "na/core/address.hpp"
#include "na/core/op.hpp"
#include "na/status.hpp"
#include "na/util/lock.hpp"

namespace hg {

class Context;
class Handle;
class Port;
struct Kit;

class Watches {
 public:
    // What the program wants to hear of, once, in trigger, while the request is not answered.
    // `status`: canceled, or why the peer is lost.
    struct Told {
        Callback::Opaque user = nullptr;
        void (*run)(Handle& handle, na::Status status, Callback::Opaque user, void* arg) = nullptr;
        void* arg = nullptr;
        // Runs once when `arg` is not needed any more, on any thread, outside of handlers.
        void (*drop)(void* arg) noexcept = nullptr;
    };

    Watches(Context& context, bool threaded) noexcept : context_(context), lock_(threaded) {}

    // Watches the origin of a target's handle, for which the caller has a reference; replaces what
    // was to be told before. What has happened already is told, too. nomem: nothing is watched, and
    // nothing dropped.
    na::Status begin(Handle& handle, const Told& told) noexcept;
    // `status`: canceled, or why the peer is lost; success: neither is known. Watches from the
    // first call on. nomem.
    na::Status state(Handle& handle, na::Status& status) noexcept;
    // The request is over, and nobody has a reference to its handle.
    void end(Handle& handle) noexcept;

    // A notice has come. Inside handlers, too.
    void canceled(const na::Address& peer, std::uint32_t tag, std::uint32_t cookie) noexcept;
    // The caller of this handle, of an RPC to oneself, has canceled it. With the context's loopback
    // lock.
    void canceled_here(Handle& handle) noexcept;

    // Tells the target of an RPC that was canceled.
    struct Request {
        Port& port;
        na::AddressRef peer;
        std::uint8_t context_id;  // of the peer
        std::uint32_t tag;
        std::uint32_t cookie;
        std::uint64_t id;
    };
    void send(Request request) noexcept;

    // Notices that peers do not take: the context closes. Outside of handlers.
    void give_up() noexcept;

    // No operation of a watch or notice is with the transport.
    bool idle() const noexcept { return under_way_.load(std::memory_order_acquire) == 0; }

    class Watch;

 private:
    class Notice;
    struct Early {
        const na::Address* peer = nullptr;  // for comparison: it may be gone
        std::uint32_t tag = 0;
        std::uint32_t cookie = 0;
    };
    static constexpr std::size_t kBuckets = 64;
    // Notices that are kept. Those of a peer go to one row, so that a peer which sends many
    // displaces few of others.
    static constexpr std::size_t kRows = 16;
    static constexpr std::size_t kPerRow = 4;
    // Notices with the transport at a time; calls that are canceled beyond that are not told of.
    static constexpr std::uint32_t kMostNotices = 256;

    static std::size_t row_of(const na::Address& peer) noexcept;
    bool take_early(const na::Address& peer, std::uint32_t tag, std::uint32_t cookie) noexcept;
    Watch*& bucket(std::uint32_t cookie) noexcept { return watches_[cookie % kBuckets]; }
    Watch* of(Handle& handle) noexcept;  // null: there is no memory for one
    Watch* make(Handle& handle) noexcept;
    void listen(Handle& handle, Watch& watch) noexcept;
    void tell(Watch& watch, na::Status status) noexcept;
    void under_way(int n) noexcept { under_way_.fetch_add(n, std::memory_order_acq_rel); }

    Context& context_;
    std::atomic<int> under_way_{0};
    std::atomic<std::uint32_t> notices_{0};

    na::util::OptionalLock lock_;  // guards what follows, and Handle::watch_; taken last
    std::array<Watch*, kBuckets> watches_{};
    Notice* sent_ = nullptr;
    std::array<std::array<Early, kPerRow>, kRows> early_{};
    std::array<std::uint8_t, kRows> next_{};
};

}  // namespace hg
