// SPDX-License-Identifier: BSD-3-Clause
// What the measuring programs of this folder share.
#pragma once

#include <cstdio>

#include <unistd.h>

namespace path_test {

// Memory of this process that is in use; 0: unknown.
inline long resident_kib() {
    long pages = 0;
    long resident = 0;
    if (std::FILE* f = std::fopen("/proc/self/statm", "r")) {
        if (std::fscanf(f, "%ld %ld", &pages, &resident) != 2) {
            resident = 0;
        }
        std::fclose(f);
    }
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

}  // namespace path_test
