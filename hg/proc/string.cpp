// SPDX-License-Identifier: BSD-3-Clause
// Strings in RPC structures: hg_proc_hg_string_t and its relatives, hg_string_object_*.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "hg/proc/notes.hpp"
#include "mercury_proc_string.h"
#include "na/util/log.hpp"

namespace {

// What follows the characters: whether the sender's was const, and owned. Kept for the size, which
// programs calculate with; the receiver's own string is neither what the sender's was.
using Flags = std::uint8_t[2];

hg_return_t encode(hg_proc_t proc, const char* string, bool is_const, bool is_owned) noexcept {
    std::uint64_t size = string == nullptr ? 0 : std::strlen(string) + 1;
    Flags flags = {is_const, is_owned};
    hg_return_t ret = hg_proc_reserve(proc, sizeof size + size + sizeof flags);  // grow once
    if (ret == HG_SUCCESS) {
        ret = hg_proc_uint64_t(proc, &size);
    }
    if (ret == HG_SUCCESS && string != nullptr) {
        ret = hg_proc_bytes(proc, const_cast<char*>(string), size);
        if (ret == HG_SUCCESS) {
            ret = hg_proc_bytes(proc, flags, sizeof flags);
        }
    }
    return ret;
}

// `string` is written in any case: null unless it succeeds.
hg_return_t decode(hg_proc_t proc, char*& string) noexcept {
    string = nullptr;
    std::uint64_t size = 0;
    const hg_return_t ret = hg_proc_uint64_t(proc, &size);
    if (ret != HG_SUCCESS || size == 0) {
        return ret;
    }
    Flags flags = {};
    const hg_size_t left = hg_proc_get_size_left(proc);
    if (left < sizeof flags || size > left - sizeof flags) {
        NA_LOG_WARNING(proc, "a string of {} bytes is announced, {} bytes are left", size, left);
        return HG_OVERFLOW;
    }
    const char* at = static_cast<const char*>(proc->current_buf->buf_ptr);
    const std::size_t length = static_cast<std::size_t>(size) - 1;
    if (std::memchr(at, '\0', length + 1) != at + length) {
        NA_LOG_WARNING(proc, "a string of {} bytes does not end at its last byte", size);
        return HG_PROTOCOL_ERROR;
    }
    char* copy = static_cast<char*>(std::malloc(length + 1));
    if (copy == nullptr) {
        return HG_NOMEM;
    }
    (void)hg_proc_bytes(proc, copy, size);  // that many are left
    (void)hg_proc_bytes(proc, flags, sizeof flags);
    string = copy;
    return HG_SUCCESS;
}

hg_return_t string_proc(hg_proc_t proc, char** string, bool is_const) noexcept {
    if (proc == HG_PROC_NULL || string == nullptr) {
        NA_LOG_ERROR(proc, "NULL proc or string");
        return HG_INVALID_ARG;
    }
    switch (hg_proc_get_op(proc)) {
        case HG_ENCODE:
            return encode(proc, *string, is_const, false);
        case HG_DECODE: {
            const hg_return_t ret = decode(proc, *string);
            return ret == HG_SUCCESS ? hg::proc::note(proc, hg_proc_hg_string_t, string, *string)
                                     : ret;
        }
        case HG_FREE:
            std::free(*string);
            *string = nullptr;
            return HG_SUCCESS;
    }
    return HG_INVALID_ARG;
}

hg_return_t set_object(hg_string_object_t* object, char* data, bool is_const, bool is_owned) {
    if (object == nullptr) {
        NA_LOG_ERROR(proc, "NULL string object");
        return HG_INVALID_ARG;
    }
    *object = {data, is_const, is_owned};
    return HG_SUCCESS;
}

}  // namespace

extern "C" {

hg_return_t hg_proc_hg_string_t(hg_proc_t proc, void* data) {
    return string_proc(proc, static_cast<hg_string_t*>(data), false);
}

hg_return_t hg_proc_hg_const_string_t(hg_proc_t proc, void* data) {
    return string_proc(proc, const_cast<char**>(static_cast<hg_const_string_t*>(data)), true);
}

hg_return_t hg_proc_hg_string_object_t(hg_proc_t proc, void* string) {
    auto* object = static_cast<hg_string_object_t*>(string);
    if (proc == HG_PROC_NULL || object == nullptr) {
        NA_LOG_ERROR(proc, "NULL proc or string object");
        return HG_INVALID_ARG;
    }
    switch (hg_proc_get_op(proc)) {
        case HG_ENCODE:
            return encode(proc, object->data, object->is_const, object->is_owned);
        case HG_DECODE: {
            *object = {};
            const hg_return_t ret = decode(proc, object->data);
            object->is_owned = object->data != nullptr;
            static_assert(offsetof(hg_string_object_t, data) == 0, "notes look there");
            return ret == HG_SUCCESS
                       ? hg::proc::note(proc, hg_proc_hg_string_object_t, object, object->data)
                       : ret;
        }
        case HG_FREE:
            return hg_string_object_free(object);
    }
    return HG_INVALID_ARG;
}

hg_return_t hg_string_object_init(hg_string_object_t* string) {
    return set_object(string, nullptr, false, false);
}

hg_return_t hg_string_object_init_char(hg_string_object_t* string, char* s, uint8_t is_owned) {
    return set_object(string, s, false, is_owned != 0);
}

hg_return_t hg_string_object_init_const_char(hg_string_object_t* string, const char* s,
                                             uint8_t is_owned) {
    return set_object(string, const_cast<char*>(s), true, is_owned != 0);
}

hg_return_t hg_string_object_free(hg_string_object_t* string) {
    if (string != nullptr && string->is_owned) {
        std::free(string->data);
    }
    return set_object(string, nullptr, false, false);
}

hg_return_t hg_string_object_dup(hg_string_object_t string, hg_string_object_t* new_string) {
    if (new_string == nullptr) {
        return set_object(nullptr, nullptr, false, false);
    }
    char* copy = nullptr;
    if (string.data != nullptr) {
        copy = strdup(string.data);
        if (copy == nullptr) {
            NA_LOG_ERROR(proc, "out of memory for a copy of a string");
            return HG_NOMEM;
        }
    }
    return set_object(new_string, copy, false, copy != nullptr);
}

char* hg_string_object_swap(hg_string_object_t* string, char* s) {
    if (string == nullptr) {
        return nullptr;
    }
    char* old = string->data;
    (void)set_object(string, s, false, false);
    return old;
}

}  // extern "C"
