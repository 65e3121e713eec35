// SPDX-License-Identifier: BSD-3-Clause
// Registration functions of mercury.h.
#include "hg/c_api/handles.hpp"
#include "hg/loopback.hpp"

using namespace hg;
using hg::c_api::code;
using hg::c_api::core;

namespace {

using Opaque = Registration::Opaque;

Registration::Functions functions(hg_proc_cb_t in, hg_proc_cb_t out, hg_rpc_cb_t rpc) noexcept {
    Registration::Functions f;
    f.encode_input = reinterpret_cast<Opaque>(in);
    f.encode_output = reinterpret_cast<Opaque>(out);
    if (rpc != nullptr) {
        f.user = reinterpret_cast<Opaque>(rpc);
        f.invoke = [](Handle& h, Opaque user) -> na::Status {
            return c_api::status_of_callback(
                reinterpret_cast<hg_rpc_cb_t>(user)(c_api::handle(&Loopback::to_show(h))));
        };
    }
    return f;
}

}  // namespace

extern "C" {

hg_id_t HG_Register_name(hg_class_t* hg_class, const char* func_name, hg_proc_cb_t in_proc_cb,
                         hg_proc_cb_t out_proc_cb, hg_rpc_cb_t rpc_cb) {
    if (hg_class == nullptr || func_name == nullptr || *func_name == '\0') {
        NA_LOG_ERROR(cls, "hg_class or func_name is NULL, or the name is empty");
        return 0;
    }
    try {
        auto id =
            core(hg_class)->registry().add(func_name, functions(in_proc_cb, out_proc_cb, rpc_cb));
        if (!id) {
            c_api::failed<na::log::Outlet::cls>(id.error());
            return 0;
        }
        return *id;
    } catch (const std::bad_alloc&) {
        NA_LOG_ERROR(cls, "cannot register \"{}\": out of memory", func_name);
        return 0;
    }
}

hg_return_t HG_Registered_name(hg_class_t* hg_class, const char* func_name, hg_id_t* id_p,
                               uint8_t* flag_p) {
    HG_C_REQUIRE(hg_class != nullptr, cls, "hg_class is NULL");
    HG_C_REQUIRE(func_name != nullptr && *func_name != '\0', cls, "func_name is NULL or empty");
    const hg_id_t id = Registry::id_of(func_name);
    if (id_p != nullptr) {
        *id_p = id;
    }
    if (flag_p != nullptr) {
        *flag_p = core(hg_class)->registry().contains(id) ? 1 : 0;
    }
    return HG_SUCCESS;
}

hg_return_t HG_Register(hg_class_t* hg_class, hg_id_t id, hg_proc_cb_t in_proc_cb,
                        hg_proc_cb_t out_proc_cb, hg_rpc_cb_t rpc_cb) {
    HG_C_REQUIRE(hg_class != nullptr, cls, "hg_class is NULL");
    try {
        auto added = core(hg_class)->registry().add(id, functions(in_proc_cb, out_proc_cb, rpc_cb));
        return added ? HG_SUCCESS : c_api::failed<na::log::Outlet::cls>(added.error());
    } catch (const std::bad_alloc&) {
        return HG_NOMEM;
    }
}

hg_return_t HG_Deregister(hg_class_t* hg_class, hg_id_t id) {
    HG_C_REQUIRE(hg_class != nullptr, cls, "hg_class is NULL");
    return code(core(hg_class)->registry().remove(id));
}

hg_return_t HG_Registered(hg_class_t* hg_class, hg_id_t id, uint8_t* flag_p) {
    HG_C_REQUIRE(hg_class != nullptr, cls, "hg_class is NULL");
    HG_C_REQUIRE(flag_p != nullptr, cls, "flag_p is NULL");
    *flag_p = core(hg_class)->registry().contains(id) ? 1 : 0;
    return HG_SUCCESS;
}

hg_return_t HG_Registered_proc_cb(hg_class_t* hg_class, hg_id_t id, uint8_t* flag_p,
                                  hg_proc_cb_t* in_proc_cb_p, hg_proc_cb_t* out_proc_cb_p) {
    HG_C_REQUIRE(hg_class != nullptr, cls, "hg_class is NULL");
    HG_C_REQUIRE(flag_p != nullptr, cls, "flag_p is NULL");
    Registration::Functions f;
    const bool known = ok(core(hg_class)->registry().functions(id, f));
    *flag_p = known ? 1 : 0;
    if (known && in_proc_cb_p != nullptr) {
        *in_proc_cb_p = reinterpret_cast<hg_proc_cb_t>(f.encode_input);
    }
    if (known && out_proc_cb_p != nullptr) {
        *out_proc_cb_p = reinterpret_cast<hg_proc_cb_t>(f.encode_output);
    }
    return HG_SUCCESS;
}

hg_return_t HG_Register_data(hg_class_t* hg_class, hg_id_t id, void* data,
                             void (*free_callback)(void*)) {
    HG_C_REQUIRE(hg_class != nullptr, cls, "hg_class is NULL");
    return code(core(hg_class)->registry().set_data(id, data, free_callback));
}

void* HG_Registered_data(hg_class_t* hg_class, hg_id_t id) {
    return hg_class == nullptr ? nullptr : core(hg_class)->registry().data(id);
}

hg_return_t HG_Registered_disable_response(hg_class_t* hg_class, hg_id_t id, uint8_t disable) {
    HG_C_REQUIRE(hg_class != nullptr, cls, "hg_class is NULL");
    return code(core(hg_class)->registry().set_one_way(id, disable != 0));
}

hg_return_t HG_Registered_disabled_response(hg_class_t* hg_class, hg_id_t id, uint8_t* disabled_p) {
    HG_C_REQUIRE(hg_class != nullptr, cls, "hg_class is NULL");
    HG_C_REQUIRE(disabled_p != nullptr, cls, "disabled_p is NULL");
    bool one_way = false;
    const na::Status s = core(hg_class)->registry().one_way(id, one_way);
    if (ok(s)) {
        *disabled_p = one_way ? 1 : 0;
    }
    return code(s);
}

}  // extern "C"
