// SPDX-License-Identifier: BSD-3-Clause
// Handlers that are Asio's coroutines, or run on an executor of Asio's; the end of hg/asio.hpp,
// which includes it.
#pragma once

#include "na/detail/standard.hpp"

#include <utility>

#include "hg/asio.hpp"

#if defined(BOOST_ASIO_HAS_CO_AWAIT)

namespace hg {
namespace asio {

// See on().
template <typename Executor, typename F>
struct On {
    Executor executor;
    F f;

    template <typename... A>
    requires std::invocable<F&, A...>
    decltype(auto) operator()(A&&... arguments) { return f(std::forward<A>(arguments)...); }
};

// A handler that runs on `executor`, whoever drives the engine: a function, which may then block or
// compute for long where the executor has threads for that, or a coroutine that answers
// boost::asio::awaitable. Other handlers go on meanwhile; EngineOptions::handlers limits how many.
//   engine.serve(rpc, hg::asio::on(pool.get_executor(), [](int n) { ... }));
template <typename Executor, typename F>
On<Executor, F> on(Executor executor, F handler) {
    return {std::move(executor), std::move(handler)};
}

namespace detail {

template <typename T>
inline constexpr bool is_awaitable = false;
template <typename T, typename E>
inline constexpr bool is_awaitable<boost::asio::awaitable<T, E>> = true;

// A request until it is answered. It may go unanswered with its coroutine, where the executor ends.
class Serving {
 public:
    explicit Serving(const hg::detail::RequestState& request) noexcept : state(request) {}
    Serving(Serving&& other) noexcept
        : state(other.state), mine_(std::exchange(other.mine_, false)) {}
    Serving& operator=(Serving&&) = delete;
    ~Serving() {
        if (mine_) {
            try {
                state.respond_error({Status::canceled, "its handler was ended without an answer"});
            } catch (const std::bad_alloc&) {
                // The engine's end tells the caller.
            }
            state.finish();
        }
    }
    void finish() noexcept {
        mine_ = false;
        state.finish();
    }
    hg::detail::RequestState state;

 private:
    bool mine_ = true;
};

#if BOOST_VERSION >= 107700
// Cancels a coroutine when the engine's end asks handlers to stop.
class Stopper : public std::enable_shared_from_this<Stopper> {
 public:
    explicit Stopper(boost::asio::any_io_executor executor) : executor_(std::move(executor)) {}
    void arm(std::stop_token token) { on_stop_.emplace(std::move(token), Request{this}); }
    boost::asio::cancellation_slot slot() noexcept { return signal_.slot(); }

 private:
    struct Request {
        Stopper* stopper;
        void operator()() const noexcept {
            if (auto kept = stopper->weak_from_this().lock()) {
                boost::asio::post(stopper->executor_, [kept] {
                    kept->signal_.emit(boost::asio::cancellation_type::terminal);
                });
            }
        }
    };
    boost::asio::any_io_executor executor_;
    boost::asio::cancellation_signal signal_;
    std::optional<std::stop_callback<Request>> on_stop_;
};
#endif

// Decodes, calls and answers as hg::detail::ServedBy does.
template <typename E, typename S>
boost::asio::awaitable<void, E> serve_on(S& served, Serving serving) {
    using Answer = std::remove_cvref_t<typename S::Answer>;
    try {
        typename S::Arguments arguments{};
        if (S::decode(serving.state, arguments)) {
            Request request(serving.state);
            using A = typename hg::detail::unwrap_task<Answer>::type;
            if constexpr (!is_awaitable<Answer>) {
                if constexpr (std::is_void_v<A>) {
                    S::Handler::call(served.f_, request, arguments);
                    hg::detail::respond_value<typename S::R>(serving.state);
                } else {
                    hg::detail::respond_answer<typename S::R>(
                        serving.state, S::Handler::call(served.f_, request, arguments));
                }
            } else if constexpr (std::is_void_v<A>) {
                co_await S::Handler::call(served.f_, request, arguments);
                hg::detail::respond_value<typename S::R>(serving.state);
            } else {
                hg::detail::respond_answer<typename S::R>(
                    serving.state, co_await S::Handler::call(served.f_, request, arguments));
            }
        }
    } catch (...) {
        serving.state.respond_error(hg::detail::current_error());
    }
    serving.finish();
}

template <typename E, typename S>
void spawn_on(const E& executor, S& served, hg::detail::RequestState& request) noexcept {
    Serving serving(request);
    try {
#if BOOST_VERSION >= 107700
        auto stopper = std::allocate_shared<Stopper>(Recycle<Stopper>(), executor);
        stopper->arm(Request(request).options().stop);
        auto slot = stopper->slot();
        boost::asio::co_spawn(executor, serve_on<E>(served, std::move(serving)),
                              boost::asio::bind_cancellation_slot(
                                  slot, [stopper = std::move(stopper)](std::exception_ptr) {}));
#else
        boost::asio::co_spawn(executor, serve_on<E>(served, std::move(serving)),
                              [](std::exception_ptr) {});
#endif
    } catch (...) {
        // Out of memory; the request was answered by its end.
    }
}

}  // namespace detail
}  // namespace asio

namespace detail {

template <typename X, typename F>
struct ParametersOf<asio::On<X, F>> : ParametersOf<F> {};

template <typename T, typename E>
struct unwrap_task<boost::asio::awaitable<T, E>> {
    using type = T;
};

template <typename F, typename T, typename E>
struct Runner<F, boost::asio::awaitable<T, E>> {
    static constexpr bool needs_driver = true;
    static_assert(std::is_constructible_v<E, const asio::Driver::Executor&>,
                  "this awaitable runs on an executor of another type than the driver's: serve it "
                  "by hg::asio::on(executor, handler)");
    template <typename S>
    static void run(S& served, RequestState& request) noexcept {
        const std::shared_ptr<void> executor = attached(*request.engine);
        if (executor == nullptr) {
            request.respond_error({Status::opnotsupported,
                                   "its handler is a boost::asio::awaitable, and no "
                                   "hg::asio::Driver drives the engine (any more)"});
            request.finish();
            return;
        }
        asio::detail::spawn_on(E(*static_cast<const asio::Driver::Executor*>(executor.get())),
                               served, request);
    }
};

template <typename X, typename F, typename Answer>
struct OnRunner {
    static constexpr bool needs_driver = false;
    static_assert(!is_task<Answer>,
                  "a hg::Task runs on the engine's executor: answer boost::asio::awaitable to run "
                  "on another");
    template <typename S>
    static void run(S& served, RequestState& request) noexcept {
        asio::detail::spawn_on(served.f_.executor, served, request);
    }
};
template <typename X, typename F, typename Answer>
struct Runner<asio::On<X, F>, Answer> : OnRunner<X, F, Answer> {};
template <typename X, typename F, typename T, typename E>
struct Runner<asio::On<X, F>, boost::asio::awaitable<T, E>>
    : OnRunner<X, F, boost::asio::awaitable<T, E>> {
    static_assert(
        std::is_constructible_v<E, const X&>,
        "hg::asio::on(): the handler's boost::asio::awaitable runs on executors of another "
        "type: boost::asio::awaitable<T, Executor>");
    template <typename S>
    static void run(S& served, RequestState& request) noexcept {
        asio::detail::spawn_on(E(served.f_.executor), served, request);
    }
};

}  // namespace detail
}  // namespace hg

#endif
