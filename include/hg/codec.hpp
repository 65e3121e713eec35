// SPDX-License-Identifier: BSD-3-Clause
// How C++ values become bytes and bytes become values. Nobody has to call this: arguments and
// results of RPCs pass through it. What can be sent:
//
//   numbers, bool, enumerations, std::byte      fixed size, little-endian
//   std::string, string_view, vector, array, span, deque, list, forward_list, map, set, their
//   unordered and multi kinds, pair, tuple, optional, variant, unique_ptr, shared_ptr, bitset,
//   complex, chrono durations and times, filesystem::path, hg::Result, and std::expected where
//   there is one aggregates of such (up to 32 members)       without any code classes with
//   serialize(Archive&), or save(Archive&) const and load(Archive&), as cereal has it anything else
//   by one function beside it:    template <class Archive>
//                                               void serialize(Archive& ar, Type& value)
//
// string_view, span of one-byte elements, and hg::Elements of numbers (hg/elements.hpp) are read as
// views into the message, without a copy; they live as long as the message: see hg/rpc.hpp.
//
// Any number of its underlying type is taken for a value of an enumeration, unless there is beside
// it
//
//   constexpr bool valid_enum(Color c) { return c == Color::red || c == Color::green; }
//
// What is read is hostile: every length is checked against the bytes that are left before anything
// is allocated, nesting has a limit, and what the values take in memory has one (Limits). A Reader
// that has failed reads zeros and empty containers, and its first failure is what counts; a
// serialize function needs no checks.
#pragma once

#include "na/detail/standard.hpp"

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "hg/detail/fields.hpp"
#include "hg/error.hpp"

namespace hg {

static_assert(std::endian::native == std::endian::little,
              "the typed codec is written for little-endian machines");

class Handle;
class Reader;
class Writer;

// What a decoded message may cost.
struct Limits {
    unsigned depth = 64;                        // of values within values
    std::size_t memory = std::size_t{1} << 24;  // bytes that values may take, plus `per_byte`
    std::size_t per_byte = 64;                  // of them for each byte of the message
};

// Befriend it where serialize() is private: friend struct hg::Access;
struct Access {
    template <typename A, typename T>
    static auto serialize(A& ar, T& value) -> decltype(value.serialize(ar)) {
        return value.serialize(ar);
    }
    template <typename A, typename T>
    static auto save(A& ar, const T& value) -> decltype(value.save(ar)) {
        return value.save(ar);
    }
    template <typename A, typename T>
    static auto load(A& ar, T& value) -> decltype(value.load(ar)) {
        return value.load(ar);
    }
};

// How a type of the standard library is sent (hg/detail/codec_std.hpp); own types have serialize().
template <typename T>
struct Codec;

namespace detail {

class Shown;

template <typename T>
concept scalar = (std::is_arithmetic_v<T> && !std::same_as<T, long double>) || std::is_enum_v<T>;
template <typename T>
concept has_codec = requires(Writer& w, Reader& r, const T& in, T& out) {
    Codec<T>::write(w, in);
    Codec<T>::read(r, out);
};
template <typename T>
concept has_member_serialize = requires(Writer& w, T& v) {
    Access::serialize(w, v);
};
template <typename T>
concept has_save_load = requires(Writer& w, Reader& r, T& v) {
    Access::save(w, v);
    Access::load(r, v);
};
template <typename T>
concept has_free_serialize = requires(Writer& w, T& v) {
    serialize(w, v);
};
template <typename T>
concept custom = std::is_class_v<T> &&
    (has_member_serialize<T> || has_save_load<T> || has_free_serialize<T>);
// Whether the class has a member of that name, accessible or not: with one, a class that derives
// from both has two, and its name is ambiguous.
struct HasSerialize {
    int serialize;
};
template <typename T>
struct WithSerialize : T, HasSerialize {};
template <typename T>
consteval bool names_serialize() {
    if constexpr (std::is_class_v<T> && !std::is_final_v<T>) {
        return !requires {
            &WithSerialize<T>::serialize;
        };
    } else {
        return false;
    }
}
// A serialize() that the library cannot call.
template <typename T>
concept hidden_serialize = names_serialize<T>() && !custom<T>;

// An aggregate whose first initializer is for a base class.
template <typename T>
struct OnlyBaseOf {
    template <typename U>
    requires(std::is_base_of_v<U, T> && !std::same_as<U, T>) operator U() const noexcept {
        std::terminate();
    }
};
template <typename T>
concept aggregate_with_base = std::is_aggregate_v<T> && std::is_class_v<T> && requires {
    T{OnlyBaseOf<T>{}};
};

template <typename T>
concept plain_aggregate = std::is_aggregate_v<T> && std::is_class_v<T> && !has_codec<T> &&
                          !custom<T> && !aggregate_with_base<T> && !hidden_serialize<T>;

template <typename T>
inline constexpr bool wide_span = false;  // its elements need an alignment
template <typename T, std::size_t N>
inline constexpr bool wide_span<std::span<T, N>> = sizeof(T) != 1;
template <typename T>
inline constexpr bool writable_span = false;
template <typename T, std::size_t N>
inline constexpr bool writable_span<std::span<T, N>> = !std::is_const_v<T>;

// Says which values it has: valid_enum() beside it.
template <typename T>
concept checked_enum = std::is_enum_v<T> && requires(T value) {
    { valid_enum(value) } -> std::convertible_to<bool>;
};

// Bytes in memory are bytes in the message, and every value of them is valid.
template <typename T>
consteval bool is_raw() {
    if constexpr (std::is_enum_v<T>) {
        return !checked_enum<T>;
    } else {
        return scalar<T> && !std::same_as<T, bool>;
    }
}
template <typename T>
concept raw = is_raw<T>();

}  // namespace detail

// Encodes into a buffer; when that is full, into a larger one that grow() finds.
class Writer {
 public:
    using is_loading = std::false_type;  // as archives of cereal say it
    using is_saving = std::true_type;

