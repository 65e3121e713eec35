// SPDX-License-Identifier: BSD-3-Clause
#include "hg/c_api/codec.hpp"

namespace hg::c_api {
namespace {

std::uint8_t flags_for(const Handle& handle) noexcept {
    std::uint8_t flags =
        handle.info().addr != nullptr && handle.info().addr->sm() != nullptr ? HG_PROC_SM : 0;
    if (handle.info().cls->options().bulk_eager) {
        flags |= HG_PROC_BULK_EAGER;
    }
    return flags;
}

proc::Proc& start(Handle& handle, void* data, std::size_t size, hg_proc_op_t op) {
    proc::Proc& p = proc_of(handle);
    p.reset(data, size, op);
    hg_proc_set_flags(&p, flags_for(handle));
    return p;
}

}  // namespace

proc::Proc& proc_of(Handle& handle) {
    if (handle.shell == nullptr) [[unlikely]] {
        auto* made = new proc::Proc(c_api::handle(handle.info().cls), proc::ChecksumKind::none,
                                    handle.context().overflow().allocator());
        hg_proc_set_handle(made, c_api::handle(&handle));
        handle.shell = made;
        handle.release_shell = [](void* p) { delete static_cast<proc::Proc*>(p); };
    }
    return *static_cast<proc::Proc*>(handle.shell);
}

na::Status encode(Handle& handle, hg_proc_cb_t callback, void* structure, std::span<std::byte> room,
                  std::size_t offset, Encoded& out) {
    out.size = offset;
    if (callback == nullptr || structure == nullptr) {
        return na::Status::success;
    }
    const std::span<std::byte> rest = room.subspan(offset);
    proc::Proc& p = start(handle, rest.data(), rest.size(), HG_ENCODE);
    if (handle.info().cls->options().overflow) [[likely]] {
        p.set_limit(SIZE_MAX, na::Status::msgsize);
    } else {
        p.set_limit(rest.size(), na::Status::overflow);
    }
    if (const na::Status s = p.run(callback, structure); !ok(s)) [[unlikely]] {
        return s;
    }
    const std::size_t size = p.encoded().size();
    const std::span<std::byte> extra = p.take_extra();
    if (extra.empty()) [[likely]] {
        out.size = offset + size;
        return na::Status::success;
    }
    out.beyond = handle.context().overflow().find(extra.data());
    out.beyond_size = size;
    return na::Status::success;
}

na::Status decode(Handle& handle, hg_proc_cb_t callback, void* structure,
                  const Handle::Payload& payload, std::size_t offset) {
    const std::span<std::byte> bytes =
        payload.beyond.empty() ? payload.message.subspan(offset) : payload.beyond;
    return start(handle, bytes.data(), bytes.size(), HG_DECODE).run(callback, structure);
}

na::Status free(Handle& handle, hg_proc_cb_t callback, void* structure) {
    return start(handle, nullptr, 0, HG_FREE).run(callback, structure);
}

}  // namespace hg::c_api
