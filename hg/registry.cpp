// SPDX-License-Identifier: BSD-3-Clause
#include "hg/registry.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "hg/names.hpp"
#include "na/util/log.hpp"

namespace hg {
namespace {

using na::Error;
using na::Result;
using na::Status;

constexpr std::size_t kFirstSize = 64;

// Under no lock: a program's log function may call the library.
void say_replaced(bool replaced, RpcName rpc) noexcept {
    if (replaced) {
        NA_LOG_WARNING(
            rpc, "RPC {}: registered again with another callback, which replaces the first", rpc);
    }
}

}  // namespace

Registry::Registry(bool threaded)
    : threaded_(threaded), fenced_(threaded && na::util::has_process_fence()) {
    tables_.push_back(std::make_unique<Table>(kFirstSize));
    table_.store(tables_.back().get(), std::memory_order_release);
}

Registry::~Registry() {
    for (const auto& r : all_) {
        if (r->release_ != nullptr) {
            r->release_(r->data_);
        }
    }
}

// FNV-1a, 64 bits.
std::uint64_t Registry::id_of(std::string_view name) noexcept {
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (const char c : name) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    }
    return hash == 0 ? 1 : hash;
}

// --- lookup
// ----------------------------------------------------------------------------------------------------------

bool Registry::contains(std::uint64_t id) noexcept {
    const std::lock_guard guard(mutex_);
    return find(id) != nullptr;
}

Status Registry::functions(std::uint64_t id, Registration::Functions& out) noexcept {
    const std::lock_guard guard(mutex_);
    const Registration* r = find(id);
    if (r == nullptr) {
        return Status::noentry;
    }
    out = r->functions_;
    return Status::success;
}

// --- changes
// ---------------------------------------------------------------------------------------------------------

Result<std::uint64_t> Registry::add(std::string_view name,
                                    const Registration::Functions& functions) {
    bool replaces = false;
    auto id = store(id_of(name), name, functions, replaces);
    if (id) {
        say_replaced(replaces, RpcName{*id, name});
        NA_LOG_DEBUG(rpc, "registered {}", RpcName{*id, name});
    }
    return id;
}

Result<std::uint64_t> Registry::add(std::uint64_t id, const Registration::Functions& functions) {
    if (id == 0) {
        return Error{Status::invalid_arg, "RPC id 0 means no RPC: choose another"};
    }
    bool replaces = false;
    auto added = store(id, {}, functions, replaces);
    if (added) {
        say_replaced(replaces, RpcName{id, {}});
        NA_LOG_DEBUG(rpc, "registered {:#x}", id);
    }
    return added;
}

Result<std::uint64_t> Registry::store(std::uint64_t id, std::string_view name,
                                      const Registration::Functions& functions, bool& replaces) {
    const std::lock_guard guard(mutex_);
    Registration* old = find(id);
    if (old != nullptr && !name.empty() && !old->name_.empty() && old->name_ != name) {
        return Error{
            Status::exist,
            fmt::format(
                "RPCs \"{}\" and \"{}\" have the same id {:#x}: rename one, or register it with an "
                "id of your choice",
                old->name_, name, id)};
    }
    replaces =
        old != nullptr && old->functions_.invoke != nullptr && functions.invoke != nullptr &&
        (old->functions_.invoke != functions.invoke || old->functions_.user != functions.user);
    Registration& r = fresh();
    r.id_.store(id, std::memory_order_relaxed);
    r.functions_ = functions;
    r.name_ = name.empty() && old != nullptr ? old->name_ : std::string(name);
    r.one_way_.store(old != nullptr && old->one_way(), std::memory_order_relaxed);
    r.late_.store(old != nullptr && old->late(), std::memory_order_relaxed);
    r.data_ = old == nullptr ? nullptr : std::exchange(old->data_, nullptr);
    r.release_ = old == nullptr ? nullptr : std::exchange(old->release_, nullptr);
    r.live_.store(true, std::memory_order_seq_cst);
    if (old == nullptr) {
        put(r);
        return id;
    }
    const Table& table = *tables_.back();
    for (std::size_t i = slot_of(id);; ++i) {
        std::atomic<Registration*>& slot = table.slots[i & table.mask];
        if (slot.load(std::memory_order_relaxed) == old) {
            slot.store(&r, std::memory_order_release);
            break;
        }
    }
    retire(*old);
    return id;
}

Status Registry::remove(std::uint64_t id) noexcept {
    std::string name;
    {
        const std::lock_guard guard(mutex_);
        Registration* gone = find(id);
        if (gone == nullptr) {
            return Status::noentry;
        }
        const Table& table = *tables_.back();
        for (std::size_t i = slot_of(id);; ++i) {
            std::atomic<Registration*>& slot = table.slots[i & table.mask];
            if (slot.load(std::memory_order_relaxed) == gone) {
                slot.store(&removed_, std::memory_order_release);
                break;
            }
        }
        try {
            name = gone->name_;
        } catch (const std::bad_alloc&) {
            // The log shows the id alone.
        }
        retire(*gone);
    }
    NA_LOG_DEBUG(rpc, "deregistered {}", RpcName{id, name});
    sweep();
    return Status::success;
}

