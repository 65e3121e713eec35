// SPDX-License-Identifier: BSD-3-Clause
// A class that knows N addresses, and K lookups of one of them: `lookups PROTOCOL N K`. Says what
// they took. Nobody lives at the addresses.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "na.h"
#include "resident.hpp"

namespace {

using path_test::resident_kib;

constexpr int kSkip = 77;

double us_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
        .count();
}

// Ports of 240 hosts, as the transport writes addresses.
std::string address(const char* stem, std::size_t i) {
    return std::string(stem) + "://192.0.2." + std::to_string(1 + i % 240) + ":" +
           std::to_string(10000 + i / 240);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) {
        std::fputs("usage: lookups PROTOCOL N K\n", stderr);
        return 1;
    }
    const std::size_t repeats = std::strtoull(argv[3], nullptr, 10);
    const std::size_t count = std::strtoull(argv[2], nullptr, 10);
    const char* stem = std::strchr(argv[1], '+');
    na_init_info info = NA_INIT_INFO_INITIALIZER;
    info.progress_mode = NA_NO_BLOCK;
    na_class_t* cls = NA_Initialize_opt2(argv[1], false, NA_VERSION(6, 0), &info);
    if (cls == nullptr || stem == nullptr || count == 0) {
        std::printf("SKIPPED: %s cannot be opened here\n", argv[1]);
        return kSkip;
    }
    std::vector<na_addr_t*> known(count);
    bool good = true;
    const long before = resident_kib();
    auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; good && i < count; ++i) {
        good = NA_Addr_lookup(cls, address(stem + 1, i).c_str(), &known[i]) == NA_SUCCESS;
    }
    const double all = us_since(begin);
    const long after = resident_kib();
    const std::string last = address(stem + 1, count - 1);
    begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; good && i < repeats; ++i) {
        na_addr_t* again = nullptr;
        good = NA_Addr_lookup(cls, last.c_str(), &again) == NA_SUCCESS && again == known.back();
        NA_Addr_free(cls, again);
    }
    const double again = us_since(begin);
    std::printf("%zu addresses: %.2f us each, %.0f bytes each; one of them again: %.2f us\n", count,
                all / static_cast<double>(count),
                1024.0 * static_cast<double>(after - before) / static_cast<double>(count),
                repeats == 0 ? 0.0 : again / static_cast<double>(repeats));
    for (na_addr_t* addr : known) {
        NA_Addr_free(cls, addr);
    }
    good = NA_Finalize(cls) == NA_SUCCESS && good;
    return good ? 0 : 1;
}
