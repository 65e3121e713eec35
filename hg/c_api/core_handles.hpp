// SPDX-License-Identifier: BSD-3-Clause
// The opaque types of mercury_core.h are those of mercury.h under other names: one object, two sets
// of functions. Included by the files of this folder only.
#pragma once

#include "hg/c_api/handles.hpp"
#include "mercury_core.h"

namespace hg::c_api {

inline hg_class_t* plain(hg_core_class_t* c) noexcept {
    return reinterpret_cast<hg_class_t*>(c);
}
inline const hg_class_t* plain(const hg_core_class_t* c) noexcept {
    return reinterpret_cast<const hg_class_t*>(c);
}
inline hg_context_t* plain(hg_core_context_t* c) noexcept {
    return reinterpret_cast<hg_context_t*>(c);
}
inline const hg_context_t* plain(const hg_core_context_t* c) noexcept {
    return reinterpret_cast<const hg_context_t*>(c);
}
inline hg_addr_t plain(hg_core_addr_t a) noexcept {
    return reinterpret_cast<hg_addr_t>(a);
}
inline hg_handle_t plain(hg_core_handle_t h) noexcept {
    return reinterpret_cast<hg_handle_t>(h);
}

inline hg_core_class_t* core_handle(hg_class_t* c) noexcept {
    return reinterpret_cast<hg_core_class_t*>(c);
}
inline hg_core_addr_t core_handle(Address* a) noexcept {
    return reinterpret_cast<hg_core_addr_t>(a);
}
inline hg_core_handle_t core_handle(Handle* h) noexcept {
    return reinterpret_cast<hg_core_handle_t>(h);
}

}  // namespace hg::c_api
