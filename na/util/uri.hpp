// SPDX-License-Identifier: BSD-3-Clause
// Info strings and addresses: `[class+]protocol[://host]`.
#pragma once

#include <string>
#include <string_view>

#include "na/result.hpp"

namespace na::util {

struct Uri {
    std::string class_name;  // empty: not given
    std::string protocol;
    std::string host;       // what follows "://", may be empty
    bool has_host = false;  // "://" was there
};

// Splits the text; views nothing of it. Mercury's grammar: a bare trailing ':' counts as no host.
// Errors: invalid_arg with what is wrong and where.
Result<Uri> parse_uri(std::string_view text);

// Without the white space in front of and behind the text.
std::string_view without_blanks(std::string_view text) noexcept;

}  // namespace na::util
