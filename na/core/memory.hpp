// SPDX-License-Identifier: BSD-3-Clause
// Memory descriptors: local memory that may be registered, or a peer's memory decoded from its
// bytes.
//
// Bounds and permissions are here, for all plugins: an operation that reaches Context::put or get
// was checked against the length and access of both sides. Immutable after registration; any
// thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "na/plugin.hpp"

namespace na::inline impl {

class Class;

class Memory {
 public:
    // The descriptor borrows the memory, which must stay valid until the Memory is gone. No
    // registration yet.
    static Result<std::unique_ptr<Memory>> create(Class& cls, std::span<const Segment> segments,
                                                  Access access);
    // Untrusted bytes, at least as many as encode() wrote; more are ignored.
    static Result<std::unique_ptr<Memory>> decode(Class& cls, std::span<const std::byte> bytes);

    // What the bytes say, for who needs no Memory: overflow (they end too early), protocol_error.
    struct Described {
        Access access = Access::none;
        std::uint64_t length = 0;
        std::span<const std::byte> region;  // the plugin's part, not looked at yet
        bool covers(std::uint64_t offset, std::uint64_t size) const noexcept {
            return offset <= length && size <= length - offset;
        }
    };
    static Status describe(std::span<const std::byte> bytes, Described& described) noexcept;

    // Makes the memory reachable. Idempotent. opnotsupported for a remote one or for device memory
    // where the plugin has none.
    Result<plugin::Region*> register_memory(MemoryKind kind, std::uint64_t device);
    void deregister();
    // Registers as host memory if nobody has yet; null with a logged error when that fails.
    plugin::Region* region() noexcept;

    std::size_t encoded_size();
    Status encode(std::span<std::byte> out);

    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    bool is_local() const noexcept { return local_; }
    std::uint64_t length() const noexcept { return length_; }
    Access access() const noexcept { return access_; }
    Class& cls() const noexcept { return *cls_; }
    bool covers(std::uint64_t offset, std::uint64_t size) const noexcept {
        return offset <= length_ && size <= length_ - offset;
    }

 private:
    explicit Memory(Class& cls) noexcept;

    Class* const cls_;
    bool local_ = true;
    Access access_ = Access::none;
    std::uint64_t length_ = 0;
    std::vector<Segment> segments_;
    std::mutex mutex_;  // guards registration
    std::atomic<plugin::Region*> registered_{nullptr};
    void drop_region() noexcept;

    std::unique_ptr<plugin::Region> region_;
};

}  // namespace na::inline impl
