// SPDX-License-Identifier: BSD-3-Clause
// Addresses, handles, forward and respond of mercury_core.h.
#include <cstddef>

#include "hg/c_api/family.hpp"
#include "hg/wire.hpp"
#include "na/c_api/handles.hpp"

using namespace hg;
using hg::c_api::code;
using hg::c_api::core;
using hg::c_api::core_handle;
using hg::c_api::plain;
using na::Status;

static_assert(sizeof(Info) == sizeof(struct hg_core_info) &&
                  offsetof(Info, cls) == offsetof(struct hg_core_info, core_class) &&
                  offsetof(Info, context) == offsetof(struct hg_core_info, context) &&
                  offsetof(Info, addr) == offsetof(struct hg_core_info, addr) &&
                  offsetof(Info, id) == offsetof(struct hg_core_info, id) &&
                  offsetof(Info, context_id) == offsetof(struct hg_core_info, context_id),
              "HG_Core_get_info hands Info out as struct hg_core_info");

// mercury_core_header.h names them.
static_assert(wire::kRequestSize == 24 && wire::kResponseSize == 16);

namespace {

hg_return_t too_large(hg_size_t payload, std::size_t room) noexcept {
    NA_LOG_ERROR(rpc, "a payload of {} bytes: the buffer has {}", payload, room);
    return HG_MSGSIZE;
}

}  // namespace

