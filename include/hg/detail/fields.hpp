// SPDX-License-Identifier: BSD-3-Clause
// The members of an aggregate, found by the compiler: how many there are, and a call with all of
// them. Arrays are counted as one; aggregates with base classes are not seen through.
#pragma once

#include "na/detail/standard.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <type_traits>
#include <utility>

namespace hg::detail {

// Stands for any initializer. Never called, yet defined: Clang looks into constructors that take it
// (std::optional's), and refuses there what has no definition and types without linkage.
struct Any {
    template <typename T>
    operator T() const noexcept {
        std::terminate();
    }
};
template <std::size_t>
using AnyAt = Any;
// Within braces: of things that can be copied only. Clang would compile the copy of what it takes
// for a list of elements. So arrays of what can only be moved are not seen: use std::array.
struct Element {
    template <typename T>
    requires(std::is_copy_constructible_v<T>) operator T() const noexcept { std::terminate(); }
};
template <std::size_t>
using ElementAt = Element;

template <typename T, std::size_t... I>
consteval bool takes(std::index_sequence<I...>) {
    return requires {
        T{AnyAt<I>{}...};
    };
}
template <typename T, std::size_t... A, std::size_t... B, std::size_t... C>
consteval bool takes_nested(std::index_sequence<A...>, std::index_sequence<B...>,
                            std::index_sequence<C...>) {
    return requires {
        T{AnyAt<A>{}..., {ElementAt<B>{}...}, AnyAt<C>{}...};
    };
}

inline constexpr std::size_t kMostFields = 32;
inline constexpr std::size_t kMostInitializers = 256;

// Initializers that the aggregate takes; an array without braces takes one for each element.
template <typename T, std::size_t N = 0>
consteval std::size_t initializers() {
    if constexpr (N < kMostInitializers && takes<T>(std::make_index_sequence<N + 1>{})) {
        return initializers<T, N + 1>();
    } else {
        return N;
    }
}

// Elements of the array at initializer `At`; 1: it is none. In braces an array takes as many
// initializers as it would have taken without, and no more are left for the others than before.
template <typename T, std::size_t At, std::size_t Total, std::size_t K = 2>
consteval std::size_t extent_at() {
    if constexpr (At + K > Total) {
        return 1;
    } else if constexpr (takes_nested<T>(std::make_index_sequence<At>{},
                                         std::make_index_sequence<K>{},
                                         std::make_index_sequence<Total - At - K>{}) &&
                         !takes_nested<T>(std::make_index_sequence<At>{},
                                          std::make_index_sequence<K>{},
                                          std::make_index_sequence<Total - At - K + 1>{})) {
        return K;
    } else {
        return extent_at<T, At, Total, K + 1>();
    }
}

template <typename T, std::size_t Total, std::size_t At = 0>
consteval std::size_t members() {
    if constexpr (At >= Total) {
        return 0;
    } else {
        return 1 + members<T, Total, At + extent_at<T, At, Total>()>();
    }
}

template <typename T>
consteval std::size_t count_fields() {
    return members<T, initializers<T>()>();
}
template <typename T>
inline constexpr std::size_t field_count = count_fields<std::remove_const_t<T>>();

// Calls f(member...), in the order of declaration.
template <typename T, typename F>
constexpr decltype(auto) for_fields(T& value, F&& f) {
    constexpr std::size_t n = field_count<T>;
    static_assert(n <= kMostFields,
                  "an aggregate of more than 32 members: give it a serialize function");
    if constexpr (n == 0) {
        return f();
    } else if constexpr (n == 1) {
        auto& [m1] = value;
        return f(m1);
    } else if constexpr (n == 2) {
        auto& [m1, m2] = value;
        return f(m1, m2);
    } else if constexpr (n == 3) {
        auto& [m1, m2, m3] = value;
        return f(m1, m2, m3);
    } else if constexpr (n == 4) {
        auto& [m1, m2, m3, m4] = value;
        return f(m1, m2, m3, m4);
    } else if constexpr (n == 5) {
        auto& [m1, m2, m3, m4, m5] = value;
        return f(m1, m2, m3, m4, m5);
    } else if constexpr (n == 6) {
        auto& [m1, m2, m3, m4, m5, m6] = value;
        return f(m1, m2, m3, m4, m5, m6);
    } else if constexpr (n == 7) {
        auto& [m1, m2, m3, m4, m5, m6, m7] = value;
        return f(m1, m2, m3, m4, m5, m6, m7);
    } else if constexpr (n == 8) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8);
    } else if constexpr (n == 9) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9);
    } else if constexpr (n == 10) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10);
    } else if constexpr (n == 11) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11);
    } else if constexpr (n == 12) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12);
    } else if constexpr (n == 13) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13);
    } else if constexpr (n == 14) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14);
    } else if constexpr (n == 15) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15);
    } else if constexpr (n == 16) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16);
    } else if constexpr (n == 17) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17);
    } else if constexpr (n == 18) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18] =
            value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18);
    } else if constexpr (n == 19) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18,
               m19] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18,
                 m19);
    } else if constexpr (n == 20) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19,
               m20] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18,
                 m19, m20);
    } else if constexpr (n == 21) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19,
               m20, m21] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18,
                 m19, m20, m21);
    } else if constexpr (n == 22) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19,
               m20, m21, m22] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18,
                 m19, m20, m21, m22);
    } else if constexpr (n == 23) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19,
               m20, m21, m22, m23] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18,
                 m19, m20, m21, m22, m23);
    } else if constexpr (n == 24) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19,
               m20, m21, m22, m23, m24] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18,
                 m19, m20, m21, m22, m23, m24);
    } else if constexpr (n == 25) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19,
               m20, m21, m22, m23, m24, m25] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18,
                 m19, m20, m21, m22, m23, m24, m25);
    } else if constexpr (n == 26) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19,
               m20, m21, m22, m23, m24, m25, m26] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18,
                 m19, m20, m21, m22, m23, m24, m25, m26);
    } else if constexpr (n == 27) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19,
               m20, m21, m22, m23, m24, m25, m26, m27] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18,
                 m19, m20, m21, m22, m23, m24, m25, m26, m27);
    } else if constexpr (n == 28) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19,
               m20, m21, m22, m23, m24, m25, m26, m27, m28] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18,
                 m19, m20, m21, m22, m23, m24, m25, m26, m27, m28);
    } else if constexpr (n == 29) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19,
               m20, m21, m22, m23, m24, m25, m26, m27, m28, m29] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18,
                 m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29);
    } else if constexpr (n == 30) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19,
               m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18,
                 m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30);
    } else if constexpr (n == 31) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19,
               m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18,
                 m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31);
    } else if constexpr (n == 32) {
        auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19,
               m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32] = value;
        return f(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18,
                 m19, m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32);
    }
}

