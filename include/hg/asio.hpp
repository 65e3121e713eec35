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
// it. Its memory comes from its associated allocator; without one it is recycled, so that a call
// allocates nothing in the long run. Where Boost has cancellation slots (1.77), those of the
// token's handler cancel the operation. Tried with callbacks, use_awaitable, use_future, detached,
// bind_executor, and where Boost has them bind_cancellation_slot, deferred and as_tuple (1.79).
//
// Handlers may be Asio's coroutines. They run on the driver's executor, or on one of their own:
//
//   engine.serve(rpc, [&](hg::Request&, int n) -> boost::asio::awaitable<int> { ... });
//   engine.serve(heavy, hg::asio::on(pool.get_executor(), [](int n) { return work(n); }));
//
// (Boost 1.74 sees coroutines with Clang only where BOOST_ASIO_HAS_CO_AWAIT and
// BOOST_ASIO_HAS_STD_COROUTINE are defined.)
#pragma once

#include "na/detail/standard.hpp"

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
#include <boost/asio/use_awaitable.hpp>
#include <boost/version.hpp>
#if BOOST_VERSION >= 107700
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#endif

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stop_token>
#include <type_traits>

#include "hg/bulk.hpp"
#include "hg/engine.hpp"

namespace hg::asio {

// Makes progress for an engine (Progress::caller) on an executor: all that the engine runs,
// handlers included, runs there. Give it a strand where several threads run the io_context. As long
// as it is there, and not stopped, the io_context has work. Destroy it, or stop() it, before the
// engine, and destroy it before the io_context; on the executor, or where nothing runs it any more.
// One per engine.
class Driver {
 public:
    using Executor = boost::asio::any_io_executor;

    // Throws boost::system::system_error (no descriptor left), std::bad_alloc.
    Driver(Engine& engine, Executor executor)
        : state_(std::make_shared<State>(engine, std::move(executor))) {
        hg::detail::attach(engine.core(), std::shared_ptr<void>(state_, &state_->executor));
        State::next(state_);
    }
    Driver(const Driver&) = delete;
    Driver& operator=(const Driver&) = delete;
    ~Driver() { stop(); }

    Executor get_executor() const { return state_->executor; }

    // No more progress. The engine's destructor, or shutdown(), makes what it needs itself; but not
    // what handlers that are Asio's coroutines need: with those, async_shutdown() first.
    void stop() noexcept { state_->stop(); }

    // Engine::shutdown() without blocking: from now on nothing new is accepted; what is in flight
    // has `limit` to end, with the executor at its service; what has not ended then is canceled,
    // and gets one second for that. Then the engine is shut down, the driver stopped, and the
    // token's handler, a function of nothing, called by its executor (the driver's without one).
    // Once, and on the driver's executor. Throws std::bad_alloc.
    template <typename Token>
    auto async_shutdown(std::chrono::milliseconds limit, Token&& token) {
        return boost::asio::async_initiate<Token, void()>(
            [state = state_, limit](auto&& handler) {
                using H = std::remove_cvref_t<decltype(handler)>;
                State::begin_shutdown(
                    state, limit,
                    std::make_unique<Told<H>>(std::forward<decltype(handler)>(handler),
                                              state->executor));
            },
            token);
    }

 private:
    // Who is to be told of the end.
    struct Waiting {
        virtual ~Waiting() = default;
        virtual void tell() = 0;
    };
    template <typename H>
    struct Told final : Waiting {
        using HandlerExecutor = boost::asio::associated_executor_t<H, Executor>;
        Told(H&& h, const Executor& otherwise)
            : handler(std::move(h)),
              work(boost::asio::get_associated_executor(handler, otherwise)) {}
        void tell() override { boost::asio::post(work.get_executor(), std::move(handler)); }
        H handler;
        boost::asio::executor_work_guard<HandlerExecutor> work;
    };

    struct State {
        State(Engine& e, Executor on)
            : engine(&e), executor(on), work(on), descriptor(on), timer(on), limit(on) {
            if (const int fd = e.descriptor(); fd >= 0) {
                const int own = ::dup(fd);  // it closes its descriptor, which is the engine's
                if (own < 0) {
                    throw boost::system::system_error(errno, boost::system::system_category());
                }
                descriptor.assign(own);
            }
        }
        void stop() noexcept {
            if (engine == nullptr) {
                return;
            }
            hg::detail::attach(engine->core(), nullptr);
            engine = nullptr;
            boost::system::error_code ignored;
            descriptor.close(ignored);
            try {
                timer.cancel();
                limit.cancel();
            } catch (const boost::system::system_error&) {
                // It is not running.
            }
            work.reset();
        }

