// SPDX-License-Identifier: BSD-3-Clause
// Result<T>: a value, or a code with a message. For control paths; the data path returns bare codes.
#pragma once

#include <cassert>
#include <string>
#include <utility>
#include <variant>

#include "na/status.hpp"

namespace na {

// What went wrong, for a program (status) and for a person (message: cause and remedy).
struct Error {
    Status status = Status::other_error;
    std::string message;
};

template <typename T>
class [[nodiscard]] Result {
 public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by design
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {  // NOLINT
        assert(std::get<1>(state_).status != Status::success);
    }

    explicit operator bool() const noexcept { return state_.index() == 0; }
    T& operator*() & noexcept { return *std::get_if<0>(&state_); }
    const T& operator*() const& noexcept { return *std::get_if<0>(&state_); }
    T&& operator*() && noexcept { return std::move(*std::get_if<0>(&state_)); }
    T* operator->() noexcept { return std::get_if<0>(&state_); }
    const T* operator->() const noexcept { return std::get_if<0>(&state_); }

    Status status() const noexcept {
        const Error* e = std::get_if<1>(&state_);
        return e == nullptr ? Status::success : e->status;
    }
    const Error& error() const& noexcept { return *std::get_if<1>(&state_); }
    Error&& error() && noexcept { return std::move(*std::get_if<1>(&state_)); }

 private:
    std::variant<T, Error> state_;
};

}  // namespace na
