// SPDX-License-Identifier: BSD-3-Clause
// Address functions of na.h.
#include <cstring>
#include <new>

#include "na/c_api/handles.hpp"

using namespace na;
using namespace na::c_api;

extern "C" {

na_return_t NA_Addr_lookup(na_class_t* na_class, const char* name, na_addr_t** addr_p) {
    NA_C_REQUIRE(na_class != nullptr && name != nullptr && addr_p != nullptr, addr,
                 "NULL argument");
    try {
        auto address = core(na_class)->lookup(name);
        if (!address) {
            return failed<log::Outlet::addr>(address.error());
        }
        *addr_p = handle(address->release());
        return NA_SUCCESS;
    } catch (const std::bad_alloc&) {
        NA_LOG_ERROR(addr, "out of memory");
        return NA_NOMEM;
    }
}

void NA_Addr_free(na_class_t* na_class, na_addr_t* addr) {
    if (na_class != nullptr && addr != nullptr && !core(addr)->unref()) {
        NA_LOG_ERROR(addr, "the address was freed already");
    }
}

na_return_t NA_Addr_set_remove(na_class_t* na_class, na_addr_t* addr) {
    NA_C_REQUIRE(na_class != nullptr && addr != nullptr, addr, "NULL argument");
    return NA_SUCCESS;  // the table forgets an address with its last reference anyway
}

na_return_t NA_Addr_self(na_class_t* na_class, na_addr_t** addr_p) {
    NA_C_REQUIRE(na_class != nullptr && addr_p != nullptr, addr, "NULL argument");
    *addr_p = handle(core(na_class)->self().release());
    return NA_SUCCESS;
}

na_return_t NA_Addr_dup(na_class_t* na_class, na_addr_t* addr, na_addr_t** new_addr_p) {
    NA_C_REQUIRE(na_class != nullptr && addr != nullptr && new_addr_p != nullptr, addr,
                 "NULL argument");
    core(addr)->ref();
    *new_addr_p = addr;
    return NA_SUCCESS;
}

bool NA_Addr_cmp(na_class_t* na_class, na_addr_t* addr1, na_addr_t* addr2) {
    // One object per identity and class: equal addresses are equal pointers.
    return na_class != nullptr && addr1 == addr2;
}

bool NA_Addr_is_self(na_class_t* na_class, na_addr_t* addr) {
    return na_class != nullptr && addr != nullptr && core(addr)->is_self();
}

na_return_t NA_Addr_to_string(na_class_t* na_class, char* buf, size_t* buf_size, na_addr_t* addr) {
    NA_C_REQUIRE(na_class != nullptr && buf_size != nullptr && addr != nullptr, addr,
                 "NULL argument");
    try {
        const std::string text = core(addr)->uri();
        const std::size_t needed = text.size() + 1;
        const std::size_t have = *buf_size;
        *buf_size = needed;
        if (buf == nullptr) {
            return NA_SUCCESS;
        }
        if (have < needed) {
            NA_LOG_ERROR(addr, "the address takes {} bytes, the buffer has {}", needed, have);
            return NA_OVERFLOW;
        }
        std::memcpy(buf, text.c_str(), needed);
        return NA_SUCCESS;
    } catch (const std::bad_alloc&) {
        NA_LOG_ERROR(addr, "out of memory");
        return NA_NOMEM;
    }
}

size_t NA_Addr_get_serialize_size(na_class_t* na_class, na_addr_t* addr) {
    return na_class == nullptr || addr == nullptr ? 0 : core(addr)->encoded_size();
}

na_return_t NA_Addr_serialize(na_class_t* na_class, void* buf, size_t buf_size, na_addr_t* addr) {
    NA_C_REQUIRE(na_class != nullptr && buf != nullptr && buf_size != 0 && addr != nullptr, addr,
                 "NULL argument or size 0");
    const Status s = core(addr)->encode({static_cast<std::byte*>(buf), buf_size});
    if (!ok(s)) {
        NA_LOG_ERROR(addr, "the address takes {} bytes, the buffer has {}",
                     core(addr)->encoded_size(), buf_size);
    }
    return code(s);
}

na_return_t NA_Addr_deserialize(na_class_t* na_class, na_addr_t** addr_p, const void* buf,
                                size_t buf_size, uint64_t) {
    NA_C_REQUIRE(na_class != nullptr && addr_p != nullptr && buf != nullptr && buf_size != 0, addr,
                 "NULL argument or size 0");
    try {
        auto address =
            core(na_class)->decode_address({static_cast<const std::byte*>(buf), buf_size});
        if (!address) {
            return failed<log::Outlet::addr>(address.error());
        }
        *addr_p = handle(address->release());
        return NA_SUCCESS;
    } catch (const std::bad_alloc&) {
        NA_LOG_ERROR(addr, "out of memory");
        return NA_NOMEM;
    }
}

}  // extern "C"