    // Makes room for `more` bytes behind what is written, or fails.
    using Grow = bool (*)(Writer& self, std::size_t more);

    Writer(std::byte* begin, std::byte* end, Grow grow, void* owner) noexcept
        : begin_(begin), at_(begin), end_(end), grow_(grow), owner_(owner) {}
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

    template <typename... T>
    Writer& operator()(const T&... values) {
        (write(values), ...);
        return *this;
    }
    template <typename T>
    Writer& operator&(const T& value) {
        write(value);
        return *this;
    }
    template <typename T>
    Writer& operator<<(const T& value) {
        write(value);
        return *this;
    }

    // `n` bytes as they are.
    void bytes(const void* data, std::size_t n) {
        if (static_cast<std::size_t>(end_ - at_) < n) [[unlikely]] {
            if (!more(n)) {
                return;
            }
        }
        if (n != 0) {
            std::memcpy(at_, data, n);
            at_ += n;
        }
    }
    // Room for `n` bytes that the caller writes; null: there is none, the writer has failed.
    std::byte* reserve(std::size_t n) {
        if (static_cast<std::size_t>(end_ - at_) < n && !more(n)) [[unlikely]] {
            return nullptr;
        }
        return std::exchange(at_, at_ + n);
    }
    // A length or an index: 7 bits a byte, the lowest first, in as few bytes as possible.
    void size(std::uint64_t n) {
        std::byte out[10];
        std::size_t used = 0;
        while (n >= 0x80) {
            out[used++] = static_cast<std::byte>(n | 0x80);
            n >>= 7;
        }
        out[used++] = static_cast<std::byte>(n);
        bytes(out, used);
    }
    template <detail::scalar T>
    void scalar(T value) {
        if constexpr (std::same_as<T, bool>) {
            const auto byte = static_cast<std::uint8_t>(value ? 1 : 0);
            bytes(&byte, 1);
        } else {
            bytes(&value, sizeof value);
        }
    }

    // The first failure counts.
    void fail(Status status, const char* what) noexcept {
        if (na::ok(status_)) {
            status_ = status;
            what_ = what;
        }
        end_ = at_;
    }
    bool ok() const noexcept { return na::ok(status_); }
    Status status() const noexcept { return status_; }
    const char* what() const noexcept { return what_; }  // a literal

    std::byte* begin() const noexcept { return begin_; }
    std::size_t written() const noexcept { return static_cast<std::size_t>(at_ - begin_); }
    void* owner() const noexcept { return owner_; }
    // Around what a pointer points to. False: pointers that lead back to where they began would be
    // followed for ever: the writer has failed.
    bool follow() noexcept {
        if (followed_ == kMostFollowed) [[unlikely]] {
            fail(Status::invalid_arg, "pointers within pointers without end: a cycle?");
        }
        followed_ += ok() ? 1 : 0;
        return ok();
    }
    void followed() noexcept { --followed_; }
    // For grow(): goes on in [begin, end), where what was written is copied to already.
    void move_to(std::byte* begin, std::byte* end) noexcept {
        at_ = begin + written();
        begin_ = begin;
        end_ = end;
    }
    // The RPC that the bytes are for, null outside of one: for what is sent as a reference.
    Handle* handle = nullptr;
    // Of a call: keeps the memory that is shown. Null: nobody does.
    detail::Shown* shown = nullptr;

