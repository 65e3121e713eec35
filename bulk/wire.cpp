// SPDX-License-Identifier: BSD-3-Clause
#include "bulk/wire.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>

#include <fmt/format.h>

#include "bulk/segments.hpp"
#include "na/util/bytes.hpp"

namespace bulk {
namespace {

using na::util::ByteReader;
using na::util::ByteWriter;

constexpr std::uint8_t kVersion = 1;
enum Flag : std::uint8_t {
    kRead = 1,
    kWrite = 2,
    kEager = 4,
    kNet = 8,
    kSm = 16,
    kOwner = 32,
    kOwn = 64,
    kKnown = 127,
};

// --- variable-length integers ---

constexpr std::size_t size_of_varint(std::uint64_t value) noexcept {
    std::size_t n = 1;
    while (value >= 0x80) {
        value >>= 7;
        ++n;
    }
    return n;
}

void write_varint(ByteWriter& w, std::uint64_t value) noexcept {
    while (value >= 0x80) {
        w.integer(static_cast<std::uint8_t>(value | 0x80));
        value >>= 7;
    }
    w.integer(static_cast<std::uint8_t>(value));
}

// False: malformed (longer than needed, or above 2^64), or at an end, which the reader remembers.
bool read_varint(ByteReader& r, std::uint64_t& value) noexcept {
    value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        const auto byte = r.integer<std::uint8_t>();
        if (!r.good() || (shift == 63 && byte > 1) || (shift != 0 && byte == 0)) {
            return false;
        }
        value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return true;
        }
    }
    return false;
}

// --- what goes in ---

// Descriptors of one transport make no sense to another; Fowler-Noll-Vo over what is in use,
// whatever name it was asked for by, folded.
std::uint16_t protocol_tag(const na::Class& cls) noexcept {
    std::uint32_t hash = 2166136261U;
    for (const char c : cls.wire()) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
    }
    return static_cast<std::uint16_t>(hash ^ (hash >> 16));
}

}  // namespace

class Encoder {
 public:
    Encoder(const Bulk& bulk, WireOptions options) noexcept : bulk_(bulk), owner_(bulk.owner()) {
        flags_ = static_cast<std::uint8_t>(bulk.access());
        const bool net = has(Rail::net);
        const bool sm = has(Rail::sm);
        const bool contents = bulk.host_memory() && (bulk.is_local() || bulk.has_contents()) &&
                              allows(bulk.access(), Access::read);
        if (contents && bulk.size() != 0 && (options.eager || (!net && !sm))) {
            flags_ |= kEager;
        }
        // Who can only read needs no registration where the contents are there.
        if ((flags_ & kEager) == 0 || allows(bulk.access(), Access::write)) {
            flags_ |= static_cast<std::uint8_t>(
                (net ? kNet : 0) |
                (sm && (options.sm || (!net && (flags_ & kEager) == 0)) ? kSm : 0));
        }
        if (options.self && bulk.host_memory() && bulk.size() != 0) {
            own_ = bulk.is_local() ? bulk.segments() : bulk.own_segments();
            flags_ |= static_cast<std::uint8_t>(own_.empty() ? 0 : kOwn);
        }
        if (owner_ != nullptr) {
            flags_ |= kOwner;
            address_ = options.sm && !owner_->address_with_sm.empty() ? owner_->address_with_sm
                                                                      : owner_->address;
        }
    }

    std::size_t size() const {
        std::size_t n = 2 + size_of_varint(bulk_.segments().size()) + size_of_varint(bulk_.size());
        if (bulk_.segments().size() > 1) {
            for (const Segment& s : bulk_.segments()) {
                n += size_of_varint(s.length);
            }
        }
        n += (flags_ & kNet) != 0 ? rail_size(Rail::net) : 0;
        n += (flags_ & kSm) != 0 ? rail_size(Rail::sm) : 0;
        if (owner_ != nullptr) {
            n += size_of_varint(address_.size()) + address_.size() + 1;
        }
        n += own_.empty() ? 0 : sizeof(std::uint64_t) * (1 + own_.size());
        return n + ((flags_ & kEager) != 0 ? static_cast<std::size_t>(bulk_.size()) : 0);
    }

