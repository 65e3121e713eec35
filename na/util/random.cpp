// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/random.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include "na/util/fd.hpp"

namespace na::util {
namespace {

struct SipState {
    std::uint64_t a, b, c, d;
    static std::uint64_t left(std::uint64_t x, int by) noexcept { return x << by | x >> (64 - by); }
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

// All of it or nothing; false: refused.
bool from_system_call(void* out, std::size_t size) noexcept {
    std::size_t have = 0;
    while (have < size) {
        const ssize_t n = getrandom(static_cast<char*>(out) + have, size - have, 0);
        if (n > 0) {
            have += static_cast<std::size_t>(n);
        } else if (n == 0 || errno != EINTR) {
            return false;
        }
    }
    return true;
}

bool from_device(void* out, std::size_t size) noexcept {
    const UniqueFd device(open("/dev/urandom", O_RDONLY | O_CLOEXEC));
    std::size_t have = 0;
    while (device && have < size) {
        const ssize_t n = read(device.get(), static_cast<char*>(out) + have, size - have);
        if (n > 0) {
            have += static_cast<std::size_t>(n);
        } else if (n == 0 || errno != EINTR) {
            return false;
        }
    }
    return have == size;
}

bool from_kernel(void* out, std::size_t size) noexcept {
    return from_system_call(out, size) || from_device(out, size);
}

// For the time when the kernel refuses. Filled in once, before the first class opens.
struct Reserve {
    std::uint64_t key[2] = {};
    bool filled = from_kernel(key, sizeof key);
    std::atomic<std::uint64_t> used{0};
};

Reserve& reserve() noexcept {
    static Reserve all;
    return all;
}

}  // namespace

std::uint64_t keyed_hash(std::uint64_t k0, std::uint64_t k1, std::string_view text, std::uint64_t a,
                         std::uint64_t b) noexcept {
    SipState s{k0 ^ 0x736f6d6570736575U, k1 ^ 0x646f72616e646f6dU, k0 ^ 0x6c7967656e657261U,
               k1 ^ 0x7465646279746573U};
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

Error check_random() noexcept {
    if (reserve().filled) {
        return Error{Status::success, {}};
    }
    return Error{Status::access,
                 "there are no random numbers: getrandom(2) is refused (a seccomp filter?), and "
                 "/dev/urandom cannot be read: allow one of them"};
}

std::uint64_t random_number() noexcept {
    std::uint64_t n = 0;
    random_numbers({&n, 1});
    return n != 0 ? n : 1;
}

void random_numbers(std::span<std::uint64_t> out) noexcept {
    if (!from_kernel(out.data(), out.size_bytes())) [[unlikely]] {
        Reserve& r = reserve();
        for (std::uint64_t& n : out) {
            n = keyed_hash(r.key[0], r.key[1], {}, r.used.fetch_add(1, std::memory_order_relaxed),
                           0);
        }
    }
}

}  // namespace na::util
