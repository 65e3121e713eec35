// SPDX-License-Identifier: BSD-3-Clause
// Handle functions of mercury.h: life, properties, structures, buffers.
#include <cstddef>

#include "hg/c_api/codec.hpp"
#include "hg/c_api/handles.hpp"
#include "hg/loopback.hpp"

using namespace hg;
using hg::c_api::code;
using hg::c_api::core;
using na::Lane;
using na::Status;

static_assert(sizeof(Info) == sizeof(struct hg_info) &&
                  offsetof(Info, cls) == offsetof(struct hg_info, hg_class) &&
                  offsetof(Info, context) == offsetof(struct hg_info, context) &&
                  offsetof(Info, addr) == offsetof(struct hg_info, addr) &&
                  offsetof(Info, id) == offsetof(struct hg_info, id) &&
                  offsetof(Info, context_id) == offsetof(struct hg_info, context_id),
              "HG_Get_info hands Info out as struct hg_info");

namespace {

// Half of those that a handle can count: each HG_Get_input takes one more.
constexpr std::int32_t kMostRefs = 32768;

hg_proc_cb_t input_proc(const Handle& h) noexcept {
    const Registration* r = h.registration();
    return r == nullptr ? nullptr : reinterpret_cast<hg_proc_cb_t>(r->functions().encode_input);
}

hg_proc_cb_t output_proc(const Handle& h) noexcept {
    const Registration* r = h.registration();
    return r == nullptr ? nullptr : reinterpret_cast<hg_proc_cb_t>(r->functions().encode_output);
}

[[gnu::noinline, gnu::cold]] hg_return_t cannot_get(const Handle& h, hg_proc_cb_t proc) noexcept {
    NA_LOG_ERROR(
        rpc, "RPC {}: {}", h.name(),
        proc == nullptr ? "it has no such structure" : "nothing was received, or it was released");
    return HG_FAULT;
}

[[gnu::noinline, gnu::cold]] hg_return_t cannot_free(const Handle& h, hg_proc_cb_t proc) noexcept {
    if (proc == nullptr) {
        NA_LOG_ERROR(rpc, "RPC {}: it has no such structure", h.name());
        return HG_FAULT;
    }
    NA_LOG_ERROR(rpc,
                 "RPC {}: no structure to free: it was freed already, or no HG_Get_input or "
                 "HG_Get_output of this handle succeeded",
                 h.name());
    return HG_INVALID_ARG;
}

// The bytes are a peer's, and so is what they cause: no error of this program.
[[gnu::noinline, gnu::cold]] void say_undecoded(const Handle& h, const Handle::Payload& payload,
                                                Status s) noexcept {
    NA_LOG_WARNING(rpc, "RPC {}: its {} of {} bytes from {} cannot be decoded: {}", h.name(),
                   h.is_target() ? "input" : "output",
                   payload.beyond.empty() ? payload.message.size() : payload.beyond.size(),
                   h.info().addr->uri(), to_string(s));
}

hg_return_t get(Handle& h, hg_proc_cb_t proc, void* structure, const Handle::Payload* payload,
                std::size_t offset) {
    if (proc == nullptr || payload == nullptr) [[unlikely]] {
        return cannot_get(h, proc);
    }
    try {
        const Status s = c_api::decode(h, proc, structure, *payload, offset);
        if (ok(s)) [[likely]] {
            h.ref_got();
        } else {
            say_undecoded(h, *payload, s);
        }
        return code(s);
    } catch (const std::bad_alloc&) {
        return HG_NOMEM;
    }
}

// The program has decoded the structure from the raw buffer, without HG_Get_input.
[[gnu::noinline, gnu::cold]] hg_return_t free_raw(Handle& h, hg_proc_cb_t proc, void* structure) {
    if (proc == nullptr || !h.take_raw()) {
        return cannot_free(h, proc);
    }
    try {
        (void)c_api::proc_of(h);
        const Status s = c_api::free(h, proc, structure);
        return h.unref_user() ? code(s) : cannot_free(h, proc);
    } catch (const std::bad_alloc&) {
        return HG_NOMEM;
    }
}

[[gnu::always_inline]] inline hg_return_t free_structure(Handle& h, hg_proc_cb_t proc,
                                                         void* structure) {
    if (proc == nullptr || !h.has_got()) [[unlikely]] {
        return free_raw(h, proc, structure);
    }
    try {
        const Status s = c_api::free(h, proc, structure);
        h.unref_got();
        return code(s);
    } catch (const std::bad_alloc&) {
        return HG_NOMEM;
    }
}

// Of a call to oneself: what the target has got, for the handle that stands for both and counts the
// references.
[[gnu::noinline, gnu::cold]] hg_return_t get_input_behind(Handle& shown, Handle& target,
                                                          void* structure) {
    const hg_proc_cb_t proc = input_proc(target);
    const Handle::Payload* const payload = target.input();
    if (proc == nullptr || payload == nullptr) {
        return cannot_get(target, proc);
    }
    try {
        const c_api::Behind behind(target, shown);
        const Status s = c_api::decode(target, proc, structure, *payload,
                                       target.info().cls->offset(Lane::unexpected));
        if (ok(s)) {
            shown.ref_got();
        } else {
            say_undecoded(target, *payload, s);
        }
        return code(s);
    } catch (const std::bad_alloc&) {
        return HG_NOMEM;
    }
}

[[gnu::noinline, gnu::cold]] hg_return_t free_input_behind(Handle& shown, Handle& target,
                                                           void* structure) {
    const hg_proc_cb_t proc = input_proc(target);
    const bool got = shown.has_got();
    if (proc == nullptr || (!got && !target.take_raw())) {
        return cannot_free(target, proc);
    }
    Status s;
    try {
        const c_api::Behind behind(target, shown);
        (void)c_api::proc_of(target);
        s = c_api::free(target, proc, structure);
    } catch (const std::bad_alloc&) {
        return HG_NOMEM;
    }
    if (!got) {
        return shown.unref_user() ? code(s) : cannot_free(shown, proc);
    }
    shown.unref_got();
    return code(s);
}

// Of a call to oneself: which end is meant by what programs ask of both, until its handler has
// responded, or until it has come back.
const Handle& unanswered(hg_handle_t handle) noexcept {
    const Handle& h = *core(handle);
    const Handle* target = h.is_target() ? nullptr : Loopback::unanswered(h);
    return target == nullptr ? h : *target;
}
const Handle& at_work(hg_handle_t handle) noexcept {
    const Handle& h = *core(handle);
    const Handle* target = h.is_target() ? nullptr : Loopback::at_work(h);
    return target == nullptr ? h : *target;
}

hg_return_t give(std::span<std::byte> bytes, void** buf_p, hg_size_t* size_p) noexcept {
    *buf_p = bytes.data();
    if (size_p != nullptr) {
        *size_p = bytes.size();
    }
    return HG_SUCCESS;
}

}  // namespace

