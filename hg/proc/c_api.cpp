// SPDX-License-Identifier: BSD-3-Clause
// The exported functions of mercury_proc.h: check, call hg::proc::Proc, map the status.
#include <cstdint>
#include <limits>
#include <new>

#include "hg/proc/proc.hpp"
#include "mercury_proc.h"
#include "na/util/bytes.hpp"
#include "na/util/log.hpp"

using hg::proc::Checksum;
using hg::proc::ChecksumKind;
using hg::proc::Proc;

static_assert(static_cast<int>(ChecksumKind::crc16) == HG_CRC16);
static_assert(static_cast<int>(ChecksumKind::crc32c) == HG_CRC32);
static_assert(static_cast<int>(ChecksumKind::crc64) == HG_CRC64);
static_assert(static_cast<int>(ChecksumKind::none) == HG_NOHASH);

namespace {

hg_return_t code(na::Status status) noexcept {
    return static_cast<hg_return_t>(status);
}

hg_return_t invalid(const char* function, const char* what) noexcept {
    NA_LOG_ERROR(proc, "{}: {}", function, what);
    return HG_INVALID_ARG;
}

// Writes the checksum of all bytes so far; its size in `size`.
hg_return_t checksum_bytes(hg_proc_t proc, const char* function, hg_size_t room,
                           std::uint8_t (&out)[sizeof(std::uint64_t)], std::size_t& size) noexcept {
    const Checksum& checksum = Proc::of(proc).checksum();
    size = checksum.size();
    if (size == 0) {
        return invalid(function, "the proc was created without a checksum (HG_NOHASH)");
    }
    if (room < size) {
        NA_LOG_ERROR(proc, "{}: room for {} bytes, the checksum has {}", function, room, size);
        return HG_OVERFLOW;
    }
    for (std::size_t i = 0; i < size; ++i) {
        out[i] = static_cast<std::uint8_t>(checksum.value() >> (8 * i));
    }
    return HG_SUCCESS;
}

}  // namespace

extern "C" {

hg_return_t hg_proc_create(hg_class_t* hg_class, hg_proc_hash_t hash, hg_proc_t* proc_p) {
    if (hg_class == nullptr || proc_p == nullptr) {
        return invalid(__func__, hg_class == nullptr ? "NULL class" : "NULL output pointer");
    }
    if (hash < HG_CRC16 || hash > HG_NOHASH) {
        return invalid(__func__, "no such checksum");
    }
    Proc* proc = new (std::nothrow) Proc(hg_class, static_cast<ChecksumKind>(hash));
    if (proc == nullptr) {
        NA_LOG_ERROR(proc, "out of memory");
        return HG_NOMEM;
    }
    *proc_p = proc;
    return HG_SUCCESS;
}

hg_return_t hg_proc_create_set(hg_class_t* hg_class, void* buf, hg_size_t buf_size, hg_proc_op_t op,
                               hg_proc_hash_t hash, hg_proc_t* proc_p) {
    hg_proc_t proc = HG_PROC_NULL;
    if (proc_p == nullptr) {
        return invalid(__func__, "NULL output pointer");
    }
    hg_return_t ret = hg_proc_create(hg_class, hash, &proc);
    if (ret != HG_SUCCESS) {
        return ret;
    }
    ret = hg_proc_reset(proc, buf, buf_size, op);
    if (ret != HG_SUCCESS) {
        hg_proc_free(proc);
        return ret;
    }
    *proc_p = proc;
    return HG_SUCCESS;
}

hg_return_t hg_proc_free(hg_proc_t proc) {
    if (proc != HG_PROC_NULL) {
        delete &Proc::of(proc);
    }
    return HG_SUCCESS;
}

hg_return_t hg_proc_reset(hg_proc_t proc, void* buf, hg_size_t buf_size, hg_proc_op_t op) {
    if (proc == HG_PROC_NULL) {
        return invalid(__func__, "NULL proc");
    }
    if (op != HG_ENCODE && op != HG_DECODE && op != HG_FREE) {
        return invalid(__func__, "no such operation");
    }
    if (buf == nullptr && op != HG_FREE) {
        return invalid(__func__, "NULL buffer");
    }
    if (buf_size > static_cast<hg_size_t>(std::numeric_limits<std::ptrdiff_t>::max())) {
        return invalid(__func__, "the size of the buffer is more than the address space has");
    }
    Proc::of(proc).reset(buf, buf == nullptr ? 0 : static_cast<std::size_t>(buf_size), op);
    hg_proc_set_flags(proc, 0);
    return HG_SUCCESS;
}

hg_return_t hg_proc_set_size(hg_proc_t proc, hg_size_t buf_size) {
    return proc == HG_PROC_NULL ? invalid(__func__, "NULL proc")
                                : code(Proc::of(proc).set_size(buf_size));
}

hg_return_t hg_proc_reserve(hg_proc_t proc, hg_size_t size) {
    return proc == HG_PROC_NULL ? invalid(__func__, "NULL proc")
                                : code(Proc::of(proc).reserve(size));
}

void* hg_proc_save_ptr(hg_proc_t proc, hg_size_t data_size) {
    return proc == HG_PROC_NULL ? nullptr : Proc::of(proc).save_ptr(data_size);
}

hg_return_t hg_proc_restore_ptr(hg_proc_t proc, void* data, hg_size_t data_size) {
    if (proc == HG_PROC_NULL) {
        return invalid(__func__, "NULL proc");
    }
    const na::Status status = Proc::of(proc).restore_ptr(data, data_size);
    return na::ok(status) ? HG_SUCCESS : invalid(__func__, "not a pointer of hg_proc_save_ptr");
}

hg_return_t hg_proc_set_extra_buf_is_mine(hg_proc_t proc, uint8_t mine) {
    return proc == HG_PROC_NULL ? invalid(__func__, "NULL proc")
                                : code(Proc::of(proc).set_extra_is_callers(mine != 0));
}

hg_return_t hg_proc_flush(hg_proc_t proc) {
    if (proc == HG_PROC_NULL) {
        return invalid(__func__, "NULL proc");
    }
    (void)Proc::of(proc).checksum();
    return Proc::of(proc).overran() ? HG_OVERFLOW : HG_SUCCESS;
}

hg_return_t hg_proc_checksum_get(hg_proc_t proc, void* hash, hg_size_t hash_size) {
    if (proc == HG_PROC_NULL || hash == nullptr) {
        return invalid(__func__, "NULL proc or checksum");
    }
    std::uint8_t value[sizeof(std::uint64_t)];
    std::size_t size = 0;
    const hg_return_t ret = checksum_bytes(proc, __func__, hash_size, value, size);
    if (ret == HG_SUCCESS) {
        std::memcpy(hash, value, size);
    }
    return ret;
}

hg_return_t hg_proc_checksum_verify(hg_proc_t proc, const void* hash, hg_size_t hash_size) {
    if (proc == HG_PROC_NULL || hash == nullptr) {
        return invalid(__func__, "NULL proc or checksum");
    }
    std::uint8_t value[sizeof(std::uint64_t)];
    std::size_t size = 0;
    const hg_return_t ret = checksum_bytes(proc, __func__, hash_size, value, size);
    if (ret != HG_SUCCESS) {
        return ret;
    }
    return std::memcmp(hash, value, size) == 0 ? HG_SUCCESS : HG_CHECKSUM_ERROR;
}

void hg_proc_checksum_update(hg_proc_t proc, void* data, hg_size_t data_size) {
    if (proc != HG_PROC_NULL && data != nullptr) {
        Proc::of(proc).checksum().update(data, static_cast<std::size_t>(data_size));
    }
}

}  // extern "C"
