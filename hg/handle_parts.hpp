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

}  // namespace hg
