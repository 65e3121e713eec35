// SPDX-License-Identifier: BSD-3-Clause
// Numbers that peers cannot guess.
#pragma once

#include <cstdint>
#include <string_view>

#include "na/util/random.hpp"

namespace na::session {

using util::random_number;

// A keyed hash that keeps its key, of a text and two numbers.
class Secret {
 public:
    Secret() noexcept : k0_(random_number()), k1_(random_number()) {}

    std::uint64_t hash(std::string_view text, std::uint64_t a, std::uint64_t b) const noexcept {
        return util::keyed_hash(k0_, k1_, text, a, b);
    }

 private:
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
