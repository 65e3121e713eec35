// SPDX-License-Identifier: BSD-3-Clause
// What a handle takes that was made and not used yet: its buffers have room for the largest message,
// and are not touched before there is something in them.
//
//   handle_memory PROTOCOL     0: fine, 1: not, 77: the protocol cannot be opened here
#include <cstdio>
#include <vector>

#include "mercury.h"
#include "mercury_proc.h"
#include "resident.hpp"

namespace {
constexpr int kSkip = 77;
constexpr std::size_t kHandles = 4000;
constexpr double kMostKib = 3;  // a buffer that is touched takes 4 at least, and there are two
}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: handle_memory PROTOCOL\n");
        return 1;
    }
    hg_class_t* cls = HG_Init(argv[1], HG_FALSE);
    if (cls == nullptr) {
        std::printf("SKIPPED: %s cannot be opened here: %s\n", argv[1], HG_Get_last_error());
        return kSkip;
    }
    hg_context_t* context = HG_Context_create(cls);
    const hg_id_t id = HG_Register_name(cls, "call", hg_proc_uint64_t, hg_proc_uint64_t, nullptr);
    hg_addr_t self = HG_ADDR_NULL;
    HG_Addr_self(cls, &self);
    std::vector<hg_handle_t> handles(kHandles);
    bool good = context != nullptr && id != 0;
    const long before = path_test::resident_kib();
    for (hg_handle_t& handle : handles) {
        good = good && HG_Create(context, self, id, &handle) == HG_SUCCESS;
    }
    const double each =
        static_cast<double>(path_test::resident_kib() - before) / static_cast<double>(kHandles);
    std::printf("%s: %.2f KiB for each handle\n", argv[1], each);
    for (hg_handle_t handle : handles) {
        HG_Destroy(handle);
    }
    HG_Addr_free(cls, self);
    good = good && HG_Context_destroy(context) == HG_SUCCESS && HG_Finalize(cls) == HG_SUCCESS;
    return good && each < kMostKib ? 0 : 1;
}
