// SPDX-License-Identifier: BSD-3-Clause
// Everything that lies in memory shared with a peer, and nothing else.
//
// The rule of this memory: a peer may write anything, at any time. A field that the peer writes is
// loaded once into a local, checked, and used from there. No lock, no pointer and no length that is
// trusted lives here.
//
//   connection   one sealed memfd per connection, made by the connecting side, mapped by both:
//                Direction[2] (0: connector to acceptor), page-aligned inject buffers of direction
//                0, then of direction 1
//   status       one page per context, written by its owner only (its seals keep peers from mapping
//                it writable)
//   ready map    one page per context, in which peers say that their ring has something
//   permits      one table per domain, written by its owner only, sealed as the status page is:
//                which memory peers may reach without the owner taking part
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace na::sm {

inline constexpr std::uint32_t kLayoutVersion = 3;
inline constexpr std::size_t kPageBytes = 4096;

// --- ring
// ------------------------------------------------------------------------------------------------------------

inline constexpr std::size_t kLinePayload = 60;
inline constexpr std::uint32_t kRingLines = 256;  // a power of two
// The consumer gives lines back in batches, so that its line stays in the producer's cache
// meanwhile.
inline constexpr std::uint32_t kCreditLines = kRingLines / 4;

// Valid by itself: `sequence` is the lap of the ring (from 1) in which the payload was written,
// stored last.
struct alignas(64) Line {
    std::byte payload[kLinePayload];
    std::atomic<std::uint32_t> sequence;
};

// Two lines each: the adjacent-line prefetcher would otherwise couple them.
struct alignas(128) ConsumerLine {
    std::atomic<std::uint32_t> consumed;  // lines, modulo 2^32
    std::atomic<std::uint32_t>
        hot;  // 1: the consumer polls this ring directly, the ready map is not needed
};

struct alignas(128) ProducerLine {
    std::atomic<std::uint32_t>
        wants_credit;  // 1: knock when lines were given back, the producer is short of them
    std::atomic<std::uint32_t>
        attach;  // what the producer found out about the consumer's memory: Attach
};

// Whether a side can read and write the other's memory by cross-memory attach.
enum class Attach : std::uint32_t { unknown = 0, yes = 1, no = 2 };

// Large messages, puts and gets in flight per direction of a connection.
inline constexpr std::uint32_t kSlots = 64;

// Of a large message (Kind::iov), by compare-and-exchange: the receiver goes from `offered` to
// `reading`, and when it has read all from there to `taken`, which delivers the message. The sender
// takes it back by `revoked`, until it is taken: a receiver that finds that after reading has read
// memory that may be in use for something else, and drops what it read.
enum class Claim : std::uint32_t { none = 0, offered = 1, reading = 2, revoked = 3, taken = 4 };

// The permit of the consumer that the producer is using at this moment (permits.hpp); 0: none.
struct alignas(128) HazardLine {
    std::atomic<std::uint32_t> permit;
};

// 1: the producer lets the consumer use none of its permits over this connection, for good.
struct alignas(128) BarLine {
    std::atomic<std::uint32_t> barred;
};

struct Direction {
    ConsumerLine consumer;
    ProducerLine producer;
    alignas(128) std::atomic<std::uint32_t> claims[kSlots];
    HazardLine hazard;
    BarLine bar;
    alignas(kPageBytes / 2) Line lines[kRingLines];
};

// --- messages in the ring
// --------------------------------------------------------------------------------------------

enum class Kind : std::uint8_t {
    none,
    inline_message,  // value: bytes that follow the head
    inject,          // value: inject buffer; Inject follows
    iov,     // value: slot; Iov follows. The receiver reads the sender's memory, then acknowledges
    bounce,  // value: slot; Announce follows, then `data` messages until all is there
    data,    // value: slot; Inject follows: the next bytes of a bounce, put or get
    ack,     // value: slot of the receiver of this; aux: Status
    put,     // value: slot; Access follows, then `data` messages; acknowledged at the end
    get,     // value: slot; Access follows. Answered by `reply` messages, or by `ack` where it is
             // refused
    reply,   // value: slot of the receiver of this; Inject follows
    abort,   // value: slot of a bounce or put that ends here
};

struct Head {
    Kind kind;
    std::uint8_t aux;  // lane of a message, Status of an ack
    std::uint16_t value;
    std::uint32_t tag;
};
// A Head as one number: what most messages start with is written, and checked, as such.
constexpr std::uint64_t head_word(Kind kind, std::uint8_t aux, std::uint16_t value,
                                  std::uint32_t tag) noexcept {
    return static_cast<std::uint64_t>(kind) | std::uint64_t{aux} << 8 | std::uint64_t{value} << 16 |
           std::uint64_t{tag} << 32;
}
struct Inject {
    std::uint32_t buffer;
    std::uint32_t length;
};
struct Iov {
    std::uint64_t address;
    std::uint64_t length;
};
struct Announce {
    std::uint64_t length;
};
struct RemoteRange {
    std::uint64_t key;
    std::uint64_t offset;
    std::uint64_t length;
};

// The largest message that travels in the ring itself: four lines. Beyond, copying 60 bytes at a
// time costs more than a buffer.
inline constexpr std::size_t kInlineBytes = 4 * kLinePayload - sizeof(Head);

// The most that fits into one line.
inline constexpr std::size_t kLineBytes = kLinePayload - sizeof(Head);

constexpr std::uint32_t lines_for(std::size_t bytes) noexcept {
    return static_cast<std::uint32_t>((bytes + kLinePayload - 1) / kLinePayload);
}

// --- connection region
// -----------------------------------------------------------------------------------------------

// Chosen by the connecting side, for both directions.
struct Geometry {
    std::uint32_t buffer_bytes;
    std::uint32_t buffer_count;

    static constexpr std::uint32_t kMinBuffer = 1024;
    static constexpr std::uint32_t kMaxBuffer = 1U << 16;
    static constexpr std::uint32_t kMaxCount = 64;

    constexpr bool valid() const noexcept {
        return buffer_bytes >= kMinBuffer && buffer_bytes <= kMaxBuffer && buffer_bytes % 64 == 0 &&
               buffer_count >= 1 && buffer_count <= kMaxCount;
    }
    constexpr std::size_t pool_bytes() const noexcept {
        return std::size_t{buffer_bytes} * buffer_count;
    }
    constexpr std::size_t pool_offset(unsigned direction) const noexcept;
    constexpr std::size_t region_bytes() const noexcept;
};

constexpr std::size_t page_round(std::size_t bytes) noexcept {
    return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}
constexpr std::size_t Geometry::pool_offset(unsigned direction) const noexcept {
    return page_round(2 * sizeof(Direction)) + direction * page_round(pool_bytes());
}
constexpr std::size_t Geometry::region_bytes() const noexcept {
    return pool_offset(2);
}

// --- pages of a context
// ----------------------------------------------------------------------------------------------

// What is not named here is 0, and a field that is added must mean by 0 what it was before there
// was one: builds of the same layout version that do not know it leave it so.
struct alignas(64) StatusPage {
    std::uint32_t version;
    std::uint32_t pid;
    std::uint32_t sleepless;  // 1: the owner never sleeps, and looks again at rings that it cooled
    alignas(64)
        std::atomic<std::uint32_t> sleep;  // odd: the owner sleeps, and wants a knock on the socket
};

// One bit per connection, by its number at the owner modulo kReadyBits; a bit of `summary` per word
// of `leaf`.
inline constexpr std::uint32_t kReadyBits = 64 * 64;

struct ReadyMap {
    alignas(64) std::atomic<std::uint64_t> summary;
    alignas(64) std::atomic<std::uint64_t> leaf[64];
};

// --- permits of a domain
// -----------------------------------------------------------------------------------------------

// A permit covers one registration. Its first entry has the seal, and names the entry of the next
// segment. Entry 0 is no permit.
struct alignas(64) PermitEntry {
    std::atomic<std::uint64_t> seal;  // of the registration's key; 0: withdrawn, or not the first
    std::atomic<std::uint64_t> base;  // of the segment, in the owner
    std::atomic<std::uint64_t> length;
    std::atomic<std::uint64_t> allocation;  // of the owner's allocator; 0: none
    std::atomic<std::uint64_t> allocation_base;
    std::atomic<std::uint32_t> access;  // na::Access
    std::atomic<std::uint32_t> next;    // 0: this is the last segment
};
inline constexpr std::uint32_t kPermits = 1U << 16;
inline constexpr std::size_t kPermitBytes = std::size_t{kPermits} * sizeof(PermitEntry);

// Peers are built by other compilers: nothing here may shift.
static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
              std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && sizeof(std::atomic<std::uint64_t>) == 8);
