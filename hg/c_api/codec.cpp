// SPDX-License-Identifier: BSD-3-Clause
#include "hg/c_api/codec.hpp"

namespace hg::c_api {

static_assert(Port::kCodecSm == HG_PROC_SM && Port::kCodecBulkEager == HG_PROC_BULK_EAGER);

proc::Proc& make_proc(Handle& handle) {
    auto* made = new proc::Proc(c_api::handle(handle.info().cls), proc::ChecksumKind::none,
                                handle.context().overflow().allocator());
    hg_proc_set_handle(made, c_api::handle(&handle));
    made->set_contents_within(handle.info().cls->contents_within());
    if (handle.info().cls->options().overflow) {
        made->set_limit(SIZE_MAX, na::Status::msgsize);
    } else {
        made->set_limit(0, na::Status::overflow);
    }
    handle.shell = made;
    handle.release_shell = [](void* p) { delete static_cast<proc::Proc*>(p); };
    return *made;
}

Encoded take_beyond(Handle& handle, proc::Proc& p, std::size_t offset) noexcept {
    const std::size_t size = p.encoded().size();
    return {.size = offset,
            .beyond = handle.context().overflow().find(p.take_extra().data()),
            .beyond_size = size};
}

[[gnu::cold]] na::Status drop_overrun(proc::Proc& p, hg_proc_cb_t callback, void* structure,
                                      na::Status status) {
    if (ok(status)) {
        p.op = HG_FREE;
        // To the callback it is whole: it frees all of it, and may look at the zeros meanwhile.
        (void)p.run(callback, structure);
    }
    p.reset(nullptr, 0, HG_FREE);
    return na::Status::overflow;
}

}  // namespace hg::c_api
