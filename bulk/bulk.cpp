// SPDX-License-Identifier: BSD-3-Clause
#include "bulk/bulk.hpp"

#include <algorithm>
#include <limits>
#include <new>

#include <fmt/format.h>

#include "bulk/segments.hpp"

namespace bulk {
namespace {

// Segments of allocate() start at cache lines.
constexpr std::size_t kAlignment = 64;

na::Error out_of_memory() {
    return {Status::nomem, "out of memory for a bulk descriptor"};
}

// What is registered: without empty segments, and neighbours in memory as one.
std::vector<Segment> merged(std::span<const Segment> segments, bool host) {
    std::vector<Segment> runs;
    runs.reserve(segments.size());
    for (const Segment& s : segments) {
        if (s.length == 0) {
            continue;
        }
        if (host && !runs.empty() &&
            static_cast<std::byte*>(runs.back().base) + runs.back().length == s.base) {
            runs.back().length += s.length;
        } else {
            runs.push_back(s);
        }
    }
    return runs;
}

}  // namespace

Bulk::Bulk(Space& space) noexcept : space_(space) {
    space_.live_.fetch_add(1, std::memory_order_relaxed);
}

Bulk::~Bulk() {
    unlink();
    for (auto& groups : groups_) {
        groups.clear();  // deregisters, before the memory goes
    }
    if (allocated_ != nullptr && retired_) {
        allocator_->retire_memory(allocated_, allocated_size_);
    } else if (allocated_ != nullptr) {
        allocator_->free_memory(allocated_, allocated_size_);
    }
    kept_.reset();
    delete owner_.load(std::memory_order_acquire);
    space_.live_.fetch_sub(1, std::memory_order_release);
}

Result<BulkRef> Bulk::create(Space& space, std::span<const Segment> segments, Access access,
                             const Attributes& attributes) try {
    if (segments.empty() || segments.size() > std::numeric_limits<std::uint32_t>::max()) {
        return na::Error{
            Status::invalid_arg,
            fmt::format("{} segments: 1 to 2^32 - 1 can be described", segments.size())};
    }
    if (access == Access::none) {
        return na::Error{Status::invalid_arg, "no access given: read, write or both"};
    }
    BulkRef bulk = BulkRef::adopt(new Bulk(space));
    bulk->local_ = true;
    bulk->host_ = attributes.kind == na::MemoryKind::host;
    bulk->access_ = access;
    for (const Segment& s : segments) {
        if (s.base == nullptr && s.length != 0) {
            return na::Error{Status::invalid_arg,
                             fmt::format("segment of {} bytes at a null pointer", s.length)};
        }
        if (s.length > std::numeric_limits<std::uintptr_t>::max() -
                           reinterpret_cast<std::uintptr_t>(s.base) ||
            s.length > std::numeric_limits<std::uint64_t>::max() - bulk->size_) {
            return na::Error{
                Status::invalid_arg,
                fmt::format("segment of {} bytes at {}: past the end of the address space",
                            s.length, s.base)};
        }
        bulk->size_ += s.length;
    }
    bulk->segments_.assign(segments.begin(), segments.end());
    for (const Rail rail : {Rail::net, Rail::sm}) {
        if (space.rails().of(rail) != nullptr && bulk->size_ != 0) {
            if (auto registered = bulk->register_on(rail, attributes); !registered) {
                return std::move(registered).error();
            }
        }
    }
    bulk->link();
    return bulk;
} catch (const std::bad_alloc&) {
    return out_of_memory();
}

Result<bool> Bulk::register_on(Rail rail, const Attributes& attributes) {
    na::Class& cls = *space_.rails().of(rail);
    const std::vector<Segment> runs = merged(segments_, host_);
    const std::size_t most = std::max<std::size_t>(cls.caps().max_segments, 1);
    std::vector<Group>& groups = groups_[index(rail)];
    groups.reserve((runs.size() + most - 1) / most);
    std::uint64_t begin = 0;
    for (std::size_t i = 0; i < runs.size(); i += most) {
        auto memory = na::Memory::create(
            cls, std::span(runs).subspan(i, std::min(most, runs.size() - i)), access_);
        if (!memory) {
            return std::move(memory).error();
        }
        if (auto region = (*memory)->register_memory(attributes.kind, attributes.device); !region) {
            return std::move(region).error();
        }
        begin += (*memory)->length();
        groups.push_back(Group{begin - (*memory)->length(), std::move(*memory)});
    }
    return true;
}

Result<BulkRef> Bulk::allocate(Space& space, std::span<const std::uint64_t> sizes,
                               Access access) try {
    std::uint64_t total = 0;
    for (const std::uint64_t size : sizes) {
        if (size > std::numeric_limits<std::size_t>::max() / 2 - kAlignment - total) {
            return na::Error{Status::nomem,
                             fmt::format("cannot allocate segments of {} bytes and more", size)};
        }
        total += (size + kAlignment - 1) / kAlignment * kAlignment;
    }
    na::Class& cls = space.rails().sm != nullptr ? *space.rails().sm : *space.rails().net;
    struct Memory {
        na::Class& cls;
        std::size_t size;
        void* start = nullptr;
        ~Memory() {
            if (start != nullptr) {
                cls.free_memory(start, size);
            }
        }
    } memory{cls, static_cast<std::size_t>(total)};
    if (total != 0) {
        memory.start = cls.allocate_memory(memory.size);
    }
    std::vector<Segment> segments;
    segments.reserve(sizes.size());
    std::size_t at = 0;
    for (const std::uint64_t size : sizes) {
        const auto length = static_cast<std::size_t>(size);
        segments.push_back(
            {length == 0 ? nullptr : static_cast<std::byte*>(memory.start) + at, length});
        at += (length + kAlignment - 1) / kAlignment * kAlignment;
    }
    auto bulk = create(space, segments, access);
    if (bulk) {
        (*bulk)->allocated_ = std::exchange(memory.start, nullptr);
        (*bulk)->allocated_size_ = memory.size;
        (*bulk)->allocator_ = &cls;
    }
    return bulk;
} catch (const std::bad_alloc&) {
    return out_of_memory();
}

const Bulk::Group& Bulk::group_at(Rail rail, std::uint64_t offset) const noexcept {
    const std::span<const Group> groups = this->groups(rail);
    if (groups.size() == 1) [[likely]] {
        return groups.front();
    }
    const auto after =
        std::upper_bound(groups.begin(), groups.end(), offset,
                         [](std::uint64_t at, const Group& g) { return at < g.begin; });
    return *(after - 1);
}

std::size_t Bulk::pieces(std::uint64_t offset, std::uint64_t size,
                         std::span<Segment> out) const noexcept {
    std::size_t count = 0;
    SegmentCursor cursor(segments_, offset);
    while (size != 0 && count < out.size()) {
        const Segment piece = cursor.peek(size);
        cursor.advance(piece.length);
        size -= piece.length;
        out[count++] = piece;
    }
    return count;
}

bool Bulk::bind(std::unique_ptr<Owner> owner) noexcept {
    Owner* none = nullptr;
    if (!owner_.compare_exchange_strong(none, owner.get(), std::memory_order_acq_rel)) {
        return false;
    }
    (void)owner.release();
    return true;
}

void Bulk::link() noexcept {
    const std::lock_guard guard(space_.lock_);
    next_ = std::exchange(space_.locals_, this);
    link_ = &space_.locals_;
    if (next_ != nullptr) {
        next_->link_ = &next_;
    }
}

void Bulk::unlink() noexcept {
    if (link_ == nullptr) {
        return;
    }
    const std::lock_guard guard(space_.lock_);
    *link_ = next_;
    if (next_ != nullptr) {
        next_->link_ = link_;
    }
}

// With the space's lock: a descriptor whose last reference is gone is still in the list.
bool Bulk::ref_if_alive() noexcept {
    std::uint32_t refs = refs_.load(std::memory_order_relaxed);
    while (refs != 0) {
        if (refs_.compare_exchange_weak(refs, refs + 1, std::memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

void Bulk::ref() noexcept {
    if (space_.threaded()) {
        refs_.fetch_add(1, std::memory_order_relaxed);
    } else {
        refs_.store(refs_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
}

void Bulk::unref() noexcept {
    std::uint32_t left;
    if (space_.threaded()) {
        left = refs_.fetch_sub(1, std::memory_order_acq_rel) - 1;
    } else {
        left = refs_.load(std::memory_order_relaxed) - 1;
        refs_.store(left, std::memory_order_relaxed);
    }
    if (left == 0) {
        delete this;
    }
}

}  // namespace bulk
