// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ucx/memory.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <mutex>

#include "na/session/secret.hpp"
#include "na/util/bytes.hpp"

namespace na::ucx {

Region::Region(std::span<const Segment> segments, Access access) : access_(access) {
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

std::size_t Region::encode(std::span<std::byte> out) const {
    if (out.size() >= sizeof key_) {
        util::ByteWriter w(out);
        w.integer(key_);
    }
    return sizeof key_;
}

Result<std::unique_ptr<plugin::Region>> Region::decode(std::span<const std::byte> in) {
    util::ByteReader r(in);
    const auto key = r.integer<std::uint64_t>();
    if (!r.good() || r.left() != 0 || key == 0) {
        return Error{Status::protocol_error, "malformed memory descriptor"};
    }
    return std::unique_ptr<plugin::Region>(std::make_unique<Region>(key));
}

template <typename Copy>
void Region::each(std::uint64_t offset, std::size_t size, Copy&& copy) const noexcept {
    auto part = parts_.begin();
    if (parts_.size() > 1) {
        part =
            std::prev(std::upper_bound(parts_.begin(), parts_.end(), offset,
                                       [](std::uint64_t o, const Part& p) { return o < p.start; }));
    }
    for (; size != 0; ++part) {
        const std::uint64_t inside = offset - part->start;
        const auto n =
            static_cast<std::size_t>(std::min<std::uint64_t>(size, part->length - inside));
        copy(part->base + inside, n);
        offset += n;
        size -= n;
    }
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
    if (!allows(it->second->access(), wanted)) {
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
