// SPDX-License-Identifier: BSD-3-Clause
#include "support/options.hpp"

namespace support {

// Not in catch_main.cpp, which is compiled without the sanitizers that kSlow asks about.
Options& options() noexcept {
    static Options o{.protocol = "loop+loop", .seed = 1, .limit_s = 60 * kSlow, .rounds = 1};
    return o;
}

}  // namespace support
