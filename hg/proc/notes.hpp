// SPDX-License-Identifier: BSD-3-Clause
// What the library's procs have allocated for structures of generated procs that are not whole yet,
// so that a member that fails to decode leaves nothing (mercury_proc.h says what is freed, and what
// is left alone).
//
// A part of each proc; hg_proc::noted is how many there are. Their number is bounded by what fits a
// structure of the program's: what lies elsewhere is not noted.
#pragma once

#include <cstddef>

#include "mercury_proc.h"

namespace hg::proc {

class Notes {
 public:
    Notes() = default;
    ~Notes();
    Notes(const Notes&) = delete;
    Notes& operator=(const Notes&) = delete;

    // `callback` with HG_FREE frees `what` as long as it lies at `where`, a member of the structure
    // that `proc` works on, or something else, which is not noted. False: there is no memory.
    bool add(hg_proc& proc, hg_proc_cb_t callback, void* where, const void* what) noexcept;

    // Frees notes from the last one down to `first`, of those whose number is below `end` and which
    // lie in the structure that `proc` works on; forgets the others from `first` on.
    void undo(hg_proc& proc, std::size_t first, std::size_t end) noexcept;

 private:
    struct Note {
        hg_proc_cb_t callback;
        void* where;  // begins with a pointer
        const void* what;
    };
    static constexpr std::size_t kOwn = 8;

    bool grow() noexcept;

    Note own_[kOwn];
    Note* all_ = own_;
    std::size_t room_ = kOwn;
};

// As Notes::add, for the library's procs: if it fails `where` is freed again. HG_NOMEM.
hg_return_t note(hg_proc_t proc, hg_proc_cb_t callback, void* where, const void* what) noexcept;

}  // namespace hg::proc
