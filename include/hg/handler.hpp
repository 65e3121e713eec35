// SPDX-License-Identifier: BSD-3-Clause
// What serves an RPC: a function, a lambda, or a coroutine.
//
//   engine.serve(add, [](int a, int b) { return a + b; });
//   engine.serve(find, [&](std::string_view key) -> hg::Result<std::string> { ... });
//   engine.serve(copy, [&](hg::Request& request, std::string from) -> hg::Task<int> {
//       co_return co_await length(request.peer(), from);
//   });
//
// A handler takes the arguments of the definition (by value or const reference), or what they
// convert to (in a coroutine by value: a reference would be to what is gone when it goes on), and
// before them, if it likes, the Request. It answers the definition's result, something that
// converts to it or is encoded alike (a std::string where the caller gets a string_view), a Result
// of that, or a Task of either. What it throws, and the error of its Result, reach the caller with
// code and text: throw hg::Exception(hg::Status::noentry, "no such key").
//
// Views among the arguments look into the request, which is there until the handler has ended, a
// coroutine included. Handlers run on the engine's executor, several at a time where it has several
// threads; a handler that blocks keeps its thread. One-way handlers that fail are logged.
#pragma once

#include "na/detail/standard.hpp"

#include <concepts>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "hg/detail/core.hpp"
#include "hg/detail/signature.hpp"
#include "hg/peer.hpp"
#include "hg/rpc.hpp"
#include "hg/task.hpp"

namespace hg {

// The request that a handler serves. Valid until the handler has ended.
class Request {
 public:
    explicit Request(const detail::RequestState& state) noexcept : state_(state) {}
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;
    ~Request() {
        if (watch_ != nullptr) [[unlikely]] {
            detail::unwatch(*watch_);
        }
    }

    // Who asked; can be called, if it listens, and outlives the request. Throws std::bad_alloc.
    Peer peer() const { return Peer::adopt(detail::peer_of(state_)); }
    // When the caller stops waiting; Clock::time_point::max(): it has not said.
    Clock::time_point deadline() const noexcept { return state_.deadline; }
    // For calls that serve this one: they end with it.
    CallOptions options() const;
    // Stopped when the caller's deadline passes, or the engine ends, before the handler does: what
    // it goes on with is for nobody. Stop callbacks run on the engine's executor, or in shutdown().
    // A caller without a deadline that goes away is not noticed before the answer is sent. Throws
    // std::bad_alloc.
    std::stop_token stop() const;
    std::string_view name() const noexcept { return state_.rpc->name; }

    detail::EngineCore& core() const noexcept { return *state_.engine; }  // for the library

 private:
    const detail::RequestState& state_;
    mutable detail::RequestWatch* watch_ = nullptr;
};

namespace detail {

template <typename T>
inline constexpr bool is_task = false;
template <typename T>
inline constexpr bool is_task<Task<T>> = true;
template <typename T>
struct unwrap_task {
    using type = T;
};
template <typename T>
struct unwrap_task<Task<T>> {
    using type = T;
};

// How a handler runs that is neither a function nor a Task: headers for other libraries
// (hg/asio.hpp) have specialisations with
//   static constexpr bool needs_driver;                 see Served
//   template <typename S> static void run(S& served, RequestState& request) noexcept;
template <typename F, typename Answer>
struct Runner {};
template <typename F, typename Answer>
concept has_runner = requires {
    Runner<F, Answer>::needs_driver;
};

// What a handler answers, without Task and Result.
template <typename T>
using answered = typename unwrap_result<typename unwrap_task<T>::type>::type;

template <typename T, typename R>
concept answer_for = (std::is_void_v<R> && std::is_void_v<T>) ||
                     (!std::is_void_v<R> && !std::is_void_v<T> && argument_for<T, R>);

// How a handler is called.
template <typename F, typename Arguments>
struct HandlerCall;
template <typename F, typename... A>
struct HandlerCall<F, std::tuple<A...>> {
    static constexpr bool with_request = std::invocable<F&, Request&, A...>;
    static constexpr bool plain = std::invocable<F&, A...>;
    static_assert(with_request || plain,
                  "a handler takes the arguments of the RPC's definition by value or const "
                  "reference, and perhaps hg::Request& before them");