extern "C" {

hg_return_t HG_Create(hg_context_t* context, hg_addr_t addr, hg_id_t id, hg_handle_t* handle_p) {
    HG_C_REQUIRE(context != nullptr, rpc, "context is NULL");
    HG_C_REQUIRE(handle_p != nullptr, rpc, "handle_p is NULL");
    try {
        auto made = core(context)->create_handle(core(addr), id);
        if (!made) {
            return c_api::failed<na::log::Outlet::rpc>(made.error());
        }
        *handle_p = c_api::handle(*made);
        return HG_SUCCESS;
    } catch (const std::bad_alloc&) {
        return HG_NOMEM;
    }
}

hg_return_t HG_Destroy(hg_handle_t handle) {
    if (handle == HG_HANDLE_NULL) {
        return HG_SUCCESS;
    }
    HG_C_REQUIRE(core(handle)->give_back(), rpc, "the handle was destroyed already");
    return HG_SUCCESS;
}

hg_return_t HG_Reset(hg_handle_t handle, hg_addr_t addr, hg_id_t id) {
    HG_C_REQUIRE(handle != HG_HANDLE_NULL, rpc, "handle is HG_HANDLE_NULL");
    try {
        const Status s = core(handle)->reset(core(addr), id);
        if (!ok(s)) {
            NA_LOG_ERROR(rpc, "cannot reset a handle: {}",
                         s == Status::busy ? "its RPC is in flight"
                         : s == Status::noentry
                             ? "no RPC is registered under this id"
                             : "the address is of another class, or the handle a target's");
        }
        return code(s);
    } catch (const std::bad_alloc&) {
        return HG_NOMEM;
    }
}

hg_return_t HG_Ref_incr(hg_handle_t handle) {
    HG_C_REQUIRE(handle != HG_HANDLE_NULL, rpc, "handle is HG_HANDLE_NULL");
    if (core(handle)->refs() >= kMostRefs) {
        NA_LOG_ERROR(rpc, "RPC {:#x}: its handle has {} references: give some back with HG_Destroy",
                     core(handle)->info().id, kMostRefs);
        return HG_OVERFLOW;
    }
    core(handle)->ref_user();
    return HG_SUCCESS;
}

int32_t HG_Ref_get(hg_handle_t handle) {
    return handle == HG_HANDLE_NULL ? -1 : core(handle)->refs();
}

const struct hg_info* HG_Get_info(hg_handle_t handle) {
    return handle == HG_HANDLE_NULL
               ? nullptr
               : reinterpret_cast<const struct hg_info*>(&at_work(handle).info());
}

hg_return_t HG_Set_data(hg_handle_t handle, void* data, void (*free_callback)(void*)) {
    HG_C_REQUIRE(handle != HG_HANDLE_NULL, rpc, "handle is HG_HANDLE_NULL");
    core(handle)->set_data(data, free_callback);
    return HG_SUCCESS;
}

void* HG_Get_data(hg_handle_t handle) {
    return handle == HG_HANDLE_NULL ? nullptr : core(handle)->data();
}

hg_return_t HG_Set_target_id(hg_handle_t handle, uint8_t id) {
    HG_C_REQUIRE(handle != HG_HANDLE_NULL, rpc, "handle is HG_HANDLE_NULL");
    HG_C_REQUIRE(!core(handle)->is_target(), rpc, "the handle is a target's");
    core(handle)->set_target_id(id);
    return HG_SUCCESS;
}

// --- structures
// ------------------------------------------------------------------------------------------------------

hg_size_t HG_Get_input_payload_size(hg_handle_t handle) {
    if (handle == HG_HANDLE_NULL) {
        return 0;
    }
    const Handle& h = *core(handle);
    return h.is_target() ? Handle::size(h.input(), h.info().cls->offset(Lane::unexpected))
                         : h.sent();
}

hg_size_t HG_Get_output_payload_size(hg_handle_t handle) {
    if (handle == HG_HANDLE_NULL) {
        return 0;
    }
    const Handle& h = unanswered(handle);
    return h.is_target() ? h.sent()
                         : Handle::size(h.output(), h.info().cls->offset(Lane::expected));
}

hg_return_t HG_Get_input(hg_handle_t handle, void* in_struct) {
    HG_C_REQUIRE(handle != HG_HANDLE_NULL, rpc, "handle is HG_HANDLE_NULL");
    HG_C_REQUIRE(in_struct != nullptr, rpc, "in_struct is NULL");
    Handle& h = *core(handle);
    if (h.input() == nullptr) [[unlikely]] {
        if (Handle& target = Loopback::behind(h); &target != &h) {
            return get_input_behind(h, target, in_struct);
        }
    }
    const hg_return_t ret =
        get(h, input_proc(h), in_struct, h.input(), h.info().cls->offset(Lane::unexpected));
    if (ret == HG_SUCCESS && h.info().cls->options().release_input_early) {
        h.release_input();
    }
    return ret;
}

hg_return_t HG_Free_input(hg_handle_t handle, void* in_struct) {
    HG_C_REQUIRE(handle != HG_HANDLE_NULL, rpc, "handle is HG_HANDLE_NULL");
    HG_C_REQUIRE(in_struct != nullptr, rpc, "in_struct is NULL");
    Handle& h = *core(handle);
    if (Handle& target = Loopback::behind(h); &target != &h) [[unlikely]] {
        return free_input_behind(h, target, in_struct);
    }
    return free_structure(h, input_proc(h), in_struct);
}

hg_return_t HG_Get_output(hg_handle_t handle, void* out_struct) {
    HG_C_REQUIRE(handle != HG_HANDLE_NULL, rpc, "handle is HG_HANDLE_NULL");
    HG_C_REQUIRE(out_struct != nullptr, rpc, "out_struct is NULL");
    Handle& h = *core(handle);
    return get(h, output_proc(h), out_struct, h.output(), h.info().cls->offset(Lane::expected));
}

hg_return_t HG_Free_output(hg_handle_t handle, void* out_struct) {
    HG_C_REQUIRE(handle != HG_HANDLE_NULL, rpc, "handle is HG_HANDLE_NULL");
    HG_C_REQUIRE(out_struct != nullptr, rpc, "out_struct is NULL");
    return free_structure(*core(handle), output_proc(*core(handle)), out_struct);
}

// --- raw buffers
// -----------------------------------------------------------------------------------------------------

hg_return_t HG_Get_input_buf(hg_handle_t handle, void** in_buf_p, hg_size_t* in_buf_size_p) {
    HG_C_REQUIRE(handle != HG_HANDLE_NULL, rpc, "handle is HG_HANDLE_NULL");
    HG_C_REQUIRE(in_buf_p != nullptr, rpc, "in_buf_p is NULL");
    const Handle& h = at_work(handle);
    if (!h.is_target()) {
        return give(h.input_space(), in_buf_p, in_buf_size_p);
    }
    if (h.input() == nullptr) {
        NA_LOG_ERROR(rpc, "RPC {}: its input was released", h.name());
        return HG_FAULT;
    }
    h.note_raw();
    return give(h.input()->message, in_buf_p, in_buf_size_p);
}

hg_return_t HG_Release_input_buf(hg_handle_t handle) {
    HG_C_REQUIRE(handle != HG_HANDLE_NULL, rpc, "handle is HG_HANDLE_NULL");
    Handle& h = Loopback::behind(*core(handle));
    HG_C_REQUIRE(h.is_target(), rpc, "the handle is an origin's");
    h.release_input();
    return HG_SUCCESS;
}

hg_return_t HG_Get_output_buf(hg_handle_t handle, void** out_buf_p, hg_size_t* out_buf_size_p) {
    HG_C_REQUIRE(handle != HG_HANDLE_NULL, rpc, "handle is HG_HANDLE_NULL");
    HG_C_REQUIRE(out_buf_p != nullptr, rpc, "out_buf_p is NULL");
    const Handle& h = unanswered(handle);
    if (h.is_target()) {
        return give(h.output_space(), out_buf_p, out_buf_size_p);
    }
    if (h.output() == nullptr) {
        NA_LOG_ERROR(rpc, "RPC {}: there is no output", h.name());
        return HG_FAULT;
    }
    h.note_raw();
    return give(h.output()->message, out_buf_p, out_buf_size_p);
}

hg_return_t HG_Get_input_extra_buf(hg_handle_t handle, void** in_buf_p, hg_size_t* in_buf_size_p) {
    HG_C_REQUIRE(handle != HG_HANDLE_NULL, rpc, "handle is HG_HANDLE_NULL");
    HG_C_REQUIRE(in_buf_p != nullptr, rpc, "in_buf_p is NULL");
    return give(Handle::extra(Loopback::behind(*core(handle)).input()), in_buf_p, in_buf_size_p);
}

hg_return_t HG_Get_output_extra_buf(hg_handle_t handle, void** out_buf_p,
                                    hg_size_t* out_buf_size_p) {
    HG_C_REQUIRE(handle != HG_HANDLE_NULL, rpc, "handle is HG_HANDLE_NULL");
    HG_C_REQUIRE(out_buf_p != nullptr, rpc, "out_buf_p is NULL");
    return give(Handle::extra(core(handle)->output()), out_buf_p, out_buf_size_p);
}

}  // extern "C"