    Status write(ByteWriter& w) const {
        w.integer(kVersion);
        w.integer(flags_);
        write_varint(w, bulk_.segments().size());
        write_varint(w, bulk_.size());
        if (bulk_.segments().size() > 1) {
            for (const Segment& s : bulk_.segments()) {
                write_varint(w, s.length);
            }
        }
        for (const Rail rail : {Rail::net, Rail::sm}) {
            if ((flags_ & (rail == Rail::net ? kNet : kSm)) != 0) {
                if (const Status s = write_rail(w, rail); !na::ok(s)) {
                    return s;
                }
            }
        }
        if (owner_ != nullptr) {
            write_varint(w, address_.size());
            w.bytes(address_.data(), address_.size());
            w.integer(owner_->context_id);
        }
        if (!own_.empty()) {
            w.integer(bulk_.space().secret());
            for (const Segment& s : own_) {
                w.integer(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(s.base)));
            }
        }
        if ((flags_ & kEager) != 0) {
            for (const Segment& s : bulk_.segments()) {
                w.bytes(s.base, s.length);
            }
        }
        return w.good() ? Status::success : Status::overflow;
    }

    static BulkRef find_local(const Bulk& remote) {
        Space& space = remote.space();
        std::vector<std::byte> buffer;
        const std::lock_guard guard(space.lock_);
        for (Bulk* b = space.locals_; b != nullptr; b = b->next_) {
            if (b->size() == remote.size() && describes(remote, *b, buffer) && b->ref_if_alive()) {
                return BulkRef::adopt(b);
            }
        }
        return {};
    }

 private:
    // Keys are told to who may use the memory only: one rail decides.
    static bool describes(const Bulk& remote, const Bulk& local, std::vector<std::byte>& buffer) {
        const Rail rail = remote.encoded_[index(Rail::net)].empty() ? Rail::sm : Rail::net;
        const auto& told = remote.encoded_[index(rail)];
        const Encoder encoder(local, {.sm = true});
        if (told.empty() || !local.reachable(rail) || encoder.rail_size(rail) != told.size()) {
            return false;
        }
        buffer.resize(told.size());
        ByteWriter w(buffer);
        return na::ok(encoder.write_rail(w, rail)) && w.good() && buffer == told;
    }

    bool has(Rail rail) const noexcept {
        return bulk_.is_local() ? bulk_.reachable(rail) : !bulk_.encoded_[index(rail)].empty();
    }
    std::size_t rail_size(Rail rail) const {
        if (!bulk_.is_local()) {
            return bulk_.encoded_[index(rail)].size();
        }
        std::size_t n = (rail == Rail::net ? sizeof(std::uint16_t) : 0) +
                        size_of_varint(bulk_.groups(rail).size());
        for (const Bulk::Group& g : bulk_.groups(rail)) {
            const std::size_t size = g.memory->encoded_size();
            n += size_of_varint(size) + size;
        }
        return n;
    }
    Status write_rail(ByteWriter& w, Rail rail) const {
        if (!bulk_.is_local()) {
            const auto& encoded = bulk_.encoded_[index(rail)];
            w.bytes(encoded.data(), encoded.size());
            return Status::success;
        }
        if (rail == Rail::net) {
            w.integer(protocol_tag(*bulk_.space().rails().net));
        }
        write_varint(w, bulk_.groups(rail).size());
        for (const Bulk::Group& g : bulk_.groups(rail)) {
            const std::size_t size = g.memory->encoded_size();
            write_varint(w, size);
            std::byte* out = w.space(size);
            if (out == nullptr) {
                return Status::overflow;
            }
            if (const Status s = g.memory->encode({out, size}); !na::ok(s)) {
                return s;
            }
        }
        return Status::success;
    }

    const Bulk& bulk_;
    const Owner* const owner_;
    std::span<const std::byte> address_;
    std::span<const Segment> own_;
    std::uint8_t flags_;
};

std::size_t encoded_size(const Bulk& bulk, WireOptions options) {
    return Encoder(bulk, options).size();
}

Result<std::size_t> encode(const Bulk& bulk, WireOptions options, std::span<std::byte> out) {
    ByteWriter w(out);
    const Encoder encoder(bulk, options);
    if (const Status s = encoder.write(w); s == Status::overflow) {
        return na::Error{s, fmt::format("a bulk descriptor of {} bytes does not fit {}",
                                        encoder.size(), out.size())};
    } else if (!na::ok(s)) {
        return na::Error{s, "the transport cannot describe the memory"};
    }
    return w.written();
}

BulkRef find_local(const Bulk& remote) {
    return Encoder::find_local(remote);
}

// --- what comes in ---

class Decoder {
 public:
    Decoder(Space& space, std::span<const std::byte> bytes)
        : bytes_(bytes), r_(bytes), bulk_(BulkRef::adopt(new Bulk(space))) {}

