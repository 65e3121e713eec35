// SPDX-License-Identifier: BSD-3-Clause
// Numbers that peers cannot guess, and a keyed hash. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "na/result.hpp"

namespace na::util {

// Whether random_number() has what it needs. To be asked when a class opens, because a sandbox may
// refuse getrandom(2) and /dev/urandom. Error: access, with what to allow.
Error check_random() noexcept;

// Never zero. From the kernel; where the kernel refuses (a sandbox that began after the class was
// opened), derived from a key that the kernel gave before. Never waits for a refusal to end.
std::uint64_t random_number() noexcept;
// Many at once. Zero is one of the numbers.
void random_numbers(std::span<std::uint64_t> out) noexcept;

// SipHash-2-4 of a text and two numbers.
std::uint64_t keyed_hash(std::uint64_t k0, std::uint64_t k1, std::string_view text, std::uint64_t a,
                         std::uint64_t b) noexcept;

}  // namespace na::util
