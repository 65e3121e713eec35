// SPDX-License-Identifier: BSD-3-Clause
// Opening one class loads one plugin: a process that opened `ucx+tcp` must not map libfabric, nor
// the reverse, because loading either takes longer than everything else together.
//
// usage: modules INFO NEEDED FORBIDDEN    parts of file names in /proc/self/maps
#include <cstdio>
#include <fstream>
#include <string>

#include <na.h>

namespace {

bool mapped(const char* part) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        if (line.find(part) != std::string::npos) {
            return true;
        }
    }
    return false;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) {
        return 2;
    }
    na_class_t* cls = NA_Initialize(argv[1], false);
    if (cls == nullptr) {
        std::printf("skipped: %s\n", NA_Get_last_error());
        return 77;
    }
    const bool needed = mapped(argv[2]);
    const bool forbidden = mapped(argv[3]);
    NA_Finalize(cls);
    std::printf("%s: %s is %smapped, %s is %smapped\n", argv[1], argv[2], needed ? "" : "not ",
                argv[3], forbidden ? "" : "not ");
    return needed && !forbidden ? 0 : 1;
}
