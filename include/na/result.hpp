// SPDX-License-Identifier: BSD-3-Clause
// Result<T>: a value, or a code with a message. For control paths; the data path returns bare
// codes.
//
// Whoever prefers exceptions says value(), which throws Failure; nothing else here throws.
#pragma once

#include "na/detail/standard.hpp"

#include <cassert>
#include <concepts>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "na/status.hpp"

namespace na {

// What went wrong, for a program (status) and for a person (message: cause and remedy).
struct Error {
    Status status = Status::other_error;  // not success
    std::string message = {};             // may be empty
    // "peer unreachable: <message>"; what() of the Failure.
    std::string text() const;
};

// What value() throws. what() has the code in words, the cause and the remedy.
class Failure : public std::runtime_error {
 public:
    // Of an error.
    explicit Failure(const Error& error);
    Failure(const Failure&) = default;
    Failure& operator=(const Failure&) = default;
    ~Failure() override;
    // The code.
    Status status() const noexcept { return status_; }

 protected:
    // For kinds of failures with words of their own.
    Failure(Status status, const std::string& what) : std::runtime_error(what), status_(status) {}

 private:
    Status status_;
};

// Throws Failure, out of line.
[[noreturn]] void fail(const Error& error);
// Throws Failure unless the status is success; `doing` ("put to the server") is what the message
// begins with.
void check(Status status, const char* doing);

// A value, or an Error. operator* and operator-> want a value that is there: ask first, or say
// value().
template <typename T>
class [[nodiscard]] Result {
 public:
    // The value that T{} is.
    Result() requires std::default_initializable<T> : state_(std::in_place_index<0>) {}
    // There is a value.
    Result(T value)
        : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by design
    // There is none; the status is not success.
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {  // NOLINT
        assert(std::get<1>(state_).status != Status::success);
    }

    // True: there is a value.
    explicit operator bool() const noexcept { return state_.index() == 0; }
    // The value, which must be there.
    T& operator*() & noexcept { return *std::get_if<0>(&state_); }
    const T& operator*() const& noexcept { return *std::get_if<0>(&state_); }
    T&& operator*() && noexcept { return std::move(*std::get_if<0>(&state_)); }
    T* operator->() noexcept { return std::get_if<0>(&state_); }
    const T* operator->() const noexcept { return std::get_if<0>(&state_); }

    // The value, or a Failure is thrown.
    T& value() & {
        require();
        return **this;
    }
    const T& value() const& {
        require();
        return **this;
    }
    T&& value() && {
        require();
        return *std::move(*this);
    }
    // The value, or another one.
    template <typename U>
    T value_or(U&& other) && {
        return *this ? *std::move(*this) : static_cast<T>(std::forward<U>(other));
    }

    // The code; success where there is a value.
    Status status() const noexcept {
        const Error* e = std::get_if<1>(&state_);
        return e == nullptr ? Status::success : e->status;
    }
    // What went wrong; only where there is no value.
    const Error& error() const& noexcept { return *std::get_if<1>(&state_); }
    Error&& error() && noexcept { return std::move(*std::get_if<1>(&state_)); }

 private:
    void require() const {
        if (const Error* e = std::get_if<1>(&state_)) [[unlikely]] {
            fail(*e);
        }
    }

    std::variant<T, Error> state_;
};

// Success, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
    Result() = default;
    Result(Error error) : error_(std::move(error)) {  // NOLINT: implicit by design
        assert(error_.status != Status::success);
    }

    // True: success.
    explicit operator bool() const noexcept { return ok(error_.status); }
    // Nothing, as other results have a value there.
    void operator*() const noexcept {}
    // Throws a Failure unless it is success.
    void value() const {
        if (!*this) [[unlikely]] {
            fail(error_);
        }
    }
    // The code.
    Status status() const noexcept { return error_.status; }
    // What went wrong; the message is empty after success.
    const Error& error() const& noexcept { return error_; }
    Error&& error() && noexcept { return std::move(error_); }

 private:
    Error error_{Status::success, {}};
};

}  // namespace na
