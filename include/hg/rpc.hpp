// SPDX-License-Identifier: BSD-3-Clause
// Typed RPCs. A definition is a constant that both sides include:
//
//   inline constexpr hg::Rpc<int(int, int)> add{"math.add"};
//   inline constexpr hg::OneWay<void(std::string_view)> note{"log.note"};
//
// The target serves it (hg/handler.hpp), the origin calls it as a function of a peer and the
// arguments, with hg::CallOptions behind them where wanted. The call is sent when one of these asks
// for its result:
//
//   int sum = co_await add(peer, 1, 2);                      in a coroutine; throws hg::Exception
//   hg::Result<int> r = co_await add(peer, 1, 2).result();   the same without exceptions
//   int sum = add(peer, 1, 2).get();                         blocks; throws
//   hg::Result<int> r = add(peer, 1, 2).wait();              blocks
//   add(peer, 1, 2).then([](hg::Result<int> r) { ... });     calls back on the engine's executor
//
// Arguments are encoded at once, so nothing of them needs to live until the call ends, but memory
// that descriptors among them show (hg/bulk.hpp).
//
// Name and types together identify an RPC: a target whose definition differs answers as one that
// does not have it (Status::noentry). Compared is what the compiler sees of the types: numbers,
// containers, members of aggregates, six types deep. Types with a serialize() of their own are all
// alike, and so is what lies deeper: where these differ, one side's bytes are read as the other's
// values, or fail to be with protocol_error. Give the RPC another name when such a type changes.
//
// In handlers and callbacks co_await: get() and wait() on the engine's own thread run other
// handlers inside, without a bound for stack or time (hg/operation.hpp).
//
// Where the result has views (string_view, span), co_await and get() answer a Held<R>, which keeps
// the message that they look into.
#pragma once

#include "na/detail/standard.hpp"

#include <atomic>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "hg/detail/core.hpp"
#include "hg/operation.hpp"
#include "hg/peer.hpp"
#include "hg/task.hpp"

namespace hg {

template <typename Signature>
class Rpc;
template <typename R>
class Call;

// A result with views into the message that it came in, which lives as long as this. Moved, not
// copied.
template <typename R>
class Held {
 public:
    Held() noexcept(std::is_nothrow_default_constructible_v<R>)
        : value_(), message_(nullptr, nullptr) {}  // views of nothing
    const R& operator*() const& noexcept { return value_; }
    const R* operator->() const& noexcept { return &value_; }
    // The views would be gone with it: give it a name first.
    const R& operator*() const&& = delete;
    const R* operator->() const&& = delete;

 private:
    friend class Call<R>;
    Held(R&& value, detail::MessageRef&& message) noexcept
        : value_(std::move(value)), message_(std::move(message)) {}