Status Registry::set_one_way(std::uint64_t id, bool one_way) noexcept {
    const std::lock_guard guard(mutex_);
    Registration* r = find(id);
    if (r == nullptr) {
        return Status::noentry;
    }
    r->one_way_.store(one_way, std::memory_order_relaxed);
    return Status::success;
}

Status Registry::one_way(std::uint64_t id, bool& out) noexcept {
    const std::lock_guard guard(mutex_);
    const Registration* r = find(id);
    if (r == nullptr) {
        return Status::noentry;
    }
    out = r->one_way();
    return Status::success;
}

Status Registry::set_data(std::uint64_t id, void* data, void (*give_back)(void*)) noexcept {
    const std::lock_guard guard(mutex_);
    Registration* r = find(id);
    if (r == nullptr) {
        return Status::noentry;
    }
    r->data_ = data;
    r->release_ = give_back;
    return Status::success;
}

void* Registry::data(std::uint64_t id) noexcept {
    const std::lock_guard guard(mutex_);
    const Registration* r = find(id);
    return r == nullptr ? nullptr : r->data_;
}

// --- storage; the mutex is held
// --------------------------------------------------------------------------------------

std::int64_t Registry::uses(const Registration& registration) noexcept {
    std::int64_t n = 0;
    for (const Registration::Shard& shard : registration.shards_) {
        n += shard.uses.load(std::memory_order_seq_cst);
        for (const auto& uses_in : shard.uses_in) {
            n += uses_in.load(std::memory_order_seq_cst);
        }
    }
    return n;
}

Registration& Registry::fresh() {
    const auto unused = std::find_if(retired_.begin(), retired_.end(), [](const Registration* r) {
        return uses(*r) == 0 && r->release_ == nullptr;
    });
    if (unused != retired_.end()) {
        Registration& r = **unused;
        retired_.erase(unused);
        return r;
    }
    all_.push_back(std::make_unique<Registration>());
    retired_.reserve(all_.size());  // so that retire() cannot fail
    return *all_.back();
}

bool Registry::insert(Table& table, Registration& registration) noexcept {
    for (std::size_t i = slot_of(registration.id());; ++i) {
        std::atomic<Registration*>& slot = table.slots[i & table.mask];
        Registration* taken = slot.load(std::memory_order_relaxed);
        if (taken == nullptr || taken == &removed_) {
            slot.store(&registration, std::memory_order_release);
            return taken == nullptr;
        }
    }
}

void Registry::put(Registration& registration) {
    if ((filled_ + 1) * 2 > tables_.back()->mask) {
        grow();
    }
    filled_ += insert(*tables_.back(), registration) ? 1 : 0;
}

// A new table without the removed ones. Readers may still be in the old one, so it stays until the
// end: eight bytes per RPC that was ever registered under an id of its own, at most four times
// that.
void Registry::grow() {
    const Table& old = *tables_.back();
    auto table = std::make_unique<Table>((old.mask + 1) * 2);
    filled_ = 0;
    for (std::size_t i = 0; i <= old.mask; ++i) {
        Registration* r = old.slots[i].load(std::memory_order_relaxed);
        if (r != nullptr && r != &removed_) {
            insert(*table, *r);
            ++filled_;
        }
    }
    tables_.push_back(std::move(table));
    table_.store(tables_.back().get(), std::memory_order_release);
}

void Registry::retire(Registration& registration) noexcept {
    registration.live_.store(false, std::memory_order_seq_cst);
    if (fenced_) {
        na::util::process_fence();
    }
    retired_.push_back(&registration);  // fresh() has made room
}

// Releases the data of all that nobody uses any more. One at a time, because the program's function
// runs under no lock and may change the registry: each round takes the data of one.
void Registry::sweep() noexcept {
    for (;;) {
        Registration* due = nullptr;
        {
            const std::lock_guard guard(mutex_);
            const auto it = std::find_if(
                retired_.begin(), retired_.end(),
                [](const Registration* r) { return r->release_ != nullptr && uses(*r) == 0; });
            if (it == retired_.end()) {
                return;
            }
            due = *it;
        }
        release_if_unused(*due);
    }
}

void Registry::release_if_unused(Registration& registration) noexcept {
    void* data = nullptr;
    void (*give_back)(void*) = nullptr;
    {
        const std::lock_guard guard(mutex_);
        if (registration.live() || uses(registration) != 0) {
            return;
        }
        data = std::exchange(registration.data_, nullptr);
        give_back = std::exchange(registration.release_, nullptr);
    }
    if (give_back != nullptr) {
        give_back(data);
    }
}

}  // namespace hg
