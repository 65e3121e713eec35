// SPDX-License-Identifier: BSD-3-Clause
// What a handle is made of, and what its users say and ask of it.
#pragma once

#include <atomic>
#include <cstdint>

#include "hg/registry.hpp"
#include "na/status.hpp"

namespace hg {

class Address;
class Class;
class Context;
class Handle;

// Layout equals struct hg_info.
struct Info {
    Class* cls = nullptr;
    Context* context = nullptr;
    Address* addr = nullptr;      // origin: the target; target: who asked
    std::uint64_t id = 0;         // the RPC
    std::uint8_t context_id = 0;  // of the peer
};

// A bool that may be looked at while it changes; orders nothing.
class Flag {
 public:
    operator bool() const noexcept { return value_.load(std::memory_order_relaxed); }
    Flag& operator=(bool value) noexcept {
        value_.store(value, std::memory_order_relaxed);
        return *this;
    }
    Flag& operator=(const Flag& other) noexcept { return *this = static_cast<bool>(other); }

 private:
    std::atomic<bool> value_{false};
};

// What the user wants to hear of, in trigger.
struct Callback {
    using Opaque = Registration::Opaque;
    void (*run)(Handle& handle, na::Status status, Opaque user, void* arg) = nullptr;
    Opaque user = nullptr;
    void* arg = nullptr;
};

// State of a handle that is looked at together.
namespace parts {

// Of a request that does not end as most do.
struct Odd {
    bool malformed = false;       // counted in Context::malformed_
    bool abandoned = false;       // target: the user gave it up without a response
    bool input_released = false;  // the receive buffer was given up early
    // Serves nothing but one-way requests of RPCs that are not one-way as far as this program
    // knows, in all its lives: a program that gives its reference back first, and responds
    // later, does so without a reference there, as nothing waits for its answer; and the handle
    // must not be another peer's request then, nor its buffers. A mute's one_way_ and target_
    // never change.
    bool mute = false;
};

// Cleared for each RPC, at once.
struct Call {
    bool input = false;        // input_ is there
    bool output = false;       // output_
    bool ack_wanted = false;   // origin: the response is beyond the eager size
    bool more_wanted = false;  // origin: the program has to fetch what belongs to the response
    bool request_sent = false;
    bool answer_is_code = false;  // the target has answered with an error
    // One byte, as all of this is cleared by one store.
    bool answer_canceled : 1 = false;  // the receive of the answer
    bool undelivered : 1 = false;      // nobody was given the request: it is to be sent again
    bool repeated : 1 = false;         // it was
    bool waits : 1 = false;            // target: counted in Port::shares
    std::uint8_t flags = 0;            // of the message that came
};
static_assert(sizeof(Call) == sizeof(std::uint64_t));

}  // namespace parts

}  // namespace hg
