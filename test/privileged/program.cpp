// SPDX-License-Identifier: BSD-3-Clause
// A program that run.sh makes set-user-ID. Prints which variables of its caller took effect.
#include <cstdio>
#include <cstdlib>

#include <na.h>

int main() {
    na_class_t* cls = NA_Initialize("intruder+x", false);
    std::printf("class %s\n", cls == nullptr ? "refused" : "opened");
    // Every module has been looked for: what libraries read themselves has been removed.
    std::printf("FI_PROVIDER_PATH %s\n",
                std::getenv("FI_PROVIDER_PATH") == nullptr ? "gone" : "kept");
    std::printf("UCX_MODULE_DIR %s\n", std::getenv("UCX_MODULE_DIR") == nullptr ? "gone" : "kept");
    // UCX reads files of its settings as it is loaded.
    na_class_t* ucx = NA_Initialize("ucx+tcp://127.0.0.1", false);
    std::printf("ucx %s\n", ucx == nullptr ? "refused" : "opened");
    std::printf("HOME %s\n", std::getenv("HOME") == nullptr ? "gone" : "kept");
    NA_Finalize(ucx);
    std::printf("UNRELATED %s\n", std::getenv("UNRELATED") == nullptr ? "gone" : "kept");
    NA_Finalize(cls);
    return 0;
}
