// SPDX-License-Identifier: BSD-3-Clause
// What is behind the objects of the C++ API: the core's objects, and who still needs them.
//
// The core calls its classes by the same names; they are impl::X here, and the API's are v1::X.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "na/address.hpp"
#include "na/context.hpp"
#include "na/core/class.hpp"
#include "na/core/context.hpp"
#include "na/detail/callback.hpp"
#include "na/memory.hpp"
#include "na/util/intrusive_list.hpp"
#include "na/util/lock.hpp"

namespace na::inline v1::detail {

// References. Plain where the program promised one thread.
class Count {
 public:
    explicit Count(bool threaded) noexcept : threaded_(threaded) {}
    void add() noexcept {
        if (threaded_) {
            n_.fetch_add(1, std::memory_order_relaxed);
        } else {
            n_.store(n_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        }
    }
    // True: it was the last one.
    bool drop() noexcept {
        if (threaded_) {
            return n_.fetch_sub(1, std::memory_order_acq_rel) == 1;
        }
        const std::uint32_t n = n_.load(std::memory_order_relaxed) - 1;
        n_.store(n, std::memory_order_relaxed);
        return n == 0;
    }
    std::uint32_t get() const noexcept { return n_.load(std::memory_order_acquire); }

 private:
    std::atomic<std::uint32_t> n_{1};
    const bool threaded_;
};

struct DomainState {
    explicit DomainState(std::unique_ptr<impl::Class> c) noexcept
        : cls(std::move(c)), count(cls->threaded()) {}
    std::size_t headroom(Lane lane) const noexcept { return cls->headroom(lane); }
    std::unique_ptr<impl::Class> cls;
    Count count;
};

struct BufferState {
    explicit BufferState(DomainState& d) noexcept
        : domain(Ref<DomainState>::share(d)), count(d.cls->threaded()) {}
    // Where a message of the lane begins, header included.
    void* start(Lane lane) const noexcept { return payload - domain->headroom(lane); }
    Ref<DomainState> domain;
    impl::MessageBuffer memory;
    std::byte* payload = nullptr;
    std::size_t room = 0;  // behind the header
    Count count;
};

struct MemoryState {
    explicit MemoryState(DomainState& d) noexcept
        : domain(Ref<DomainState>::share(d)), count(d.cls->threaded()) {}
    Ref<DomainState> domain;
    std::unique_ptr<impl::Memory> memory;
    void* owned = nullptr;
    std::size_t owned_size = 0;
    Count count;
};

// An operation of a context, for close() to find.
struct Listed {
    util::ListHook hook;
    impl::Operation* core = nullptr;
};

struct ContextState {
    explicit ContextState(DomainState& d) noexcept
        : domain(Ref<DomainState>::share(d)), count(d.cls->threaded()) {}
    bool threaded() const noexcept { return domain->cls->threaded(); }
    void enter(Listed& op) noexcept;
    void leave(Listed& op) noexcept;

    Ref<DomainState> domain;
    std::unique_ptr<impl::Context> core;  // null: closed
    std::uint8_t id = 0;
    std::atomic<bool> closing{false};
    std::atomic<std::uint64_t> wakes{0};
    std::atomic<std::uint64_t> heard{0};  // of those, by progress()
    std::mutex mutex;
    util::IntrusiveList<Listed, &Listed::hook> operations;  // guarded by mutex
    Count count;
};

// A completion on its way to trigger().
struct Record : impl::CompletionQueue::Node {
    void (*deliver)(Record& record) = nullptr;  // may throw what the callback throws
    void* owner = nullptr;
    impl::Outcome outcome;
    Record* next_free = nullptr;
};

// The way between the API's addresses and the core's.
struct Peer {
    static impl::Address* core(const v1::Address& address) noexcept {
        return reinterpret_cast<impl::Address*>(address.peer_);
    }
    static DomainState* domain(const v1::Address& address) noexcept {
        return address.domain_.get();
    }
    // Takes over a reference to the core's address, which may be null.
    static v1::Address adopt(impl::Address* core, DomainState& domain) noexcept {
        v1::Address address;
        if (core != nullptr) {
            address.peer_ = reinterpret_cast<Peer*>(core);
            address.domain_ = Ref<DomainState>::share(domain);
        }
        return address;
    }
    // An address for the time of a callback: takes over the reference of the core's address, and
    // takes none of the domain, which the context keeps.
    class Lent {
     public:
        Lent(impl::Address* core, DomainState& domain) noexcept {
            if (core != nullptr) {
                address_.peer_ = reinterpret_cast<Peer*>(core);
                address_.domain_ = Ref<DomainState>::adopt(&domain);
            }
        }
        Lent(const Lent&) = delete;
        Lent& operator=(const Lent&) = delete;
        ~Lent() { address_.domain_.leave(); }
        const v1::Address& get() const noexcept { return address_; }

     private:
        v1::Address address_;
    };
};

// Why the last post of this thread was refused.
void explain(std::string_view why) noexcept;

// Ended operations go to the queue, under the core's lock.
void complete_single(impl::Operation& core, const impl::Outcome& outcome) noexcept;

struct Single final : Slot, Listed {
    explicit Single(ContextState& c) : context(Ref<ContextState>::share(c)) {}
    Ref<ContextState> context;
    Record record;
    // What is in flight with it.
    Ref<BufferState> buffer;
    Ref<MemoryState> local;
    Ref<MemoryState> remote;
};

// Counted: by its owner, while it is posted, and for each message on its way to the callback.
struct Multi final : Listed {
    Multi(ContextState& c, std::unique_ptr<Calls> f)
        : context(Ref<ContextState>::share(c)),
          callback(std::move(f)),
          count(c.threaded()),
          free_lock(c.threaded()) {}
    Ref<ContextState> context;
    std::unique_ptr<Calls> callback;
    Count count;
    std::atomic<bool> posted{false};
    std::atomic<bool> left{false};  // by its owner
    Ref<BufferState> buffer;        // of the last post
    Record end;                     // for an end without a message
    std::vector<Record> records;
    Record* free_records = nullptr;  // guarded by free_lock
    util::OptionalLock free_lock;
};
void release(Multi& op) noexcept;
void complete_multi(impl::Operation& core, const impl::Outcome& outcome) noexcept;

}  // namespace na::inline v1::detail
