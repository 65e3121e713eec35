// SPDX-License-Identifier: BSD-3-Clause
// RPCs by id: what to run, how to encode, the user's data.
//
// Lookups come with every request, on any thread, inside handlers: no lock, one hash probe, one
// counter of the caller's own cache line. Changes are rare and take a mutex. A registration that
// was replaced or removed stays valid for whoever looked it up until they let go; its data is
// released with the last of them.
//
// The memory of a registration is never given back before the registry's end, but used again for
// another RPC: a reader may hold a pointer that was removed just before it counted itself, so it
// counts first and looks then (acquire()).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "bulk/bulk.hpp"
#include "na/result.hpp"
#include "na/util/biased_lock.hpp"
#include "na/util/unshared.hpp"

namespace hg {

class Handle;
class Registry;

class Registration {
 public:
    // A callback or codec of the user: the shell that stored it knows its type.
    using Opaque = void (*)();
    // Runs the user's handler for an arrived request, in trigger. A code other than success goes to
    // the origin.
    using Invoke = na::Status (*)(Handle& handle, Opaque user);

    struct Functions {
        Invoke invoke = nullptr;  // null: this class is an origin only
        Opaque user = nullptr;
        Opaque encode_input = nullptr;
        Opaque encode_output = nullptr;
    };

    std::uint64_t id() const noexcept { return id_.load(std::memory_order_relaxed); }
    const Functions& functions() const noexcept { return functions_; }
    bool one_way() const noexcept { return one_way_.load(std::memory_order_relaxed); }
    bool live() const noexcept { return live_.load(std::memory_order_acquire); }
    // The program has responded after it had given its reference back, once at least.
    bool late() const noexcept { return late_.load(std::memory_order_relaxed); }
    void note_late() noexcept {
        if (!late()) {  // not written again and again, where others read
            late_.store(true, std::memory_order_relaxed);
        }
    }
    const std::string& name() const noexcept { return name_; }  // empty: registered by id

 private:
    friend class Registry;
    static constexpr std::size_t kShards = 8;
    struct alignas(64) Shard {
        std::atomic<std::int32_t> uses{0};
        std::atomic<std::int32_t> uses_in[bulk::kRails] = {};  // written under that port's lock
    };

    std::atomic<std::uint64_t> id_{0};
    std::atomic<bool> live_{false};
    std::atomic<bool> one_way_{false};
    std::atomic<bool> late_{false};
    Functions functions_;
    std::string name_;
    void* data_ = nullptr;              // guarded by the registry's mutex
    void (*release_)(void*) = nullptr;  // likewise
    std::array<Shard, kShards>
        shards_;  // uses by context, so that contexts do not share a cache line
};

class Registry {
 public:
    explicit Registry(bool threaded);
    ~Registry();  // releases all data
    Registry(const Registry&) = delete;
    Registry& operator=(const Registry&) = delete;

    // The id of a name: the same in every process. Never 0.
    static std::uint64_t id_of(std::string_view name) noexcept;

    // Registers or replaces. exist: the id belongs to another name; invalid_arg: id 0.
    na::Result<std::uint64_t> add(std::string_view name, const Registration::Functions& functions);
    na::Result<std::uint64_t> add(std::uint64_t id, const Registration::Functions& functions);
    na::Status remove(std::uint64_t id) noexcept;

    // The registration with one more use, counted in `shard` (any number: the context's id); null:
    // unknown.
    // `guess`: what was found for some id before, whatever has become of it.
    Registration* acquire(std::uint64_t id, unsigned shard,
                          Registration* guess = nullptr) noexcept {
        return take(id, shard, guess, NoPort{});
    }
    void release(Registration& registration, unsigned shard) noexcept {
        add_use(registration, shard, -1, NoPort{});
        settle(registration);
    }
    // The same without atomic operations, for who has the lock of that port of the context, or for
    // the one thread that there is. Whoever releases calls settle() outside of the lock.
    template <typename Port>
    Registration* acquire_in(std::uint64_t id, unsigned context, const Port& port,
                             Registration* guess) noexcept {
        return take(id, context, guess, port);
    }
    template <typename Port>
    void release_in(Registration& registration, unsigned context, const Port& port) noexcept {
        add_use(registration, context, -1, port);
    }
    // The user's data of a registration that was retired may be due.
    void settle(Registration& registration) noexcept {
        if (!registration.live_.load(std::memory_order_seq_cst)) [[unlikely]] {
            release_if_unused(registration);
        }
    }

