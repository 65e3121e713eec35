// SPDX-License-Identifier: BSD-3-Clause
// Classes, contexts, registration and progress of mercury_core.h.
#include "hg/c_api/core_handles.hpp"
#include "hg/loopback.hpp"
#include "na/c_api/handles.hpp"
#include "na/core/vacant.hpp"

using namespace hg;
using hg::c_api::code;
using hg::c_api::core;
using hg::c_api::core_handle;
using hg::c_api::plain;
using Opaque = Registration::Opaque;

namespace {

using Done = void (*)(hg_core_handle_t, hg_return_t);
using Acquire = hg_return_t (*)(hg_core_handle_t, hg_op_t, Done);
using Release = void (*)(hg_core_handle_t);

na::Status run_acquire(Handle& h, bool input, Opaque user) {
    const Done done = [](hg_core_handle_t handle, hg_return_t ret) {
        core(plain(handle))->more_done(c_api::status(ret));
    };
    return c_api::status(
        reinterpret_cast<Acquire>(user)(core_handle(&h), input ? HG_INPUT : HG_OUTPUT, done));
}

void run_release(Handle& h, Opaque user) {
    reinterpret_cast<Release>(user)(core_handle(&h));
}

}  // namespace

extern "C" {

hg_return_t HG_Core_get_na_protocol_info(const char* info_string,
                                         struct na_protocol_info** na_protocol_info_p) {
    return HG_Get_na_protocol_info(info_string, na_protocol_info_p);
}

void HG_Core_free_na_protocol_info(struct na_protocol_info* na_protocol_info) {
    HG_Free_na_protocol_info(na_protocol_info);
}

// --- class
// -----------------------------------------------------------------------------------------------------------

hg_core_class_t* HG_Core_init(const char* na_info_string, uint8_t na_listen) {
    return core_handle(HG_Init(na_info_string, na_listen));
}

hg_core_class_t* HG_Core_init_opt(const char* na_info_string, uint8_t na_listen,
                                  const struct hg_init_info* hg_init_info) {
    return core_handle(HG_Init_opt(na_info_string, na_listen, hg_init_info));
}

hg_core_class_t* HG_Core_init_opt2(const char* na_info_string, uint8_t na_listen,
                                   unsigned int version, const struct hg_init_info* hg_init_info) {
    return core_handle(HG_Init_opt2(na_info_string, na_listen, version, hg_init_info));
}

hg_return_t HG_Core_finalize(hg_core_class_t* hg_core_class) {
    return HG_Finalize(plain(hg_core_class));
}

void HG_Core_cleanup(void) {
    HG_Cleanup();
}

hg_return_t HG_Core_set_more_data_callback(struct hg_core_class* hg_core_class,
                                           Acquire more_data_acquire_callback,
                                           Release more_data_release_callback) {
    HG_C_REQUIRE(hg_core_class != nullptr, cls, "hg_core_class is NULL");
    Class::MoreData more;
    if (more_data_acquire_callback != nullptr) {
        more.acquire = run_acquire;
        more.user_acquire = reinterpret_cast<Opaque>(more_data_acquire_callback);
        if (more_data_release_callback != nullptr) {
            more.release = run_release;
            more.user_release = reinterpret_cast<Opaque>(more_data_release_callback);
        }
    }
    core(plain(hg_core_class))->set_more_data(more);
    return HG_SUCCESS;
}

const char* HG_Core_class_get_name(const hg_core_class_t* hg_core_class) {
    return HG_Class_get_name(plain(hg_core_class));
}

const char* HG_Core_class_get_protocol(const hg_core_class_t* hg_core_class) {
    return HG_Class_get_protocol(plain(hg_core_class));
}

bool HG_Core_class_is_listening(const hg_core_class_t* hg_core_class) {
    return HG_Class_is_listening(plain(hg_core_class));
}

na_class_t* HG_Core_class_get_na(const hg_core_class_t* hg_core_class) {
    return hg_core_class == nullptr ? nullptr
                                    : na::c_api::handle(&core(plain(hg_core_class))->net());
}

na_class_t* HG_Core_class_get_na_sm(const hg_core_class_t* hg_core_class) {
    return hg_core_class == nullptr ? nullptr : na::c_api::handle(core(plain(hg_core_class))->sm());
}

hg_size_t HG_Core_class_get_input_eager_size(const hg_core_class_t* hg_core_class) {
    return HG_Class_get_input_eager_size(plain(hg_core_class));
}

hg_size_t HG_Core_class_get_output_eager_size(const hg_core_class_t* hg_core_class) {
    return HG_Class_get_output_eager_size(plain(hg_core_class));
}

hg_return_t HG_Core_class_set_data(hg_core_class_t* hg_core_class, void* data,
                                   void (*free_callback)(void*)) {
    return HG_Class_set_data(plain(hg_core_class), data, free_callback);
}

void* HG_Core_class_get_data(const hg_core_class_t* hg_core_class) {
    return HG_Class_get_data(plain(hg_core_class));
}

hg_return_t HG_Core_class_get_counters(const hg_core_class_t* hg_core_class,
                                       struct hg_diag_counters* diag_counters) {
    return HG_Class_get_counters(plain(hg_core_class), diag_counters);
}

// --- context
// ---------------------------------------------------------------------------------------------------------

hg_core_context_t* HG_Core_context_create(hg_core_class_t* hg_core_class) {
    return HG_Core_context_create_id(hg_core_class, 0);
}

hg_core_context_t* HG_Core_context_create_id(hg_core_class_t* hg_core_class, uint8_t id) {
    if (hg_core_class == nullptr) {
        NA_LOG_ERROR(ctx, "hg_core_class is NULL");
        return nullptr;
    }
    try {
        Class& cls = *core(plain(hg_core_class));
        auto context = na::open_with_id(cls.net(), id, [&](std::uint8_t any) {
            return Context::open(cls, any, Context::Requests::later);
        });
        if (!context) {
            NA_LOG_ERROR(ctx, "cannot create context {}: {}", id, context.error().message);
            return nullptr;
        }
        return reinterpret_cast<hg_core_context_t*>(context->release());
    } catch (const std::bad_alloc&) {
        NA_LOG_ERROR(ctx, "cannot create context {}: out of memory", id);
        return nullptr;
    }
}

hg_return_t HG_Core_context_destroy(hg_core_context_t* context) {
    return HG_Context_destroy(plain(context));
}

hg_core_class_t* HG_Core_context_get_class(const hg_core_context_t* context) {
    return core_handle(HG_Context_get_class(plain(context)));
}

na_context_t* HG_Core_context_get_na(const hg_core_context_t* context) {
    return context == nullptr ? nullptr : na::c_api::handle(&core(plain(context))->net());
}

na_context_t* HG_Core_context_get_na_sm(const hg_core_context_t* context) {
    return context == nullptr ? nullptr : na::c_api::handle(core(plain(context))->sm());
}

uint8_t HG_Core_context_get_id(const hg_core_context_t* context) {
    return HG_Context_get_id(plain(context));
}

hg_return_t HG_Core_context_set_data(hg_core_context_t* context, void* data,
                                     void (*free_callback)(void*)) {
    return HG_Context_set_data(plain(context), data, free_callback);
}

void* HG_Core_context_get_data(const hg_core_context_t* context) {
    return HG_Context_get_data(plain(context));
}

unsigned int HG_Core_context_get_completion_count(const hg_core_context_t* context) {
    return context == nullptr ? 0 : core(plain(context))->callbacks_due();
}

hg_return_t HG_Core_context_set_handle_create_callback(
    hg_core_context_t* context, hg_return_t (*callback)(hg_core_handle_t, void*), void* arg) {
    HG_C_REQUIRE(context != nullptr, ctx, "context is NULL");
    if (callback == nullptr) {
        core(plain(context))->set_handle_create({});
        return HG_SUCCESS;
    }
    core(plain(context))
        ->set_handle_create({.hook = [](Handle& h, Opaque user, void* a) -> na::Status {
                                 return c_api::status(
                                     reinterpret_cast<hg_return_t (*)(hg_core_handle_t, void*)>(
                                         user)(core_handle(&h), a));
                             },
                             .user = reinterpret_cast<Opaque>(callback),
                             .arg = arg});
    return HG_SUCCESS;
}

hg_return_t HG_Core_context_post(hg_core_context_t* context) {
    HG_C_REQUIRE(context != nullptr, ctx, "context is NULL");
    const na::Status s = core(plain(context))->accept();
    if (!ok(s)) {
        NA_LOG_ERROR(ctx, "cannot accept requests: {}",
                     s == na::Status::opnotsupported
                         ? "the class does not listen (na_listen of HG_Core_init)"
                         : "no receive could be posted");
    }
    return code(s);
}

hg_return_t HG_Core_context_unpost(hg_core_context_t* context) {
    return HG_Context_unpost(plain(context));
}

// --- registration
// ----------------------------------------------------------------------------------------------------

hg_return_t HG_Core_register(hg_core_class_t* hg_core_class, hg_id_t id, hg_core_rpc_cb_t rpc_cb) {
    HG_C_REQUIRE(hg_core_class != nullptr, cls, "hg_core_class is NULL");
    Registration::Functions f;
    if (rpc_cb != nullptr) {
        f.user = reinterpret_cast<Opaque>(rpc_cb);
        f.invoke = [](Handle& h, Opaque user) -> na::Status {
            return c_api::status_of_callback(
                reinterpret_cast<hg_core_rpc_cb_t>(user)(core_handle(&Loopback::to_show(h))));
        };
    }
    try {
        auto added = core(plain(hg_core_class))->registry().add(id, f);
        return added ? HG_SUCCESS : c_api::failed<na::log::Outlet::cls>(added.error());
    } catch (const std::bad_alloc&) {
        return HG_NOMEM;
    }
}

hg_return_t HG_Core_deregister(hg_core_class_t* hg_core_class, hg_id_t id) {
    return HG_Deregister(plain(hg_core_class), id);
}

hg_return_t HG_Core_registered(hg_core_class_t* hg_core_class, hg_id_t id, uint8_t* flag_p) {
    return HG_Registered(plain(hg_core_class), id, flag_p);
}

hg_return_t HG_Core_register_data(hg_core_class_t* hg_core_class, hg_id_t id, void* data,
                                  void (*free_callback)(void*)) {
    return HG_Register_data(plain(hg_core_class), id, data, free_callback);
}

void* HG_Core_registered_data(hg_core_class_t* hg_core_class, hg_id_t id) {
    return HG_Registered_data(plain(hg_core_class), id);
}

hg_return_t HG_Core_registered_disable_response(hg_core_class_t* hg_core_class, hg_id_t id,
                                                uint8_t disable) {
    return HG_Registered_disable_response(plain(hg_core_class), id, disable);
}

hg_return_t HG_Core_registered_disabled_response(hg_core_class_t* hg_core_class, hg_id_t id,
                                                 uint8_t* disabled_p) {
    return HG_Registered_disabled_response(plain(hg_core_class), id, disabled_p);
}

// --- progress
// --------------------------------------------------------------------------------------------------------

hg_return_t HG_Core_progress(hg_core_context_t* context, unsigned int timeout) {
    return HG_Progress(plain(context), timeout);
}

hg_return_t HG_Core_trigger(hg_core_context_t* context, unsigned int timeout,
                            unsigned int max_count, unsigned int* actual_count_p) {
    return HG_Trigger(plain(context), timeout, max_count, actual_count_p);
}

int HG_Core_event_get_wait_fd(const hg_core_context_t* context) {
    return HG_Event_get_wait_fd(plain(context));
}

bool HG_Core_event_ready(hg_core_context_t* context) {
    return HG_Event_ready(plain(context));
}

hg_return_t HG_Core_event_progress(hg_core_context_t* context, unsigned int* count_p) {
    return HG_Event_progress(plain(context), count_p);
}

hg_return_t HG_Core_event_trigger(hg_core_context_t* context, unsigned int max_count,
                                  unsigned int* actual_count_p) {
    return HG_Event_trigger(plain(context), max_count, actual_count_p);
}

}  // extern "C"
