// SPDX-License-Identifier: BSD-3-Clause
// Registered memory, and the gate that peers reach it through.
//
// UCX's own puts and gets, where they are made of messages (tcp, shared memory), go wherever the
// peer says and check nothing; so ours are messages of the plugin, and the target looks the key up,
// checks the range and the rights, and copies (rma.cpp, serve.cpp). UCX is told of the memory where
// the user has chosen so (registrar.hpp): then a descriptor carries UCX's keys behind ours, and
// each origin takes what it can use.
#pragma once

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "na/plugin.hpp"

namespace na::ucx {

inline constexpr std::size_t kMaxSegments = 256;
// UCX's keys in a descriptor: it travels in messages, and comes from anybody.
inline constexpr std::size_t kMaxNativeParts = 16;
inline constexpr std::size_t kMaxPackedKey = 512;  // bytes

class Gate;

// A segment as UCX reaches it from afar.
struct NativePart {
    std::uint64_t address = 0;  // at its owner
    std::uint64_t length = 0;
    std::uint64_t start = 0;     // sum of the lengths before
    std::vector<std::byte> key;  // packed by UCX; means something to UCX only
};

// What local memory has with UCX; ends with the object.
class Registrations {
 public:
    Registrations() = default;
    Registrations(const Registrations&) = delete;
    Registrations& operator=(const Registrations&) = delete;
    virtual ~Registrations() = default;
};

class Region final : public plugin::Region {
 public:
    // Local.
    Region(std::span<const Segment> segments, Access access, MemoryKind kind = MemoryKind::host);
    // A peer's.
    explicit Region(std::uint64_t key) noexcept : key_(key) {}
    ~Region() override;

    std::size_t encode(std::span<std::byte> out) const override;
    // `length`: what the core's header says that it has.
    static Result<std::unique_ptr<plugin::Region>> decode(std::span<const std::byte> in,
                                                          std::uint64_t length);
    // Local, before it is used: descriptors carry these as well.
    void offer(std::vector<NativePart> parts, std::unique_ptr<Registrations> held) noexcept {
        native_ = std::move(parts);
        held_ = std::move(held);
    }

    std::uint64_t key() const noexcept { return key_; }
    std::uint64_t length() const noexcept { return length_; }
    Access access() const noexcept { return access_; }
    bool host() const noexcept { return kind_ == MemoryKind::host; }
    // Of UCX's keys; empty: it is reached by messages only.
    std::span<const NativePart> native() const noexcept { return native_; }

    // The contiguous local memory at `offset`, up to `most` bytes.
    std::span<std::byte> at(std::uint64_t offset, std::uint64_t most) const noexcept;
    // Between a buffer and a range of local memory, over the borders of segments. The range is
    // inside the region.
    void read(std::uint64_t offset, std::span<std::byte> into) const noexcept;
    void write(std::uint64_t offset, std::span<const std::byte> from) const noexcept;

 private:
    friend class Gate;
    struct Part {
        std::byte* base = nullptr;
        std::uint64_t length = 0;
        std::uint64_t start = 0;  // sum of the lengths before
    };
    std::vector<Part>::const_iterator part_at(std::uint64_t offset) const noexcept;
    template <typename Copy>
    void each(std::uint64_t offset, std::size_t size, Copy&& copy) const noexcept;

    std::uint64_t key_ = 0;
    std::uint64_t length_ = 0;
    Access access_ = Access::none;
    MemoryKind kind_ = MemoryKind::host;
    std::vector<Part> parts_;
    std::vector<NativePart> native_;
    std::unique_ptr<Registrations> held_;
    Gate* gate_ = nullptr;
};

// What peers may reach, by key. Any thread; memory that was taken out is not touched any more when
// remove() returns.
class Gate {
 public:
    void add(Region& region);
    void remove(const Region& region) noexcept;

    // For peers. fault: no such key, or not in its range; permission.
    Status read(std::uint64_t key, std::uint64_t offset, std::span<std::byte> into) const noexcept;
    Status write(std::uint64_t key, std::uint64_t offset,
                 std::span<const std::byte> from) const noexcept;

 private:
    const Region* find(std::uint64_t key, std::uint64_t offset, std::size_t size, Access wanted,
                       Status& why) const noexcept;

    mutable std::shared_mutex mutex_;
    std::unordered_map<std::uint64_t, const Region*> regions_;
};

}  // namespace na::ucx
