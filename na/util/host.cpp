// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/host.hpp"

#include <cstdint>
#include <cstdio>

#include <fmt/format.h>
#include <sys/stat.h>

namespace na::util {
namespace {

std::string boot_id() {
    std::string text;
    if (std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "re"); file != nullptr) {
        char buffer[64];
        const std::size_t n = std::fread(buffer, 1, sizeof buffer, file);
        std::fclose(file);
        for (std::size_t i = 0; i < n; ++i) {
            const char c = buffer[i];
            if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')) {
                text.push_back(c);
            }
        }
    }
    return text;
}

std::string make_host_id() {
    struct stat ns {};
    const bool known = stat("/proc/self/ns/net", &ns) == 0;
    return fmt::format("{}n{:x}", boot_id(), known ? static_cast<std::uint64_t>(ns.st_ino) : 0);
}

}  // namespace

const std::string& host_id() {
    // Never destroyed: classes may be used while the process ends.
    static const std::string& id = *new std::string(make_host_id());
    return id;
}

}  // namespace na::util
