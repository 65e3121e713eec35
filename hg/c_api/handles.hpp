// SPDX-License-Identifier: BSD-3-Clause
// The objects behind the opaque types of mercury.h, and the way between them and the core. Included
// by the files of this folder only.
#pragma once

#include <new>

#include "bulk/bulk.hpp"
#include "hg/address.hpp"
#include "hg/class.hpp"
#include "hg/context.hpp"
#include "hg/handle.hpp"
#include "mercury.h"
#include "na/util/log.hpp"

namespace hg::c_api {

inline Class* core(hg_class_t* c) noexcept {
    return reinterpret_cast<Class*>(c);
}
inline const Class* core(const hg_class_t* c) noexcept {
    return reinterpret_cast<const Class*>(c);
}
inline Context* core(hg_context_t* c) noexcept {
    return reinterpret_cast<Context*>(c);
}
inline const Context* core(const hg_context_t* c) noexcept {
    return reinterpret_cast<const Context*>(c);
}
inline Address* core(hg_addr_t a) noexcept {
    return reinterpret_cast<Address*>(a);
}
inline Handle* core(hg_handle_t h) noexcept {
    return reinterpret_cast<Handle*>(h);
}
inline bulk::Bulk* core(hg_bulk_t b) noexcept {
    return reinterpret_cast<bulk::Bulk*>(b);
}
inline hg_class_t* handle(Class* c) noexcept {
    return reinterpret_cast<hg_class_t*>(c);
}
inline hg_context_t* handle(Context* c) noexcept {
    return reinterpret_cast<hg_context_t*>(c);
}
inline hg_addr_t handle(Address* a) noexcept {
    return reinterpret_cast<hg_addr_t>(a);
}
inline hg_handle_t handle(Handle* h) noexcept {
    return reinterpret_cast<hg_handle_t>(h);
}
inline hg_bulk_t handle(bulk::Bulk* b) noexcept {
    return reinterpret_cast<hg_bulk_t>(b);
}

inline hg_return_t code(na::Status s) noexcept {
    return static_cast<hg_return_t>(s);
}
// Codes of the user's callbacks; made-up ones become other_error.
inline na::Status status(hg_return_t r) noexcept {
    return static_cast<unsigned>(r) < static_cast<unsigned>(HG_RETURN_MAX)
               ? static_cast<na::Status>(r)
               : na::Status::other_error;
}

// Of an RPC callback, whose value Mercury does not look at: a value that is no code comes of one that
// ends without saying any, and says nothing.
inline na::Status status_of_callback(hg_return_t r) noexcept {
    return static_cast<unsigned>(r) < static_cast<unsigned>(HG_RETURN_MAX)
               ? static_cast<na::Status>(r)
               : na::Status::success;
}

// Records the error for HG_Get_last_error(), logs it, answers its code.
template <na::log::Outlet outlet>
hg_return_t failed(const na::Error& error) noexcept {
    NA_LOG_AT(outlet, na::log::Level::error, "{}", error.message);
    return code(error.status);
}

// Out of line, so that checking costs the functions of the data path a comparison and nothing else.
template <na::log::Outlet outlet>
[[gnu::cold, gnu::noinline]] hg_return_t unusable(const char* function, const char* what) noexcept {
    NA_LOG_AT(outlet, na::log::Level::error, "{}: {}", function, what);
    return HG_INVALID_ARG;
}

// Null or otherwise unusable arguments; `what` names which.
#define HG_C_REQUIRE(condition, outlet, what)                                        \
    do {                                                                             \
        if (!(condition)) [[unlikely]] {                                             \
            return ::hg::c_api::unusable<::na::log::Outlet::outlet>(__func__, what); \
        }                                                                            \
    } while (0)

}  // namespace hg::c_api
