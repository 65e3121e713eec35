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
    const std::string all =
        fmt::format("{} net {} pid {} user {}", boot_id(), number_of("/proc/self/ns/net"),
                    number_of("/proc/self/ns/pid"), by_user ? std::to_string(geteuid()) : "any");
    std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
    for (const char c : all) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    }
    return digits(hash);
}

const std::string& host_id() {
    // Never destroyed: classes may be used while the process ends.
    static const std::string& id = *new std::string(find_host_id());
    return id;
}

}  // namespace na::util