    R value_;
    detail::MessageRef message_;
};

namespace detail {

template <typename R>
struct held_or_plain {
    using type = std::conditional_t<has_views<R>(), Held<R>, R>;
};
template <>
struct held_or_plain<void> {
    using type = void;
};

// Both are encoded alike, so that one can be sent where the other is received.
template <typename A, typename B>
concept same_encoding = Sendable<A> && Sendable<B> && !custom<A> && !custom<B> &&
                        kind_of<A>() == kind_of<B>() && !std::is_array_v<A>;

template <typename A, typename P>
concept argument_for = same_encoding<std::remove_cvref_t<A>, P> || std::is_convertible_v<A, P>;

// Whether a number is one of `P`, whatever its type: an integer is itself there; of a real number
// the range counts, not how finely P tells numbers apart.
template <typename P, typename A>
constexpr bool fits(A number) noexcept {
    using Limits = std::numeric_limits<P>;
    if constexpr (std::is_integral_v<P>) {
        const auto converted = static_cast<P>(number);
        if constexpr (std::is_signed_v<A> != std::is_signed_v<P>) {
            if (std::is_signed_v<A> ? number < A{} : converted < P{}) {
                return false;
            }
        }
        return static_cast<A>(converted) == number;
    } else if constexpr (std::is_integral_v<A>) {
        if constexpr (std::numeric_limits<A>::digits <= Limits::digits) {
            return true;
        } else {
            const auto bits = static_cast<std::uint64_t>(number);
            const std::uint64_t magnitude = number < A{} ? std::uint64_t{0} - bits : bits;
            return magnitude == 0 ||
                   std::bit_width(magnitude) - static_cast<unsigned>(std::countr_zero(magnitude)) <=
                       static_cast<unsigned>(Limits::digits);
        }
    } else if constexpr (std::numeric_limits<A>::max_exponent <= Limits::max_exponent) {
        return true;
    } else {
        // Infinities and what is no number stay that.
        constexpr auto most = static_cast<A>(Limits::max());
        constexpr auto infinity = std::numeric_limits<A>::infinity();
        const A magnitude = number < A{} ? -number : number;
        return !(magnitude > most) || magnitude == infinity;
    }
}

// Encodes an argument as its parameter. A number that does not fit it fails the call.
template <typename P, typename A>
void write_as(Writer& w, const A& argument) {
    if constexpr (std::same_as<A, P> || same_encoding<A, P>) {
        w(argument);
    } else if constexpr (std::is_arithmetic_v<A> && std::is_arithmetic_v<P> &&
                         !std::same_as<P, bool>) {
        static_assert(std::is_integral_v<A> || std::is_floating_point_v<P>,
                      "a floating-point argument for an integer parameter: convert it where the "
                      "call is made");
        if (!fits<P>(argument)) {
            w.fail(Status::invalid_arg, "an argument that its parameter is too small for");
            return;
        }
        w(static_cast<P>(argument));
    } else if constexpr (same_encoding<std::string_view, P> &&
                         std::is_convertible_v<const A&, std::string_view>) {
        w(static_cast<std::string_view>(argument));
    } else {
        const P& converted = argument;
        w(converted);
    }
}

template <typename R, typename... P>
consteval std::uint32_t kind_of_signature() {
    std::uint32_t hash = kMix;
    ((hash = mix(hash, kind_of<P>())), ...);
    return mix(hash, kind_of<R>());
}

// Without an argument of CallOptions at the end.
template <typename... A>
inline constexpr bool ends_with_options = false;
template <typename... A>
requires(sizeof...(A) > 0) inline constexpr bool ends_with_options<A...> = std::same_as<
    std::remove_cvref_t<std::tuple_element_t<sizeof...(A) - 1, std::tuple<A...>>>, CallOptions>;

}  // namespace detail

// One call, with its arguments encoded; see Operation for how to get its outcome. Dropping one that
// was not started drops the call.
template <typename R>
class [[nodiscard(
    "the call is not sent before its result is asked for: co_await it, or use get(), "
    "wait() or then()")]] Call
    : public Operation<Call<R>, typename detail::held_or_plain<R>::type> {
 public:
    // R, or Held<R> where it has views.
    using Value = typename detail::held_or_plain<R>::type;

    Call(Call && other) noexcept = default;

    // For adapters: guard() before it is started, and then cancel() from any thread, until it has
    // ended; it ends with Status::canceled, or as it would have.
    void guard() noexcept {
        state_.guarded = true;
    }
    void cancel() noexcept {
        if (state_.handle != nullptr) {
            detail::CallState::Cancel{&state_}();
        }
    }
    // See detail::Startable.
    bool start(detail::Continuation & next) noexcept {
        return state_.start(next);
    }
    detail::EngineCore* engine() const noexcept {
        return state_.engine();
    }
    Result<Value> take_result() {
        Result<Value> result = decode();
        if constexpr (!detail::has_views<R>()) {
            state_.release();
        } else {
            state_.shown.clear();
        }
        return result;
    }

 private:
    template <typename>
    friend class Rpc;
    template <typename>
    friend class OneWay;
    Call() = default;

    Result<Value> decode() {
        if (!na::ok(state_.status)) [[unlikely]] {
            return state_.error();
        }
        if (state_.rpc->one_way) {
            if constexpr (std::is_void_v<R>) {
                return {};
            }
        }
        Reader r(state_.reply(), detail::limits_for<R>(state_.engine()));
        r.handle = state_.handle;
        const auto code = static_cast<Status>(r.scalar<std::uint8_t>());
        if (!na::ok(code)) [[unlikely]] {
            return state_.remote_error(r, code);
        }
        if constexpr (std::is_void_v<R>) {
            if (!r.finish()) [[unlikely]] {
                return state_.malformed(r);
            }
            return {};
        } else {
            R value{};
            r(value);
            if (!r.finish()) [[unlikely]] {
                return state_.malformed(r);
            }
            if constexpr (detail::has_views<R>()) {
                return Held<R>(std::move(value), state_.keep());
            } else {
                return value;
            }
        }
    }

    detail::CallState state_;
};

// The definition of an RPC: what both sides know. A literal; make it `inline constexpr` in a
// header.
template <typename R, typename... P>
class Rpc<R(P...)> {
 public:
    using Response = R;
    using Arguments = std::tuple<std::remove_cvref_t<P>...>;

