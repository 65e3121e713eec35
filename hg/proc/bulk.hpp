// SPDX-License-Identifier: BSD-3-Clause
// Functions that hg_proc_hg_bulk_t needs of the layers above; hg/c_api/bulk.cpp defines them. Any
// thread.
#pragma once

#include "mercury_proc.h"

namespace hg::proc {

// Whether what is encoded goes to this process: an RPC to oneself, or its response. `handle` may be
// null, which goes anywhere.
bool to_self(hg_handle_t handle) noexcept;
// As HG_Bulk_get_serialize_size and HG_Bulk_serialize. With `self` the bytes carry addresses of
// this process, and must not leave it.
hg_size_t bulk_size(hg_bulk_t bulk, unsigned long flags, bool self) noexcept;
hg_return_t write_bulk(void* to, hg_size_t size, unsigned long flags, bool self,
                       hg_bulk_t bulk) noexcept;

}  // namespace hg::proc
