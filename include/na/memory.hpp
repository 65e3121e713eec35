// SPDX-License-Identifier: BSD-3-Clause
// Buffers for messages, and memory for remote access.
//
// Both are held by what is in flight with them: destroying a Buffer or a Memory early never lets a
// transport write into freed memory. Memory that was registered but not allocated here
// (Domain::register_memory) is the program's: it must stay until the Memory is gone and everything
// that was posted with it has ended.
//
// Threads: const functions from any; what moves, one thread at a time.
#pragma once

#include "na/detail/standard.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "na/detail/ref.hpp"
#include "na/result.hpp"
#include "na/types.hpp"

namespace na::inline v1 {

class Buffer;
class Context;
class Domain;

// What a message is made of: the first bytes of a Buffer. Made by Buffer::first() and
// Buffer::holding().
class Payload {
 public:
    // Of the message, in bytes.
    std::size_t size() const noexcept { return size_; }

 private:
    friend class Buffer;
    friend class Context;
    Payload(const Buffer& buffer, std::size_t size) noexcept : buffer_(&buffer), size_(size) {}
    const Buffer* buffer_;
    std::size_t size_;
};

// Room for messages, with what the transport wants in front of them. From Domain::make_buffer().
// Its bytes are the transport's from a post until the operation has ended; a buffer may be sent by
// several operations at a time.
class Buffer {
 public:
    Buffer() = default;
    Buffer(Buffer&&) noexcept = default;
    Buffer& operator=(Buffer&&) noexcept = default;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    // False: none, as after a move.
    explicit operator bool() const noexcept { return static_cast<bool>(state_); }
    // What the message may take.
    std::span<std::byte> bytes() const noexcept { return bytes_; }
    // Its first byte.
    std::byte* data() const noexcept { return bytes_.data(); }
    // The largest message that fits.
    std::size_t size() const noexcept { return bytes_.size(); }

    // The first bytes as a message. More than there are: refused when it is posted.
    Payload first(std::size_t size) const noexcept { return {*this, size}; }
    // Copies a message into the buffer. One that is too long is not copied, and refused when it is
    // posted.
    Payload holding(std::span<const std::byte> message) const noexcept {
        if (!message.empty() && message.size() <= size()) {
            std::memcpy(data(), message.data(), message.size());
        }
        return first(message.size());
    }
    // The same for text, without a terminating zero.
    Payload holding(std::string_view text) const noexcept {
        return holding(std::as_bytes(std::span(text)));
    }

 private:
    friend class Context;
    friend class Domain;
    detail::Ref<detail::BufferState> state_;
    std::span<std::byte> bytes_;
};

class Memory;
class RemoteMemory;

// A part of local memory. Made by Memory::range() and Memory::all().
class LocalRange {
 private:
    friend class Memory;
    friend class Context;
    LocalRange(const Memory& memory, std::uint64_t offset, std::uint64_t size) noexcept
        : memory_(&memory), offset_(offset), size_(size) {}
    const Memory* memory_;
    std::uint64_t offset_;
    std::uint64_t size_;
};

// A place in a peer's memory. Made by RemoteMemory::at().
class RemotePlace {
 private:
    friend class RemoteMemory;
    friend class Context;
    RemotePlace(const RemoteMemory& memory, std::uint64_t offset) noexcept
        : memory_(&memory), offset_(offset) {}
    const RemoteMemory* memory_;
    std::uint64_t offset_;
};

// Memory of this process that peers may reach, and that puts and gets start from. From
// Domain::register_memory(), Domain::register_segments() and Domain::allocate(). Several segments
// are one range of bytes, in the order given.
class Memory {
 public:
    Memory() = default;
    Memory(Memory&&) noexcept = default;
    Memory& operator=(Memory&&) noexcept = default;
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    // False: none, as after a move.
    explicit operator bool() const noexcept { return static_cast<bool>(state_); }
    // In bytes.
    std::uint64_t size() const noexcept { return size_; }
    // What peers may do with it.
    Access access() const noexcept { return access_; }
    // What Domain::allocate() made; empty for memory that is the program's.
    std::span<std::byte> bytes() const noexcept { return owned_; }

    // `size` bytes from `offset` on. What is not inside is refused when it is posted.
    LocalRange range(std::uint64_t offset, std::uint64_t size) const noexcept {
        return {*this, offset, size};
    }
    // The whole.
    LocalRange all() const noexcept { return range(0, size_); }

    // Bytes for Domain::decode_memory() at peers. Who has them may reach the memory for as long as
    // the Memory is there.
    std::vector<std::byte> encode() const;

 private:
    friend class Context;
    friend class Domain;
    detail::Ref<detail::MemoryState> state_;
    std::uint64_t size_ = 0;
    Access access_ = Access::none;
    std::span<std::byte> owned_;
};

// Memory of a peer. From Domain::decode_memory().
class RemoteMemory {
 public:
    RemoteMemory() = default;
    RemoteMemory(RemoteMemory&&) noexcept = default;
    RemoteMemory& operator=(RemoteMemory&&) noexcept = default;
    RemoteMemory(const RemoteMemory&) = delete;
    RemoteMemory& operator=(const RemoteMemory&) = delete;

    // False: none, as after a move.
    explicit operator bool() const noexcept { return static_cast<bool>(state_); }
    // In bytes.
    std::uint64_t size() const noexcept { return size_; }
    // What we may do with it.
    Access access() const noexcept { return access_; }
    // From `offset` on. What is not inside is refused when it is posted.
    RemotePlace at(std::uint64_t offset) const noexcept { return {*this, offset}; }

 private:
    friend class Context;
    friend class Domain;
    detail::Ref<detail::MemoryState> state_;
    std::uint64_t size_ = 0;
    Access access_ = Access::none;
};

}  // namespace na::inline v1
