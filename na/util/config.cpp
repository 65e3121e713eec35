// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/config.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

#include "na/util/log.hpp"

namespace na::config {
namespace {

constexpr const Variable* kAll[] = {
    &kLogLevel,        &kLogSubsys,     &kPluginPath,    &kUnexpectedLimit,
    &kUnexpectedBytes, &kMaxAddresses,  &kSmAllowUids,   &kSmCma,
    &kUcxRma,          &kOverflowLimit, &kOverflowTotal, &kUnackedLimit,
    &kRequestLimit,    &kCoalesce,      &kCoalesceLimit, &kLockBias,
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

std::span<const Variable* const> all() noexcept {
    return kAll;
}

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
    NA_LOG_WARNING(cls, "{}=\"{}\" is not a number: using {}", variable.name, text,
                   variable.fallback);
    return parse(variable.fallback).value_or(0);
}

std::optional<std::string> of_library(const std::string& name) {
    const char* v = std::getenv(name.c_str());
    return v != nullptr && *v != '\0' ? std::optional<std::string>(v) : std::nullopt;
}

std::vector<std::string> of_libraries(std::string_view prefix) {
    std::vector<std::string> list;
    for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
        if (std::string_view(*at).starts_with(prefix)) {
            list.emplace_back(*at);
        }
    }
    std::sort(list.begin(), list.end());
    return list;
}

}  // namespace na::config
