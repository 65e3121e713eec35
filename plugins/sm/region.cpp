// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/sm/region.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "na/util/bytes.hpp"
#include "na/util/log.hpp"
#include "na/util/random.hpp"
#include "plugins/sm/layout.hpp"
#include "plugins/sm/permits.hpp"

namespace na::sm {
namespace {

// Encoded region: a first word, key, [allocation id, its base], then address and length of each
// segment. The first word: bit 0 says that there is an allocation, bits 1 to 10 are the number of
// segments less one, bits 11 to 26 the permit, the others 0.
constexpr std::uint32_t kFlagAllocation = 1;
constexpr unsigned kCountShift = 1;
constexpr unsigned kPermitShift = 11;
static_assert(kMaxSegments == 1U << (kPermitShift - kCountShift));
static_assert(std::uint64_t{kPermits} << kPermitShift <= std::uint64_t{1} << 32);

std::uint64_t number(const void* address) noexcept {
    return reinterpret_cast<std::uintptr_t>(address);
}

}  // namespace

std::uint64_t Random::next() {
    const std::lock_guard guard(mutex_);
    if (left_ == 0) {
        util::random_numbers(pool_);
        left_ = std::size(pool_);
    }
    const std::uint64_t value = pool_[--left_];
    return value != 0 ? value : 1;
}

// --- segments
// --------------------------------------------------------------------------------------------------------

SegmentList::SegmentList(std::vector<Segment> segments) : segments_(std::move(segments)) {
    if (segments_.size() > 1) {
        starts_.reserve(segments_.size());
    }
    for (const Segment& s : segments_) {
        if (segments_.size() > 1) {
            starts_.push_back(length_);
        }
        length_ += s.length;
    }
}

SegmentList::Cursor::Cursor(const SegmentList& list, std::uint64_t offset) noexcept
    : at_(list.segments_.data()), end_(at_ + list.segments_.size()), within_(offset) {
    if (!list.starts_.empty()) {
        const auto it = std::upper_bound(list.starts_.begin(), list.starts_.end(), offset) - 1;
        at_ += it - list.starts_.begin();
        within_ = offset - *it;
    }
}

Segment SegmentList::Cursor::piece(std::size_t limit) const noexcept {
    return {static_cast<std::byte*>(at_->base) + within_, std::min(limit, at_->length - within_)};
}

void SegmentList::Cursor::advance(std::size_t bytes) noexcept {
    within_ += bytes;
    if (within_ == at_->length && at_ + 1 != end_) {
        ++at_;
        within_ = 0;
    }
}

void SegmentList::Cursor::skip(std::size_t bytes) noexcept {
    while (bytes != 0) {
        const std::size_t n = piece(bytes).length;
        if (n == 0) {
            return;
        }
        advance(n);
        bytes -= n;
    }
}

std::size_t SegmentList::Cursor::fill(iovec* out, std::size_t count, std::size_t limit,
                                      std::size_t& bytes) const noexcept {
    Cursor c = *this;
    std::size_t n = 0;
    bytes = 0;
    while (n < count && bytes < limit) {
        const Segment s = c.piece(limit - bytes);
        if (s.length == 0) {
            break;  // the end of the list
        }
        out[n++] = {s.base, s.length};
        bytes += s.length;
        c.advance(s.length);
    }
    return n;
}

void copy_out(const SegmentList& from, std::uint64_t offset, void* to, std::size_t bytes) noexcept {
    SegmentList::Cursor c(from, offset);
    auto* out = static_cast<std::byte*>(to);
    while (bytes != 0) {
        const Segment s = c.piece(bytes);
        std::memcpy(out, s.base, s.length);
        out += s.length;
        bytes -= s.length;
        c.advance(s.length);
    }
}

void copy_in(const SegmentList& to, std::uint64_t offset, const void* from,
             std::size_t bytes) noexcept {
    SegmentList::Cursor c(to, offset);
    const auto* in = static_cast<const std::byte*>(from);
    while (bytes != 0) {
        const Segment s = c.piece(bytes);
        std::memcpy(s.base, in, s.length);
        in += s.length;
        bytes -= s.length;
        c.advance(s.length);
    }
}

void copy_lists(const SegmentList& from, std::uint64_t from_offset, const SegmentList& to,
                std::uint64_t to_offset, std::uint64_t bytes) noexcept {
    SegmentList::Cursor source(from, from_offset);
    SegmentList::Cursor target(to, to_offset);
    while (bytes != 0) {
        const Segment s = source.piece(bytes);
        const Segment t = target.piece(s.length);
        std::memmove(t.base, s.base, t.length);
        source.advance(t.length);
        target.advance(t.length);
        bytes -= t.length;
    }
}

// --- regions
// ---------------------------------------------------------------------------------------------------------

LocalRegion::LocalRegion(RegionTable& table, PermitTable* permits, std::vector<Segment> segments,
                         std::uint64_t key_, Access access_)
    : Region(std::move(segments), key_), access(access_), table_(table), permits_(permits) {
    table_.enter(*this);
}

LocalRegion::~LocalRegion() {
    table_.leave(*this);
    if (const std::uint32_t permit = permit_.load(std::memory_order_acquire); permit != 0) {
        permits_->withdraw(permit);
    }
}

std::uint64_t LocalRegion::seal() const noexcept {
    return seal_of(key);
}

RemoteRegion::RemoteRegion(std::vector<Segment> segments, std::uint64_t key_, std::uint32_t permit)
    : Region(std::move(segments), key_), permit_(permit), seal_(permit != 0 ? seal_of(key_) : 0) {}

std::uint32_t LocalRegion::permit() const noexcept {
    std::uint32_t permit = permit_.load(std::memory_order_acquire);
    if (permit == 0 && permits_ != nullptr) {
        const std::lock_guard guard(mutex_);
        permit = permit_.load(std::memory_order_relaxed);
        if (permit == 0) {
            permit = permits_->grant(*this, access);
            permit_.store(permit, std::memory_order_release);
        }
    }
    return permit;
}

std::size_t Region::encode(std::span<std::byte> out) const {
    const auto segments = list.segments();
    const std::size_t size = 12 + (allocation != 0 ? 16 : 0) + 16 * segments.size();
    if (out.size() < size) {
        return size;
    }
    util::ByteWriter w(out);
    w.integer((allocation != 0 ? kFlagAllocation : 0U) |
              static_cast<std::uint32_t>(segments.size() - 1) << kCountShift |
              permit() << kPermitShift);
    w.integer(key);
    if (allocation != 0) {
        w.integer(allocation);
        w.integer(allocation_base);
    }
    for (const Segment& s : segments) {
        w.integer(number(s.base));
        w.integer(static_cast<std::uint64_t>(s.length));
    }
    return size;
}

namespace {

// What stands before the segments.
struct Front {
    std::uint32_t count = 0;
    std::uint32_t permit = 0;
    std::uint64_t key = 0;
    std::uint64_t allocation = 0;
    std::uint64_t base = 0;
};

bool read_front(util::ByteReader& r, Front& front) noexcept {
    const auto first = r.integer<std::uint32_t>();
    front.count = (first >> kCountShift) % kMaxSegments + 1;
    front.permit = first >> kPermitShift;
    front.key = r.integer<std::uint64_t>();
    if (front.permit >= kPermits) {
        return false;
    }
    if ((first & kFlagAllocation) != 0) {
        front.allocation = r.integer<std::uint64_t>();
        front.base = r.integer<std::uint64_t>();
    }
    return r.good() && r.left() == std::size_t{front.count} * 16;
}

// `left`: of the length, less what came before.
bool read_segment(util::ByteReader& r, const Front& front, std::uint64_t left,
                  std::uint64_t& address, std::uint64_t& bytes) noexcept {
    address = r.integer<std::uint64_t>();
    bytes = r.integer<std::uint64_t>();
    return bytes != 0 && bytes <= UINT64_MAX - address && bytes <= left &&
           (front.allocation == 0 || address >= front.base);
}

}  // namespace

bool decode_piece(std::span<const std::byte> encoded, std::uint64_t length, Piece& piece) noexcept {
    util::ByteReader r(encoded);
    Front front;
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    if (!read_front(r, front) || front.count != 1 || front.allocation == 0 ||
        !read_segment(r, front, length, address, bytes) || bytes != length) {
        return false;
    }
    piece = {.allocation = front.allocation,
             .offset = address - front.base,
             .key = front.key,
             .permit = front.permit,
             .allocation_base = front.base,
             .segment = {reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), bytes}};
    return true;
}