        // After each round others of the executor have their turn.
        static void next(const std::shared_ptr<State>& self) {
            boost::asio::post(self->executor, [self] { round(self); });
        }
        static void round(const std::shared_ptr<State>& self) {
            if (self->engine == nullptr) {
                return;
            }
            const bool ran = self->engine->poll();
            if (self->engine == nullptr) {
                return;  // by something that ran
            }
            if (self->waiting != nullptr && self->go_on_ending()) {
                return;
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

        static void begin_shutdown(const std::shared_ptr<State>& self,
                                   std::chrono::milliseconds limit,
                                   std::unique_ptr<Waiting> waiting) {
            if (self->engine == nullptr || self->waiting != nullptr) {
                waiting->tell();  // it is over, or another one is at it
                return;
            }
            self->waiting = std::move(waiting);
            self->given = limit;
            self->until = within(limit).deadline;
            hg::detail::refuse(self->engine->core());
            look_at(self, self->until);
        }
        // The rounds go on by themselves and look, too; this is for the times.
        static void look_at(const std::shared_ptr<State>& self, Clock::time_point when) {
            self->limit.expires_at(std::min(when, Clock::now() + kLook));
            self->limit.async_wait([self](const boost::system::error_code&) {
                if (self->engine != nullptr && !self->go_on_ending()) {
                    look_at(self, self->until);
                }
            });
        }
        // True: it is over.
        bool go_on_ending() {
            hg::detail::EngineCore& core = engine->core();
            if (!hg::detail::quiet(core)) {
                if (Clock::now() < until) {
                    if (canceling) {
                        hg::detail::end_rest(core);
                    }
                    return false;
                }
                if (!canceling) {
                    canceling = true;
                    until = within(kGrace).deadline;
                    hg::detail::cancel_rest(core, given);
                    return false;
                }
            }
            Engine& e = *engine;
            stop();
            hg::detail::finish(e.core(), given);
            std::exchange(waiting, nullptr)->tell();
            return true;
        }

        static constexpr std::chrono::milliseconds kGrace{1000};
        static constexpr std::chrono::milliseconds kLook{100};

        Engine* engine;
        Executor executor;
        boost::asio::executor_work_guard<Executor> work;
        boost::asio::posix::stream_descriptor descriptor;
        boost::asio::steady_timer timer;
        // Of async_shutdown().
        boost::asio::steady_timer limit;
        std::unique_ptr<Waiting> waiting;
        std::chrono::milliseconds given{0};
        Clock::time_point until{};
        bool canceling = false;
    };

    std::shared_ptr<State> state_;
};

namespace detail {

// Memory that is given back is kept for the next one, as frames of coroutines are.
template <typename T>
struct Recycle {
    using value_type = T;
    Recycle() = default;
    template <typename U>
    Recycle(const Recycle<U>&) noexcept {}
    T* allocate(std::size_t n) {
        static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__,
                      "a completion handler with more than the usual alignment");
        return static_cast<T*>(hg::detail::allocate_frame(n * sizeof(T)));
    }
    void deallocate(T* p, std::size_t n) noexcept { hg::detail::free_frame(p, n * sizeof(T)); }
    friend bool operator==(const Recycle&, const Recycle&) noexcept { return true; }
};

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

// (Whether it `kTakesResult` is the token's business: Boost's own handlers must not be asked.)
template <bool kTakesResult, typename T, typename Handler>
void complete(Handler&& handler, Result<T>&& result) {
    if constexpr (kTakesResult) {
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

// Where the engine runs what has ended: of handlers without an executor.
struct Inline {
    template <typename F>
    void execute(F&& f) const {
        std::forward<F>(f)();
    }
    friend bool operator==(const Inline&, const Inline&) noexcept { return true; }
    friend bool operator!=(const Inline&, const Inline&) noexcept { return false; }
};

#if BOOST_VERSION >= 107700
// Between the slot of a handler and the operation, which end in any order, on any thread.
template <typename O>
class Canceler {
 public:
    explicit Canceler(O& operation) noexcept : operation_(&operation) {}
    void cancel() noexcept {
        const std::lock_guard guard(mutex_);
        if (operation_ != nullptr) {
            operation_->cancel();
        }
    }
    void detach() noexcept {
        const std::lock_guard guard(mutex_);
        operation_ = nullptr;
    }

 private:
    std::mutex mutex_;
    O* operation_;
};

template <typename O>
struct CancelBySlot {
    std::shared_ptr<Canceler<O>> canceler;
    void operator()(boost::asio::cancellation_type) const noexcept { canceler->cancel(); }
};
#endif

// The rest, on the handler's executor.
template <bool kTakesResult, typename Handler, typename T>
struct Deliver {
    using allocator_type = boost::asio::associated_allocator_t<Handler>;
    allocator_type get_allocator() const noexcept {
        return boost::asio::get_associated_allocator(handler);
    }
    void operator()() {
#if BOOST_VERSION >= 107700
        if (auto slot = boost::asio::get_associated_cancellation_slot(handler);
            slot.is_connected()) {
            slot.clear();
        }
#endif
        complete<kTakesResult, T>(std::move(handler), std::move(result));
    }
    Handler handler;
    Result<T> result;
};

// An operation in flight, and whom its outcome goes to. Its memory is the handler's business, and
// free again before the handler is called.
template <bool kTakesResult, typename O, typename Handler>
class Pending final : public hg::detail::Continuation {
    using T = value_of<O>;
    using HandlerExecutor = boost::asio::associated_executor_t<Handler, Inline>;
    using HandlerAllocator = boost::asio::associated_allocator_t<Handler, Recycle<void>>;
    using Allocator =
        typename std::allocator_traits<HandlerAllocator>::template rebind_alloc<Pending>;
    static constexpr bool kInline = std::is_same_v<HandlerExecutor, Inline>;
    struct NoWork {
        explicit NoWork(const Inline&) noexcept {}
    };
    // A handler may wait for nothing else of its executor.
    using Work =
        std::conditional_t<kInline, NoWork, boost::asio::executor_work_guard<HandlerExecutor>>;

 public:
    static void start(Handler&& handler, O&& operation) {
        Allocator allocator(boost::asio::get_associated_allocator(handler, Recycle<void>()));
        Pending* pending = allocator.allocate(1);
        try {
            new (pending) Pending(std::move(handler), std::move(operation));
        } catch (...) {
            allocator.deallocate(pending, 1);
            throw;
        }
        if (!pending->operation_.start(*pending)) {
            finish(*pending, true);
        }
    }

 private:
    Pending(Handler&& handler, O&& operation)
        : operation_(std::move(operation)),
          handler_(std::move(handler)),
          work_(boost::asio::get_associated_executor(handler_, Inline())) {
        run = [](hg::detail::Continuation& self) noexcept -> std::coroutine_handle<> {
            finish(static_cast<Pending&>(self), false);
            return std::noop_coroutine();
        };
#if BOOST_VERSION >= 107700
        if (auto slot = boost::asio::get_associated_cancellation_slot(handler_);
            slot.is_connected()) {
            canceler_ = std::allocate_shared<Canceler<O>>(Recycle<Canceler<O>>(), operation_);
            operation_.guard();
            slot.template emplace<CancelBySlot<O>>(CancelBySlot<O>{canceler_});
        }
#endif
    }

    Result<T> outcome() noexcept {
        try {
            return operation_.take_result();
        } catch (...) {
            return hg::detail::current_error();
        }
    }

    // `at_once`: it could not be started, and its handler must not run before async() is back.
    static void finish(Pending& me, bool at_once) {
#if BOOST_VERSION >= 107700
        if (me.canceler_ != nullptr) {
            me.canceler_->detach();
        }
#endif
        Deliver<kTakesResult, Handler, T> deliver{std::move(me.handler_), me.outcome()};
        [[maybe_unused]] const Work work(std::move(me.work_));
        Allocator allocator(
            boost::asio::get_associated_allocator(deliver.handler, Recycle<void>()));
        me.~Pending();
        allocator.deallocate(&me, 1);
        if constexpr (kInline) {
            deliver();
        } else if (at_once) {
            boost::asio::post(work.get_executor(), std::move(deliver));
        } else {
            boost::asio::dispatch(work.get_executor(), std::move(deliver));
        }
    }

    O operation_;
    Handler handler_;
    Work work_;
#if BOOST_VERSION >= 107700
    std::shared_ptr<Canceler<O>> canceler_;
#endif
};

// Starts the operation; its outcome goes to the handler on the handler's executor.
template <bool kTakesResult, typename O>
struct Initiate {
    template <typename Handler>
    void operator()(Handler&& handler, O operation) const {
        using H = std::remove_cvref_t<Handler>;
        Pending<kTakesResult, O, H>::start(H(std::forward<Handler>(handler)), std::move(operation));
    }
};

}  // namespace detail

// Starts a call or a transfer with a completion token: a callback that takes the hg::Result, or any
// token of Asio's (use_awaitable, use_future, deferred, a callback that takes std::exception_ptr
// and the value), whose results throw hg::Exception. What leaves a callback as an exception ends
// the program. A call that cannot be started (its engine has ended, say) tells that through the
// handler's executor; a handler without one is called right here then.
template <typename O, typename Token>
requires std::is_rvalue_reference_v<O&&>
auto async(O&& operation, Token&& token) {
    using T = detail::value_of<O>;
    if constexpr (detail::takes_result<std::remove_cvref_t<Token>, T>) {
        return boost::asio::async_initiate<Token, void(Result<T>)>(detail::Initiate<true, O>(),
                                                                   token, std::move(operation));
    } else {
        return boost::asio::async_initiate<Token, typename detail::Signature<T>::type>(
            detail::Initiate<false, O>(), token, std::move(operation));
    }
}

#if defined(BOOST_ASIO_HAS_CO_AWAIT)
// The same without a token: co_await hg::asio::async(add(peer, 1, 2)), in a
// boost::asio::awaitable<T>.
template <typename O>
requires std::is_rvalue_reference_v<O&&>
auto async(O&& operation) {
    return async(std::move(operation), boost::asio::use_awaitable);
}
#endif

}  // namespace hg::asio

#include "hg/asio_handler.hpp"
