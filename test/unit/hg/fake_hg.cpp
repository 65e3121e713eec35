// SPDX-License-Identifier: BSD-3-Clause
// Stands in for the bulk and RPC layers, so that proc is tested alone. A fake descriptor on the
// wire: magic, flags, number of bytes (u64 each); with contents, then those bytes.
#include <cstring>

#include "hg/proc/bulk.hpp"
#include "mercury.h"
#include "mercury_bulk.h"
#include "proc_fixture.hpp"

struct hg_bulk {
    std::vector<std::uint8_t> contents;
    bool with_contents = true;
    int references = 1;
};

namespace {

constexpr std::uint64_t kMagic = 0x6b6c7562;
constexpr std::size_t kHeader = 24;
int alive = 0;
proc_test::Registration registration{};
char class_object;

}  // namespace

namespace proc_test {

hg_class_t* some_class() {
    return reinterpret_cast<hg_class_t*>(&class_object);
}

int bulks_alive() {
    return alive;
}

hg_bulk_t make_bulk(std::vector<std::uint8_t> contents) {
    ++alive;
    return new hg_bulk{std::move(contents)};
}

std::vector<std::uint8_t> bulk_contents(hg_bulk_t handle) {
    return handle->with_contents ? handle->contents : std::vector<std::uint8_t>{};
}

Registration last_registration() {
    return registration;
}

}  // namespace proc_test

extern "C" {

hg_size_t HG_Bulk_get_serialize_size(hg_bulk_t handle, unsigned long flags) {
    if (handle == HG_BULK_NULL) {
        return 0;
    }
    return kHeader + ((flags & HG_BULK_EAGER) != 0 ? handle->contents.size() : 0);
}

hg_return_t HG_Bulk_serialize(void* buf, hg_size_t buf_size, unsigned long flags,
                              hg_bulk_t handle) {
    if (buf_size < HG_Bulk_get_serialize_size(handle, flags)) {
        return HG_OVERFLOW;
    }
    const std::uint64_t header[] = {kMagic, flags, handle->contents.size()};
    std::memcpy(buf, header, sizeof header);
    if ((flags & HG_BULK_EAGER) != 0) {
        std::memcpy(static_cast<char*>(buf) + kHeader, handle->contents.data(),
                    handle->contents.size());
    }
    return HG_SUCCESS;
}

hg_return_t HG_Bulk_deserialize(hg_class_t* hg_class, hg_bulk_t* handle, const void* buf,
                                hg_size_t buf_size) {
    std::uint64_t header[3] = {};
    if (hg_class != proc_test::some_class()) {
        return HG_INVALID_ARG;
    }
    if (buf_size < kHeader) {
        return HG_OVERFLOW;
    }
    std::memcpy(header, buf, sizeof header);
    const bool eager = (header[1] & HG_BULK_EAGER) != 0;
    if (header[0] != kMagic || (eager && header[2] != buf_size - kHeader)) {
        return HG_PROTOCOL_ERROR;
    }
    const auto* data = static_cast<const std::uint8_t*>(buf) + kHeader;
    hg_bulk_t made = proc_test::make_bulk({});
    made->with_contents = eager;
    if (eager) {
        made->contents.assign(data, data + header[2]);
    }
    *handle = made;
    return HG_SUCCESS;
}

hg_return_t HG_Bulk_free(hg_bulk_t handle) {
    if (handle != HG_BULK_NULL && --handle->references == 0) {
        --alive;
        delete handle;
    }
    return HG_SUCCESS;
}

hg_id_t HG_Register_name(hg_class_t*, const char* func_name, hg_proc_cb_t in_proc_cb,
                         hg_proc_cb_t out_proc_cb, hg_rpc_cb_t rpc_cb) {
    registration = {func_name, in_proc_cb, out_proc_cb, rpc_cb};
    return 0x1234567890ULL;
}

}  // extern "C"

namespace hg::proc {

bool to_self(hg_handle_t) noexcept {
    return false;
}

hg_size_t bulk_size(hg_bulk_t bulk, unsigned long flags, bool) noexcept {
    return HG_Bulk_get_serialize_size(bulk, flags);
}

hg_return_t write_bulk(void* to, hg_size_t size, unsigned long flags, bool,
                       hg_bulk_t bulk) noexcept {
    return HG_Bulk_serialize(to, size, flags, bulk);
}

}  // namespace hg::proc
