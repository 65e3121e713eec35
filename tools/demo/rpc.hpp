// SPDX-License-Identifier: BSD-3-Clause
// The RPCs between the demo's client and its server.
#pragma once

#include <mercury.h>
#include <mercury_bulk.h>
#include <mercury_macros.h>
#include <mercury_proc_bulk.h>
#include <mercury_proc_string.h>

// Asks the server to pull `size` bytes from the client's memory `data` and to keep them as `name`.
MERCURY_GEN_PROC(demo_store_in_t, ((hg_const_string_t)(name))((uint64_t)(size))((hg_bulk_t)(data)))

// Asks the server to push the file `name` into the client's memory `data`.
MERCURY_GEN_PROC(demo_fetch_in_t, ((hg_const_string_t)(name))((hg_bulk_t)(data)))

// The answer to both: what was moved and its CRC32C, or why not (`error` not empty). `where` is a
// path at the server.
MERCURY_GEN_PROC(demo_moved_out_t, ((uint64_t)(size))((uint32_t)(crc))((uint32_t)(chunks))(
                                       (hg_const_string_t)(where))((hg_const_string_t)(error)))

// Asks how far the store or fetch of `name` is.
MERCURY_GEN_PROC(demo_progress_in_t, ((hg_const_string_t)(name)))
MERCURY_GEN_PROC(demo_progress_out_t, ((uint64_t)(moved)))

namespace demo {

struct RpcIds {
    hg_id_t store = 0;
    hg_id_t fetch = 0;
    hg_id_t progress = 0;
    hg_id_t null = 0;
    hg_id_t stop = 0;
};

// What the server runs; all null at the client.
struct RpcHandlers {
    hg_rpc_cb_t store = nullptr;
    hg_rpc_cb_t fetch = nullptr;
    hg_rpc_cb_t progress = nullptr;
    hg_rpc_cb_t null = nullptr;
    hg_rpc_cb_t stop = nullptr;
};

inline RpcIds register_rpcs(hg_class_t* hg_class, const RpcHandlers& handlers) {
    RpcIds ids;
    ids.store =
        MERCURY_REGISTER(hg_class, "demo_store", demo_store_in_t, demo_moved_out_t, handlers.store);
    ids.fetch =
        MERCURY_REGISTER(hg_class, "demo_fetch", demo_fetch_in_t, demo_moved_out_t, handlers.fetch);
    ids.progress = MERCURY_REGISTER(hg_class, "demo_progress", demo_progress_in_t,
                                    demo_progress_out_t, handlers.progress);
    ids.null = MERCURY_REGISTER(hg_class, "demo_null", void, void, handlers.null);
    ids.stop = MERCURY_REGISTER(hg_class, "demo_stop", void, void, handlers.stop);
    return ids;
}

}  // namespace demo
