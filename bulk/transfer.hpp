// SPDX-License-Identifier: BSD-3-Clause
// Bulk transfers: what is asked for, one transfer in flight, and the engine that runs those of one
// RPC context.
//
// A transfer is cut into pieces of at most one registration on each side; a bounded number is in
// flight, and each that ends makes room for the next. NA completion handlers run under the NA
// context's lock, where nothing may be posted: they only account, and put the transfer on the
// engine's runnable list. The RPC context calls Engine::progress() after each poll.
//
// Locks: the engine's lock comes after the NA context's and is held for a few instructions, never
// while posting, cancelling or calling out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "bulk/bulk.hpp"
#include "bulk/protocol.hpp"
#include "na/core/address.hpp"
#include "na/core/context.hpp"
#include "na/core/counters.hpp"
#include "na/core/op.hpp"
#include "na/util/intrusive_list.hpp"
#include "na/util/lock.hpp"

namespace bulk {

class Engine;
class Transfer;

struct ContextRails {
    na::Context* net = nullptr;
    na::Context* sm = nullptr;  // may be null

    na::Context* of(Rail r) const noexcept { return r == Rail::net ? net : sm; }
};

// A peer by its addresses on each rail.
struct Peers {
    na::Address* net = nullptr;
    na::Address* sm = nullptr;  // may be null

    na::Address* of(Rail r) const noexcept { return r == Rail::net ? net : sm; }
    bool is_self() const noexcept {
        return (net != nullptr && net->is_self()) || (sm != nullptr && sm->is_self());
    }
};

struct Request {
    Direction direction = Direction::pull;
    Bulk* origin = nullptr;  // the peer's memory; local memory where the peer is this process
    std::uint64_t origin_offset = 0;
    Bulk* local = nullptr;
    std::uint64_t local_offset = 0;
    std::uint64_t size = 0;
    Peers peer;
    std::uint8_t origin_context = 0;

    // Runs exactly once after start() answered success, on any thread, possibly before start()
    // returns, possibly under the NA context's lock: it stores the outcome away for trigger, and
    // wakes who sleeps. Bulks and addresses stay referenced until Engine::release(), which whoever
    // handles the outcome has to call, outside that lock.
    void (*done)(Transfer& transfer, Status status) noexcept = nullptr;
    void* owner = nullptr;  // for done()
    // The same: what the RPC layer's own user has given.
    void (*callback)() = nullptr;
    void* arg = nullptr;
};

// Names a transfer; stays harmless for ever after the transfer has ended. Never 0 or 1.
using TransferId = std::uint64_t;

class Transfer {
 public:
    // As started, with one reference to each bulk; `peer` is only as valid as the caller's
    // references.
    const Request& request() const noexcept { return request_; }
    void* owner() const noexcept { return request_.owner; }
    Engine& engine() const noexcept { return engine_; }
    Protocol protocol() const noexcept { return choice_.protocol; }

    // Room for whoever started it (the RPC layer's completion entry). Not touched here;
    // uninitialised at start.
    static constexpr std::size_t kUserBytes = 128;
    alignas(16) std::byte user[kUserBytes];

 private:
    friend class Engine;
    struct Piece;
    Transfer(Engine& engine, std::uint32_t slot) noexcept : engine_(engine), slot_(slot) {}

    // Fixed while in flight.
    Engine& engine_;
    const std::uint32_t slot_;
    Request request_;
    Choice choice_;
    BulkRef origin_;
    BulkRef local_;
    na::AddressRef peer_;

    // Of whoever drives it.
    std::uint64_t moved_ = 0;  // bytes posted so far

