// SPDX-License-Identifier: BSD-3-Clause
// Address functions of mercury.h.
#include <cstring>

#include "hg/c_api/family.hpp"

using namespace hg;
using hg::c_api::code;
using hg::c_api::core;

extern "C" {

hg_return_t HG_Addr_lookup1(hg_context_t* context, hg_cb_t callback, void* arg, const char* name,
                            hg_op_id_t* op_id_p) {
    HG_C_REQUIRE(context != nullptr, addr, "context is NULL");
    HG_C_REQUIRE(callback != nullptr, addr, "callback is NULL");
    HG_C_REQUIRE(name != nullptr, addr, "name is NULL");
    if (op_id_p != nullptr && op_id_p != HG_OP_ID_IGNORE) {
        *op_id_p = HG_OP_ID_NULL;
    }
    return c_api::look_up<c_api::Plain>(*core(context), callback, arg, name);
}

hg_return_t HG_Addr_lookup2(hg_class_t* hg_class, const char* name, hg_addr_t* addr_p) {
    HG_C_REQUIRE(hg_class != nullptr, addr, "hg_class is NULL");
    HG_C_REQUIRE(name != nullptr, addr, "name is NULL");
    HG_C_REQUIRE(addr_p != nullptr, addr, "addr_p is NULL");
    try {
        auto address = core(hg_class)->lookup(name);
        if (!address) {
            return c_api::failed<na::log::Outlet::addr>(address.error());
        }
        *addr_p = c_api::handle(address->release());
        return HG_SUCCESS;
    } catch (const std::bad_alloc&) {
        return HG_NOMEM;
    }
}

hg_return_t HG_Addr_free(hg_class_t* hg_class, hg_addr_t addr) {
    HG_C_REQUIRE(hg_class != nullptr, addr, "hg_class is NULL");
    if (addr == HG_ADDR_NULL) {
        return HG_SUCCESS;
    }
    HG_C_REQUIRE(&core(addr)->cls() == core(hg_class), addr, "the address is of another class");
    HG_C_REQUIRE(core(addr)->unref(), addr,
                 "the address was freed already, or belongs to its handle: free a duplicate only");
    return HG_SUCCESS;
}

hg_return_t HG_Addr_set_remove(hg_class_t* hg_class, hg_addr_t addr) {
    HG_C_REQUIRE(hg_class != nullptr, addr, "hg_class is NULL");
    HG_C_REQUIRE(addr != HG_ADDR_NULL, addr, "addr is HG_ADDR_NULL");
    // Nothing is left to hint at: transports notice that peers go, and the last reference drops the
    // connection.
    return HG_SUCCESS;
}

hg_return_t HG_Addr_self(hg_class_t* hg_class, hg_addr_t* addr_p) {
    HG_C_REQUIRE(hg_class != nullptr, addr, "hg_class is NULL");
    HG_C_REQUIRE(addr_p != nullptr, addr, "addr_p is NULL");
    try {
        *addr_p = c_api::handle(core(hg_class)->self().release());
        return HG_SUCCESS;
    } catch (const std::bad_alloc&) {
        return HG_NOMEM;
    }
}

hg_return_t HG_Addr_dup(hg_class_t* hg_class, hg_addr_t addr, hg_addr_t* new_addr_p) {
    HG_C_REQUIRE(hg_class != nullptr, addr, "hg_class is NULL");
    HG_C_REQUIRE(addr != HG_ADDR_NULL, addr, "addr is HG_ADDR_NULL");
    HG_C_REQUIRE(new_addr_p != nullptr, addr, "new_addr_p is NULL");
    HG_C_REQUIRE(&core(addr)->cls() == core(hg_class), addr, "the address is of another class");
    HG_C_REQUIRE(core(addr)->live(), addr, "the address was freed already");
    try {
        *new_addr_p = c_api::handle(AddressRef::share(core(addr)).release());
        return HG_SUCCESS;
    } catch (const std::bad_alloc&) {
        return HG_NOMEM;
    }
}

uint8_t HG_Addr_cmp(hg_class_t* hg_class, hg_addr_t addr1, hg_addr_t addr2) {
    (void)hg_class;
    if (addr1 == HG_ADDR_NULL || addr2 == HG_ADDR_NULL) {
        return addr1 == addr2 ? HG_TRUE : HG_FALSE;
    }
    return addr1 == addr2 || core(addr1)->same_peer(*core(addr2)) ? HG_TRUE : HG_FALSE;
}

hg_return_t HG_Addr_to_string(hg_class_t* hg_class, char* buf, hg_size_t* buf_size_p,
                              hg_addr_t addr) {
    HG_C_REQUIRE(hg_class != nullptr, addr, "hg_class is NULL");
    HG_C_REQUIRE(buf_size_p != nullptr, addr, "buf_size_p is NULL");
    HG_C_REQUIRE(addr != HG_ADDR_NULL, addr, "addr is HG_ADDR_NULL");
    HG_C_REQUIRE(core(addr)->live(), addr, "the address was freed already");
    try {
        const std::string uri = core(addr)->uri();
        const hg_size_t room = *buf_size_p;
        *buf_size_p = uri.size() + 1;
        if (buf == nullptr) {
            return HG_SUCCESS;
        }
        if (room < uri.size() + 1) {
            NA_LOG_ERROR(addr, "the name of the address takes {} bytes, the buffer has {}",
                         uri.size() + 1, room);
            return HG_OVERFLOW;
        }
        std::memcpy(buf, uri.c_str(), uri.size() + 1);
        return HG_SUCCESS;
    } catch (const std::bad_alloc&) {
        return HG_NOMEM;
    }
}

}  // extern "C"
