// SPDX-License-Identifier: BSD-3-Clause
// Memory handles as bytes; the first byte chooses the transport.
#include "target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) {
        return 0;
    }
    na_class_t* cls = fuzz::class_for(data[0]);
    na_mem_handle_t* handle = nullptr;
    if (cls == nullptr) {
        return 0;
    }
    const na_return_t r = NA_Mem_handle_deserialize(cls, &handle, data + 1, size - 1);
    if (r != NA_SUCCESS) {
        fuzz::require(handle == nullptr, "nothing is written on failure");
        return 0;
    }
    fuzz::require(NA_Mem_register(cls, handle, NA_MEM_TYPE_HOST, 0) == NA_OPNOTSUPPORTED,
                  "a decoded handle is remote");
    NA_Mem_handle_free(cls, handle);
    return 0;
}
