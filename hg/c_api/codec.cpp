// SPDX-License-Identifier: BSD-3-Clause
#include "hg/c_api/codec.hpp"

namespace hg::c_api {

proc::Proc& make_proc(Handle& handle) {
    auto* made = new proc::Proc(c_api::handle(handle.info().cls), proc::ChecksumKind::none,
                                handle.context().overflow().allocator());
    hg_proc_set_handle(made, c_api::handle(&handle));
    made->set_limit(SIZE_MAX, na::Status::msgsize);
    handle.shell = made;
    handle.release_shell = [](void* p) { delete static_cast<proc::Proc*>(p); };
    return *made;
}

void take_beyond(Handle& handle, proc::Proc& p, Encoded& out) noexcept {
    out.beyond_size = p.encoded().size();
    out.beyond = handle.context().overflow().find(p.take_extra().data());
}

}  // namespace hg::c_api
