// SPDX-License-Identifier: BSD-3-Clause
#include "hg/proc/notes.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "hg/proc/proc.hpp"

namespace hg::proc {
namespace {

bool in_object(const hg_proc& proc, const void* where) noexcept {
    return reinterpret_cast<std::uintptr_t>(where) - reinterpret_cast<std::uintptr_t>(proc.object) <
           proc.object_size;
}

void release(hg_proc& proc, hg_proc_cb_t callback, void* where) noexcept {
    const hg_proc_op_t op = proc.op;
    proc.op = HG_FREE;
    (void)callback(&proc, where);
    proc.op = op;
}

}  // namespace

Notes::~Notes() {
    if (all_ != own_) {
        std::free(all_);
    }
}

bool Notes::grow() noexcept {
    auto* more = static_cast<Note*>(std::malloc(2 * room_ * sizeof(Note)));
    if (more == nullptr) {
        return false;
    }
    std::memcpy(more, all_, room_ * sizeof(Note));
    if (all_ != own_) {
        std::free(all_);
    }
    all_ = more;
    room_ *= 2;
    return true;
}

bool Notes::add(hg_proc& proc, hg_proc_cb_t callback, void* where, const void* what) noexcept {
    if (!in_object(proc, where)) {
        return true;
    }
    if (proc.noted == room_ && !grow()) [[unlikely]] {
        return false;
    }
    all_[proc.noted++] = {callback, where, what};
    return true;
}

void Notes::undo(hg_proc& proc, std::size_t first, std::size_t end) noexcept {
    for (std::size_t i = std::min(end, proc.noted); i > first; --i) {
        const Note& note = all_[i - 1];
        const void* what = nullptr;
        if (in_object(proc, note.where)) {
            std::memcpy(&what, note.where, sizeof what);
        }
        if (what != nullptr && what == note.what) {
            release(proc, note.callback, note.where);
        }
    }
    proc.noted = std::min(proc.noted, first);
}

hg_return_t note(hg_proc_t proc, hg_proc_cb_t callback, void* where, const void* what) noexcept {
    if (what == nullptr || Proc::of(proc).notes().add(*proc, callback, where, what)) {
        return HG_SUCCESS;
    }
    release(*proc, callback, where);
    return HG_NOMEM;
}

}  // namespace hg::proc

extern "C" void hg_proc_undo_(struct hg_proc_object_* object) {
    hg_proc_t proc = object->proc;
    hg::proc::Proc::of(proc).notes().undo(*proc, object->noted, object->before);
    proc->object = object->outer;
    proc->object_size = object->outer_size;
    object->proc = nullptr;
}
