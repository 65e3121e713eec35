// SPDX-License-Identifier: BSD-3-Clause
// One reusable operation: what a plugin sees (Op), plus where it stands and how it ended.
//
// Allocated once by whoever posts (Class::create_op: the plugin's scratch follows the object),
// posted any number of times, one at a time. All fields below are guarded by the lock of the
// Context that it is posted on, except while it is idle, when they belong to the poster.
#pragma once

#include <atomic>

#include "na/plugin.hpp"
#include "na/util/intrusive_list.hpp"

namespace na::inline impl {

class Context;
class Address;
class Operation;

// How an operation ended, in the core's terms. `source` carries one reference that the handler
// takes over.
struct Outcome {
    Status status = Status::success;
    std::size_t size = 0;
    Address* source = nullptr;
    std::uint32_t tag = 0;
    void* data = nullptr;
    bool last = true;
};

// The core's view of a message that is being written: into a receive, into part of a multi-receive,
// or held back.
struct Landing : plugin::Arrival {
    enum class Kind : std::uint8_t { operation, multi, held, bundle, discard };
    // Named apart from the fields of Op, which Operation has too.
    Kind into = Kind::operation;
    Lane on = Lane::unexpected;
    std::uint32_t got_tag = 0;
    std::size_t size = 0;
    Address* source = nullptr;
};

class Operation : public Op, public Landing {
 public:
    // Runs once per completion (multi-receive: once per message) inside the post or inside
    // progress, with the context's lock held: it must be short, must not post, cancel or call user
    // code. The operation is idle again (unless !outcome.last), so that storing it away for trigger
    // is all that is left to do.
    using Handler = void (*)(Operation& op, const Outcome& outcome) noexcept;

    enum class State : std::uint8_t {
        idle,      // the poster's
        queued,    // in the retry queue of the context
        gathered,  // a send in the outbox of the context
        bundled,   // a send that is part of a bundle: with the plugin, or waiting to get there
        matching,  // a receive in the match queue
        landing,   // a receive that a message is being written into
        posted,    // with the plugin
    };

    // The same for a receive that has got a whole message, by far the most frequent end: what there
    // is to say fits registers. `source`, of an unexpected message, is lent for the call.
    using Received = void (*)(Operation& op, std::size_t size, Address* source,
                              std::uint32_t tag) noexcept;

    Handler handler = nullptr;
    Received received = &Operation::tell_handler;
    void* owner = nullptr;  // for the handler

    // Who uses the operation for something else than before, says both.
    void when_over(Handler any, Received message = &Operation::tell_handler) noexcept {
        handler = any;
        received = message;
    }

    // Fills in a receive of unexpected messages.
    void from_anybody(OpKind what, void* where, std::size_t bytes,
                      plugin::Region* registered) noexcept {
        kind = what;
        buffer = where;
        length = bytes;
        local = registered;
        peer = nullptr;
        address_ = nullptr;
    }

    bool idle() const noexcept { return state_.load(std::memory_order_acquire) == State::idle; }
    State state() const noexcept { return state_.load(std::memory_order_relaxed); }

    // Multi-receive: how many outcomes the owner can store before it gives room back. Given by the
    // owner before the post, and through Context::add_credits after it has dealt with an outcome;
    // messages wait while there is none. True: there was none.
    bool add_credits(std::uint32_t n) noexcept {
        return credits_.fetch_add(n, std::memory_order_release) == 0;
    }
    std::uint32_t credits() const noexcept { return credits_.load(std::memory_order_acquire); }

 private:
    friend class Context;
    friend class Posting;
    friend class MatchQueue;
    friend class Outbox;
    friend class RetryQueue;
    friend class Class;
    friend struct OperationProbe;  // unit tests
    Operation() = default;
    ~Operation() = default;

    void set_state(State s) noexcept { state_.store(s, std::memory_order_release); }
    static void tell_handler(Operation& op, std::size_t size, Address* source,
                             std::uint32_t tag) noexcept;

    std::atomic<State> state_{State::idle};
    bool multi_ = false;          // created for multi-receive
    bool referenced_ = false;     // a reference on address_ is held
    bool joins_ = false;          // a send that may leave with others
    Address* address_ = nullptr;  // the peer, where the operation has one
    std::size_t used_ = 0;        // multi-receive: bytes of the buffer already given to messages
    std::uint32_t landings_ = 0;  // multi-receive: messages being written into the buffer
    bool exhausted_ = false;      // multi-receive: takes no further message
    std::atomic<std::uint32_t> credits_{
        0};                // multi-receive: outcomes that the owner can still store
    util::ListHook hook_;  // retry queue, match queue, outbox
};

}  // namespace na::inline impl
