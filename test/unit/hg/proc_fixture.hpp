// SPDX-License-Identifier: BSD-3-Clause
// What the proc tests share: procs that free themselves, a class pointer, fake bulk descriptors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hg/proc/proc.hpp"
#include "mercury_proc.h"

namespace proc_test {

// Procs only pass the class on; the fake bulk functions check that it is this one.
hg_class_t* some_class();

// Fake descriptors alive, and RPC registrations seen, in fake_hg.cpp.
int bulks_alive();
hg_bulk_t make_bulk(std::vector<std::uint8_t> contents);
std::vector<std::uint8_t> bulk_contents(hg_bulk_t handle);  // empty unless it travelled eagerly
struct Registration {
    const char* name;
    hg_proc_cb_t in;
    hg_proc_cb_t out;
    hg_rpc_cb_t callback;
};
Registration last_registration();

// A proc made through the C API.
class CProc {
 public:
    CProc(void* buffer, std::size_t size, hg_proc_op_t op, hg_proc_hash_t hash = HG_NOHASH) {
        ret_ = hg_proc_create_set(some_class(), buffer, size, op, hash, &proc_);
    }
    ~CProc() { hg_proc_free(proc_); }
    CProc(const CProc&) = delete;
    CProc& operator=(const CProc&) = delete;
    operator hg_proc_t() const { return proc_; }
    hg_return_t ret() const { return ret_; }

    // All that was encoded.
    std::vector<std::uint8_t> bytes() const {
        const auto* begin = static_cast<const std::uint8_t*>(proc_->current_buf->buf);
        return {begin, begin + hg_proc_get_size_used(proc_)};
    }

 private:
    hg_proc_t proc_ = HG_PROC_NULL;
    hg_return_t ret_ = HG_OTHER_ERROR;
};

// Encodes one object into a buffer of its own, however large it gets.
template <typename T>
std::vector<std::uint8_t> encode(hg_proc_cb_t callback, T object) {
    std::uint8_t small[64];
    CProc proc(small, sizeof small, HG_ENCODE);
    if (callback(proc, &object) != HG_SUCCESS) {
        return {};
    }
    return proc.bytes();
}

}  // namespace proc_test
