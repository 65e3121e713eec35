// SPDX-License-Identifier: BSD-3-Clause
// What the parameters of a handler are, where it says so: of functions, lambdas without `auto`, and
// classes with one operator(). Of what is generic nothing is known; its parameters take the
// arguments as they are.
#pragma once

#include "na/detail/standard.hpp"

#include <concepts>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace hg::detail {

template <typename... P>
struct ParameterList {};

template <typename F>
struct ParametersOfFunction {
    using type = void;  // not known
};
template <typename R, typename... P>
struct ParametersOfFunction<R(P...)> {
    using type = ParameterList<P...>;
};
template <typename R, typename... P>
struct ParametersOfFunction<R(P...) noexcept> : ParametersOfFunction<R(P...)> {};
template <typename R, typename... P>
struct ParametersOfFunction<R(P...) const> : ParametersOfFunction<R(P...)> {};
template <typename R, typename... P>
struct ParametersOfFunction<R(P...) const noexcept> : ParametersOfFunction<R(P...)> {};
template <typename R, typename... P>
struct ParametersOfFunction<R(P...)&> : ParametersOfFunction<R(P...)> {};
template <typename R, typename... P>
struct ParametersOfFunction<R(P...)& noexcept> : ParametersOfFunction<R(P...)> {};
template <typename R, typename... P>
struct ParametersOfFunction<R(P...) const&> : ParametersOfFunction<R(P...)> {};
template <typename R, typename... P>
struct ParametersOfFunction<R(P...) const& noexcept> : ParametersOfFunction<R(P...)> {};

template <typename F>
struct FunctionOfMember;
template <typename C, typename F>
struct FunctionOfMember<F C::*> {
    using type = F;
};

// A specialisation for what wraps another handler (hg/asio_handler.hpp).
template <typename F>
struct ParametersOf : ParametersOfFunction<std::remove_pointer_t<F>> {};
template <typename F>
requires requires {
    &F::operator();
}
struct ParametersOf<F>
    : ParametersOfFunction<typename FunctionOfMember<decltype(&F::operator())>::type> {};

// The parameter is the argument, or a value of its own: no reference to what the argument was
// converted to for the call only.
template <typename P, typename A>
inline constexpr bool lasts =
    !std::is_reference_v<P> ||
    std::is_convertible_v<std::remove_reference_t<A>*, const std::remove_reference_t<P>*>;

template <typename List, typename Arguments>
inline constexpr bool all_last = true;
template <typename... P, typename... A>
requires(sizeof...(P) ==
         sizeof...(A)) inline constexpr bool all_last<ParameterList<P...>, std::tuple<A...>> =
    (lasts<P, A> && ...);
// With the hg::Request in front.
template <typename First, typename... P, typename... A>
requires(sizeof...(P) ==
         sizeof...(A)) inline constexpr bool all_last<ParameterList<First, P...>,
                                                      std::tuple<A...>> = (lasts<P, A> && ...);

// Whether a handler may use its parameters after the call of it, as coroutines do: what they refer
// to is there then.
template <typename F, typename Arguments>
inline constexpr bool parameters_last = all_last<typename ParametersOf<F>::type, Arguments>;

}  // namespace hg::detail
