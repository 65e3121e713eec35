// SPDX-License-Identifier: BSD-3-Clause
// What calls and transfers have in common: they are described first, started when somebody asks for
// their outcome, and end once.
#pragma once

#include "na/detail/standard.hpp"

#include <concepts>
#include <cstddef>
#include <memory>
#include <utility>

#include "hg/detail/core.hpp"
#include "hg/task.hpp"

namespace hg {

// An operation whose outcome is a Result<T>: co_await it with `.result()` in place of exceptions.
template <typename O>
class [[nodiscard("nothing is started before its outcome is asked for")]] AsResult {
 public:
    explicit AsResult(O && operation) noexcept : operation_(std::move(operation)) {}
    auto operator co_await()&& noexcept {
        return detail::Awaiter<AsResult>(*this);
    }
    bool start(detail::Continuation & next) noexcept {
        return operation_.start(next);
    }
    auto take() {
        return operation_.take_result();
    }

 private:
    O operation_;
};

// The base of hg::Call and hg::Transfer, `O`. Moved, not copied, and not once it was started.
// Dropping one that was not started undoes it. `Value` is what success gives; the ways to get it:
template <typename O, typename Value>
class Operation {
 public:
    // co_await operation: the value, or Exception is thrown.
    auto operator co_await() && noexcept { return detail::Awaiter<O>(self()); }
    // co_await operation.result(), and for when_all(): Result<Value>.
    AsResult<O> result() && noexcept { return AsResult<O>(std::move(self())); }

    // Block until it has ended. On the engine's own thread, which could not go on without it, and
    // with Progress::caller, they make progress meanwhile: other handlers and callbacks may run
    // inside. A handler that blocks there goes on when those have ended that began inside, whatever
    // its call's deadline says, and each of them that blocks too lies on top of it on the stack,
    // which thousands of requests may use up: co_await in handlers, or limit their number
    // (EngineOptions::handlers).
    Value get() && { return hg::value(std::move(*this).wait()); }
    Result<Value> wait() && {
        detail::Wake waker(self().engine());
        if (self().start(waker)) {
            detail::wait(waker.engine, waker.done);
        }
        return self().take_result();
    }

    // Calls f(Result<Value>) once: on the engine's executor, or right here where it could not be
    // started. What `f` throws ends the program. The place for `f` is recycled; may throw
    // std::bad_alloc.
    template <std::invocable<Result<Value>> F>
    void then(F f) && {
        auto later = std::make_unique<Later<F>>(std::move(self()), std::move(f));
        if (later->operation.start(*later)) {
            (void)later.release();  // its own now, perhaps gone
        } else {
            Later<F>::finish(*later.release());
        }
    }

    // For co_await and when_all(): see detail::Startable.
    Value take() { return hg::value(self().take_result()); }

 private:
    template <typename F>
    struct Later : detail::Continuation {
        static_assert(alignof(F) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__,
                      "a callback with more than the usual alignment");
        static void* operator new(std::size_t bytes) { return detail::allocate_frame(bytes); }
        static void operator delete(void* place, std::size_t bytes) noexcept {
            detail::free_frame(place, bytes);
        }
        O operation;
        F f;
        Later(O&& o, F&& function) : operation(std::move(o)), f(std::move(function)) {
            run = [](Continuation& me) noexcept -> std::coroutine_handle<> {
                finish(static_cast<Later&>(me));
                return std::noop_coroutine();
            };
        }
        static void finish(Later& me) noexcept {
            const std::unique_ptr<Later> owned(&me);
            me.f(me.operation.take_result());
        }
    };

    O& self() noexcept { return static_cast<O&>(*this); }
};

}  // namespace hg
