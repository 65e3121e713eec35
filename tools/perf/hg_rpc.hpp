// SPDX-License-Identifier: BSD-3-Clause
// The RPCs between hg_perf_server and its clients.
#pragma once

#include <mercury.h>
#include <mercury_bulk.h>
#include <mercury_proc.h>
#include <mercury_proc_bulk.h>

#include <cstdint>

#include "pattern.hpp"

namespace perf {

// Arguments of any size, as they are: their size is that of the payload.
struct Bytes {
    void* data = nullptr;
    hg_size_t size = 0;     // decoding: as many as the payload has (HG_Get_*_payload_size)
    bool in_place = false;  // decoding: `data` becomes a pointer to what arrived
};

// What a server says about itself.
struct Status {
    std::uint32_t contexts = 0;
    std::uint64_t server = 0;  // its number, whichever class was asked
    std::uint64_t bad = 0;     // requests that it could not read
    std::uint64_t cpu_ns = 0;  // processor time so far
};

// Announces the memory of one handle. Answered with the number of the session, 0: the server
// refuses.
struct BulkOpen {
    std::uint64_t client = 0;  // the process, by a number that it has for itself
    std::uint32_t buffers = 0;
    std::uint64_t size = 0;  // of each
    std::uint8_t library_memory = 0;
    hg_bulk_t bulk = HG_BULK_NULL;
};

// Asks for `buffers` transfers of `size` bytes, from or to the beginning of each buffer.
struct BulkMove {
    std::uint64_t session = 0;
    std::uint64_t size = 0;
    std::uint32_t buffers = 0;
    std::uint8_t push = 0;  // the server writes the client's memory
    // What was moved is looked at: the server writes that pattern, or answers what it read.
    std::uint8_t verify = 0;
    std::uint64_t seed = 0;  // of the operation
};

// How that ended.
struct BulkMoved {
    std::uint64_t code = 0;  // an hg_return_t
    Digest digest;           // of what was pulled, all buffers, if it is to be looked at
};

// The same with memory that was registered for this one operation: the buffers of that size.
struct BulkMoveFresh {
    BulkMove move;
    hg_bulk_t bulk = HG_BULK_NULL;
};

struct Number {
    std::uint64_t value = 0;
};

hg_return_t proc_bytes(hg_proc_t proc, void* data);
hg_return_t proc_status(hg_proc_t proc, void* data);
hg_return_t proc_bulk_open(hg_proc_t proc, void* data);
hg_return_t proc_bulk_move(hg_proc_t proc, void* data);
hg_return_t proc_bulk_move_fresh(hg_proc_t proc, void* data);
hg_return_t proc_bulk_moved(hg_proc_t proc, void* data);
hg_return_t proc_digest(hg_proc_t proc, void* data);
hg_return_t proc_number(hg_proc_t proc, void* data);

// Ids of a class.
struct Rpcs {
    hg_id_t rate = 0;             // Bytes, no answer
    hg_id_t digest = 0;           // Bytes, their Digest
    hg_id_t echo = 0;             // Bytes, the same back
    hg_id_t status = 0;           // nothing, Status
    hg_id_t bulk_open = 0;        // BulkOpen, Number
    hg_id_t bulk_close = 0;       // Number, nothing
    hg_id_t bulk_move = 0;        // BulkMove, BulkMoved
    hg_id_t bulk_move_fresh = 0;  // BulkMoveFresh, BulkMoved
    hg_id_t done = 0;             // nothing, nothing: the server may end
};

// What a server does on each; a client that serves nobody leaves them out.
struct Handlers {
    hg_rpc_cb_t rate = nullptr;
    hg_rpc_cb_t digest = nullptr;
    hg_rpc_cb_t echo = nullptr;
    hg_rpc_cb_t status = nullptr;
    hg_rpc_cb_t bulk_open = nullptr;
    hg_rpc_cb_t bulk_close = nullptr;
    hg_rpc_cb_t bulk_move = nullptr;
    hg_rpc_cb_t bulk_move_fresh = nullptr;
    hg_rpc_cb_t done = nullptr;
};

Rpcs register_rpcs(hg_class_t* hg_class, const Handlers& handlers);

}  // namespace perf