    // `name` is unlimited text, at best "service.method", and must live as long as the definition.
    consteval explicit Rpc(std::string_view name) noexcept : Rpc(name, false) {}

    // A call of `peer`. Encodes the arguments; behind them may be hg::CallOptions. An argument is
    // of the parameter's type, of one that converts to it, or of one that is encoded alike (a
    // std::string for a string_view, a vector for a span). Fails, when its result is asked for,
    // with:
    //   invalid_arg   no peer, or an argument that cannot be sent
    //   hostunreach   nobody is at the peer's address, or it went away; the call may have run
    //   timeout       the deadline has passed; the call may have run
    //   canceled      stopped by its token or the end of the engine; the call may have run
    //   noentry       the target does not serve this definition
    //   again         the target has as many requests as it takes: later, or elsewhere
    //   protocol_error, msgsize   the answer cannot be decoded, or is too large
    //   and whatever the handler failed with.
    // Throws what encoding a user's type throws, and std::bad_alloc. Any thread, unless the engine
    // was opened for a single one.
    template <typename... A>
    Call<R> operator()(const Peer& peer, A&&... arguments) const {
        constexpr std::size_t given = sizeof...(A) - (detail::ends_with_options<A...> ? 1 : 0);
        static_assert(given == sizeof...(P),
                      "an RPC is called with a peer, the arguments of its definition, and perhaps "
                      "hg::CallOptions");
        Call<R> call;
        if constexpr (given == sizeof...(P)) {
            encode(call.state_, peer, std::forward_as_tuple(arguments...),
                   std::index_sequence_for<P...>{});
        }
        return call;
    }

    const detail::RpcInfo& info() const noexcept { return info_; }
    std::string_view name() const noexcept { return info_.name; }

 protected:
    consteval Rpc(std::string_view name, bool one_way) noexcept
        : info_{.name = name, .id = detail::rpc_id(name, kKind), .one_way = one_way} {
        (detail::check_can_send<std::conditional_t<std::is_lvalue_reference_v<P> &&
                                                       std::is_const_v<std::remove_reference_t<P>>,
                                                   std::remove_cvref_t<P>, P>>(),
         ...);
        static_assert(!detail::is_result<R>,
                      "callers of every RPC can have a hg::Result: name its value only, and let "
                      "the handler answer a hg::Result");
        if constexpr (!std::is_void_v<R>) {
            detail::check_can_send<R>();
        }
    }

 private:
    static constexpr std::uint32_t kKind =
        detail::kind_of_signature<R, std::remove_cvref_t<P>...>();

    template <typename Given, std::size_t... I>
    void encode(detail::CallState& call, const Peer& peer, Given&& given,
                std::index_sequence<I...>) const {
        static_assert((detail::argument_for<std::tuple_element_t<I, std::remove_cvref_t<Given>>,
                                            std::tuple_element_t<I, Arguments>> &&
                       ...),
                      "an argument does not convert to its parameter in the RPC's definition");
        call.rpc = &info_;
        if constexpr (std::tuple_size_v < std::remove_cvref_t < Given >>> sizeof...(I)) {
            call.options = std::get<sizeof...(I)>(given);
            call.guarded = call.options.deadline != Clock::time_point::max() ||
                           call.options.stop.stop_possible();
        }
        if (peer.core() == nullptr) [[unlikely]] {
            call.status = Status::invalid_arg;
            call.what = "the peer is nobody";
            return;
        }
        detail::ref(peer.core());
        call.peer = peer.core();
        detail::Message* message = call.begin();
        if (message == nullptr) [[unlikely]] {
            return;
        }
        message->write(
            [&](Writer& w) {
                w.shown = &call.shown;
                detail::write_request_header(w, call);
                (detail::write_as<std::tuple_element_t<I, Arguments>>(w, std::get<I>(given)), ...);
            },
            call.status, call.what);
    }

    detail::RpcInfo info_;
};

// The definition of an RPC without a response: a call has succeeded when the request has left.
// What becomes of it, nobody is told.
template <typename Signature>
class OneWay;
template <typename... P>
class OneWay<void(P...)> : public Rpc<void(P...)> {
 public:
    consteval explicit OneWay(std::string_view name) noexcept : Rpc<void(P...)>(name, true) {}
};
template <typename R, typename... P>
requires(!std::is_void_v<R>) class OneWay<R(P...)> {
    static_assert(std::is_void_v<R>, "a one-way RPC has no result: hg::OneWay<void(...)>");
};

}  // namespace hg
