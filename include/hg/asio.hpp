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
//   // Handlers that are Asio's coroutines, run on the driver's executor:
//   driver.serve(work, [&](int ms) -> asio::awaitable<std::string> { ... });
//
// A token's completion handler runs on its associated executor; without one, where the engine runs
// it. Where Boost has cancellation slots (1.77), those of the token's handler cancel the operation.
#pragma once

#include <utility>  // before Boost's: 1.74 needs it for awaitables with GCC 12

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
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

#include <atomic>
#include <chrono>
#include <concepts>
#include <coroutine>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <type_traits>

#include "hg/bulk.hpp"
#include "hg/engine.hpp"

#if defined(BOOST_ASIO_HAS_CO_AWAIT)
namespace hg::asio::detail {
template <typename T, typename E>
class Spawned;
}
// To the library it is a task.
template <typename T, typename E>
inline constexpr bool hg::detail::is_task<hg::asio::detail::Spawned<T, E>> = true;
template <typename T, typename E>
struct hg::detail::unwrap_task<hg::asio::detail::Spawned<T, E>> {
    using type = T;
};
#endif

namespace hg::asio {
namespace detail {

#if defined(BOOST_ASIO_HAS_CO_AWAIT)

template <typename T>
inline constexpr bool is_awaitable = false;
template <typename T, typename E>
inline constexpr bool is_awaitable<boost::asio::awaitable<T, E>> = true;

// A handler's awaitable, as the library's coroutine awaits it: it runs on the executor, and what
// waits for it goes on there. If the executor ends before it does (an io_context that is
// destroyed), it has failed with Status::canceled.
template <typename T, typename E>
class Spawned {
 public:
    template <typename Executor>
    Spawned(const Executor& executor, boost::asio::awaitable<T, E>&& handler)
        : executor_(executor), handler_(std::move(handler)) {}
    Spawned(const Spawned&) = delete;
    Spawned& operator=(const Spawned&) = delete;

    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> waiting) noexcept {
        waiting_ = waiting;
        try {
            End end(*this);
            boost::asio::co_spawn(executor_, keep(std::move(handler_), value_), std::move(end));
        } catch (...) {
            // The End has been noticed: it is gone.
            error_ = std::current_exception();
        }
        // Whoever is second goes on.
        return phase_.exchange(Phase::waits, std::memory_order_acq_rel) != Phase::ended;
    }
    T await_resume() {
        if (error_) {
            std::rethrow_exception(error_);
        }
        if constexpr (!std::is_void_v<T>) {
            return *std::move(value_);
        }
    }

 private:
    enum class Phase : std::uint8_t { starts, waits, ended };
    using Value = std::optional<std::conditional_t<std::is_void_v<T>, bool, T>>;

    // co_spawn() wants values with a default constructor.
    static boost::asio::awaitable<void, E> keep(boost::asio::awaitable<T, E> handler,
                                                [[maybe_unused]] Value& value) {
        if constexpr (std::is_void_v<T>) {
            co_await std::move(handler);
        } else {
            value.emplace(co_await std::move(handler));
        }
    }

    // Called once, or destroyed without.
    class End {
     public:
        explicit End(Spawned& spawned) noexcept : spawned_(&spawned) {}
        End(End&& other) noexcept : spawned_(std::exchange(other.spawned_, nullptr)) {}
        End& operator=(End&&) = delete;
        ~End() {
            if (spawned_ != nullptr) {
                std::exchange(spawned_, nullptr)->ended(abandoned());
            }
        }
        void operator()(std::exception_ptr error) {
            std::exchange(spawned_, nullptr)->ended(std::move(error));
        }

     private:
        static std::exception_ptr abandoned() noexcept {
            try {
                return std::make_exception_ptr(
                    Exception(Error{Status::canceled, "the target's io_context has ended"}));
            } catch (...) {
                return std::current_exception();
            }
        }
        Spawned* spawned_;
    };

    void ended(std::exception_ptr error) noexcept {
        error_ = std::move(error);
        const std::coroutine_handle<> waiting = waiting_;
        if (phase_.exchange(Phase::ended, std::memory_order_acq_rel) == Phase::waits) {
            waiting.resume();
        }
    }

    E executor_;
    boost::asio::awaitable<T, E> handler_;
    Value value_;
    std::exception_ptr error_;
    std::coroutine_handle<> waiting_;
    std::atomic<Phase> phase_{Phase::starts};
};

// What Driver::serve() makes of handlers.
template <typename Executor, typename F>
class Handler {
 public:
    Handler(Executor executor, F f) : executor_(std::move(executor)), f_(std::move(f)) {}

    template <typename... A>
    requires std::invocable<F&, A...>
    decltype(auto) operator()(A&&... arguments) {
        using Answer = std::remove_cvref_t<std::invoke_result_t<F&, A...>>;
        if constexpr (is_awaitable<Answer>) {
            return spawn(std::invoke(f_, std::forward<A>(arguments)...));
        } else {
            return std::invoke(f_, std::forward<A>(arguments)...);
        }
    }

 private:
    template <typename T, typename E>
    Spawned<T, E> spawn(boost::asio::awaitable<T, E>&& handler) const {
        return Spawned<T, E>(executor_, std::move(handler));
    }

    Executor executor_;
    F f_;
};

#endif

}  // namespace detail

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

#if defined(BOOST_ASIO_HAS_CO_AWAIT)
    // Engine::serve(), for handlers that answer a boost::asio::awaitable of the result, or of a
    // Result; they run on the driver's executor (others are served as Engine::serve() does). Before
    // stop(). They go on after it as long as somebody runs the executor; an io_context that is
    // destroyed ends them, and their callers hear Status::canceled if the engine still lives.
    template <typename Definition, typename F>
    void serve(const Definition& definition, F handler) {
        state_->engine->serve(
            definition,
            detail::Handler<Executor, F>(state_->descriptor.get_executor(), std::move(handler)));
    }
#endif

    // No more progress. The engine's destructor, or shutdown(), makes what it needs itself.
    void stop() noexcept {
        state_->stop();
    }

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