Result<std::unique_ptr<plugin::Region>> decode_region(std::span<const std::byte> encoded,
                                                      std::uint64_t length) {
    const Error malformed{Status::protocol_error, "malformed sm memory descriptor"};
    util::ByteReader r(encoded);
    Front front;
    if (!read_front(r, front)) {
        return malformed;
    }
    std::vector<Segment> segments;
    segments.reserve(front.count);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < front.count; ++i) {
        std::uint64_t address = 0;
        std::uint64_t bytes = 0;
        if (!read_segment(r, front, length - sum, address, bytes)) {
            return malformed;
        }
        sum += bytes;
        segments.push_back({reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), bytes});
    }
    if (sum != length) {
        return malformed;
    }
    auto region = std::make_unique<RemoteRegion>(std::move(segments), front.key, front.permit);
    region->allocation = front.allocation;
    region->allocation_base = front.base;
    return std::unique_ptr<plugin::Region>(std::move(region));
}

void RegionTable::enter(LocalRegion& region) {
    const std::unique_lock guard(mutex_);
    regions_.emplace(region.key, &region);
}

void RegionTable::leave(LocalRegion& region) noexcept {
    const std::unique_lock guard(mutex_);
    regions_.erase(region.key);
}

// --- allocations
// -----------------------------------------------------------------------------------------------------