extern "C" {

// --- addresses
// -------------------------------------------------------------------------------------------------------

hg_return_t HG_Core_addr_lookup1(hg_core_context_t* context, hg_core_cb_t callback, void* arg,
                                 const char* name, hg_core_op_id_t* op_id) {
    HG_C_REQUIRE(context != nullptr, addr, "context is NULL");
    HG_C_REQUIRE(callback != nullptr, addr, "callback is NULL");
    HG_C_REQUIRE(name != nullptr, addr, "name is NULL");
    if (op_id != nullptr && op_id != HG_CORE_OP_ID_IGNORE) {
        *op_id = HG_CORE_OP_ID_NULL;
    }
    return c_api::look_up<c_api::Core>(*core(plain(context)), callback, arg, name);
}

hg_return_t HG_Core_addr_lookup2(hg_core_class_t* hg_core_class, const char* name,
                                 hg_core_addr_t* addr_p) {
    return HG_Addr_lookup2(plain(hg_core_class), name, reinterpret_cast<hg_addr_t*>(addr_p));
}

hg_return_t HG_Core_addr_free(hg_core_addr_t addr) {
    return addr == HG_CORE_ADDR_NULL
               ? HG_SUCCESS
               : HG_Addr_free(c_api::handle(&core(plain(addr))->cls()), plain(addr));
}

hg_return_t HG_Core_addr_set_remove(hg_core_addr_t addr) {
    HG_C_REQUIRE(addr != HG_CORE_ADDR_NULL, addr, "addr is HG_CORE_ADDR_NULL");
    return HG_Addr_set_remove(c_api::handle(&core(plain(addr))->cls()), plain(addr));
}

na_addr_t* HG_Core_addr_get_na(hg_core_addr_t addr) {
    return addr == HG_CORE_ADDR_NULL ? nullptr : na::c_api::handle(core(plain(addr))->net());
}

na_addr_t* HG_Core_addr_get_na_sm(hg_core_addr_t addr) {
    return addr == HG_CORE_ADDR_NULL ? nullptr : na::c_api::handle(core(plain(addr))->sm());
}

hg_return_t HG_Core_addr_self(hg_core_class_t* hg_core_class, hg_core_addr_t* addr_p) {
    return HG_Addr_self(plain(hg_core_class), reinterpret_cast<hg_addr_t*>(addr_p));
}

hg_return_t HG_Core_addr_dup(hg_core_addr_t addr, hg_core_addr_t* new_addr_p) {
    HG_C_REQUIRE(addr != HG_CORE_ADDR_NULL, addr, "addr is HG_CORE_ADDR_NULL");
    return HG_Addr_dup(c_api::handle(&core(plain(addr))->cls()), plain(addr),
                       reinterpret_cast<hg_addr_t*>(new_addr_p));
}

uint8_t HG_Core_addr_cmp(hg_core_addr_t addr1, hg_core_addr_t addr2) {
    return HG_Addr_cmp(nullptr, plain(addr1), plain(addr2));
}

bool HG_Core_addr_is_self(hg_core_addr_t addr) {
    return addr != HG_CORE_ADDR_NULL && core(plain(addr))->is_self();
}

hg_return_t HG_Core_addr_to_string(char* buf, hg_size_t* buf_size, hg_core_addr_t addr) {
    HG_C_REQUIRE(addr != HG_CORE_ADDR_NULL, addr, "addr is HG_CORE_ADDR_NULL");
    return HG_Addr_to_string(c_api::handle(&core(plain(addr))->cls()), buf, buf_size, plain(addr));
}

hg_size_t HG_Core_addr_get_serialize_size(hg_core_addr_t addr, unsigned long flags) {
    return addr == HG_CORE_ADDR_NULL ? 0
                                     : core(plain(addr))->encoded_size((flags & HG_CORE_SM) != 0);
}

hg_return_t HG_Core_addr_serialize(void* buf, hg_size_t buf_size, unsigned long flags,
                                   hg_core_addr_t addr) {
    HG_C_REQUIRE(addr != HG_CORE_ADDR_NULL, addr, "addr is HG_CORE_ADDR_NULL");
    HG_C_REQUIRE(buf != nullptr, addr, "buf is NULL");
    HG_C_REQUIRE(core(plain(addr))->live(), addr, "the address was freed already");
    try {
        return code(
            core(plain(addr))
                ->encode({static_cast<std::byte*>(buf), buf_size}, (flags & HG_CORE_SM) != 0));
    } catch (const std::bad_alloc&) {
        return HG_NOMEM;
    }
}

hg_return_t HG_Core_addr_deserialize(hg_core_class_t* hg_core_class, hg_core_addr_t* addr_p,
                                     const void* buf, hg_size_t buf_size, uint64_t flags) {
    (void)flags;
    HG_C_REQUIRE(hg_core_class != nullptr, addr, "hg_core_class is NULL");
    HG_C_REQUIRE(addr_p != nullptr, addr, "addr_p is NULL");
    HG_C_REQUIRE(buf != nullptr && buf_size != 0, addr, "buf is NULL or empty");
    try {
        auto address = core(plain(hg_core_class))
                           ->decode_address({static_cast<const std::byte*>(buf), buf_size});
        if (!address) {
            return c_api::failed<na::log::Outlet::addr>(address.error());
        }
        *addr_p = core_handle(address->release());
        return HG_SUCCESS;
    } catch (const std::bad_alloc&) {
        return HG_NOMEM;
    }
}

// --- handles
// ---------------------------------------------------------------------------------------------------------

hg_return_t HG_Core_create(hg_core_context_t* context, hg_core_addr_t addr, hg_id_t id,
                           hg_core_handle_t* handle_p) {
    return HG_Create(plain(context), plain(addr), id, reinterpret_cast<hg_handle_t*>(handle_p));
}

hg_return_t HG_Core_destroy(hg_core_handle_t handle) {
    return HG_Destroy(plain(handle));
}

hg_return_t HG_Core_reset(hg_core_handle_t handle, hg_core_addr_t addr, hg_id_t id) {
    return HG_Reset(plain(handle), plain(addr), id);
}

hg_return_t HG_Core_ref_incr(hg_core_handle_t handle) {
    return HG_Ref_incr(plain(handle));
}

int32_t HG_Core_ref_get(hg_core_handle_t handle) {
    return HG_Ref_get(plain(handle));
}

hg_return_t HG_Core_set_data(hg_core_handle_t handle, void* data, void (*free_callback)(void*)) {
    return HG_Set_data(plain(handle), data, free_callback);
}

void* HG_Core_get_data(hg_core_handle_t handle) {
    return HG_Get_data(plain(handle));
}

const struct hg_core_info* HG_Core_get_info(hg_core_handle_t handle) {
    return reinterpret_cast<const struct hg_core_info*>(HG_Get_info(plain(handle)));
}

const void* HG_Core_get_rpc_data(hg_core_handle_t handle) {
    if (handle == HG_CORE_HANDLE_NULL) {
        return nullptr;
    }
    const Info& info = core(plain(handle))->info();
    return info.cls->registry().data(info.id);
}

hg_return_t HG_Core_set_target_id(hg_core_handle_t handle, uint8_t id) {
    return HG_Set_target_id(plain(handle), id);
}

size_t HG_Core_get_input_payload_size(hg_core_handle_t handle) {
    return static_cast<size_t>(HG_Get_input_payload_size(plain(handle)));
}

size_t HG_Core_get_output_payload_size(hg_core_handle_t handle) {
    return static_cast<size_t>(HG_Get_output_payload_size(plain(handle)));
}

hg_return_t HG_Core_get_input(hg_core_handle_t handle, void** in_buf_p, hg_size_t* in_buf_size_p) {
    return HG_Get_input_buf(plain(handle), in_buf_p, in_buf_size_p);
}

hg_return_t HG_Core_get_output(hg_core_handle_t handle, void** out_buf_p,
                               hg_size_t* out_buf_size_p) {
    return HG_Get_output_buf(plain(handle), out_buf_p, out_buf_size_p);
}

hg_return_t HG_Core_release_input(hg_core_handle_t handle) {
    return HG_Release_input_buf(plain(handle));
}

// --- forward and respond
// ---------------------------------------------------------------------------------------------

hg_return_t HG_Core_forward(hg_core_handle_t handle, hg_core_cb_t callback, void* arg,
                            uint8_t flags, hg_size_t payload_size) {
    HG_C_REQUIRE(handle != HG_CORE_HANDLE_NULL, rpc, "handle is HG_CORE_HANDLE_NULL");
    HG_C_REQUIRE((flags & ~HG_CORE_MORE_DATA) == 0, rpc, "an unknown flag");
    Handle& h = *core(plain(handle));
    if (payload_size > h.input_space().size()) {
        return too_large(payload_size, h.input_space().size());
    }
    Status s = h.claim();
    if (ok(s)) [[likely]] {
        s = h.forward(static_cast<std::size_t>(payload_size),
                      c_api::on_forward<c_api::Core>(callback, arg), nullptr, 0,
                      (flags & HG_CORE_MORE_DATA) != 0);
    }
    if (!ok(s)) [[unlikely]] {
        c_api::cannot_forward(h, s);
    }
    return code(s);
}

hg_return_t HG_Core_respond(hg_core_handle_t handle, hg_core_cb_t callback, void* arg,
                            uint8_t flags, hg_size_t payload_size) {
    HG_C_REQUIRE(handle != HG_CORE_HANDLE_NULL, rpc, "handle is HG_CORE_HANDLE_NULL");
    HG_C_REQUIRE((flags & ~HG_CORE_MORE_DATA) == 0, rpc, "an unknown flag");
    Handle& h = Loopback::behind(*core(plain(handle)));
    Status s = c_api::claim_response(h);
    if (!ok(s)) [[unlikely]] {
        return code(s);
    }
    // Who has failed may have no reference any more.
    const std::uint64_t id = h.info().id;
    const std::size_t room = h.output_space().size();
    if (payload_size > room) {
        h.fail_response();
        return too_large(payload_size, room);
    }
    s = h.respond(static_cast<std::size_t>(payload_size),
                  c_api::on_respond<c_api::Core>(callback, arg), nullptr, 0,
                  (flags & HG_CORE_MORE_DATA) != 0);
    if (!ok(s)) [[unlikely]] {
        c_api::cannot_respond(id, s);
    }
    return code(s);
}

hg_return_t HG_Core_cancel(hg_core_handle_t handle) {
    return HG_Cancel(plain(handle));
}

}  // extern "C"
