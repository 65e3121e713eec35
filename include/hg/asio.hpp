// SPDX-License-Identifier: BSD-3-Clause
// An engine in a Boost.Asio program: driven by an io_context or a strand through its descriptor,
// without a thread of its own, so that signals, timers and RPCs are one loop. Header-only; whoever
// includes it needs Boost 1.74 or newer.
//
//   boost::asio::io_context io;
//   hg::EngineOptions options{.progress = hg::Progress::caller};
//   hg::Engine engine = hg::Engine::server("ofi+tcp", options);
//   hg::asio::Driver driver(engine, io.get_executor());
//
//   // Calls and transfers with a completion token:
//   hg::asio::async(add(peer, 1, 2), [](hg::Result<int> r) { ... });           a callback
//   int sum = co_await hg::asio::async(add(peer, 1, 2), asio::use_awaitable);  throws hg::Exception
//   std::future<int> sum = hg::asio::async(add(peer, 1, 2), asio::use_future);
//
// A token's completion handler runs on its associated executor; without one, where the engine runs
// it. Where Boost has cancellation slots (1.77), those of the token's handler cancel the operation.
#pragma once

#include <utility>  // before Boost's: 1.74 needs it for awaitables with GCC 12

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/version.hpp>
#if BOOST_VERSION >= 107700
#include <boost/asio/associated_cancellation_slot.hpp>
#endif

#include <unistd.h>

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <type_traits>

#include "hg/bulk.hpp"
#include "hg/engine.hpp"

namespace hg::asio {

// Makes progress for an engine (Progress::caller) on an executor: all that the engine runs,
// handlers included, runs there. Give it a strand where several threads run the io_context. As long
// as it is there, and not stopped, the io_context has work. Destroy it, or stop() it, before the
// engine; on the executor, or where nothing runs it any more.
class Driver {
 public:
    using Executor = boost::asio::any_io_executor;

    // Throws boost::system::system_error (no descriptor left), std::bad_alloc.
    Driver(Engine& engine, Executor executor)
        : state_(std::make_shared<State>(engine, std::move(executor))) {
        State::next(state_);
    }
    Driver(const Driver&) = delete;
    Driver& operator=(const Driver&) = delete;
    ~Driver() { stop(); }

    // No more progress. The engine's destructor, or shutdown(), makes what it needs itself.
    void stop() noexcept { state_->stop(); }

 private:
    struct State {
        State(Engine& e, Executor executor)
            : engine(&e), work(executor), descriptor(executor), timer(executor) {
            if (const int fd = e.descriptor(); fd >= 0) {
                const int own = ::dup(fd);  // it closes its descriptor, which is the engine's
                if (own < 0) {
                    throw boost::system::system_error(errno, boost::system::system_category());
                }
                descriptor.assign(own);
            }
        }
        void stop() noexcept {
            engine = nullptr;
            boost::system::error_code ignored;
            descriptor.close(ignored);
            try {
                timer.cancel();
            } catch (const boost::system::system_error&) {
                // It is not running.
            }
            work.reset();
        }

        // After each round others of the executor have their turn.
        static void next(const std::shared_ptr<State>& self) {
            boost::asio::post(self->descriptor.get_executor(), [self] { round(self); });
        }
        static void round(const std::shared_ptr<State>& self) {
            if (self->engine == nullptr) {
                return;
            }
            const bool ran = self->engine->poll();
            if (self->engine == nullptr) {
                return;  // by something that ran
            }
            if (ran) {
                next(self);
            } else if (!self->descriptor.is_open()) {
                // Nothing to wait on.
                self->timer.expires_after(std::chrono::microseconds(500));
                self->timer.async_wait([self](const boost::system::error_code&) { round(self); });
            } else if (self->engine->ready_to_sleep()) {
                self->descriptor.async_wait(
                    boost::asio::posix::stream_descriptor::wait_read,
                    [self](const boost::system::error_code&) { round(self); });
            } else {
                next(self);
            }
        }

        Engine* engine;
        boost::asio::executor_work_guard<Executor> work;
        boost::asio::posix::stream_descriptor descriptor;
        boost::asio::steady_timer timer;
    };