    Result<BulkRef> run() {
        const auto version = r_.integer<std::uint8_t>();
        flags_ = r_.integer<std::uint8_t>();
        if (!r_.good()) {
            return too_short();
        }
        if (version != kVersion) {
            return malformed("version");
        }
        if ((flags_ & ~kKnown) != 0 || (flags_ & (kRead | kWrite)) == 0 ||
            ((flags_ & kEager) != 0 && (flags_ & kRead) == 0)) {
            return malformed("flags");
        }
        bulk_->access_ = static_cast<Access>(flags_ & (kRead | kWrite));
        for (auto part : {&Decoder::segments, &Decoder::rails, &Decoder::owner, &Decoder::own,
                          &Decoder::contents}) {
            if (auto done = (this->*part)(); !done) {
                return std::move(done).error();
            }
        }
        if (bulk_->size() != 0 && !bulk_->has_pointers() && !bulk_->reachable(Rail::net) &&
            !bulk_->reachable(Rail::sm)) {
            return na::Error{Status::protonosupport,
                             fmt::format("the bulk descriptor is of another protocol than {}+{}",
                                         bulk_->space().rails().net->class_name(),
                                         bulk_->space().rails().net->protocol())};
        }
        return std::move(bulk_);
    }

 private:
    na::Error too_short() const { return {Status::overflow, "the bulk descriptor ends too early"}; }
    na::Error malformed(const char* what) const {
        return {Status::protocol_error, fmt::format("malformed bulk descriptor: {}", what)};
    }
    // After a varint or field that could not be read.
    na::Error broken(const char* what) const { return r_.good() ? malformed(what) : too_short(); }

    Result<bool> segments() {
        std::uint64_t count = 0;
        std::uint64_t total = 0;
        if (!read_varint(r_, count) || !read_varint(r_, total)) {
            return broken("segment count or length");
        }
        if (count == 0 || count > std::numeric_limits<std::uint32_t>::max() ||
            total > std::numeric_limits<std::size_t>::max()) {
            return malformed("segment count or length");
        }
        bulk_->size_ = total;
        if (count == 1) {
            bulk_->segments_.push_back({nullptr, static_cast<std::size_t>(total)});
            used_ = total != 0 ? 1 : 0;
            return true;
        }
        if (count > r_.left()) {  // each takes a byte at least
            return too_short();
        }
        bulk_->segments_.reserve(static_cast<std::size_t>(count));
        for (std::uint64_t i = 0; i < count; ++i) {
            std::uint64_t length = 0;
            if (!read_varint(r_, length)) {
                return broken("segment length");
            }
            if (length > total) {
                return malformed("segments longer than their total");
            }
            total -= length;
            used_ += length != 0 ? 1 : 0;
            bulk_->segments_.push_back({nullptr, static_cast<std::size_t>(length)});
        }
        if (total != 0) {
            return malformed("segments shorter than their total");
        }
        return true;
    }

    Result<bool> rails() {
        if (bulk_->size() == 0 ? (flags_ & (kNet | kSm | kEager)) != 0
                               : (flags_ & (kNet | kSm | kEager)) == 0) {
            return malformed("nothing to reach its memory with, or no memory");
        }
        if ((flags_ & kNet) != 0) {
            if (auto done = rail(Rail::net); !done) {
                return done;
            }
        }
        return (flags_ & kSm) != 0 ? rail(Rail::sm) : Result<bool>(true);
    }

    Result<bool> rail(Rail rail) {
        const std::span<const std::byte> from = bytes_.last(r_.left());
        na::Class* cls = bulk_->space().rails().of(rail);
        if (rail == Rail::net && r_.integer<std::uint16_t>() != protocol_tag(*cls)) {
            cls = nullptr;  // not ours: kept for passing it on
        }
        std::uint64_t count = 0;
        if (!read_varint(r_, count)) {
            return broken("number of registrations");
        }
        if (count == 0 || count > used_) {
            return malformed("number of registrations");
        }
        auto& groups = bulk_->groups_[index(rail)];
        if (cls != nullptr) {
            groups.reserve(static_cast<std::size_t>(std::min<std::uint64_t>(count, r_.left())));
        }
        std::uint64_t begin = 0;
        for (std::uint64_t i = 0; i < count; ++i) {
            std::uint64_t size = 0;
            if (!read_varint(r_, size)) {
                return broken("size of a registration");
            }
            const auto bytes = r_.bytes(size);
            if (!r_.good()) {
                return too_short();
            }
            if (cls == nullptr) {
                continue;
            }
            auto memory = na::Memory::decode(*cls, bytes);
            if (!memory) {
                return std::move(memory).error();
            }
            const std::uint64_t length = (*memory)->length();
            if (length > bulk_->size() - begin || !allows((*memory)->access(), bulk_->access())) {
                return malformed("a registration contradicts the descriptor");
            }
            groups.push_back(Bulk::Group{begin, std::move(*memory)});
            begin += length;
        }
        if (cls != nullptr && begin != bulk_->size()) {
            return malformed("registrations do not cover the memory");
        }
        const std::size_t taken = from.size() - r_.left();
        bulk_->encoded_[index(rail)].assign(from.begin(),
                                            from.begin() + static_cast<std::ptrdiff_t>(taken));
        return true;
    }

