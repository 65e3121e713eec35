// SPDX-License-Identifier: BSD-3-Clause
// Numbers that are read in the message they came in, without a copy.
//
// A std::span needs them aligned, and in a message they are wherever what comes before them ends;
// padding would cost every sender of a vector, and every transport an aligned place. Elements reads
// each number from its bytes instead, which costs nothing on machines that load unaligned values.
//
//   inline constexpr hg::Rpc<double(hg::Elements<double>)> sum{"sum"};
//   engine.serve(sum, [](hg::Elements<double> all) { return std::accumulate(...); });
//   sum(peer, vector).get();
#pragma once

#include "na/detail/standard.hpp"

#include <compare>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <span>
#include <type_traits>
#include <vector>

#include "hg/codec.hpp"

namespace hg {

// A view of numbers or enumerations, encoded as a std::vector<T> is: whichever of vector, span and
// Elements the definition names, callers pass and handlers answer any of them. As a view of a
// message it lives as long as that (hg/rpc.hpp). Trivially copied; any thread.
template <typename T>
class Elements {
    static_assert(detail::raw<T> && !std::is_const_v<T>,
                  "hg::Elements is for numbers and enumerations: receive a std::vector of others");

 public:
    using value_type = T;

    Elements() noexcept = default;
    // Of aligned memory, to be sent.
    Elements(std::span<const T> elements) noexcept
        : data_(std::as_bytes(elements).data()), size_(elements.size()) {}
    // Of `size` elements that begin there, aligned or not.
    Elements(const std::byte* data, std::size_t size) noexcept : data_(data), size_(size) {}

    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    // Not checked, as everywhere: i < size().
    T operator[](std::size_t i) const noexcept {
        T value;
        std::memcpy(&value, data_ + i * sizeof(T), sizeof(T));
        return value;
    }
    T front() const noexcept { return (*this)[0]; }
    T back() const noexcept { return (*this)[size_ - 1]; }
    // Elements [first, first + count); as many of them as there are.
    Elements sub(std::size_t first, std::size_t count = SIZE_MAX) const noexcept {
        first = first < size_ ? first : size_;
        return {data_ + first * sizeof(T), count < size_ - first ? count : size_ - first};
    }

    // Copies as many as there are, and `out` has room for; answers how many.
    std::size_t copy_to(std::span<T> out) const noexcept {
        const std::size_t n = out.size() < size_ ? out.size() : size_;
        if (n != 0) {
            std::memcpy(out.data(), data_, n * sizeof(T));
        }
        return n;
    }
    std::vector<T> to_vector() const {
        std::vector<T> all(size_);
        (void)copy_to(all);
        return all;
    }
    std::span<const std::byte> bytes() const noexcept { return {data_, size_ * sizeof(T)}; }

    // Random access; gives values, not references.
    class iterator {
     public:
        using iterator_concept = std::random_access_iterator_tag;
        using iterator_category = std::input_iterator_tag;
        using value_type = T;
        using difference_type = std::ptrdiff_t;
        using pointer = void;
        using reference = T;

        iterator() noexcept = default;
        explicit iterator(const std::byte* at) noexcept : at_(at) {}
        T operator*() const noexcept {
            T value;
            std::memcpy(&value, at_, sizeof(T));
            return value;
        }
        T operator[](difference_type n) const noexcept { return *(*this + n); }
        iterator& operator++() noexcept { return *this += 1; }
        iterator& operator--() noexcept { return *this += -1; }
        iterator operator++(int) noexcept {
            const iterator before = *this;
            ++*this;
            return before;
        }
        iterator operator--(int) noexcept {
            const iterator before = *this;
            --*this;
            return before;
        }
        iterator& operator+=(difference_type n) noexcept {
            at_ += n * kSize;
            return *this;
        }
        iterator& operator-=(difference_type n) noexcept { return *this += -n; }
        friend iterator operator+(iterator i, difference_type n) noexcept { return i += n; }
        friend iterator operator+(difference_type n, iterator i) noexcept { return i += n; }
        friend iterator operator-(iterator i, difference_type n) noexcept { return i -= n; }
        friend difference_type operator-(iterator a, iterator b) noexcept {
            return (a.at_ - b.at_) / kSize;
        }
        friend bool operator==(iterator a, iterator b) noexcept { return a.at_ == b.at_; }
        friend auto operator<=>(iterator a, iterator b) noexcept { return a.at_ <=> b.at_; }

     private:
        static constexpr difference_type kSize = sizeof(T);
        const std::byte* at_ = nullptr;
    };
    iterator begin() const noexcept { return iterator(data_); }
    iterator end() const noexcept { return iterator(data_ + size_ * sizeof(T)); }

 private:
    const std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

template <typename T>
struct Codec<Elements<T>> : detail::SequenceCodec<Elements<T>> {
    template <int>
    static consteval bool views() {
        return true;
    }
    static void write(Writer& w, const Elements<T>& elements) {
        w.size(elements.size());
        w.bytes(elements.bytes().data(), elements.bytes().size());
    }
    static void read(Reader& r, Elements<T>& elements) {
        const std::size_t n = r.count(sizeof(T), 0);
        const std::byte* at = r.view(n * sizeof(T));
        elements = at == nullptr ? Elements<T>() : Elements<T>(at, n);
    }
};

}  // namespace hg
