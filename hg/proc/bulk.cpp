// SPDX-License-Identifier: BSD-3-Clause
// Bulk descriptors in RPC structures: hg_proc_hg_bulk_t.
#include "hg/proc/bulk.hpp"

#include <algorithm>
#include <cstdint>

#include "hg/proc/notes.hpp"
#include "hg/proc/proc.hpp"
#include "mercury_proc_bulk.h"
#include "na/util/log.hpp"

namespace {

hg_return_t encode(hg_proc_t proc, hg_bulk_t handle) noexcept {
    std::uint64_t size = 0;
    if (handle == HG_BULK_NULL) {
        return hg_proc_uint64_t(proc, &size);
    }
    unsigned long flags = (hg_proc_get_flags(proc) & HG_PROC_SM) != 0 ? HG_BULK_SM : 0UL;
    const bool self = hg::proc::to_self(hg_proc_get_handle(proc));
    size = hg::proc::bulk_size(handle, flags, self);
    // Contents are worth carrying only where they cost no second message; and who keeps a
    // descriptor expects to see what becomes of the memory, but for a small one.
    if ((hg_proc_get_flags(proc) & HG_PROC_BULK_EAGER) != 0 &&
        proc->current_buf == &proc->proc_buf) {
        const hg_size_t within = hg::proc::Proc::of(proc).contents_within();
        const hg_size_t used = hg_proc_get_size_used(proc);
        const hg_size_t left =
            std::min(hg_proc_get_size_left(proc), within - std::min(used, within));
        const hg_size_t eager = hg::proc::bulk_size(handle, flags | HG_BULK_EAGER, self);
        if (left >= sizeof size && eager <= left - sizeof size) {
            flags |= HG_BULK_EAGER;
            size = eager;
        }
    }
    if (size == 0 || size > HG_SIZE_MAX - sizeof size) {
        NA_LOG_ERROR(proc, "the bulk descriptor cannot be serialised");
        return HG_INVALID_ARG;
    }
    hg_return_t ret = hg_proc_reserve(proc, sizeof size + size);  // grow once
    if (ret != HG_SUCCESS) {
        return ret;
    }
    ret = hg_proc_uint64_t(proc, &size);
    if (ret != HG_SUCCESS) {
        return ret;
    }
    void* at = hg_proc_save_ptr(proc, size);
    ret = hg::proc::write_bulk(at, size, flags, self, handle);
    return ret == HG_SUCCESS ? hg_proc_restore_ptr(proc, at, size) : ret;
}

// `handle` is written in any case: null unless it succeeds.
hg_return_t decode(hg_proc_t proc, hg_bulk_t& handle) noexcept {
    handle = HG_BULK_NULL;
    std::uint64_t size = 0;
    hg_return_t ret = hg_proc_uint64_t(proc, &size);
    if (ret != HG_SUCCESS || size == 0) {
        return ret;
    }
    const hg_size_t left = hg_proc_get_size_left(proc);
    if (size > left) {
        NA_LOG_WARNING(proc, "a bulk descriptor of {} bytes is announced, {} bytes are left", size,
                       left);
        return HG_OVERFLOW;
    }
    void* at = hg_proc_save_ptr(proc, size);
    hg_bulk_t decoded = HG_BULK_NULL;
    ret = HG_Bulk_deserialize(hg_proc_get_class(proc), &decoded, at, size);
    if (ret != HG_SUCCESS) {
        return ret;
    }
    handle = decoded;
    (void)hg_proc_restore_ptr(proc, at, size);  // it is where save_ptr said
    return hg::proc::note(proc, hg_proc_hg_bulk_t, &handle, handle);
}

}  // namespace

extern "C" hg_return_t hg_proc_hg_bulk_t(hg_proc_t proc, void* data) {
    if (proc == HG_PROC_NULL || data == nullptr) {
        NA_LOG_ERROR(proc, "NULL proc or bulk descriptor");
        return HG_INVALID_ARG;
    }
    auto& handle = *static_cast<hg_bulk_t*>(data);
    switch (hg_proc_get_op(proc)) {
        case HG_ENCODE:
            return encode(proc, handle);
        case HG_DECODE:
            return decode(proc, handle);
        case HG_FREE: {
            const hg_return_t ret = HG_Bulk_free(handle);
            handle = HG_BULK_NULL;
            return ret;
        }
    }
    return HG_INVALID_ARG;
}