    std::shared_ptr<State> state_;
};

namespace detail {

// Tokens whose operations throw get an exception and a value; others the Result.
template <typename T>
struct Signature {
    using type = void(std::exception_ptr, T);
};
template <>
struct Signature<void> {
    using type = void(std::exception_ptr);
};

// What an operation's outcome is, without Result.
template <typename O>
using value_of =
    typename hg::detail::unwrap_result<decltype(std::declval<O&>().take_result())>::type;

// A callback, which answers nothing; tokens such as use_future can be called with anything.
template <typename Handler, typename T>
concept takes_result = std::is_invocable_v<Handler&, Result<T>> &&
    std::is_void_v<std::invoke_result_t<Handler&, Result<T>>>;

inline std::exception_ptr exception_of(const Error& error) {
    return std::make_exception_ptr(Exception(error));
}

template <typename T, typename Handler>
void complete(Handler&& handler, Result<T>&& result) {
    if constexpr (takes_result<std::remove_cvref_t<Handler>, T>) {
        std::forward<Handler>(handler)(std::move(result));
    } else if constexpr (std::is_void_v<T>) {
        std::forward<Handler>(handler)(result ? nullptr : exception_of(result.error()));
    } else if (result) {
        std::forward<Handler>(handler)(std::exception_ptr(), *std::move(result));
    } else if constexpr (std::is_default_constructible_v<T>) {
        std::forward<Handler>(handler)(exception_of(result.error()), T());
    } else {
        static_assert(
            std::is_default_constructible_v<T>,
            "a result without default constructor needs a callback that takes hg::Result");
    }
}

// Starts the operation; its outcome goes to the handler on the handler's executor.
template <typename O>
struct Initiate {
    template <typename Handler>
    void operator()(Handler&& handler, O operation) const {
        using H = std::remove_cvref_t<Handler>;
        using T = value_of<O>;
#if BOOST_VERSION >= 107700
        auto slot = boost::asio::get_associated_cancellation_slot(handler);
        if (slot.is_connected()) {
            slot.template emplace<StopOnCancel>(operation);
        }
#endif
        // Kept: a handler may wait for nothing else of its executor.
        auto executor = boost::asio::get_associated_executor(handler, Inline{});
        std::move(operation).then(
            [h = std::make_shared<H>(std::forward<Handler>(handler)), executor](Result<T> result) {
                run(executor, h, std::move(result));
            });
    }

 private:
    // Where the engine runs what has ended: the driver's executor.
    struct Inline {
        template <typename F>
        void execute(F&& f) const {
            std::forward<F>(f)();
        }
        friend bool operator==(const Inline&, const Inline&) noexcept { return true; }
        friend bool operator!=(const Inline&, const Inline&) noexcept { return false; }
    };

    template <typename E, typename H, typename T>
    static void run(const E& executor, const std::shared_ptr<H>& handler, Result<T>&& result) {
        if constexpr (std::is_same_v<E, Inline>) {
            complete<T>(std::move(*handler), std::move(result));
        } else {
            auto kept = std::make_shared<Result<T>>(std::move(result));
            boost::asio::dispatch(
                executor, [handler, kept] { complete<T>(std::move(*handler), std::move(*kept)); });
        }
    }

#if BOOST_VERSION >= 107700
    struct StopOnCancel {
        // The token of the operation's own options goes on to count.
        struct Request {
            std::stop_source source;
            void operator()() noexcept { source.request_stop(); }
        };
        explicit StopOnCancel(O& operation) : chained(operation.stop(), Request{source}) {
            operation.stop_with(source.get_token());
        }
        void operator()(boost::asio::cancellation_type) { source.request_stop(); }
        std::stop_source source;
        std::stop_callback<Request> chained;
    };
#endif
};

}  // namespace detail

// Starts a call or a transfer with a completion token: a callback that takes the hg::Result, or any
// token of Asio's (use_awaitable, use_future, deferred, a callback that takes std::exception_ptr
// and the value), whose results throw hg::Exception. Allocates what the token needs.
template <typename O, typename Token>
requires std::is_rvalue_reference_v<O&&>
auto async(O&& operation, Token&& token) {
    using T = detail::value_of<O>;
    if constexpr (detail::takes_result<std::remove_cvref_t<Token>, T>) {
        return boost::asio::async_initiate<Token, void(Result<T>)>(detail::Initiate<O>(), token,
                                                                   std::move(operation));
    } else {
        return boost::asio::async_initiate<Token, typename detail::Signature<T>::type>(
            detail::Initiate<O>(), token, std::move(operation));
    }
}

}  // namespace hg::asio