// The same with their types only, for a lambda without captures: F{}.operator()<Member...>().
template <typename F, typename... M>
struct ForTypes {
    static constexpr auto value = F{}.template operator()<M...>();
};
template <typename T, typename F>
consteval auto with_field_types(F) {
    using R = decltype(for_fields(std::declval<T&>(), [](auto&... field) {
        return ForTypes<F, std::remove_reference_t<decltype(field)>...>{};
    }));
    return R::value;
}

// FNV-1a over 32-bit values.
constexpr std::uint32_t mix(std::uint32_t hash, std::uint32_t value) noexcept {
    for (int i = 0; i < 4; ++i) {
        hash = (hash ^ ((value >> (8 * i)) & 0xff)) * 16777619U;
    }
    return hash;
}

template <typename T, int Look>
consteval std::uint32_t kind_of();
template <typename T, int Look>
consteval std::size_t min_size_of();
template <typename T, int Look>
consteval bool has_views();
template <typename T, int Look>
consteval bool can_send();

template <typename T, int Look>
consteval std::uint32_t kind_of_fields() {
    return with_field_types<T>([]<typename... M>() {
        std::uint32_t hash = mix(7, static_cast<std::uint32_t>(sizeof...(M)));
        ((hash = mix(hash, kind_of<M, Look>())), ...);
        return hash;
    });
}
template <typename T, int Look>
consteval std::size_t min_size_of_fields() {
    return with_field_types<T>(
        []<typename... M>() { return (std::size_t{0} + ... + min_size_of<M, Look>()); });
}
template <typename T, int Look>
consteval bool fields_have_views() {
    return with_field_types<T>(
        []<typename... M>() { return (false || ... || has_views<M, Look>()); });
}

template <typename T, int Look>
consteval bool fields_can_be_sent() {
    return with_field_types<T>(
        []<typename... M>() { return (true && ... && can_send<M, Look>()); });
}

}  // namespace hg::detail
