// SPDX-License-Identifier: BSD-3-Clause
// The procs of handles: encoding and decoding of RPC structures for the C API. One proc per handle,
// made at first use, kept as long as the handle object.
#pragma once

#include "hg/c_api/handles.hpp"
#include "hg/proc/proc.hpp"

namespace hg::c_api {

// Throws std::bad_alloc.
proc::Proc& proc_of(Handle& handle);

// An encoded structure: in `room`, or in a block beyond it.
struct Encoded {
    std::size_t size = 0;  // bytes in the message, the user's included
    Block* beyond = nullptr;
    std::size_t beyond_size = 0;
};

// Encodes behind the first `offset` bytes of `room`, which are the user's. Null callback or
// structure: nothing to encode.
na::Status encode(Handle& handle, hg_proc_cb_t callback, void* structure, std::span<std::byte> room,
                  std::size_t offset, Encoded& out);
na::Status decode(Handle& handle, hg_proc_cb_t callback, void* structure,
                  const Handle::Payload& payload, std::size_t offset);
na::Status free(Handle& handle, hg_proc_cb_t callback, void* structure);

}  // namespace hg::c_api
