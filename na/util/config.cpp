// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/config.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "na/util/log.hpp"

namespace na::config {
namespace {

constexpr const Variable* kAll[] = {
    &kLogLevel,     &kLogSubsys,   &kPluginPath, &kUnexpectedLimit, &kUnexpectedBytes,
    &kMaxAddresses, &kSmAllowUids, &kSmCma, &kOverflowLimit,
    &kOverflowTotal, &kUnackedLimit, &kRequestLimit,
};

std::optional<std::uint64_t> parse(const char* text) noexcept {
    std::uint64_t n = 0;
    const char* end = text + std::strlen(text);
    const auto [stop, error] = std::from_chars(text, end, n);
    if (error != std::errc{} || stop != end || stop == text) {
        return std::nullopt;
    }
    return n;
}

}  // namespace

std::span<const Variable* const> all() noexcept { return kAll; }

bool is_set(const Variable& variable) {
    const char* v = std::getenv(variable.name);
    return v != nullptr && *v != '\0';
}

std::string value(const Variable& variable) {
    const char* v = std::getenv(variable.name);
    return v != nullptr && *v != '\0' ? v : variable.fallback;
}

std::uint64_t number(const Variable& variable) {
    const std::string text = value(variable);
    if (const auto n = parse(text.c_str())) {
        return *n;
    }
    NA_LOG_WARNING(cls, "{}=\"{}\" is not a number: using {}", variable.name, text, variable.fallback);
    return parse(variable.fallback).value_or(0);
}

}  // namespace na::config
