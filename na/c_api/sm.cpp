// SPDX-License-Identifier: BSD-3-Clause
// The functions of na_sm.h.
#include "na_sm.h"

#include <charconv>
#include <cstdint>
#include <cstring>
#include <new>

#include "na/c_api/handles.hpp"
#include "na/util/host.hpp"

extern "C" {

na_return_t NA_SM_Host_id_get(na_sm_id_t* id_p) {
    NA_C_REQUIRE(id_p != nullptr, sm, "id_p is NULL");
    try {
        std::uint32_t hash = 0x811c9dc5U;  // FNV-1a
        for (const char c : na::util::host_id()) {
            hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193U;
        }
        *id_p = static_cast<na_sm_id_t>(hash >> 1);
        return NA_SUCCESS;
    } catch (const std::bad_alloc&) {
        return NA_NOMEM;
    }
}

na_return_t NA_SM_Host_id_to_string(na_sm_id_t id, char* string) {
    NA_C_REQUIRE(string != nullptr, sm, "string is NULL");
    char text[NA_SM_HOST_ID_LEN];
    const auto [end, error] = std::to_chars(text, text + sizeof text - 1, id);
    if (error != std::errc{}) {
        NA_LOG_ERROR(sm, "{} is not the id of a host", id);
        return NA_OVERFLOW;
    }
    *end = '\0';
    std::memcpy(string, text, static_cast<std::size_t>(end - text) + 1);
    return NA_SUCCESS;
}

na_return_t NA_SM_String_to_host_id(const char* string, na_sm_id_t* id_p) {
    NA_C_REQUIRE(string != nullptr && id_p != nullptr, sm, "string or id_p is NULL");
    na_sm_id_t id = 0;
    const char* end = string + std::strlen(string);
    const auto [stop, error] = std::from_chars(string, end, id);
    if (error != std::errc{} || stop != end) {
        NA_LOG_ERROR(sm, "\"{}\" is not the id of a host", string);
        return NA_PROTOCOL_ERROR;
    }
    *id_p = id;
    return NA_SUCCESS;
}

void NA_SM_Host_id_copy(na_sm_id_t* dst_p, na_sm_id_t src) {
    if (dst_p != nullptr) {
        *dst_p = src;
    }
}

bool NA_SM_Host_id_cmp(na_sm_id_t id1, na_sm_id_t id2) {
    return id1 == id2;
}

}  // extern "C"
