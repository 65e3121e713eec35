// SPDX-License-Identifier: BSD-3-Clause
// How the objects of the C++ API keep each other alive. Not for programs.
#pragma once

#include "na/detail/standard.hpp"

#include <utility>

namespace na::inline v1::detail {

struct DomainState;
struct ContextState;
struct BufferState;
struct MemoryState;

void retain(DomainState& state) noexcept;
void release(DomainState& state) noexcept;
void retain(ContextState& state) noexcept;
void release(ContextState& state) noexcept;
void retain(BufferState& state) noexcept;
void release(BufferState& state) noexcept;
void retain(MemoryState& state) noexcept;
void release(MemoryState& state) noexcept;

// A counted reference to something that only the library knows.
template <typename T>
class Ref {
 public:
    Ref() = default;
    // Takes over a reference that the caller has.
    static Ref adopt(T* state) noexcept {
        Ref ref;
        ref.state_ = state;
        return ref;
    }
    static Ref share(T& state) noexcept {
        retain(state);
        return adopt(&state);
    }
    Ref(const Ref& other) noexcept : state_(other.state_) {
        if (state_ != nullptr) {
            retain(*state_);
        }
    }
    Ref(Ref&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
    Ref& operator=(Ref other) noexcept {
        std::swap(state_, other.state_);
        return *this;
    }
    ~Ref() { reset(); }

    void reset() noexcept {
        if (state_ != nullptr) {
            release(*std::exchange(state_, nullptr));
        }
    }
    T* leave() noexcept { return std::exchange(state_, nullptr); }
    T* get() const noexcept { return state_; }
    T& operator*() const noexcept { return *state_; }
    T* operator->() const noexcept { return state_; }
    explicit operator bool() const noexcept { return state_ != nullptr; }

 private:
    T* state_ = nullptr;
};

}  // namespace na::inline v1::detail