    // Control path; all answer noentry where the id is unknown.
    bool contains(std::uint64_t id) noexcept;
    na::Status functions(std::uint64_t id, Registration::Functions& out) noexcept;
    na::Status set_one_way(std::uint64_t id, bool one_way) noexcept;
    na::Status one_way(std::uint64_t id, bool& out) noexcept;
    na::Status set_data(std::uint64_t id, void* data, void (*release)(void*)) noexcept;
    void* data(std::uint64_t id) noexcept;

 private:
    // Sequentially consistent against retire(): either who takes a use sees that it was retired, or
    // retire() sees the use, and one of them sees the end of the last one. Under a context's lock
    // the fence is made by retire() for both.
    struct NoPort {};
    template <typename Port>
    void add_use(Registration& registration, unsigned shard, std::int32_t n,
                 const Port& port) const noexcept {
        Registration::Shard& s = registration.shards_[shard % Registration::kShards];
        if (!threaded_) {
            na::util::add_unshared(s.uses, n);
            return;
        }
        if constexpr (!std::is_same_v<Port, NoPort>) {
            if (fenced_ && shard < Registration::kShards) [[likely]] {
                std::atomic<std::int32_t>& uses = s.uses_in[bulk::index(port.rail())];
                uses.store(uses.load(std::memory_order_relaxed) + n, std::memory_order_release);
                std::atomic_signal_fence(std::memory_order_seq_cst);
                return;
            }
        }
        s.uses.fetch_add(n, std::memory_order_seq_cst);
    }
    template <typename Port>
    Registration* take(std::uint64_t id, unsigned shard, Registration* guess,
                       const Port& port) noexcept {
        for (;;) {
            Registration* r =
                guess != nullptr && guess->id() == id && guess->live() ? guess : find(id);
            guess = nullptr;
            if (r == nullptr) [[unlikely]] {
                return nullptr;
            }
            add_use(*r, shard, 1, port);
            if (!threaded_ || (r->live_.load(std::memory_order_seq_cst) && r->id() == id))
                [[likely]] {
                return r;
            }
            // Replaced or removed meanwhile: its slot says so by now. Not by release(): this may be
            // inside a handler, where the user's data must not be released; whoever changes the
            // registry next does.
            add_use(*r, shard, -1, port);
        }
    }
    struct Table {
        explicit Table(std::size_t size)
            : mask(size - 1), slots(new std::atomic<Registration*>[size]) {
            for (std::size_t i = 0; i < size; ++i) {
                slots[i].store(nullptr, std::memory_order_relaxed);
            }
        }
        std::size_t mask;
        std::unique_ptr<std::atomic<Registration*>[]> slots;
    };

    // Ids of names are well mixed, ids of users' choice are not.
    static std::size_t slot_of(std::uint64_t id) noexcept {
        return static_cast<std::size_t>((id * 0x9e3779b97f4a7c15U) >> 32);
    }
    // Out of line: mostly the guess is right.
    [[gnu::noinline]] Registration* find(std::uint64_t id) const noexcept {
        const Table& table = *table_.load(std::memory_order_acquire);
        for (std::size_t i = slot_of(id);; ++i) {
            Registration* r = table.slots[i & table.mask].load(std::memory_order_acquire);
            if (r == nullptr) [[unlikely]] {
                return nullptr;
            }
            if (r->id() == id && r != &removed_) [[likely]] {
                return r;
            }
        }
    }
    Registration& fresh();
    void put(Registration& registration);
    void grow();
    bool insert(Table& table, Registration& registration) noexcept;  // true: it took a new slot
    void retire(Registration& registration) noexcept;
    void sweep() noexcept;
    void release_if_unused(Registration& registration) noexcept;
    static std::int64_t uses(const Registration& registration) noexcept;
    na::Result<std::uint64_t> store(std::uint64_t id, std::string_view name,
                                    const Registration::Functions& functions, bool& replaces);

    const bool threaded_;
    const bool fenced_;     // retire() makes a fence for all threads
    Registration removed_;  // stands in the slots of those that were removed
    std::atomic<Table*> table_;
    std::mutex mutex_;  // guards changes and what follows
    std::vector<std::unique_ptr<Table>>
        tables_;  // the last is table_; readers may be in the others
    std::vector<std::unique_ptr<Registration>> all_;
    std::vector<Registration*> retired_;  // not live; those without uses are used again
    std::size_t filled_ = 0;              // slots taken, removed ones included
};

}  // namespace hg
