// SPDX-License-Identifier: BSD-3-Clause
// Addresses as bytes; the first byte chooses the transport.
#include <vector>

#include "target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) {
        return 0;
    }
    na_class_t* cls = fuzz::class_for(data[0]);
    na_addr_t* addr = nullptr;
    if (cls == nullptr || NA_Addr_deserialize(cls, &addr, data + 1, size - 1, 0) != NA_SUCCESS) {
        return 0;
    }
    const std::size_t encoded = NA_Addr_get_serialize_size(cls, addr);
    fuzz::require(encoded > 0 && encoded <= size - 1,
                  "an address is no longer than what it was made of");
    std::vector<std::uint8_t> bytes(encoded);
    fuzz::require(NA_Addr_serialize(cls, bytes.data(), encoded, addr) == NA_SUCCESS,
                  "an address serializes");
    na_addr_t* copy = nullptr;
    fuzz::require(NA_Addr_deserialize(cls, &copy, bytes.data(), encoded, 0) == NA_SUCCESS &&
                      NA_Addr_cmp(cls, addr, copy),
                  "what was serialized is the same address");
    std::size_t length = 0;
    fuzz::require(NA_Addr_to_string(cls, nullptr, &length, addr) == NA_SUCCESS,
                  "an address prints");
    NA_Addr_free(cls, copy);
    NA_Addr_free(cls, addr);
    return 0;
}
