// SPDX-License-Identifier: BSD-3-Clause
// Copies of a few bytes, whose number the compiler does not know: a call of memcpy would take
// longer than the copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace na::util {

namespace detail {

// `n` is between sizeof(Word) and twice that: the first and the last word of both, which may
// overlap.
template <typename Word>
void copy_ends(char* to, const char* from, std::size_t n) noexcept {
    Word first;
    Word last;
    std::memcpy(&first, from, sizeof first);
    std::memcpy(&last, from + n - sizeof last, sizeof last);
    std::memcpy(to, &first, sizeof first);
    std::memcpy(to + n - sizeof last, &last, sizeof last);
}

// As a vector: a structure would go through the stack.
typedef std::uint64_t Bytes16 __attribute__((vector_size(16)));

}  // namespace detail

// Of memory that does not overlap, 64 bytes at most. `from` may be memory that others write: what
// is used afterwards is the copy.
inline void copy_line(void* to, const void* from, std::size_t n) noexcept {
    auto* t = static_cast<char*>(to);
    const auto* f = static_cast<const char*>(from);
    if (n >= 16) {
        if (n <= 32) {
            detail::copy_ends<detail::Bytes16>(t, f, n);
        } else {
            detail::copy_ends<detail::Bytes16>(t, f, 32);
            detail::copy_ends<detail::Bytes16>(t + n - 32, f + n - 32, 32);
        }
    } else if (n >= 8) {
        detail::copy_ends<std::uint64_t>(t, f, n);
    } else if (n >= 4) {
        detail::copy_ends<std::uint32_t>(t, f, n);
    } else if (n != 0) {
        t[0] = f[0];
        t[n / 2] = f[n / 2];
        t[n - 1] = f[n - 1];
    }
    asm volatile("" ::: "memory");  // nothing is read again from where it came from
}

// The same of memory that has just been written in words, to be copied in the same words: a load
// that takes what two stores wrote waits until both have left the store buffer, and so until all
// before them have, which may be a line that another processor has to give up first. `at`: a
// multiple of four, the place of `from` in what was written.
inline void copy_words(void* to, const void* from, std::size_t n, std::size_t at = 0) noexcept {
    auto* t = static_cast<char*>(to);
    const auto* f = static_cast<const char*>(from);
    const auto word = [&t, &f]<typename Word>(Word w) {
        std::memcpy(&w, f, sizeof w);
        asm("" : "+r"(w));  // the compiler shall not make wider ones of them
        std::memcpy(t, &w, sizeof w);
        t += sizeof w;
        f += sizeof w;
    };
    if (at == 0 && n % 8 == 0 && n <= 32) {
        // A header, and a few numbers at most: a question for each word, and no place to keep.
        const auto word_at = [t, f](std::size_t place) {
            std::uint64_t w;
            std::memcpy(&w, f + place, sizeof w);
            asm("" : "+r"(w));
            std::memcpy(t + place, &w, sizeof w);
        };
        if (n == 0) {
            return;
        }
        word_at(0);
        if (n == 8) {
            return;
        }
        word_at(8);
        if (n == 16) {
            return;
        }
        word_at(16);
        if (n != 24) {
            word_at(24);
        }
        return;
    }
    if (at % 8 != 0 && n >= 4) {
        word(std::uint32_t{});
        n -= 4;
    }
    for (std::size_t left = n / 32; left != 0; --left) {
        word(std::uint64_t{});
        word(std::uint64_t{});
        word(std::uint64_t{});
        word(std::uint64_t{});
    }
    if ((n & 16) != 0) {
        word(std::uint64_t{});
        word(std::uint64_t{});
    }
    if ((n & 8) != 0) {
        word(std::uint64_t{});
    }
    if ((n & 4) != 0) {
        word(std::uint32_t{});
    }
    if ((n & 2) != 0) {
        word(std::uint16_t{});
    }
    if ((n & 1) != 0) {
        word(std::uint8_t{});
    }
}

// As copy_line(), for any number.
inline void copy_small(void* to, const void* from, std::size_t n) noexcept {
    if (n <= 64) {
        copy_line(to, from, n);
    } else {
        std::memcpy(to, from, n);
        asm volatile("" ::: "memory");
    }
}

}  // namespace na::util