 private:
    static constexpr unsigned kMostFollowed = 4096;

    template <typename T>
    void write(const T& value);
    bool more(std::size_t n) { return ok() && grow_(*this, n); }

    std::byte* begin_;
    std::byte* at_;
    std::byte* end_;
    Grow grow_;
    void* owner_;
    Status status_ = Status::success;
    const char* what_ = "";
    unsigned followed_ = 0;
};

// Decodes from bytes that a peer sent.
class Reader {
 public:
    using is_loading = std::true_type;
    using is_saving = std::false_type;

    explicit Reader(std::span<const std::byte> bytes, const Limits& limits = {}) noexcept
        : at_(bytes.data()),
          end_(bytes.data() + bytes.size()),
          memory_(limits.memory + bytes.size() * limits.per_byte),
          depth_(limits.depth) {}
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    template <typename... T>
    Reader& operator()(T&&... values) {
        (read(values), ...);
        return *this;
    }
    template <typename T>
    Reader& operator&(T& value) {
        read(value);
        return *this;
    }
    template <typename T>
    Reader& operator>>(T& value) {
        read(value);
        return *this;
    }

    // The next `n` bytes, in the message; null where there are fewer: the reader has failed then.
    const std::byte* view(std::size_t n) noexcept {
        if (left() < n) [[unlikely]] {
            fail(Status::protocol_error, "the message ends within a value");
            return nullptr;
        }
        const std::byte* at = at_;
        at_ += n;
        return at;
    }
    void bytes(void* out, std::size_t n) noexcept {
        const std::byte* from = view(n);
        if (n != 0) {
            if (from != nullptr) [[likely]] {
                std::memcpy(out, from, n);
            } else {
                std::memset(out, 0, n);
            }
        }
    }
    std::uint64_t size() noexcept {
        std::uint64_t n = 0;
        for (unsigned shift = 0; shift < 64; shift += 7) {
            const std::byte* from = view(1);
            if (from == nullptr) {
                return 0;
            }
            const auto byte = std::to_integer<std::uint64_t>(*from);
            if ((shift == 63 && byte > 1) || (shift != 0 && byte == 0)) {
                break;  // beyond 64 bits, or longer than it need be
            }
            n |= (byte & 0x7f) << shift;
            if (byte < 0x80) {
                return n;
            }
        }
        fail(Status::protocol_error, "a malformed length");
        return 0;
    }
    // A number of elements, each of which takes `min_size` bytes of the message and `memory` bytes
    // here at least; 0 where that cannot be: the reader has failed then.
    std::size_t count(std::size_t min_size, std::size_t memory) noexcept {
        const std::uint64_t n = size();
        if (min_size != 0 && n > left() / min_size) [[unlikely]] {
            fail(Status::protocol_error, "more elements than the message has bytes for");
            return 0;
        }
        if (memory != 0 && n > memory_ / memory) [[unlikely]] {
            fail(Status::msgsize, "values that take more memory than a message may (hg::Limits)");
            return 0;
        }
        memory_ -= static_cast<std::size_t>(n) * memory;
        return static_cast<std::size_t>(n);
    }
    // Before that many bytes are allocated for what no count() announced. False: more than a
    // message may: the reader has failed.
    bool charge(std::size_t memory) noexcept {
        if (memory > memory_) [[unlikely]] {
            fail(Status::msgsize, "values that take more memory than a message may (hg::Limits)");
            return false;
        }
        memory_ -= memory;
        return true;
    }
    template <detail::scalar T>
    T scalar() noexcept {
        if constexpr (std::same_as<T, bool>) {
            const std::byte* from = view(1);
            if (from != nullptr && std::to_integer<unsigned>(*from) > 1) {
                fail(Status::protocol_error, "a bool that is neither true nor false");
                return false;
            }
            return from != nullptr && *from != std::byte{0};
        } else if constexpr (detail::checked_enum<T>) {
            const auto value = static_cast<T>(scalar<std::underlying_type_t<T>>());
            if (ok() && !valid_enum(value)) [[unlikely]] {
                fail(Status::protocol_error, "a value that its enumeration does not have");
            }
            return ok() ? value : T{};
        } else {
            T value{};
            bytes(&value, sizeof value);
            return value;
        }
    }

