// SPDX-License-Identifier: BSD-3-Clause
// Context functions of mercury.h.
#include "hg/c_api/handles.hpp"
#include "na/core/vacant.hpp"

using namespace hg;
using hg::c_api::code;
using hg::c_api::core;

extern "C" {

hg_context_t* HG_Context_create(hg_class_t* hg_class) {
    return HG_Context_create_id(hg_class, 0);
}

hg_context_t* HG_Context_create_id(hg_class_t* hg_class, uint8_t id) {
    if (hg_class == nullptr) {
        NA_LOG_ERROR(ctx, "hg_class is NULL");
        return nullptr;
    }
    try {
        auto context = na::open_with_id(core(hg_class)->net(), id, [&](std::uint8_t any) {
            return Context::open(*core(hg_class), any);
        });
        if (!context) {
            NA_LOG_ERROR(ctx, "cannot create context {}: {}", id, context.error().message);
            return nullptr;
        }
        return c_api::handle(context->release());
    } catch (const std::bad_alloc&) {
        NA_LOG_ERROR(ctx, "cannot create context {}: out of memory", id);
        return nullptr;
    }
}

hg_return_t HG_Context_destroy(hg_context_t* context) {
    HG_C_REQUIRE(context != nullptr, ctx, "context is NULL");
    if (core(context)->cls().inherited()) {
        return HG_SUCCESS;
    }
    try {
        if (auto alone = core(context)->begin_end(); !alone) {
            return c_api::failed<na::log::Outlet::ctx>(alone.error());
        }
    } catch (const std::bad_alloc&) {
        return HG_NOMEM;
    }
    try {
        if (auto closed = core(context)->close(); !closed) {
            core(context)->give_end_up();
            return c_api::failed<na::log::Outlet::ctx>(closed.error());
        }
    } catch (const std::bad_alloc&) {
        core(context)->give_end_up();
        return HG_NOMEM;
    } catch (...) {  // a callback's, which close() has run: the context stays
        core(context)->give_end_up();
        throw;
    }
    core(context)->finish_end();
    delete core(context);
    return HG_SUCCESS;
}

hg_return_t HG_Context_unpost(hg_context_t* context) {
    HG_C_REQUIRE(context != nullptr, ctx, "context is NULL");
    return code(core(context)->unpost());
}

hg_class_t* HG_Context_get_class(const hg_context_t* context) {
    return context == nullptr ? nullptr : c_api::handle(&core(context)->cls());
}

uint8_t HG_Context_get_id(const hg_context_t* context) {
    return context == nullptr ? 0 : core(context)->id();
}

hg_return_t HG_Context_set_data(hg_context_t* context, void* data, void (*free_callback)(void*)) {
    HG_C_REQUIRE(context != nullptr, ctx, "context is NULL");
    core(context)->user = {.data = data, .release = free_callback};
    return HG_SUCCESS;
}

void* HG_Context_get_data(const hg_context_t* context) {
    return context == nullptr ? nullptr : core(context)->user.data;
}

// --- progress
// --------------------------------------------------------------------------------------------------------

hg_return_t HG_Progress(hg_context_t* context, unsigned int timeout) {
    HG_C_REQUIRE(context != nullptr, ctx, "context is NULL");
    return code(core(context)->progress(timeout));
}

hg_return_t HG_Trigger(hg_context_t* context, unsigned int timeout, unsigned int max_count,
                       unsigned int* actual_count_p) {
    HG_C_REQUIRE(context != nullptr, ctx, "context is NULL");
    unsigned unwanted = 0;
    return code(core(context)->trigger(timeout, max_count,
                                       actual_count_p == nullptr ? unwanted : *actual_count_p));
}

int HG_Event_get_wait_fd(const hg_context_t* context) {
    return context == nullptr ? -1 : core(context)->wait_fd();
}

bool HG_Event_ready(hg_context_t* context) {
    return context == nullptr || core(context)->ready();
}

hg_return_t HG_Event_progress(hg_context_t* context, unsigned int* count_p) {
    HG_C_REQUIRE(context != nullptr, ctx, "context is NULL");
    const std::uint32_t due = core(context)->poll_once();
    if (count_p != nullptr) {
        *count_p = due;
    }
    return HG_SUCCESS;
}

hg_return_t HG_Event_trigger(hg_context_t* context, unsigned int max_count,
                             unsigned int* actual_count_p) {
    HG_C_REQUIRE(context != nullptr, ctx, "context is NULL");
    unsigned unwanted = 0;
    // That none ran is no error here.
    (void)core(context)->trigger(0, max_count,
                                 actual_count_p == nullptr ? unwanted : *actual_count_p);
    return HG_SUCCESS;
}

}  // extern "C"