static_assert(sizeof(Line) == 64 && offsetof(Line, sequence) == 60);
static_assert(sizeof(ConsumerLine) == 128 && sizeof(ProducerLine) == 128);
static_assert((kRingLines & (kRingLines - 1)) == 0);
static_assert(offsetof(Direction, producer) == 128 && offsetof(Direction, claims) == 256 &&
              offsetof(Direction, hazard) == 512 && offsetof(Direction, bar) == 640 &&
              offsetof(Direction, lines) == 2048 && sizeof(Direction) == 2048 + 64 * kRingLines);
static_assert(sizeof(Head) == 8 && sizeof(Inject) == 8 && sizeof(Iov) == 16 &&
              sizeof(Announce) == 8 && sizeof(RemoteRange) == 24);
static_assert(sizeof(Head) + sizeof(RemoteRange) <= kLinePayload, "control messages take one line");
static_assert(std::is_trivially_copyable_v<Head> && std::is_trivially_copyable_v<RemoteRange>);
static_assert(offsetof(StatusPage, sleep) == 64 && sizeof(StatusPage) <= kPageBytes);
static_assert(sizeof(PermitEntry) == 64 && offsetof(PermitEntry, next) == 44);
static_assert(offsetof(ReadyMap, leaf) == 64 && sizeof(ReadyMap) <= kPageBytes);

}  // namespace na::sm
