// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/copy.hpp"

#include <catch2/catch.hpp>
#include <vector>

using na::util::copy_small;
using na::util::copy_words;

TEST_CASE("small copies take all bytes and no other", "[copy]") {
    // copy_words() by the place of the first byte.
    const int way = GENERATE(-1, 0, 4, 52, 56);
    for (std::size_t n = 0; n <= 200; ++n) {
        for (std::size_t at = 0; at < 3; ++at) {
            std::vector<unsigned char> from(n + at + 1);
            for (std::size_t i = 0; i < from.size(); ++i) {
                from[i] = static_cast<unsigned char>(i * 7 + 1);
            }
            std::vector<unsigned char> to(n + at + 2, 0xee);
            if (way < 0) {
                copy_small(to.data() + at + 1, from.data() + at, n);
            } else {
                copy_words(to.data() + at + 1, from.data() + at, n, static_cast<std::size_t>(way));
            }
            bool right = true;
            for (std::size_t i = 0; i < to.size(); ++i) {
                const bool in = i >= at + 1 && i < at + 1 + n;
                right = right && to[i] == (in ? from[i - 1] : 0xee);
            }
            CHECK(right);
        }
    }
}
