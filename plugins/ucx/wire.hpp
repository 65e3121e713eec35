// SPDX-License-Identifier: BSD-3-Clause
// What travels besides the messages of na/session/wire.hpp: the address that a bootstrap port gives
// away, and puts and gets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "na/plugin.hpp"
#include "na/util/bytes.hpp"

namespace na::ucx {

// Ids of active messages.
inline constexpr unsigned kMessageId = 1;
inline constexpr unsigned kRmaId = 2;

// A bootstrap port says this to everybody who connects, and nothing else: the frame, then two
// addresses of the context's worker, as UCX has them: with network devices only, and with all.
// UCX's shared memory reaches processes of the same user and the same name spaces only: UCX opens
// the memory in /proc of its owner, and wakes sleepers by a socket with an abstract name.
struct Frame {
    static constexpr std::uint64_t kMagic = 0x32'70'62'78'63'75'61'6e;  // "naucxbp2"
    static constexpr std::size_t kSize = 40;
    // UCX's addresses are some hundred bytes, and grow with the devices of a machine. Of both
    // together.
    static constexpr std::size_t kMaxAddress = 16384;

    // Why a frame has no address: `size` and `far_size` are 0 then.
    enum class Refusal : std::uint32_t {
        none,
        soon,  // descriptors are promised to others that are about to connect: ask again
        full,  // no descriptor is left for another peer
    };
    static constexpr Refusal kLastRefusal = Refusal::full;

    std::uint32_t far_size = 0;  // of the address for other networks; 0: there is none
    std::uint32_t size = 0;      // of the whole one
    std::uint32_t process = 0;   // its id, of use on the same machine only
    Refusal refusal = Refusal::none;
    std::uint64_t machine = 0;  // which that is: equal where process ids mean the same
    std::uint64_t reach = 0;    // equal where shared memory can be attached

    void write(std::byte* out) const noexcept {
        util::ByteWriter w({out, kSize});
        w.integer(kMagic);
        w.integer(far_size);
        w.integer(size);
        w.integer(process);
        w.integer(static_cast<std::uint32_t>(refusal));
        w.integer(machine);
        w.integer(reach);
    }
    // How one of ours begins; others may say less than a frame, and no more.
    static bool begins(std::span<const std::byte> in) noexcept {
        util::ByteReader r(in);
        const auto magic = r.integer<std::uint64_t>();
        return !r.good() || magic == kMagic;
    }
    // False: not one of ours.
    bool read(std::span<const std::byte> in) noexcept {
        util::ByteReader r(in);
        const auto magic = r.integer<std::uint64_t>();
        far_size = r.integer<std::uint32_t>();
        size = r.integer<std::uint32_t>();
        process = r.integer<std::uint32_t>();
        const auto why = r.integer<std::uint32_t>();
        machine = r.integer<std::uint64_t>();
        reach = r.integer<std::uint64_t>();
        refusal = static_cast<Refusal>(why);
        if (!r.good() || magic != kMagic || why > static_cast<std::uint32_t>(kLastRefusal)) {
            return false;
        }
        return refusal == Refusal::none
                   ? size != 0 && size <= kMaxAddress && far_size <= kMaxAddress - size
                   : size == 0 && far_size == 0;
    }
};

// A piece of a put or get, and the answer to it. A put's bytes, and those that a get asked for,
// follow.
struct RmaHeader {
    static constexpr std::size_t kSize = 48;
    enum class Kind : std::uint8_t { put, get, answer };

    std::uint64_t cookie = 0;    // of the session, as in the header of messages
    std::uint64_t sequence = 0;  // the origin's: which piece; the answer says it again
    std::uint64_t key = 0;       // of the region
    std::uint64_t offset = 0;    // in the region
    std::uint32_t length = 0;    // bytes to put or to get
    Kind kind = Kind::put;
    std::uint8_t target = 0;  // context of the receiver
    std::uint8_t status = 0;  // answers: na::Status

    void write(std::byte* out) const noexcept {
        util::ByteWriter w({out, kSize});
        w.integer(cookie);
        w.integer(sequence);
        w.integer(key);
        w.integer(offset);
        w.integer(length);
        w.integer(kVersion);
        w.integer(static_cast<std::uint8_t>(kind));
        w.integer(target);
        w.integer(status);
        w.integer(std::uint64_t{0});
    }
    bool read(std::span<const std::byte> in) noexcept {
        util::ByteReader r(in);
        cookie = r.integer<std::uint64_t>();
        sequence = r.integer<std::uint64_t>();
        key = r.integer<std::uint64_t>();
        offset = r.integer<std::uint64_t>();
        length = r.integer<std::uint32_t>();
        const auto version = r.integer<std::uint8_t>();
        const auto k = r.integer<std::uint8_t>();
        target = r.integer<std::uint8_t>();
        status = r.integer<std::uint8_t>();
        const auto reserved = r.integer<std::uint64_t>();
        kind = static_cast<Kind>(k);
        return r.good() && version == kVersion && k <= static_cast<std::uint8_t>(Kind::answer) &&
               reserved == 0;
    }

 private:
    static constexpr std::uint8_t kVersion = 1;
};

}  // namespace na::ucx