    static decltype(auto) call(F& f, [[maybe_unused]] Request& request,
                               std::tuple<A...>& arguments) {
        return std::apply(
            [&](A&... a) -> decltype(auto) {
                if constexpr (with_request) {
                    return f(request, std::move(a)...);
                } else {
                    return f(std::move(a)...);
                }
            },
            arguments);
    }
    using Answer = decltype(call(std::declval<F&>(), std::declval<Request&>(),
                                 std::declval<std::tuple<A...>&>()));
};

// A coroutine that nobody awaits; its frame goes at its end.
struct Detached {
    struct promise_type {
        static void* operator new(std::size_t bytes) { return allocate_frame(bytes); }
        static void operator delete(void* frame, std::size_t bytes) noexcept {
            free_frame(frame, bytes);
        }
        Detached get_return_object() const noexcept { return {}; }
        std::suspend_never initial_suspend() const noexcept { return {}; }
        std::suspend_never final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
    };
};

// Encodes and sends a result. An error in its place where it cannot be encoded.
template <typename R, typename... T>
void respond_value(const RequestState& request, const T&... value) {
    Message message;
    if (!request.prepare(message)) {
        return;
    }
    Status status = Status::success;
    const char* what = "";
    bool written = false;
    try {
        written = message.write(
            [&](Writer& w) {
                w.scalar(std::uint8_t{0});
                (write_as<R>(w, value), ...);
            },
            status, what);
    } catch (...) {
        request.unprepare(message);
        throw;
    }
    if (written) [[likely]] {
        request.respond(message);
    } else {
        request.unprepare(message);
        request.respond_error({status, what});
    }
}

template <typename R, typename T>
void respond_answer(const RequestState& request, const T& answer) {
    if constexpr (is_result<T>) {
        if (!answer) {
            request.respond_error(answer.error());
        } else if constexpr (std::is_void_v<typename unwrap_result<T>::type>) {
            respond_value<R>(request);
        } else {
            respond_value<R>(request, *answer);
        }
    } else {
        respond_value<R>(request, answer);
    }
}

template <typename Arguments>
struct Limit;
template <typename... A>
struct Limit<std::tuple<A...>> {
    static Limits of(const RequestState& request) noexcept {
        return limits_for<A...>(request.engine);
    }
};

template <typename Definition, typename F>
class ServedBy final : public Served {
 public:
    using R = typename Definition::Response;
    using Arguments = typename Definition::Arguments;
    using Handler = HandlerCall<F, Arguments>;
    using Answer = typename Handler::Answer;
    static_assert(std::same_as<typename unwrap_task<std::remove_cvref_t<Answer>>::type,
                               std::remove_cvref_t<Answer>> ||
                      parameters_last<F, Arguments>,
                  "a coroutine's reference to another type than the definition's would be to a "
                  "converted value that is gone when it goes on: take that by value");
    static_assert(answer_for<answered<std::remove_cvref_t<Answer>>, R>,
                  "a handler answers the result of the RPC's definition, or a hg::Result or "
                  "hg::Task of it (boost::asio::awaitable: include hg/asio.hpp)");

    ServedBy(const RpcInfo& info, F f) : f_(std::move(f)) {
        rpc = info;
        if constexpr (has_runner<F, std::remove_cvref_t<Answer>>) {
            needs_driver = Runner<F, std::remove_cvref_t<Answer>>::needs_driver;
        }
        run = [](Served& self, RequestState& request) noexcept {
            auto& served = static_cast<ServedBy&>(self);
            if constexpr (has_runner<F, std::remove_cvref_t<Answer>>) {
                Runner<F, std::remove_cvref_t<Answer>>::run(served, request);
            } else if constexpr (is_task<std::remove_cvref_t<Answer>>) {
                start(served, request);
            } else {
                served.serve(request);
            }
        };
    }

 public:
    static bool decode(const RequestState& request, Arguments& arguments) {
        Reader r(request.arguments, Limit<Arguments>::of(request));
        r.handle = request.handle;
        std::apply([&r](auto&... a) { r(a...); }, arguments);
        if (!r.finish()) [[unlikely]] {
            request.respond_error({r.status(), r.what()});
            return false;
        }
        return true;
    }

 private:
    void serve(RequestState& state) noexcept {
        try {
            Arguments arguments{};
            if (decode(state, arguments)) [[likely]] {
                Request request(state);
                if constexpr (std::is_void_v<Answer>) {
                    Handler::call(f_, request, arguments);
                    respond_value<R>(state);
                } else {
                    respond_answer<R>(state, Handler::call(f_, request, arguments));
                }
            }
        } catch (...) {
            state.respond_error(current_error());
        }
        state.finish();
    }

    static void start(ServedBy& self, RequestState& request) noexcept {
        try {
            serve_task(self, request);
        } catch (...) {  // no frame: out of memory
            request.respond_error(current_error());
            request.finish();
        }
    }
    // By value: the coroutine's own, as are the arguments.
    static Detached serve_task(ServedBy& self, RequestState state) {
        try {
            Arguments arguments{};
            if (decode(state, arguments)) [[likely]] {
                Request request(state);
                using A = typename unwrap_task<std::remove_cvref_t<Answer>>::type;
                if constexpr (std::is_void_v<A>) {
                    co_await Handler::call(self.f_, request, arguments);
                    respond_value<R>(state);
                } else {
                    respond_answer<R>(state, co_await Handler::call(self.f_, request, arguments));
                }
            }
        } catch (...) {
            state.respond_error(current_error());
        }
        state.finish();
    }

 public:
    F f_;  // for Runner, as decode()
};

}  // namespace detail
}  // namespace hg