    // Guarded by the engine's lock.
    std::uint32_t generation_ = 1;
    bool active_ = false;   // between start() and done()
    bool driving_ = false;  // a thread is in drive(): it decides what comes next
    bool queued_ = false;   // in the runnable list
    bool posted_all_ = false;
    bool cancel_asked_ = false;
    bool cancel_sent_ = false;  // the pieces in flight were asked to end
    std::uint32_t pins_ = 0;    // cancel() at work on the pieces: it must not end meanwhile
    std::uint32_t in_flight_ = 0;
    std::uint32_t attached_ = 0;  // pieces in window_, which stay until release()
    std::uint32_t idle_ = 0;      // bit i: window_[i] is not in flight
    std::array<Piece*, kMaxWindow> window_{};
    Status status_ = Status::success;  // the first error of a piece
    na::util::ListHook hook_;          // free list or runnable list
};

// The transfers of one RPC context. Any thread, unless the class is single-threaded.
class Engine {
 public:
    // `wake(arg)` is called when progress() has got something to do outside of it: the context
    // wakes its sleepers. May run under an NA context's lock. The rails' contexts outlive the
    // engine.
    Engine(Space& space, ContextRails rails, void (*wake)(void* arg) noexcept, void* arg);
    // Needs idle().
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    Space& space() const noexcept { return space_; }

    // success: Request::done will run once. Anything else: it never does; the cause was logged.
    //   invalid_arg: past the end of either side, no peer, another class, local side not local
    //   permission:  pull needs an origin that may be read and local memory that may be written,
    //   push the opposite opnotsupported: no rail to the memory; again, nomem: no resources; and
    //   what the transport answers to the first post
    // `*id` is written before anything is posted, and only if it may be used.
    Status start(const Request& request, TransferId* id = nullptr) noexcept;

    // Asks a transfer to end; done() still runs exactly once, with canceled or with what came
    // first. A transfer that has ended already, whoever uses its place now: nothing happens.
    void cancel(TransferId id) noexcept;
    void cancel_all() noexcept;
    // The same from an id alone; also if its engine is gone.
    static void cancel_any(TransferId id) noexcept;

    // The outcome was handled: gives back references and the object. Not under an NA context's
    // lock.
    void release(Transfer& transfer) noexcept;

    // Posts what has become possible, cancels what has become pointless. After every poll that
    // leaves something runnable(). Returns transfers served.
    std::size_t progress() noexcept;
    // progress() has something to do: do not sleep.
    bool runnable() const noexcept { return runnable_count_.load(std::memory_order_acquire) != 0; }

    // No transfer between start() and release().
    bool idle() const noexcept { return used() == 0; }
    std::uint32_t used() const noexcept { return used_.load(std::memory_order_acquire); }

    struct Counters {
        na::Counter transfers;
        na::Counter bytes;   // of transfers started
        na::Counter pieces;  // RMA operations posted
        na::Counter copies;  // transfers that were plain copies
    };
    const Counters& counters() const noexcept {
        return counters_;
    }  // written under the engine's lock

 private:
    using List = na::util::IntrusiveList<Transfer, &Transfer::hook_>;
    class Pieces;

    // What becomes of a transfer, decided under the lock each time something about it has changed.
    enum class Next : std::uint8_t { wait, enqueued, finished };

    Status check(const Request& request) const noexcept;
    Choice decide(const Request& request, bool here) const noexcept;
    Transfer* take() noexcept;
    TransferId id_of(const Transfer& t) const noexcept;
    Transfer* find(TransferId id) const noexcept;
    Status drive(Transfer& t, bool first, std::uint64_t& bytes) noexcept;
    Status post(Transfer& t, Transfer::Piece& piece, std::uint64_t& moved) noexcept;
    void cancel_pieces(Transfer& t, std::uint32_t attached) noexcept;
    void cancel(Transfer& t, std::unique_lock<na::util::OptionalLock>& guard) noexcept;
    Next settle(Transfer& t) noexcept;
    void act(Transfer& t, Next next) noexcept;
    void put_back(Transfer& t) noexcept;
    static void ended(na::Operation& op, const na::Outcome& outcome) noexcept;

    Space& space_;
    const ContextRails rails_;
    void (*const wake_)(void* arg) noexcept;
    void* const wake_arg_;
    std::uint32_t serial_ = 0;  // of this engine, in transfer ids

    na::util::OptionalLock lock_;
    // Guarded by lock_.
    std::vector<std::unique_ptr<Transfer>> slots_;
    List free_;
    List runnable_;
    std::unique_ptr<Pieces> pieces_[kRails];  // null: no such rail
    Counters counters_;

    std::atomic<std::uint32_t> runnable_count_{0};
    std::atomic<std::uint32_t> used_{0};
};

}  // namespace bulk
