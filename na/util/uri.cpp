// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/uri.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace na::util {
namespace {

// Long enough for any name that a plugin takes, short enough to print.
constexpr std::size_t kMaxLength = 1024;
constexpr std::string_view kForm = "the form is [class+]protocol[://host], as in na+sm://name";

Error malformed(std::string_view text, std::string_view what) {
    return Error{Status::invalid_arg,
                 fmt::format("\"{}\": {}; {}", text.substr(0, 128), what, kForm)};
}

}  // namespace

Result<Uri> parse_uri(std::string_view text) {
    if (text.empty()) {
        return malformed(text, "empty text");
    }
    if (text.size() > kMaxLength) {
        return malformed(text, fmt::format("longer than {} characters", kMaxLength));
    }
    if (std::any_of(text.begin(), text.end(),
                    [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; })) {
        return malformed("(not printed)", "it holds a blank or control character");
    }
    Uri uri;
    const std::size_t colon = text.find(':');
    std::string_view left = text.substr(0, colon);
    if (colon != std::string_view::npos) {
        std::string_view right = text.substr(colon + 1);
        if (!right.empty()) {
            if (!right.starts_with("//")) {
                return malformed(text, "\"//\" must follow the ':'");
            }
            uri.has_host = true;
            uri.host = right.substr(2);
        }
    }
    if (const std::size_t plus = left.find('+'); plus != std::string_view::npos) {
        uri.class_name = left.substr(0, plus);
        if (uri.class_name.empty()) {
            return malformed(text, "no class before the '+'");
        }
        left.remove_prefix(plus + 1);
    }
    if (left.empty()) {
        return malformed(text, "no protocol");
    }
    uri.protocol = left;
    return uri;
}

std::string_view without_blanks(std::string_view text) noexcept {
    constexpr std::string_view kBlanks = " \t\n\v\f\r";
    const std::size_t from = text.find_first_not_of(kBlanks);
    return from == std::string_view::npos
               ? std::string_view{}
               : text.substr(from, text.find_last_not_of(kBlanks) + 1 - from);
}

}  // namespace na::util
