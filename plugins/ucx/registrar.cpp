// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ucx/registrar.hpp"

#include <utility>

#include <fmt/format.h>

#include "na/util/log.hpp"

namespace na::ucx {
namespace {

// UCS_MEMORY_TYPE_LAST: UCX has no such memory. (Its Level Zero has other numbers in each version.)
ucs_memory_type_t type_of(MemoryKind kind) noexcept {
    switch (kind) {
        case MemoryKind::host:
        case MemoryKind::unknown:
            return UCS_MEMORY_TYPE_HOST;
        case MemoryKind::cuda:
            return UCS_MEMORY_TYPE_CUDA;
        case MemoryKind::rocm:
            return UCS_MEMORY_TYPE_ROCM;
        default:
            return UCS_MEMORY_TYPE_LAST;
    }
}

}  // namespace

class Registrar::Held final : public Registrations {
 public:
    explicit Held(Registrar& by) noexcept : by_(by) {}
    ~Held() override {
        const std::lock_guard guard(by_.mutex_);
        for (ucp_mem_h handle : handles_) {
            ucp_mem_unmap(by_.context_, handle);
        }
    }
    void reserve(std::size_t n) { handles_.reserve(n); }
    void add(ucp_mem_h handle) { handles_.push_back(handle); }

 private:
    Registrar& by_;
    std::vector<ucp_mem_h> handles_;
};

Registrar::Registrar(ucp_context_h context) : context_(context) {
    ucp_context_attr_t attr{};
    attr.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
    if (ucp_context_query(context, &attr) == UCS_OK) {
        kinds_ = attr.memory_types;
    }
}

bool Registrar::knows(MemoryKind kind) const noexcept {
    const ucs_memory_type_t type = type_of(kind);
    return type == UCS_MEMORY_TYPE_HOST ||
           (type != UCS_MEMORY_TYPE_LAST && (kinds_ >> type & 1) != 0);
}

bool Registrar::knows_a_device() const noexcept {
    return knows(MemoryKind::cuda) || knows(MemoryKind::rocm);
}

Error Registrar::offer(Region& region, std::span<const Segment> segments, MemoryKind kind) {
    Error error{Status::success, {}};
    if (!knows(kind)) {
        return Error{
            Status::opnotsupported,
            "UCX here does not know memory of this kind: it was built without that device, "
            "or finds none"};
    }
    if (segments.size() > kMaxNativeParts) {
        error = Error{Status::opnotsupported,
                      fmt::format("at most {} segments of device memory", kMaxNativeParts)};
    } else {
        std::vector<NativePart> parts;
        auto held = std::make_unique<Held>(*this);
        error = map(segments, kind, parts, *held);
        if (ok(error.status)) {
            region.offer(std::move(parts), std::move(held));
            return error;
        }
    }
    if (region.host()) {
        NA_LOG_DEBUG(mem, "memory is offered for messages only: {}", error.message);
        return Error{Status::success, {}};
    }
    return error;
}

Error Registrar::map(std::span<const Segment> segments, MemoryKind kind,
                     std::vector<NativePart>& parts, Held& held) {
    const std::lock_guard guard(mutex_);
    parts.reserve(segments.size());
    held.reserve(segments.size());
    std::uint64_t start = 0;
    for (const Segment& s : segments) {
        ucp_mem_map_params_t params{};
        params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                            UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
        params.address = s.base;
        params.length = s.length;
        params.memory_type = type_of(kind);
        ucp_mem_h handle = nullptr;
        if (const ucs_status_t rc = ucp_mem_map(context_, &params, &handle); rc != UCS_OK) {
            return failure(rc, fmt::format("register {} bytes with UCX", s.length));
        }
        held.add(handle);
        void* packed = nullptr;
        std::size_t size = 0;
        if (const ucs_status_t rc = ucp_rkey_pack(context_, handle, &packed, &size); rc != UCS_OK) {
            return failure(rc, "get the key of memory from UCX");
        }
        const std::unique_ptr<void, void (*)(void*)> owner(packed, ucp_rkey_buffer_release);
        if (size > kMaxPackedKey) {
            return Error{Status::opnotsupported,
                         fmt::format("UCX's keys have {} bytes: at most {} are taken, name fewer "
                                     "devices (UCX_NET_DEVICES)",
                                     size, kMaxPackedKey)};
        }
        const auto* bytes = static_cast<const std::byte*>(packed);
        parts.push_back({.address = reinterpret_cast<std::uintptr_t>(s.base),
                         .length = s.length,
                         .start = start,
                         .key = {bytes, bytes + size}});
        start += s.length;
    }
    return Error{Status::success, {}};
}

}  // namespace na::ucx
