// SPDX-License-Identifier: BSD-3-Clause
// Numbers that peers cannot guess.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <sys/random.h>

namespace na::session {

// Never zero.
inline std::uint64_t random_number() noexcept {
    std::uint64_t n = 0;
    while (n == 0) {
        if (getrandom(&n, sizeof n, 0) != static_cast<ssize_t>(sizeof n)) {
            n = 0;
        }
    }
    return n;
}

// A keyed hash that keeps its key (SipHash-2-4), of a text and two numbers.
class Secret {
 public:
    Secret() noexcept : k0_(random_number()), k1_(random_number()) {}

    std::uint64_t hash(std::string_view text, std::uint64_t a, std::uint64_t b) const noexcept {
        State s{k0_ ^ 0x736f6d6570736575U, k1_ ^ 0x646f72616e646f6dU, k0_ ^ 0x6c7967656e657261U,
                k1_ ^ 0x7465646279746573U};
        s.absorb(a);
        s.absorb(b);
        std::size_t left = text.size();
        for (const char* at = text.data(); left != 0;) {
            std::uint64_t word = 0;
            const std::size_t n = left < sizeof word ? left : sizeof word;
            std::memcpy(&word, at, n);
            s.absorb(word);
            at += n;
            left -= n;
        }
        s.absorb(std::uint64_t{text.size()} << 56);
        s.c ^= 0xff;
        for (int i = 0; i < 4; ++i) {
            s.round();
        }
        return s.a ^ s.b ^ s.c ^ s.d;
    }

 private:
    struct State {
        std::uint64_t a, b, c, d;
        static std::uint64_t left(std::uint64_t x, int by) noexcept {
            return x << by | x >> (64 - by);
        }
        void round() noexcept {
            a += b;
            b = left(b, 13) ^ a;
            a = left(a, 32);
            c += d;
            d = left(d, 16) ^ c;
            a += d;
            d = left(d, 21) ^ a;
            c += b;
            b = left(b, 17) ^ c;
            c = left(c, 32);
        }
        void absorb(std::uint64_t word) noexcept {
            d ^= word;
            round();
            round();
            a ^= word;
        }
    };

    const std::uint64_t k0_;
    const std::uint64_t k1_;
};

// What a welcome gives to who greeted with `offer`; `stamp`: when, Header::tag (wire.hpp).
inline std::uint64_t welcome_cookie(const Secret& secret, std::string_view identity,
                                    std::uint8_t context, std::uint64_t offer,
                                    std::uint32_t stamp) noexcept {
    return secret.hash(identity, std::uint64_t{stamp} << 8 | context, offer);
}

}  // namespace na::session
