// SPDX-License-Identifier: BSD-3-Clause
// A process of a crash test that uses NA: one class, one context, operations that account for
// themselves. Everything throws when something is not as it must be, in the runner (where Catch2
// reports it) and in a forked party alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "crash/waiting.hpp"
#include "na.h"
#include "support/two_process.hpp"

namespace crash {

class NaSide {
 public:
    // What must go before the class does, however long its holder lives.
    class Resource {
     public:
        explicit Resource(NaSide& side) : side_(&side) { side.resources_.push_back(this); }
        virtual ~Resource();
        Resource(const Resource&) = delete;
        Resource& operator=(const Resource&) = delete;
        virtual void release() = 0;

     protected:
        NaSide* side_;  // null once the side has closed

        friend class NaSide;
    };

    struct Options {
        Waiting waiting = Waiting::blocking;
        bool listen = true;
        std::size_t max_message = 0;  // both lanes
        std::string name{};           // what follows "://"
    };
    explicit NaSide(const Options& options);
    // Best effort; close() is what checks.
    ~NaSide();
    NaSide(const NaSide&) = delete;
    NaSide& operator=(const NaSide&) = delete;

    na_class_t* cls() const noexcept { return cls_; }
    na_context_t* context() const noexcept { return context_; }
    std::string uri() const;
    // Looked up; kept until forget() or close().
    na_addr_t* peer(const std::string& uri);
    void forget(na_addr_t* address);

    // A round of progress, after a wait of up to so long where the mode allows it, and all
    // callbacks.
    void turn(unsigned timeout_ms = 0);

    // For callbacks, which must not throw through the library: the next turn() throws this.
    void fail(const std::string& what) { failure_ = failure_.empty() ? what : failure_; }

    // Frees operations, buffers, addresses, the context, the class: each must succeed.
    void close();

 private:
    void release_all();

    const Waiting waiting_;
    na_class_t* cls_ = nullptr;
    na_context_t* context_ = nullptr;
    std::vector<na_addr_t*> addresses_;
    std::vector<Resource*> resources_;
    std::string failure_;
};

// A buffer for messages.
class Message final : public NaSide::Resource {
 public:
    Message(NaSide& side, std::size_t bytes);
    ~Message() override;

    // What follows the transport's header.
    std::span<std::byte> bytes(std::size_t message_size) const noexcept {
        return {static_cast<std::byte*>(buffer) + header, message_size - header};
    }
    std::uint64_t number() const noexcept;
    void set_number(std::uint64_t n) noexcept;

    void* buffer = nullptr;
    void* plugin_data = nullptr;
    const std::size_t size;
    std::size_t header = 0;

 private:
    void release() override;
};

// An operation, posted any number of times, that knows whether each post had exactly one end.
class NaOp final : public NaSide::Resource {
 public:
    explicit NaOp(NaSide& side);
    ~NaOp() override;

    // What the post answered; also in `ret` if it is not success.
    na_return_t send_unexpected(const Message& m, std::size_t size, na_addr_t* to, na_tag_t tag);
    na_return_t send_expected(const Message& m, std::size_t size, na_addr_t* to, na_tag_t tag);
    na_return_t receive_unexpected(const Message& m);
    na_return_t receive_expected(const Message& m, na_addr_t* from, na_tag_t tag);
    na_return_t put(na_mem_handle_t* local, na_mem_handle_t* remote, std::size_t size,
                    na_addr_t* to);
    na_return_t get(na_mem_handle_t* local, na_mem_handle_t* remote, std::size_t size,
                    na_addr_t* from);
    void cancel();

    bool in_flight() const noexcept { return posts_ != ends_; }

    na_return_t ret = NA_RETURN_MAX;  // of the last end, or of the last refusal
    std::size_t size = 0;             // received
    na_tag_t tag = 0;                 // received
    na_addr_t* source = nullptr;      // received; given up by whoever takes it, else freed
    std::function<void(NaOp&)> then;  // after each end

 private:
    na_return_t posted(na_return_t answer);
    static void ended(const na_cb_info* info);
    void end(const na_cb_info& info);
    void drop_source();
    void release() override;

    na_op_id_t* id_;
    std::uint64_t posts_ = 0;
    std::uint64_t ends_ = 0;
};
using NaOps = std::vector<std::unique_ptr<NaOp>>;

bool all_ended(const NaOps& ops);
std::size_t count(const NaOps& ops, na_return_t ret);

// Registered memory: own, or a peer's.
class MemoryHandle {
 public:
    MemoryHandle(NaSide& side, std::span<std::byte> memory);
    MemoryHandle(NaSide& side, const std::vector<std::byte>& serialized);
    ~MemoryHandle();
    MemoryHandle(const MemoryHandle&) = delete;
    MemoryHandle& operator=(const MemoryHandle&) = delete;

    std::vector<std::byte> serialize() const;
    na_mem_handle_t* get() const noexcept { return handle_; }

 private:
    na_class_t* cls_;
    na_mem_handle_t* handle_ = nullptr;
};

// Receives all unexpected messages, answers those that are pings, hands the others on.
class Inbox {
 public:
    static constexpr na_tag_t kPing = 1;
    using Deliver = std::function<void(NaSide& side, na_tag_t tag, std::span<const std::byte> bytes,
                                       na_addr_t* source)>;

    explicit Inbox(NaSide& side, std::size_t max_message = 4096, Deliver deliver = {});
    // Takes the receives back: each must end with cancellation. Turns the side.
    void close();

    std::uint64_t pings() const noexcept { return pings_; }
    // Receives that ended with the death of a sender in the middle of its message.
    std::uint64_t broken() const noexcept { return broken_; }

 private:
    struct Reply {
        Reply(NaSide& side, std::size_t bytes) : message(side, bytes), op(side) {}
        Message message;
        NaOp op;
        na_addr_t* to = nullptr;
    };
    struct Receive {
        Receive(NaSide& side, std::size_t bytes) : message(side, bytes), op(side) {}
        Message message;
        NaOp op;
    };
    void received(Receive& receive);
    void answer(const Receive& receive);

    NaSide& side_;
    const Deliver deliver_;
    bool closing_ = false;
    std::uint64_t pings_ = 0;
    std::uint64_t broken_ = 0;
    std::vector<std::unique_ptr<Receive>> receives_;
    std::vector<std::unique_ptr<Reply>> replies_;
};

// Sends one ping and waits for the answer.
void ping(NaSide& side, na_addr_t* to, std::uint64_t number, unsigned patience_ms = 100);

}  // namespace crash