    void fail(Status status, const char* what) noexcept {
        if (na::ok(status_)) {
            status_ = status;
            what_ = what;
        }
        at_ = end_;
    }
    bool ok() const noexcept { return na::ok(status_); }
    Status status() const noexcept { return status_; }
    const char* what() const noexcept { return what_; }
    std::size_t left() const noexcept { return static_cast<std::size_t>(end_ - at_); }
    // Everything that came belongs to a value.
    bool finish() noexcept {
        if (ok() && left() != 0) {
            fail(Status::protocol_error, "more bytes than the values take");
        }
        return ok();
    }
    Handle* handle = nullptr;

 private:
    template <typename T>
    void read(T& value);

    const std::byte* at_;
    const std::byte* end_;
    std::size_t memory_;
    unsigned depth_;
    Status status_ = Status::success;
    const char* what_ = "";
};

namespace detail {

// Whether Limits can matter to a value: it nests, or takes memory besides its own.
template <typename T>
inline constexpr bool is_limited = !std::is_void_v<T> && !scalar<T>;
template <typename C, typename Traits>
inline constexpr bool is_limited<std::basic_string_view<C, Traits>> = false;

// Depth to which recursive types are looked into at compile time.
inline constexpr int kLook = 6;

inline constexpr std::uint32_t kMix = 2166136261U;

// What is encoded alike has the same one; different definitions of an RPC have not.
template <typename T, int Look = kLook>
consteval std::uint32_t kind_of() {
    using U = std::remove_cv_t<T>;
    if constexpr (Look == 0) {
        return 1;
    } else if constexpr (std::is_void_v<U>) {
        return 2;
    } else if constexpr (std::is_enum_v<U>) {
        return kind_of<std::underlying_type_t<U>, Look>();
    } else if constexpr (std::is_arithmetic_v<U>) {
        const std::uint32_t sort = std::same_as<U, bool>         ? 0U
                                   : std::is_floating_point_v<U> ? 1U
                                   : std::is_signed_v<U>         ? 2U
                                                                 : 3U;
        return mix(mix(kMix, 3), sort * 64 + static_cast<std::uint32_t>(sizeof(U)));
    } else if constexpr (std::is_bounded_array_v<U>) {
        return mix(kind_of<std::remove_extent_t<U>, Look - 1>(),
                   static_cast<std::uint32_t>(std::extent_v<U>));
    } else if constexpr (has_codec<U>) {
        return Codec<U>::template kind<Look - 1>();
    } else if constexpr (custom<U>) {
        return 4;
    } else if constexpr (plain_aggregate<U>) {
        return kind_of_fields<U, Look - 1>();
    } else {
        return 5;
    }
}

// Bytes that each value takes at least.
template <typename T, int Look = kLook>
consteval std::size_t min_size_of() {
    using U = std::remove_cv_t<T>;
    if constexpr (Look == 0) {
        return 0;
    } else if constexpr (std::same_as<U, bool>) {
        return 1;
    } else if constexpr (scalar<U>) {
        return sizeof(U);
    } else if constexpr (std::is_bounded_array_v<U>) {
        return std::extent_v<U> * min_size_of<std::remove_extent_t<U>, Look - 1>();
    } else if constexpr (has_codec<U>) {
        return Codec<U>::template min_size<Look - 1>();
    } else if constexpr (plain_aggregate<U>) {
        return min_size_of_fields<U, Look - 1>();
    } else {
        return 0;
    }
}

// A value has views into the message.
template <typename T, int Look = kLook>
consteval bool has_views() {
    using U = std::remove_cvref_t<T>;
    if constexpr (Look == 0 || std::is_void_v<U>) {
        return false;
    } else if constexpr (std::is_bounded_array_v<U>) {
        return has_views<std::remove_extent_t<U>, Look - 1>();
    } else if constexpr (has_codec<U>) {
        return Codec<U>::template views<Look - 1>();
    } else if constexpr (plain_aggregate<U>) {
        return fields_have_views<U, Look - 1>();
    } else {
        return false;
    }
}

template <typename T, int Look = kLook>
consteval bool can_send() {
    using U = std::remove_cv_t<T>;
    if constexpr (Look == 0 || scalar<U>) {
        return true;
    } else if constexpr (std::is_bounded_array_v<U>) {
        return can_send<std::remove_extent_t<U>, Look - 1>();
    } else if constexpr (requires { Codec<U>::template sendable<Look>(); }) {
        return Codec<U>::template sendable<Look - 1>();
    } else if constexpr (plain_aggregate<U>) {
        return fields_can_be_sent<U, Look - 1>();
    } else {
        return has_codec<U> || (custom<U> && std::default_initializable<U>);
    }
}

// Reasons that have a message of their own.
template <typename T>
inline constexpr bool based = aggregate_with_base<T> && !has_codec<T> && !custom<T>;
template <typename T>
inline constexpr bool unmade = custom<T> && !std::default_initializable<T>;

template <typename T>
consteval void check_can_send() {
    static_assert(!std::is_pointer_v<T>,
                  "a pointer means nothing to another process: send what it points to "
                  "(std::string, std::vector, std::optional), or expose memory as hg::Bulk");
    static_assert(std::is_pointer_v<T> || !std::is_reference_v<T>,
                  "a reference cannot be sent: send the object itself");
    static_assert(!std::same_as<T, long double>,
                  "long double differs between machines: send double");
    using U = std::remove_cv_t<T>;
    static_assert(
        !hidden_serialize<U>,
        "serialize() of this type cannot be called: where it is private, write "
        "friend struct hg::Access; into the class; it takes an Archive& and is not const");
    static_assert(!based<U>,
                  "an aggregate with a base class is not seen through: make the base a member, or "
                  "write template <class Archive> void serialize(Archive& ar, Type& value)");
    static_assert(!unmade<U>,
                  "this type has no default constructor: a value is made before it is read, so "
                  "give it a public one");
    static_assert(!writable_span<U>, "a span that is received is read only: std::span<const T>");
    static_assert(!wide_span<U> || writable_span<U>,
                  "a span of elements larger than a byte would not be aligned in the message: "
                  "receive hg::Elements (a view), or a std::vector (a copy)");
    static_assert(
        std::is_pointer_v<T> || std::is_reference_v<T> || std::same_as<T, long double> ||
            hidden_serialize<U> || based<U> || unmade<U> || can_send<T>(),
        "this type cannot be sent: make it an aggregate, or write beside it "
        "template <class Archive> void serialize(Archive& ar, Type& value); the same goes "
        "for what it holds, and each type needs a default constructor");
}

}  // namespace detail

// Types that can be arguments and results of RPCs.
template <typename T>
concept Sendable = detail::can_send<T>();

template <typename T>
void Writer::write(const T& value) {
    if constexpr (detail::scalar<T>) {
        scalar(value);
    } else if constexpr (std::is_bounded_array_v<T>) {
        if constexpr (detail::raw<std::remove_extent_t<T>>) {
            bytes(value, sizeof value);
        } else {
            for (const auto& element : value) {
                write(element);
            }
        }
    } else if constexpr (detail::has_codec<T>) {
        Codec<T>::write(*this, value);
    } else if constexpr (detail::has_save_load<T>) {
        Access::save(*this, value);
    } else if constexpr (detail::has_member_serialize<T>) {
        // One function for both directions cannot be const; writing changes nothing.
        Access::serialize(*this, const_cast<T&>(value));
    } else if constexpr (detail::has_free_serialize<T>) {
        serialize(*this, const_cast<T&>(value));
    } else if constexpr (detail::plain_aggregate<T>) {
        if constexpr (detail::field_count<T> != 0) {
            detail::for_fields(value, [this](const auto&... field) { (this->write(field), ...); });
        }
    } else {
        detail::check_can_send<T>();
    }
}

template <typename T>
void Reader::read(T& value) {
    if constexpr (detail::scalar<T>) {
        value = scalar<T>();
    } else if constexpr (std::is_bounded_array_v<T> && detail::raw<std::remove_extent_t<T>>) {
        bytes(value, sizeof value);
    } else {
        if (depth_ == 0) [[unlikely]] {
            fail(Status::protocol_error, "values nested too deeply (hg::Limits)");
            return;
        }
        --depth_;
        if constexpr (std::is_bounded_array_v<T>) {
            for (auto& element : value) {
                read(element);
            }
        } else if constexpr (detail::has_codec<T>) {
            Codec<T>::read(*this, value);
        } else if constexpr (detail::has_save_load<T>) {
            Access::load(*this, value);
        } else if constexpr (detail::has_member_serialize<T>) {
            Access::serialize(*this, value);
        } else if constexpr (detail::has_free_serialize<T>) {
            serialize(*this, value);
        } else if constexpr (detail::plain_aggregate<T>) {
            if constexpr (detail::field_count<T> != 0) {
                detail::for_fields(value, [this](auto&... field) { (this->read(field), ...); });
            }
        } else {
            detail::check_can_send<T>();
        }
        ++depth_;
    }
}

}  // namespace hg

#include "hg/detail/codec_std.hpp"