    Result<bool> owner() {
        if ((flags_ & kOwner) == 0) {
            return true;
        }
        std::uint64_t size = 0;
        if (!read_varint(r_, size)) {
            return broken("size of the owner's address");
        }
        const auto address = r_.bytes(size);
        const auto context_id = r_.integer<std::uint8_t>();
        if (!r_.good()) {
            return too_short();
        }
        if (address.empty()) {
            return malformed("empty owner address");
        }
        auto owner = std::make_unique<Owner>();
        owner->address.assign(address.begin(), address.end());
        owner->context_id = context_id;
        bulk_->bind(std::move(owner));
        return true;
    }

    // Addresses count only beside the secret of this class, which no peer has seen.
    Result<bool> own() {
        if ((flags_ & kOwn) == 0) {
            return true;
        }
        if (r_.integer<std::uint64_t>() != bulk_->space().secret() || bulk_->size() == 0) {
            return broken("addresses of another process");
        }
        if (bulk_->segments_.size() > r_.left() / sizeof(std::uint64_t)) {
            return too_short();
        }
        bulk_->own_.reserve(bulk_->segments_.size());
        for (const Segment& s : bulk_->segments_) {
            const auto address = static_cast<std::uintptr_t>(r_.integer<std::uint64_t>());
            bulk_->own_.push_back({reinterpret_cast<void*>(address), s.length});
        }
        return true;
    }

    Result<bool> contents() {
        if ((flags_ & kEager) == 0) {
            return true;
        }
        const auto contents = r_.bytes(bulk_->size());
        if (!r_.good()) {
            return too_short();
        }
        bulk_->eager_.reset(new std::byte[contents.size()]);
        std::memcpy(bulk_->eager_.get(), contents.data(), contents.size());
        std::byte* at = bulk_->eager_.get();
        for (Segment& s : bulk_->segments_) {
            s.base = at;
            at += s.length;
        }
        return true;
    }

    const std::span<const std::byte> bytes_;
    ByteReader r_;
    BulkRef bulk_;
    std::uint8_t flags_ = 0;
    std::uint64_t used_ = 0;  // segments that are not empty
};

bool glance(Space& space, std::span<const std::byte> bytes, Rail rail, Plain& plain) noexcept {
    ByteReader r(bytes);
    const auto version = r.integer<std::uint8_t>();
    const auto flags = r.integer<std::uint8_t>();
    std::uint64_t count = 0;
    if (version != kVersion || (flags & ~(kNet | kSm | kWrite)) != kRead ||
        !read_varint(r, count) || count != 1 || !read_varint(r, plain.size) || plain.size == 0) {
        return false;
    }
    for (const Rail next : {Rail::net, Rail::sm}) {
        if ((flags & (next == Rail::net ? kNet : kSm)) == 0) {
            continue;
        }
        if (next == Rail::net && r.integer<std::uint16_t>() != protocol_tag(*space.rails().net)) {
            return false;
        }
        std::uint64_t groups = 0;
        std::uint64_t size = 0;
        if (!read_varint(r, groups) || groups != 1 || !read_varint(r, size)) {
            return false;
        }
        plain.memory = r.bytes(size);
        if (next == rail) {
            na::Memory::Described memory;
            return r.good() && na::ok(na::Memory::describe(plain.memory, memory)) &&
                   memory.length == plain.size;
        }
    }
    return false;
}

Result<BulkRef> decode(Space& space, std::span<const std::byte> bytes) try {
    return Decoder(space, bytes).run();
} catch (const std::bad_alloc&) {
    return na::Error{Status::nomem, "out of memory for a bulk descriptor"};
}

}  // namespace bulk
