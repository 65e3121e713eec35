// SPDX-License-Identifier: BSD-3-Clause
// How calls of the C++ API fail: a Result<T>, or an Exception with the same content. Both carry a
// code for the program and the cause in words for a person.
#pragma once

#include <cassert>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "na/result.hpp"
#include "na/status.hpp"

namespace na {

// Success without a value, or an error.
template <>
class [[nodiscard]] Result<void> {
 public:
    Result() noexcept = default;
    Result(Error error) : error_(std::move(error)) {  // NOLINT: implicit, as Result<T>
        assert(error_->status != Status::success);
    }

    explicit operator bool() const noexcept { return !error_.has_value(); }
    void operator*() const noexcept {}
    Status status() const noexcept { return error_ ? error_->status : Status::success; }
    const Error& error() const& noexcept { return *error_; }
    Error&& error() && noexcept { return std::move(*error_); }

 private:
    std::optional<Error> error_;
};

}  // namespace na

namespace hg {

using na::Error;
using na::Result;
using na::Status;

// What get() and co_await throw. Thrown by a handler, it reaches the caller with code and text.
class Exception : public std::runtime_error {
 public:
    Exception(Status status, const std::string& message)
        : std::runtime_error(message), status_(status) {}
    explicit Exception(const Error& error) : Exception(error.status, error.message) {}

    Status status() const noexcept { return status_; }

 private:
    Status status_;
};

// The value of a result; throws its error as an Exception.
template <typename T>
T value(Result<T>&& result) {
    if (!result) {
        throw Exception(result.error());
    }
    if constexpr (!std::is_void_v<T>) {
        return *std::move(result);
    }
}

namespace detail {

// The exception that is being handled, as an error; for what runs users' code.
Error current_error() noexcept;

template <typename T>
inline constexpr bool is_result = false;
template <typename T>
inline constexpr bool is_result<na::Result<T>> = true;

template <typename T>
struct unwrap_result {
    using type = T;
};
template <typename T>
struct unwrap_result<na::Result<T>> {
    using type = T;
};

}  // namespace detail
}  // namespace hg
