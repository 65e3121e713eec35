// SPDX-License-Identifier: BSD-3-Clause
// What holds one of several things, or none, as bytes: optional, pointers, outcomes, variant. Part
// of hg/detail/codec_std.hpp, which includes it.
#pragma once

#include "na/detail/standard.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#if __has_include(<expected>)
#include <expected>
#endif

#include "hg/codec.hpp"

namespace hg {
namespace detail {

// One byte that says whether there is a value, and the value.
template <typename O, typename T>
struct OptionalCodec : Properties<Sort::optional, T> {
    static void write(Writer& w, const O& o) {
        w.scalar(static_cast<bool>(o));
        if (o) {
            w(*o);
        }
    }
};

// The same. Each pointer gets an object of its own; none is shared afterwards.
template <typename P>
struct PointerCodec : Properties<Sort::optional, std::remove_const_t<typename P::element_type>> {
    using T = std::remove_const_t<typename P::element_type>;
    static void write(Writer& w, const P& p) {
        w.scalar(p != nullptr);
        if (p != nullptr && w.follow()) {
            w(*p);
            w.followed();
        }
    }
    static void read(Reader& r, P& p) {
        p.reset();
        if (r.scalar<bool>() && r.charge(sizeof(T) + kNode)) {
            auto made = make();
            r(*made);
            p = std::move(made);
        }
    }

 private:
    static auto make() {
        if constexpr (std::same_as<P, std::shared_ptr<typename P::element_type>>) {
            return std::make_shared<T>();
        } else {
            return std::make_unique<T>();
        }
    }
};

template <typename T>
void put_error(Reader& r, Result<T>& out, Error&& error) {
    const auto code = static_cast<unsigned>(error.status);
    if (code == 0 || code > static_cast<unsigned>(Status::other_error)) {
        r.fail(Status::protocol_error, "an error with a code that is none");
        error.status = Status::other_error;
    }
    out = std::move(error);
}
#if defined(__cpp_lib_expected)
template <typename T, typename E>
void put_error(Reader&, std::expected<T, E>& out, E&& error) {
    out = std::unexpected<E>(std::move(error));
}
#endif

// One byte that says whether there is a value; that, or the error.
template <typename Outcome, typename T, typename E>
struct OutcomeCodec : Properties<Sort::outcome, std::conditional_t<std::is_void_v<T>, bool, T>, E> {
    static void write(Writer& w, const Outcome& o) {
        w.scalar(static_cast<bool>(o));
        if (!o) {
            w(o.error());
        } else if constexpr (!std::is_void_v<T>) {
            w(*o);
        }
    }
    static void read(Reader& r, Outcome& o) {
        if (!r.scalar<bool>()) {
            E error{};
            r(error);
            put_error(r, o, std::move(error));
        } else if constexpr (std::is_void_v<T>) {
            o = Outcome{};
        } else {
            T value{};
            r(value);
            o = Outcome(std::move(value));
        }
    }
};

}  // namespace detail

template <typename T>
struct Codec<std::optional<T>> : detail::OptionalCodec<std::optional<T>, T> {
    static void read(Reader& r, std::optional<T>& o) {
        if (r.scalar<bool>()) {
            r(o.emplace());
        } else {
            o.reset();
        }
    }
};

template <typename T>
struct Codec<std::unique_ptr<T>> : detail::PointerCodec<std::unique_ptr<T>> {};
template <typename T>
struct Codec<std::shared_ptr<T>> : detail::PointerCodec<std::shared_ptr<T>> {};

template <typename T>
struct Codec<Result<T>> : detail::OutcomeCodec<Result<T>, T, Error> {};
#if defined(__cpp_lib_expected)
template <typename T, typename E>
struct Codec<std::expected<T, E>> : detail::OutcomeCodec<std::expected<T, E>, T, E> {};
#endif

template <typename... T>
struct Codec<std::variant<T...>> : detail::Properties<detail::Sort::variant, T...> {
    using V = std::variant<T...>;
    template <int Look>
    static consteval std::uint32_t kind() {
        return detail::kind_with<Look, T...>(detail::Sort::variant,
                                             static_cast<std::uint32_t>(sizeof...(T)));
    }
    template <int Look>
    static consteval std::size_t min_size() {
        return 1 + std::min({detail::min_size_of<T, Look>()...});
    }
    static void write(Writer& w, const V& v) {
        if (v.valueless_by_exception()) {
            w.fail(Status::invalid_arg, "a variant without a value");
            return;
        }
        w.size(v.index());
        std::visit([&w](const auto& value) { w(value); }, v);
    }
    static void read(Reader& r, V& v) {
        const std::uint64_t index = r.size();
        if (index >= sizeof...(T)) {
            r.fail(Status::protocol_error, "a variant with an alternative that does not exist");
            return;
        }
        read_alternative(r, v, index, std::index_sequence_for<T...>{});
    }

 private:
    template <std::size_t... I>
    static void read_alternative(Reader& r, V& v, std::uint64_t index, std::index_sequence<I...>) {
        ((I == index ? static_cast<void>(r(v.template emplace<I>())) : void()), ...);
    }
};

template <>
struct Codec<std::monostate> {
    template <int>
    static consteval std::uint32_t kind() {
        return detail::kind_with<0>(detail::Sort::monostate);
    }
    template <int>
    static consteval std::size_t min_size() {
        return 0;
    }
    template <int>
    static consteval bool views() {
        return false;
    }
    static void write(Writer&, std::monostate) {}
    static void read(Reader&, std::monostate&) {}
};

}  // namespace hg
