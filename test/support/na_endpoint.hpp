// SPDX-License-Identifier: BSD-3-Clause
// One side of an NA test over the C API: a class with a context, operations that record how they
// ended, message buffers.
//
// Everything throws std::runtime_error where a test cannot go on, so that it serves the process of
// the cases and its parties alike. Not thread-safe, but for Op::count(), which another thread may
// ask.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "na.h"
#include "support/options.hpp"

namespace support {

class Endpoint {
 public:
    struct Settings {
        std::string info = options().protocol;
        bool listen = true;
        na_init_info init = NA_INIT_INFO_INITIALIZER;
        std::uint8_t contexts = 1;  // created with ids from 0; raises init.max_contexts
    };
    Endpoint() : Endpoint(Settings{}) {}
    explicit Endpoint(Settings settings);
    // Closes; what cannot be closed is reported on stderr and aborts: a test left something behind.
    ~Endpoint();
    Endpoint(const Endpoint&) = delete;
    Endpoint& operator=(const Endpoint&) = delete;

    na_class_t* cls() const noexcept { return cls_; }
    na_context_t* context(std::size_t id = 0) const noexcept { return contexts_[id]; }
    // What others look up.
    const std::string& uri() const noexcept { return uri_; }
    // One round of progress and all callbacks, on every context.
    void pump();
    // The same on one of them.
    void pump(std::size_t id);
    // Closes early.
    void close();

    std::size_t max_message(bool expected = false) const noexcept;
    std::size_t header(bool expected = false) const noexcept;

 private:
    na_class_t* cls_ = nullptr;
    std::vector<na_context_t*> contexts_;
    std::string uri_;
};

// A reference to an address.
class Addr {
 public:
    Addr() = default;
    // Adopts one reference.
    Addr(Endpoint& endpoint, na_addr_t* addr) noexcept : cls_(endpoint.cls()), addr_(addr) {}
    Addr(Endpoint& endpoint, const std::string& uri);
    Addr(Addr&& other) noexcept;
    Addr& operator=(Addr&& other) noexcept;
    ~Addr() { reset(); }
    void reset() noexcept;
    na_addr_t* get() const noexcept { return addr_; }
    operator na_addr_t*() const noexcept { return addr_; }  // NOLINT: stands for it

 private:
    na_class_t* cls_ = nullptr;
    na_addr_t* addr_ = nullptr;
};

std::string to_string(Endpoint& endpoint, na_addr_t* addr);

// A message buffer of the class.
class Buffer {
 public:
    // Of at least the largest message.
    explicit Buffer(Endpoint& endpoint) : Buffer(endpoint, 0, NA_ALLOC_MAX) {}
    Buffer(Endpoint& endpoint, std::size_t size, unsigned long flags = 0);
    ~Buffer();
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    std::byte* data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    void* plugin_data() const noexcept { return plugin_data_; }

 private:
    Endpoint& endpoint_;
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    void* plugin_data_ = nullptr;
};

// How an operation ended, one callback.
struct Result {
    na_return_t ret = NA_RETURN_MAX;
    na_cb_type_t type = NA_CB_MAX;
    std::size_t size = 0;
    na_tag_t tag = 0;
    Addr source;
    void* data = nullptr;  // multi-receive
    bool last = true;
};

// An operation and what its callbacks said.
class Op {
 public:
    explicit Op(Endpoint& endpoint, unsigned long flags = NA_OP_SINGLE, std::size_t context = 0);
    // Cancels and pumps the endpoint until it has ended.
    ~Op();
    Op(const Op&) = delete;
    Op& operator=(const Op&) = delete;

    // The posts answer what the C API answers. Sizes include the header.
    na_return_t send_unexpected(const Buffer& buffer, std::size_t size, na_addr_t* to, na_tag_t tag,
                                std::uint8_t to_id = 0);
    na_return_t send_expected(const Buffer& buffer, std::size_t size, na_addr_t* to, na_tag_t tag,
                              std::uint8_t to_id = 0);
    na_return_t recv_unexpected(const Buffer& buffer, std::size_t size);
    na_return_t recv_unexpected(const Buffer& buffer) {
        return recv_unexpected(buffer, buffer.size());
    }
    na_return_t multi_recv(const Buffer& buffer, std::size_t size);
    na_return_t recv_expected(const Buffer& buffer, std::size_t size, na_addr_t* from, na_tag_t tag,
                              std::uint8_t from_id = 0);
    na_return_t recv_expected(const Buffer& buffer, na_addr_t* from, na_tag_t tag) {
        return recv_expected(buffer, buffer.size(), from, tag);
    }
    na_return_t put(na_mem_handle_t* local, std::uint64_t local_offset, na_mem_handle_t* remote,
                    std::uint64_t remote_offset, std::size_t size, na_addr_t* to,
                    std::uint8_t to_id = 0);
    na_return_t get(na_mem_handle_t* local, std::uint64_t local_offset, na_mem_handle_t* remote,
                    std::uint64_t remote_offset, std::size_t size, na_addr_t* from,
                    std::uint8_t from_id = 0);
    na_return_t cancel();

    // Callbacks so far.
    std::size_t count() const noexcept { return count_.load(std::memory_order_acquire); }
    bool done() const noexcept { return count() != 0; }
    // The only result; throws if there was not exactly one callback.
    const Result& result() const;
    na_return_t ret() const { return result().ret; }
    const std::vector<Result>& results() const noexcept { return results_; }
    // Forgets the results, for the next use.
    void reset();

    na_op_id_t* id() const noexcept { return id_; }
    // Called inside the callback, after the result was recorded.
    std::function<void(Op&, const Result&)> on_result;

 private:
    template <typename Post>
    na_return_t post(Post&& post);
    static void callback(const na_cb_info* info);

    Endpoint& endpoint_;
    na_context_t* context_;
    na_op_id_t* id_ = nullptr;
    std::vector<Result> results_;
    std::atomic<std::size_t> count_{0};
    std::atomic<bool> pending_{false};
};

// A memory handle.
class Mem {
 public:
    Mem() = default;
    Mem(Endpoint& endpoint, void* data, std::size_t size, unsigned long flags);
    Mem(Endpoint& endpoint, std::vector<na_segment> segments, unsigned long flags);
    // As a peer sees it.
    Mem(Endpoint& endpoint, std::span<const std::byte> serialized);
    ~Mem();
    Mem(const Mem&) = delete;
    Mem& operator=(const Mem&) = delete;
    na_mem_handle_t* get() const noexcept { return handle_; }
    operator na_mem_handle_t*() const noexcept { return handle_; }  // NOLINT: stands for it
    std::vector<std::byte> serialize() const;

 private:
    na_class_t* cls_ = nullptr;
    na_mem_handle_t* handle_ = nullptr;
};

// Two endpoints of this process that know each other.
struct Pair {
    Pair() : Pair(Endpoint::Settings{}) {}
    explicit Pair(const Endpoint::Settings& both) : Pair(both, both) {}
    Pair(const Endpoint::Settings& first, const Endpoint::Settings& second)
        : a(first), b(second), to_b(a, b.uri()), to_a(b, a.uri()) {}
    Endpoint a;
    Endpoint b;
    Addr to_b;  // in a's class
    Addr to_a;  // in b's class
    void pump() {
        a.pump();
        b.pump();
    }
};

}  // namespace support
