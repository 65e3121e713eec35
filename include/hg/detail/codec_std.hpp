// SPDX-License-Identifier: BSD-3-Clause
// The types of the standard library as bytes; the end of hg/codec.hpp, which includes it. Those
// that hold one of several things, or none, are in hg/detail/codec_choice.hpp.
//
// Lengths are Writer::size(). Containers with one key per element are refused where a key comes
// twice. Hashes of unordered containers are the standard library's: who lets strangers choose the
// keys prefers std::map.
#pragma once

#include "na/detail/standard.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <chrono>
#include <complex>
#include <deque>
#include <forward_list>
#include <iterator>
#include <list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "hg/codec.hpp"

namespace hg {
namespace detail {

// Sorts of encodings: strings and sequences of the same element are the same.
enum class Sort : std::uint32_t {
    sequence = 16,
    set,
    map,
    tuple,
    optional,
    variant,
    bits,
    monostate,
    bulk,
    outcome
};

template <int Look, typename... T>
consteval std::uint32_t kind_with(Sort sort, std::uint32_t extra = 0) {
    std::uint32_t hash = mix(mix(kMix, static_cast<std::uint32_t>(sort)), extra);
    ((hash = mix(hash, kind_of<T, Look>())), ...);
    return hash;
}

template <typename T>
concept one_byte = raw<T> && sizeof(T) == 1;

// What a node of a container takes besides its element.
inline constexpr std::size_t kNode = 32;
inline constexpr std::size_t kEmptyDeque = 600;

// Sequences of elements that follow each other in memory.
template <typename T>
void write_elements(Writer& w, const T* data, std::size_t n) {
    w.size(n);
    if constexpr (raw<T>) {
        w.bytes(data, n * sizeof(T));
    } else {
        for (std::size_t i = 0; i < n; ++i) {
            w(data[i]);
        }
    }
}

template <typename C>
void read_contiguous(Reader& r, C& out) {
    using T = typename C::value_type;
    const std::size_t n = r.count(min_size_of<T>(), sizeof(T));
    if constexpr (raw<T>) {
        if constexpr (sizeof(T) == 1) {
            const std::byte* from = r.view(n);
            const T* first = reinterpret_cast<const T*>(from);
            if (from != nullptr) {
                out.assign(first, first + n);
            } else {
                out.clear();
            }
        } else {
            out.resize(n);
            r.bytes(out.data(), n * sizeof(T));
        }
    } else {
        // One after the other: what an element allocates is charged before the next one is made.
        out.clear();
        out.reserve(n);
        for (std::size_t left = n; left != 0 && r.ok(); --left) {
            r(out.emplace_back());
        }
    }
}

// What all have in common whose encoding begins with a number or a byte, and goes on with any
// number of Ts.
template <Sort kSort, typename... T>
struct Properties {
    template <int Look>
    static consteval std::uint32_t kind() {
        return kind_with<Look, T...>(kSort);
    }
    template <int Look>
    static consteval std::size_t min_size() {
        return 1;
    }
    template <int Look>
    static consteval bool views() {
        return (false || ... || has_views<T, Look>());
    }
    template <int Look>
    static consteval bool sendable() {
        return (true && ... && can_send<T, Look>());
    }
};

template <typename C>
using SequenceCodec = Properties<Sort::sequence, typename C::value_type>;

template <typename C>
void write_each(Writer& w, const C& c) {
    w.size(c.size());
    for (const auto& element : c) {
        w(element);
    }
}

template <typename C>
struct NodeSequenceCodec : SequenceCodec<C> {
    using T = typename C::value_type;
    static void write(Writer& w, const C& c) { write_each(w, c); }
    static void read(Reader& r, C& c) {
        c.clear();
        for (std::size_t n = r.count(min_size_of<T>(), sizeof(T) + kNode); n != 0 && r.ok(); --n) {
            r(c.emplace_back());
        }
    }
};

template <typename C, bool kUnique>
struct SetCodec : Properties<Sort::set, typename C::value_type> {
    using T = typename C::value_type;
    static void write(Writer& w, const C& c) { write_each(w, c); }
    static void read(Reader& r, C& c) {
        c.clear();
        for (std::size_t n = r.count(min_size_of<T>(), sizeof(T) + kNode); n != 0 && r.ok(); --n) {
            T element{};
            r(element);
            const std::size_t before = c.size();
            c.insert(std::move(element));
            if (kUnique && c.size() == before) {
                r.fail(Status::protocol_error, "an element that is in a set twice");
            }
        }
    }
};

template <typename C, bool kUnique>
struct MapCodec : Properties<Sort::map, typename C::key_type, typename C::mapped_type> {
    using K = typename C::key_type;
    using V = typename C::mapped_type;
    static void write(Writer& w, const C& c) {
        w.size(c.size());
        for (const auto& [key, value] : c) {
            w(key, value);
        }
    }
    static void read(Reader& r, C& c) {
        c.clear();
        for (std::size_t n =
                 r.count(min_size_of<K>() + min_size_of<V>(), sizeof(K) + sizeof(V) + kNode);
             n != 0 && r.ok(); --n) {
            K key{};
            V value{};
            r(key, value);
            const std::size_t before = c.size();
            c.emplace(std::move(key), std::move(value));
            if (kUnique && c.size() == before) {
                r.fail(Status::protocol_error, "a key that is in a map twice");
            }
        }
    }
};

template <typename Tuple, typename... T>
struct TupleCodec : Properties<Sort::tuple, T...> {
    template <int Look>
    static consteval std::uint32_t kind() {
        return kind_with<Look, T...>(Sort::tuple, static_cast<std::uint32_t>(sizeof...(T)));
    }
    template <int Look>
    static consteval std::size_t min_size() {
        return (std::size_t{0} + ... + min_size_of<T, Look>());
    }
    static void write(Writer& w, const Tuple& t) {
        std::apply([&w](const auto&... v) { w(v...); }, t);
    }
    static void read(Reader& r, Tuple& t) {
        std::apply([&r](auto&... v) { r(v...); }, t);
    }
};

// std::filesystem::path, without its header.
template <typename P>
concept path_like = requires(const P& p) {
    { p.native() } -> std::same_as<const typename P::string_type&>;
    { P::preferred_separator } -> std::convertible_to<typename P::value_type>;
    p.lexically_normal();
};

}  // namespace detail

template <typename C, typename Traits, typename Alloc>
struct Codec<std::basic_string<C, Traits, Alloc>>
    : detail::SequenceCodec<std::basic_string<C, Traits, Alloc>> {
    using String = std::basic_string<C, Traits, Alloc>;
    static void write(Writer& w, const String& s) { detail::write_elements(w, s.data(), s.size()); }
    static void read(Reader& r, String& s) { detail::read_contiguous(r, s); }
};

template <typename C, typename Traits>
struct Codec<std::basic_string_view<C, Traits>>
    : detail::SequenceCodec<std::basic_string_view<C, Traits>> {
    using View = std::basic_string_view<C, Traits>;
    template <int>
    static consteval bool views() {
        return true;
    }
    static void write(Writer& w, View s) { detail::write_elements(w, s.data(), s.size()); }
    static void read(Reader& r, View& s) {
        static_assert(sizeof(C) == 1,
                      "a view of larger characters would not be aligned: use std::basic_string");
        const std::size_t n = r.count(1, 0);
        const std::byte* at = r.view(n);
        s = at == nullptr ? View{} : View(reinterpret_cast<const C*>(at), n);
    }
};

template <typename T>
struct Codec<std::span<T>> : detail::SequenceCodec<std::span<T>> {
    template <int>
    static consteval bool views() {
        return true;
    }
    static void write(Writer& w, std::span<T> s) { detail::write_elements(w, s.data(), s.size()); }
    static void read(Reader& r, std::span<T>& s) {
        static_assert(std::is_const_v<T>,
                      "a span that is received is read only: std::span<const T>");
        static_assert(detail::one_byte<std::remove_const_t<T>>,
                      "a span of elements larger than a byte would not be aligned in the message: "
                      "receive hg::Elements (a view), or a std::vector (a copy)");
        const std::size_t n = r.count(1, 0);
        const std::byte* at = r.view(n);
        s = at == nullptr ? std::span<T>{} : std::span<T>(reinterpret_cast<T*>(at), n);
    }
};

template <typename T, typename Alloc>
struct Codec<std::vector<T, Alloc>> : detail::SequenceCodec<std::vector<T, Alloc>> {
    static void write(Writer& w, const std::vector<T, Alloc>& v) {
        detail::write_elements(w, v.data(), v.size());
    }
    static void read(Reader& r, std::vector<T, Alloc>& v) { detail::read_contiguous(r, v); }
};

template <typename Alloc>
struct Codec<std::vector<bool, Alloc>> : detail::SequenceCodec<std::vector<bool, Alloc>> {
    static void write(Writer& w, const std::vector<bool, Alloc>& v) {
        w.size(v.size());
        for (const bool b : v) {
            w.scalar(b);
        }
    }
    static void read(Reader& r, std::vector<bool, Alloc>& v) {
        v.clear();
        for (std::size_t n = r.count(1, 1); n != 0 && r.ok(); --n) {
            v.push_back(r.scalar<bool>());
        }
    }
};

// Also one that is empty has allocated.
template <typename T, typename Alloc>
struct Codec<std::deque<T, Alloc>> : detail::NodeSequenceCodec<std::deque<T, Alloc>> {
    static void read(Reader& r, std::deque<T, Alloc>& d) {
        if (r.charge(detail::kEmptyDeque)) {
            detail::NodeSequenceCodec<std::deque<T, Alloc>>::read(r, d);
        }
    }
};
template <typename T, typename Alloc>
struct Codec<std::list<T, Alloc>> : detail::NodeSequenceCodec<std::list<T, Alloc>> {};

template <typename T, typename Alloc>
struct Codec<std::forward_list<T, Alloc>> : detail::SequenceCodec<std::forward_list<T, Alloc>> {
    using List = std::forward_list<T, Alloc>;
    static void write(Writer& w, const List& l) {
        w.size(static_cast<std::uint64_t>(std::distance(l.begin(), l.end())));
        for (const T& element : l) {
            w(element);
        }
    }
    static void read(Reader& r, List& l) {
        l.clear();
        auto last = l.before_begin();
        for (std::size_t n = r.count(detail::min_size_of<T>(), sizeof(T) + detail::kNode);
             n != 0 && r.ok(); --n) {
            last = l.emplace_after(last);
            r(*last);
        }
    }
};

// As the string that it is natively.
template <detail::path_like Path>
struct Codec<Path> : detail::SequenceCodec<typename Path::string_type> {
    static void write(Writer& w, const Path& p) {
        detail::write_elements(w, p.native().data(), p.native().size());
    }
    static void read(Reader& r, Path& p) {
        typename Path::string_type text;
        detail::read_contiguous(r, text);
        if (text.find(typename Path::value_type{}) != text.npos) [[unlikely]] {
            // Who checks it sees more of it than who opens it.
            r.fail(Status::protocol_error, "a path with a zero in it");
            text.clear();
        }
        p = std::move(text);
    }
};

template <typename T, typename... R>
struct Codec<std::set<T, R...>> : detail::SetCodec<std::set<T, R...>, true> {};
template <typename T, typename... R>
struct Codec<std::multiset<T, R...>> : detail::SetCodec<std::multiset<T, R...>, false> {};
template <typename T, typename... R>
struct Codec<std::unordered_set<T, R...>> : detail::SetCodec<std::unordered_set<T, R...>, true> {};
template <typename T, typename... R>
struct Codec<std::unordered_multiset<T, R...>>
    : detail::SetCodec<std::unordered_multiset<T, R...>, false> {};

template <typename K, typename V, typename... R>
struct Codec<std::map<K, V, R...>> : detail::MapCodec<std::map<K, V, R...>, true> {};
template <typename K, typename V, typename... R>
struct Codec<std::multimap<K, V, R...>> : detail::MapCodec<std::multimap<K, V, R...>, false> {};
template <typename K, typename V, typename... R>
struct Codec<std::unordered_map<K, V, R...>>
    : detail::MapCodec<std::unordered_map<K, V, R...>, true> {};
template <typename K, typename V, typename... R>
struct Codec<std::unordered_multimap<K, V, R...>>
    : detail::MapCodec<std::unordered_multimap<K, V, R...>, false> {};

template <typename T, std::size_t N>
struct Codec<std::array<T, N>> {
    template <int Look>
    static consteval std::uint32_t kind() {
        return detail::mix(detail::kind_of<T, Look>(), static_cast<std::uint32_t>(N));
    }
    template <int Look>
    static consteval std::size_t min_size() {
        return N * detail::min_size_of<T, Look>();
    }
    template <int Look>
    static consteval bool views() {
        return detail::has_views<T, Look>();
    }
    template <int Look>
    static consteval bool sendable() {
        return detail::can_send<T, Look>();
    }
    static void write(Writer& w, const std::array<T, N>& a) {
        if constexpr (detail::raw<T>) {
            w.bytes(a.data(), N * sizeof(T));
        } else {
            for (const auto& element : a) {
                w(element);
            }
        }
    }
    static void read(Reader& r, std::array<T, N>& a) {
        if constexpr (detail::raw<T>) {
            r.bytes(a.data(), N * sizeof(T));
        } else {
            for (auto& element : a) {
                r(element);
            }
        }
    }
};

template <typename A, typename B>
struct Codec<std::pair<A, B>> : detail::TupleCodec<std::pair<A, B>, A, B> {};
template <typename... T>
struct Codec<std::tuple<T...>> : detail::TupleCodec<std::tuple<T...>, T...> {};

template <typename T>
struct Codec<std::complex<T>> : Codec<std::array<T, 2>> {
    static void write(Writer& w, const std::complex<T>& c) { w(c.real(), c.imag()); }
    static void read(Reader& r, std::complex<T>& c) {
        const T real = r.scalar<T>();
        c = {real, r.scalar<T>()};
    }
};

template <std::size_t N>
struct Codec<std::bitset<N>> {
    static constexpr std::size_t kBytes = (N + 7) / 8;
    template <int>
    static consteval std::uint32_t kind() {
        return detail::kind_with<0>(detail::Sort::bits, static_cast<std::uint32_t>(N));
    }
    template <int>
    static consteval std::size_t min_size() {
        return kBytes;
    }
    template <int>
    static consteval bool views() {
        return false;
    }
    static void write(Writer& w, const std::bitset<N>& b) {
        std::array<std::uint8_t, kBytes> out{};
        for (std::size_t i = 0; i < N; ++i) {
            out[i / 8] = static_cast<std::uint8_t>(out[i / 8] | (b[i] ? 1U : 0U) << (i % 8));
        }
        w.bytes(out.data(), kBytes);
    }
    static void read(Reader& r, std::bitset<N>& b) {
        std::array<std::uint8_t, kBytes> in{};
        r.bytes(in.data(), kBytes);
        for (std::size_t i = 0; i < N; ++i) {
            b[i] = ((in[i / 8] >> (i % 8)) & 1) != 0;
        }
    }
};

template <typename Rep, typename Period>
struct Codec<std::chrono::duration<Rep, Period>> {
    using Duration = std::chrono::duration<Rep, Period>;
    template <int>
    static consteval std::uint32_t kind() {
        return detail::mix(
            detail::mix(detail::kind_of<Rep>(), static_cast<std::uint32_t>(Period::num)),
            static_cast<std::uint32_t>(Period::den));
    }
    template <int>
    static consteval std::size_t min_size() {
        return sizeof(Rep);
    }
    template <int>
    static consteval bool views() {
        return false;
    }
    static void write(Writer& w, Duration d) { w.scalar(d.count()); }
    static void read(Reader& r, Duration& d) { d = Duration(r.scalar<Rep>()); }
};

template <typename Clock, typename D>
struct Codec<std::chrono::time_point<Clock, D>> : Codec<D> {
    static_assert(std::same_as<Clock, std::chrono::system_clock>,
                  "only points of std::chrono::system_clock mean something to another process");
    using Point = std::chrono::time_point<Clock, D>;
    static void write(Writer& w, Point p) { w.scalar(p.time_since_epoch().count()); }
    static void read(Reader& r, Point& p) { p = Point(D(r.scalar<typename D::rep>())); }
};

// --- without an RPC
// ----------------------------------------------------------------------------------------------------

// A value as bytes, for files and tests. Throws std::bad_alloc, and Exception where a value cannot
// be sent.
template <Sendable T>
std::vector<std::byte> encode(const T& value) {
    std::vector<std::byte> bytes(256);
    Writer w(
        bytes.data(), bytes.data() + bytes.size(),
        [](Writer& self, std::size_t more) {
            auto& v = *static_cast<std::vector<std::byte>*>(self.owner());
            v.resize(std::max(v.size() * 2, self.written() + more));
            self.move_to(v.data(), v.data() + v.size());
            return true;
        },
        &bytes);
    w(value);
    if (!w.ok()) {
        throw Exception(w.status(), w.what());
    }
    bytes.resize(w.written());
    return bytes;
}

// The inverse, of bytes that may be anybody's. Views in the value point into `bytes`. Errors:
// protocol_error (not such a value), msgsize (beyond the limits). Throws std::bad_alloc.
template <Sendable T>
Result<T> decode(std::span<const std::byte> bytes, const Limits& limits = {}) {
    Reader r(bytes, limits);
    T value{};
    r(value);
    if (!r.finish()) {
        return Error{r.status(), r.what()};
    }
    return value;
}

}  // namespace hg

// Behind what they are made with, whichever of the headers comes first.
#include "hg/detail/codec_choice.hpp"
#include "hg/elements.hpp"
