// SPDX-License-Identifier: BSD-3-Clause
// The procs of handles: encoding and decoding of RPC structures for the C API. One proc per handle,
// made at first use, kept as long as the handle object.
#pragma once

#include "hg/c_api/handles.hpp"
#include "hg/proc/proc.hpp"

namespace hg::c_api {

// Throws std::bad_alloc.
proc::Proc& make_proc(Handle& handle);

inline proc::Proc& proc_of(Handle& handle) {
    return handle.shell == nullptr ? make_proc(handle) : *static_cast<proc::Proc*>(handle.shell);
}

inline proc::Proc& start(Handle& handle, void* data, std::size_t size, hg_proc_op_t op) {
    proc::Proc& p = proc_of(handle);
    p.reset(data, size, op);
    hg_proc_set_flags(&p, handle.codec_flags());
    return p;
}

// The proc of a call to oneself at the target, whose callbacks are told of the handle that stands
// for both. The origin's is the caller's meanwhile, who may be another thread.
class Behind {
 public:
    Behind(Handle& target, Handle& shown) : proc_(proc_of(target)), target_(target) {
        hg_proc_set_handle(&proc_, handle(&shown));
    }
    ~Behind() { hg_proc_set_handle(&proc_, handle(&target_)); }
    Behind(const Behind&) = delete;
    Behind& operator=(const Behind&) = delete;

 private:
    proc::Proc& proc_;
    Handle& target_;
};

// An encoded structure: in `room`, or in a block beyond it.
struct Encoded {
    std::size_t size = 0;  // bytes in the message, the user's included
    Block* beyond = nullptr;
    std::size_t beyond_size = 0;
};

// Of a structure that did not fit.
Encoded take_beyond(Handle& handle, proc::Proc& p, std::size_t offset) noexcept;

// Encodes behind the first `offset` bytes of `room`, which are the user's. Null callback or
// structure: nothing to encode.
inline na::Status encode(Handle& handle, hg_proc_cb_t callback, void* structure,
                         std::span<std::byte> room, std::size_t offset, Encoded& out) {
    out.size = offset;
    if (callback == nullptr || structure == nullptr) {
        return na::Status::success;
    }
    proc::Proc& p = start(handle, room.data() + offset, room.size() - offset, HG_ENCODE);
    if (const na::Status s = p.run(callback, structure); !ok(s)) [[unlikely]] {
        return s;
    }
    if (p.grew()) [[unlikely]] {
        out = take_beyond(handle, p, offset);
        return na::Status::success;
    }
    out.size = offset + static_cast<std::size_t>(hg_proc_get_size_used(&p));
    return na::Status::success;
}

// What a callback decoded, partly from bytes that were not received, ends. `status`: what it said.
na::Status drop_overrun(proc::Proc& p, hg_proc_cb_t callback, void* structure, na::Status status);

inline na::Status decode(Handle& handle, hg_proc_cb_t callback, void* structure,
                         const Handle::Payload& payload, std::size_t offset) {
    const std::span<std::byte> bytes =
        payload.beyond.empty() ? payload.message.subspan(offset) : payload.beyond;
    const na::Status s =
        start(handle, bytes.data(), bytes.size(), HG_DECODE).run(callback, structure);
    // Asked for again: to keep the proc in a register costs more.
    proc::Proc& p = *static_cast<proc::Proc*>(handle.shell);
    return p.overran() ? drop_overrun(p, callback, structure, s) : s;
}

// Requires: a decode() of the handle succeeded, which made its proc.
inline na::Status free(Handle& handle, hg_proc_cb_t callback, void* structure) {
    proc::Proc& p = *static_cast<proc::Proc*>(handle.shell);
    p.reset(nullptr, 0, HG_FREE);
    return p.run(callback, structure);
}

}  // namespace hg::c_api
