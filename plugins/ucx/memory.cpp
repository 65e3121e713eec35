// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ucx/memory.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <mutex>

#include "na/session/secret.hpp"
#include "na/util/bytes.hpp"

namespace na::ucx {

namespace {

constexpr std::uint8_t kNativeForm = 1;

Error malformed() {
    return Error{Status::protocol_error, "malformed memory descriptor"};
}

}  // namespace

Region::Region(std::span<const Segment> segments, Access access, MemoryKind kind)
    : access_(access), kind_(kind == MemoryKind::unknown ? MemoryKind::host : kind) {
    parts_.reserve(segments.size());
    for (const Segment& s : segments) {
        parts_.push_back({static_cast<std::byte*>(s.base), s.length, length_});
        length_ += s.length;
    }
}

Region::~Region() {
    if (gate_ != nullptr) {
        gate_->remove(*this);
    }
}

// Our key; where UCX's are offered, they follow: form, kind of memory, number of parts, and per
// part address, length, size of the key, key.
std::size_t Region::encode(std::span<std::byte> out) const {
    std::size_t size = sizeof key_;
    if (!native_.empty()) {
        size += 4;
    }
    for (const NativePart& p : native_) {
        size += 18 + p.key.size();
    }
    if (out.size() < size) {
        return size;
    }
    util::ByteWriter w(out);
    w.integer(key_);
    if (!native_.empty()) {
        w.integer(kNativeForm);
        w.integer(static_cast<std::uint8_t>(kind_));
        w.integer(static_cast<std::uint16_t>(native_.size()));
    }
    for (const NativePart& p : native_) {
        w.integer(p.address);
        w.integer(p.length);
        w.integer(static_cast<std::uint16_t>(p.key.size()));
        w.bytes(p.key.data(), p.key.size());
    }
    return size;
}

Result<std::unique_ptr<plugin::Region>> Region::decode(std::span<const std::byte> in,
                                                       std::uint64_t length) {
    util::ByteReader r(in);
    const auto key = r.integer<std::uint64_t>();
    if (!r.good() || key == 0) {
        return malformed();
    }
    auto region = std::make_unique<Region>(key);
    region->length_ = length;
    if (r.left() == 0) {
        return std::unique_ptr<plugin::Region>(std::move(region));
    }
    const auto form = r.integer<std::uint8_t>();
    const auto kind = r.integer<std::uint8_t>();
    const auto count = r.integer<std::uint16_t>();
    if (!r.good() || form != kNativeForm || kind >= static_cast<unsigned>(MemoryKind::unknown) ||
        count == 0 || count > kMaxNativeParts) {
        return malformed();
    }
    region->kind_ = static_cast<MemoryKind>(kind);
    region->native_.reserve(count);
    std::uint64_t sum = 0;
    for (unsigned i = 0; i < count; ++i) {
        NativePart p;
        p.address = r.integer<std::uint64_t>();
        p.length = r.integer<std::uint64_t>();
        const auto bytes = r.bytes(r.integer<std::uint16_t>());
        if (!r.good() || p.length == 0 || p.length > length - sum ||
            p.address > UINT64_MAX - p.length || bytes.empty() || bytes.size() > kMaxPackedKey) {
            return malformed();
        }
        p.start = sum;
        p.key.assign(bytes.begin(), bytes.end());
        sum += p.length;
        region->native_.push_back(std::move(p));
    }
    if (r.left() != 0 || sum != length) {
        return malformed();
    }
    return std::unique_ptr<plugin::Region>(std::move(region));
}

std::vector<Region::Part>::const_iterator Region::part_at(std::uint64_t offset) const noexcept {
    if (parts_.size() <= 1) {
        return parts_.begin();
    }
    return std::prev(std::upper_bound(parts_.begin(), parts_.end(), offset,
                                      [](std::uint64_t o, const Part& p) { return o < p.start; }));
}

template <typename Copy>
void Region::each(std::uint64_t offset, std::size_t size, Copy&& copy) const noexcept {
    auto part = part_at(offset);
    for (; size != 0; ++part) {
        const std::uint64_t inside = offset - part->start;
        const auto n =
            static_cast<std::size_t>(std::min<std::uint64_t>(size, part->length - inside));
        copy(part->base + inside, n);
        offset += n;
        size -= n;
    }
}

std::span<std::byte> Region::at(std::uint64_t offset, std::uint64_t most) const noexcept {
    const Part& part = *part_at(offset);
    const std::uint64_t inside = offset - part.start;
    return {part.base + inside, static_cast<std::size_t>(std::min(most, part.length - inside))};
}

void Region::read(std::uint64_t offset, std::span<std::byte> into) const noexcept {
    std::byte* at = into.data();
    each(offset, into.size(), [&](const std::byte* memory, std::size_t n) {
        std::memcpy(at, memory, n);
        at += n;
    });
}

void Region::write(std::uint64_t offset, std::span<const std::byte> from) const noexcept {
    const std::byte* at = from.data();
    each(offset, from.size(), [&](std::byte* memory, std::size_t n) {
        std::memcpy(memory, at, n);
        at += n;
    });
}

void Gate::add(Region& region) {
    const std::unique_lock guard(mutex_);
    // Random: nobody reaches memory whose descriptor he was not given.
    std::uint64_t key = 0;
    do {
        key = session::random_number();
    } while (!regions_.emplace(key, &region).second);
    region.key_ = key;
    region.gate_ = this;
}

void Gate::remove(const Region& region) noexcept {
    const std::unique_lock guard(mutex_);
    regions_.erase(region.key());
}

const Region* Gate::find(std::uint64_t key, std::uint64_t offset, std::size_t size, Access wanted,
                         Status& why) const noexcept {
    const auto it = regions_.find(key);
    if (it == regions_.end() || size > it->second->length() ||
        offset > it->second->length() - size) {
        why = Status::fault;
        return nullptr;
    }
    // The processor does not copy what is on a device.
    if (!allows(it->second->access(), wanted) || !it->second->host()) {
        why = Status::permission;
        return nullptr;
    }
    return it->second;
}

// The lock is held while bytes are copied: deregistering waits for that.
Status Gate::read(std::uint64_t key, std::uint64_t offset,
                  std::span<std::byte> into) const noexcept {
    const std::shared_lock guard(mutex_);
    Status why = Status::success;
    if (const Region* region = find(key, offset, into.size(), Access::read, why)) {
        region->read(offset, into);
    }
    return why;
}

Status Gate::write(std::uint64_t key, std::uint64_t offset,
                   std::span<const std::byte> from) const noexcept {
    const std::shared_lock guard(mutex_);
    Status why = Status::success;
    if (const Region* region = find(key, offset, from.size(), Access::write, why)) {
        region->write(offset, from);
    }
    return why;
}

}  // namespace na::ucx
