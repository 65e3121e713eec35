// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/host.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "na/util/config.hpp"

namespace na::util {
namespace {

std::string boot_id() {
    std::string text;
    if (std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "re"); file != nullptr) {
        char buffer[64];
        const std::size_t n = std::fread(buffer, 1, sizeof buffer, file);
        std::fclose(file);
        text.assign(buffer, n);
    }
    return text;
}

std::uint64_t number_of(const char* space) {
    struct stat found {};
    return stat(space, &found) == 0 ? static_cast<std::uint64_t>(found.st_ino) : 0;
}

std::string namespaces() {
    return fmt::format("net {} pid {}", number_of("/proc/self/ns/net"),
                       number_of("/proc/self/ns/pid"));
}

std::uint64_t hash_of(std::string_view text) noexcept {
    std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
    for (const char c : text) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    }
    return hash;
}

// Eleven digits to the base of 62: names of addresses have to fit where those of Mercury do, whose
// ids are not longer.
std::string digits(std::uint64_t n) {
    constexpr std::string_view kDigits =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    std::array<char, 11> text;
    for (char& c : text) {
        c = kDigits[n % kDigits.size()];
        n /= kDigits.size();
    }
    return {text.begin(), text.end()};
}

}  // namespace

std::string find_host_id() {
    // Users who are let in are asked for at the connection.
    const bool by_user = config::value(config::kSmAllowUids).empty();
    return digits(hash_of(fmt::format("{} {} user {}", boot_id(), namespaces(),
                                      by_user ? std::to_string(geteuid()) : "any")));
}

std::uint32_t find_namespaces() {
    if (number_of("/proc/self/ns/pid") == 0) {
        return 0;
    }
    const std::uint64_t hash = hash_of(namespaces());
    const auto folded = static_cast<std::uint32_t>(hash ^ hash >> 32);
    return folded != 0 ? folded : 1;
}

const std::string& host_id() {
    // Never destroyed: classes may be used while the process ends.
    static const std::string& id = *new std::string(find_host_id());
    return id;
}

}  // namespace na::util
