// SPDX-License-Identifier: BSD-3-Clause
// Callbacks inside their operations, and what is said to who writes one that does not fit. Not for
// programs.
#pragma once

#include "na/detail/standard.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "na/address.hpp"
#include "na/message.hpp"
#include "na/status.hpp"

namespace na::inline v1 {

namespace detail {

// How an operation ended.
struct Ended {
    Status status;
    std::span<std::byte> data;
    std::uint32_t tag;
    const Address* source;
    bool last;
};

// One callback, until it runs. `state` also says whose the operation is: see na/cxx/operation.cpp.
struct Slot {
    enum class State : std::uint8_t { idle, posted, ending, left };
    static constexpr std::size_t kBytes = 64;

    std::atomic<State> state{State::idle};
    bool threaded = true;
    void (*run)(Slot& slot, const Ended& how) = nullptr;
    void (*drop)(Slot& slot) noexcept = nullptr;
    alignas(std::max_align_t) std::byte bytes[kBytes];

    // Takes the operation for a post. False: it is in use.
    bool claim() noexcept {
        if (!threaded) {
            return state.load(std::memory_order_relaxed) == State::idle &&
                   (state.store(State::posted, std::memory_order_relaxed), true);
        }
        State idle = State::idle;
        return state.compare_exchange_strong(idle, State::posted, std::memory_order_acquire);
    }
    // The callback is out of the slot: the operation may be posted again, or go.
    void free() noexcept { state.store(State::idle, std::memory_order_release); }
};

template <typename F, typename Adapter>
void run_callback(Slot& slot, const Ended& how) {
    F* stored = std::launder(reinterpret_cast<F*>(slot.bytes));
    F callback(std::move(*stored));
    stored->~F();
    slot.free();
    Adapter::call(callback, how);
}
template <typename F>
void drop_callback(Slot& slot) noexcept {
    std::launder(reinterpret_cast<F*>(slot.bytes))->~F();
}
template <typename F, typename Adapter>
void store_callback(Slot& slot, F&& callback) {
    using Stored = std::decay_t<F>;
    ::new (static_cast<void*>(slot.bytes)) Stored(std::forward<F>(callback));
    slot.run = run_callback<Stored, Adapter>;
    slot.drop = drop_callback<Stored>;
}

// True for what can be kept in a Slot; otherwise the error says what to do.
template <typename F>
constexpr bool fits() {
    constexpr bool small = sizeof(F) <= Slot::kBytes && alignof(F) <= alignof(std::max_align_t);
    static_assert(
        small,
        "na: the callback captures more than 64 bytes: capture a pointer or a reference instead");
    constexpr bool movable = std::is_nothrow_move_constructible_v<F>;
    static_assert(movable,
                  "na: moving the callback may throw: capture by reference what has such a move");
    return small && movable;
}

// Callbacks of sends, puts and gets.
struct OnStatus {
    template <typename F>
    static constexpr bool accepts() {
        constexpr bool good = std::is_invocable_v<F&, Status>;
        static_assert(good,
                      "na: the callback of a send, put or get is called as callback(na::Status)");
        return good && fits<F>();
    }
    template <typename F>
    static void call(F& callback, const Ended& how) {
        callback(how.status);
    }
};
// Callbacks of expected receives.
struct OnData {
    template <typename F>
    static constexpr bool accepts() {
        constexpr bool good = std::is_invocable_v<F&, Status, std::span<std::byte>>;
        static_assert(good,
                      "na: the callback of recv_expected is called as callback(na::Status, "
                      "std::span<std::byte>)");
        return good && fits<F>();
    }
    template <typename F>
    static void call(F& callback, const Ended& how) {
        callback(how.status, how.data);
    }
};
// Callbacks of unexpected receives, and of multi-receives, which are not kept in a Slot.
struct OnMessage {
    template <typename F>
    static constexpr bool called_well() {
        constexpr bool good = std::is_invocable_v<F&, Status, const Message&>;
        static_assert(good,
                      "na: the callback of recv_unexpected and of a MultiOperation is called as "
                      "callback(na::Status, const na::Message&)");
        return good;
    }
    template <typename F>
    static constexpr bool accepts() {
        return called_well<F>() && fits<F>();
    }
    template <typename F>
    static void call(F& callback, const Ended& how) {
        callback(how.status, Message{how.data, how.tag, *how.source, how.last});
    }
};

// The callback of a MultiOperation.
struct Calls {
    virtual ~Calls() = default;
    virtual void call(const Ended& how) = 0;
};
template <typename F>
struct CallsOf final : Calls {
    explicit CallsOf(F f) : callback(std::move(f)) {}
    void call(const Ended& how) override { OnMessage::call(callback, how); }
    F callback;
};

}  // namespace detail
}  // namespace na::inline v1
