// SPDX-License-Identifier: BSD-3-Clause
#include "na/core/memory.hpp"

#include <new>

#include <fmt/format.h>

#include "na/core/class.hpp"
#include "na/util/bytes.hpp"
#include "na/util/log.hpp"

namespace na::inline impl {
namespace {

// The core's header in front of the plugin's bytes: version, access, 2 reserved, size of the
// plugin's bytes, length.
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kHeader = 16;

}  // namespace

Memory::Memory(Class& cls) noexcept : cls_(&cls) {
    cls.memories_.fetch_add(1, std::memory_order_relaxed);
}

Memory::~Memory() {
    drop_region();
    cls_->memories_.fetch_sub(1, std::memory_order_release);
}

Result<std::unique_ptr<Memory>> Memory::create(Class& cls, std::span<const Segment> segments,
                                               Access access) {
    if (segments.empty() || access == Access::none) {
        return Error{Status::invalid_arg, segments.empty()
                                              ? "no memory segment given"
                                              : "no access given: read, write or both"};
    }
    if (segments.size() > cls.caps().max_segments) {
        return Error{
            Status::invalid_arg,
            fmt::format("{} segments: {}+{} takes at most {} in one descriptor", segments.size(),
                        cls.class_name(), cls.protocol(), cls.caps().max_segments)};
    }
    std::uint64_t length = 0;
    for (const Segment& s : segments) {
        if (s.base == nullptr || s.length == 0 ||
            s.length > UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(s.base) ||
            s.length > UINT64_MAX - length) {
            return Error{
                Status::invalid_arg,
                fmt::format("segment of {} bytes at {}: null, empty or past the end of the "
                            "address space",
                            s.length, s.base)};
        }
        length += s.length;
    }
    std::unique_ptr<Memory> memory(new Memory(cls));
    memory->access_ = access;
    memory->length_ = length;
    memory->segments_.assign(segments.begin(), segments.end());
    return memory;
}

Status Memory::describe(std::span<const std::byte> bytes, Described& described) noexcept {
    util::ByteReader r(bytes);
    const auto version = r.integer<std::uint8_t>();
    const auto access = r.integer<std::uint8_t>();
    const auto reserved = r.integer<std::uint16_t>();
    const auto size = r.integer<std::uint32_t>();
    const auto length = r.integer<std::uint64_t>();
    const auto encoded = r.bytes(size);
    if (!r.good()) {
        return Status::overflow;
    }
    if (version != kVersion || reserved != 0 || access == 0 || access > 3 || length == 0) {
        return Status::protocol_error;
    }
    described = {.access = static_cast<Access>(access), .length = length, .region = encoded};
    return Status::success;
}

Result<std::unique_ptr<Memory>> Memory::decode(Class& cls, std::span<const std::byte> bytes) {
    Described described;
    if (const Status s = describe(bytes, described); s == Status::overflow) {
        return Error{s, fmt::format("a memory descriptor does not fit {} bytes", bytes.size())};
    } else if (!ok(s)) {
        return Error{s, "malformed memory descriptor"};
    }
    auto region = cls.domain().decode_region(described.region, described.length);
    if (!region) {
        return std::move(region).error();
    }
    std::unique_ptr<Memory> memory(new Memory(cls));
    memory->local_ = false;
    memory->access_ = described.access;
    memory->length_ = described.length;
    memory->region_ = std::move(*region);
    memory->registered_.store(memory->region_.get(), std::memory_order_release);
    return memory;
}

Result<plugin::Region*> Memory::register_memory(MemoryKind kind, std::uint64_t device) {
    if (!local_) {
        return Error{Status::opnotsupported, "only local memory can be registered"};
    }
    if (kind == MemoryKind::unknown) {
        return Error{Status::invalid_arg, "unknown memory type"};
    }
    if (kind != MemoryKind::host && !cls_->caps().device_memory) {
        return Error{Status::opnotsupported,
                     fmt::format("{}+{} has no device memory support: register host memory",
                                 cls_->class_name(), cls_->protocol())};
    }
    const std::lock_guard guard(mutex_);
    if (region_ == nullptr) {
        auto region = cls_->domain().register_memory(segments_, access_, kind, device);
        if (!region) {
            return std::move(region).error();
        }
        region_ = std::move(*region);
        registered_.store(region_.get(), std::memory_order_release);
    }
    return region_.get();
}

void Memory::deregister() {
    const std::lock_guard guard(mutex_);
    if (local_) {
        registered_.store(nullptr, std::memory_order_release);
        drop_region();
    }
}

void Memory::drop_region() noexcept {
    if (cls_->inherited()) [[unlikely]] {
        (void)region_.release();
    } else {
        region_.reset();
    }
}

plugin::Region* Memory::region() noexcept {
    if (plugin::Region* r = registered_.load(std::memory_order_acquire); r != nullptr) {
        return r;
    }
    try {
        auto region = register_memory(MemoryKind::host, 0);
        if (!region) {
            NA_LOG_ERROR(mem, "cannot register memory: {}", region.error().message);
            return nullptr;
        }
        return *region;
    } catch (const std::bad_alloc&) {
        NA_LOG_ERROR(mem, "cannot register memory: out of memory");
        return nullptr;
    }
}

std::size_t Memory::encoded_size() {
    plugin::Region* r = region();
    return r == nullptr ? 0 : kHeader + r->encode({});
}

Status Memory::encode(std::span<std::byte> out) {
    plugin::Region* r = region();
    if (r == nullptr) {
        return Status::nomem;
    }
    const std::size_t size = r->encode({});
    if (out.size() < kHeader + size) {
        return Status::overflow;
    }
    util::ByteWriter w(out);
    w.integer(kVersion);
    w.integer(static_cast<std::uint8_t>(access_));
    w.integer(std::uint16_t{0});
    w.integer(static_cast<std::uint32_t>(size));
    w.integer(length_);
    r->encode(w.rest());
    return Status::success;
}

}  // namespace na::inline impl