void* Allocations::allocate(std::size_t bytes) {
    if (bytes == 0 || bytes > PTRDIFF_MAX - kPageBytes) {
        return nullptr;
    }
    const std::size_t rounded = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    auto memory = make_shared_memory(rounded, false);
    if (!memory) {
        NA_LOG_WARNING(mem, "no shareable memory, ordinary memory is used: {}",
                       memory.error().message);
        return nullptr;
    }
    void* base = memory->mapping.base();
    const std::uint64_t id = random_.next();
    const std::lock_guard guard(mutex_);
    by_id_.emplace(id, number(base));
    by_base_.emplace(number(base), Allocation{id, std::move(*memory)});
    return base;
}

// The lock is held.
Allocations::Node Allocations::take_out(void* memory) {
    const auto it = by_base_.find(number(memory));
    if (it == by_base_.end()) {
        return {};
    }
    by_id_.erase(it->second.id);
    generation_.fetch_add(1, std::memory_order_release);
    return by_base_.extract(it);
}

bool Allocations::deallocate(void* memory) {
    Node node;  // its memory goes outside the lock
    const std::lock_guard guard(mutex_);
    node = take_out(memory);
    return !node.empty();
}

bool Allocations::retire(void* memory) noexcept {
    Node node;  // what is left of it goes outside the lock
    const std::lock_guard guard(mutex_);
    node = take_out(memory);
    if (node.empty()) {
        return false;
    }
    Mapping& addresses = node.mapped().memory.mapping;
    const std::size_t bytes = addresses.bytes();
    rlimit space{};
    getrlimit(RLIMIT_AS, &space);
    const std::size_t most = std::min<std::size_t>(kMostRetiredBytes, space.rlim_cur / 16);
    if (bytes > most || !addresses.vacate()) {
        return true;
    }
    try {
        retired_.push_back(std::move(addresses));
    } catch (const std::bad_alloc&) {
        return true;  // the addresses go as well
    }
    retired_bytes_ += bytes;
    while (retired_.size() > kMostRetired || retired_bytes_ > most) {
        retired_bytes_ -= retired_.front().bytes();
        retired_.pop_front();
    }
    return true;
}

std::optional<Allocations::Place> Allocations::find(const void* base, std::size_t length) const {
    const std::lock_guard guard(mutex_);
    auto it = by_base_.upper_bound(number(base));
    if (it == by_base_.begin()) {
        return std::nullopt;
    }
    --it;
    const std::uint64_t offset = number(base) - it->first;
    const std::size_t size = it->second.memory.mapping.bytes();
    if (offset >= size || length > size - offset) {
        return std::nullopt;
    }
    return Place{it->second.id, it->first};
}

std::optional<Allocations::Export> Allocations::give(std::uint64_t id, bool writable) const {
    const std::lock_guard guard(mutex_);
    const auto it = by_id_.find(id);
    if (it == by_id_.end()) {
        return std::nullopt;
    }
    const SharedMemory& memory = by_base_.at(it->second).memory;
    Export result;
    result.bytes = memory.mapping.bytes();
    if (writable) {
        result.fd.reset(fcntl(memory.fd.get(), F_DUPFD_CLOEXEC, 3));
    } else if (auto copy = reopen_read_only(memory.fd.get())) {
        result.fd = std::move(*copy);
    }
    return result.fd ? std::optional<Export>(std::move(result)) : std::nullopt;
}

bool Allocations::exists(std::uint64_t id) const {
    const std::lock_guard guard(mutex_);
    return by_id_.contains(id);
}

}  // namespace na::sm
