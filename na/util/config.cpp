// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/config.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <sys/auxv.h>
#include <unistd.h>

#include "na/util/log.hpp"

namespace na::config {
namespace {

constexpr const Variable* kAll[] = {
    &kLogLevel,      &kLogSubsys,    &kPluginPath,   &kUnexpectedLimit, &kUnexpectedBytes,
    &kMaxAddresses,  &kSmAllowUids,  &kSmCma,        &kUcxRma,          &kOverflowLimit,
    &kOverflowTotal, &kUnackedLimit, &kRequestLimit, &kStallTimeout,    &kCoalesce,
    &kCoalesceLimit, &kLockBias,     &kUnlocked,
};

// Every variable is read here. A privileged process (set-user-ID, set-group-ID, file capabilities)
// was started by a less privileged caller, whose environment must not steer it: nothing is set
// then.
const char* read(const char* name) noexcept {
    return secure_getenv(name);
}

// The libraries beneath the plugins call getenv() themselves, and some variables name files that
// they load (FI_PROVIDER_PATH, UCX_MODULE_DIR).
constexpr std::string_view kLibraryPrefixes[] = {
    "FI_",   "UCX_",  "UCS_",   "UCT_",   "RDMA_",      "RDMAV_", "IBV_", "MLX4_",
    "MLX5_", "PSM2_", "PSM3_",  "PSM_",   "HFI_",       "EFA_",   "CXI_", "OPX_",
    "GNI_",  "RXM_",  "OFI_",   "VERBS_", "SYSFS_PATH", "CUDA_",  "HIP_", "ZE_",
    "ROCR_", "HSA_",  "HWLOC_", "NUMA_",  "NVIDIA_",
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
    const char* v = read(variable.name);
    return v != nullptr && *v != '\0';
}

std::string value(const Variable& variable) {
    const char* v = read(variable.name);
    return v != nullptr && *v != '\0' ? v : variable.fallback;
}

std::uint64_t number(const Variable& variable) noexcept {
    const char* text = read(variable.name);
    if (text == nullptr || *text == '\0') {
        text = variable.fallback;
    }
    if (const auto n = parse(text)) {
        return *n;
    }
    NA_LOG_WARNING(cls, "{}=\"{}\" is not a number: using {}", variable.name, text,
                   variable.fallback);
    return parse(variable.fallback).value_or(0);
}

bool privileged() noexcept {
    return getauxval(AT_SECURE) != 0;
}

void forget_libraries_where_privileged() {
    if (!privileged()) {
        return;
    }
    std::vector<std::string> names;  // unsetenv() moves what follows in `environ`
    for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
        const std::string_view entry = *at;
        for (const std::string_view prefix : kLibraryPrefixes) {
            if (entry.starts_with(prefix)) {
                names.emplace_back(entry.substr(0, entry.find('=')));
                break;
            }
        }
    }
    for (const std::string& name : names) {
        unsetenv(name.c_str());
    }
    if (!names.empty()) {
        NA_LOG_WARNING(cls,
                       "{} variables of libfabric, UCX and their like were removed from the "
                       "environment: this process has more rights than its caller",
                       names.size());
    }
}

WithoutHome::WithoutHome() {
    // secure_getenv() tells a privileged process nothing; the value is only put back.
    constexpr std::string_view kHome = "HOME=";
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        if (const std::string_view text(*entry); text.starts_with(kHome)) {
            home_ = text.substr(kHome.size());
            break;
        }
    }
    if (!home_.empty()) {
        unsetenv("HOME");
    }
}

WithoutHome::~WithoutHome() {
    if (!home_.empty()) {
        setenv("HOME", home_.c_str(), 1);
    }
}

std::optional<std::string> of_library(const std::string& name) {
    const char* v = read(name.c_str());
    return v != nullptr && *v != '\0' ? std::optional<std::string>(v) : std::nullopt;
}

std::vector<std::string> of_libraries(std::string_view prefix) {
    std::vector<std::string> list;
    if (privileged()) {
        return list;
    }
    for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
        if (std::string_view(*at).starts_with(prefix)) {
            list.emplace_back(*at);
        }
    }
    std::sort(list.begin(), list.end());
    return list;
}

}  // namespace na::config
