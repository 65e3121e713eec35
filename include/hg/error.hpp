// SPDX-License-Identifier: BSD-3-Clause
// How calls of the C++ API fail: a Result<T>, or an Exception with the same content. Both carry a
// code for the program and the cause in words for a person.
#pragma once

#include "na/detail/standard.hpp"

#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include "na/result.hpp"
#include "na/status.hpp"

namespace hg {

using na::Error;
using na::Result;
using na::Status;

// What get() and co_await throw. Thrown by a handler, it reaches the caller with code and text.
class Exception : public na::Failure {
 public:
    Exception(Status status, const std::string& message) : Failure(status, message) {}
    explicit Exception(const Error& error) : Exception(error.status, error.message) {}
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
