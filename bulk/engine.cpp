// SPDX-License-Identifier: BSD-3-Clause
// The engine's possessions: transfers and pieces in their pools, names of transfers.
#include <algorithm>
#include <mutex>
#include <new>

#include "bulk/pieces.hpp"
#include "bulk/transfer.hpp"
#include "na/util/immortal.hpp"

namespace bulk {
namespace {

// A transfer id is {engine, slot, generation}. None is 0 or 1, as engines count from 1.
constexpr unsigned kGenerationBits = 24;
constexpr unsigned kSlotBits = 20;
constexpr unsigned kSerialBits = 20;
static_assert(kGenerationBits + kSlotBits + kSerialBits == 64);

constexpr std::uint64_t low(std::uint64_t value, unsigned bits) noexcept {
    return value & ((std::uint64_t{1} << bits) - 1);
}

// The engines of the process. A global, because HG_Bulk_cancel gets nothing but the id, and has to
// recognise one whose engine is gone. Only cancel_any() and the birth and death of engines come
// here.
struct Directory {
    std::mutex mutex;
    std::uint64_t next = 1;
    std::vector<std::pair<std::uint32_t, Engine*>> engines;
};
Directory& directory() noexcept {
    static na::util::Immortal<Directory> d;  // contexts may outlive static objects
    return d.get();
}

}  // namespace

Transfer::Piece* Engine::Pieces::take(std::unique_lock<na::util::OptionalLock>& guard) noexcept {
    if (free_ == nullptr) {
        guard.unlock();
        std::unique_ptr<Transfer::Piece> made;
        try {
            made = std::make_unique<Transfer::Piece>();
            made->op = cls_.create_op(false);
            made->op->handler = handler_;
            made->op->owner = made.get();
        } catch (const std::bad_alloc&) {
            made.reset();
        }
        guard.lock();
        if (made == nullptr) {
            return nullptr;
        }
        try {
            all_.push_back(std::move(made));
        } catch (const std::bad_alloc&) {
            cls_.destroy_op(made->op);
            return nullptr;
        }
        return all_.back().get();
    }
    Transfer::Piece* piece = free_;
    free_ = piece->next;
    return piece;
}

Engine::Engine(Space& space, ContextRails rails, void (*wake)(void* arg) noexcept, void* arg)
    : space_(space), rails_(rails), wake_(wake), wake_arg_(arg), lock_(space.threaded()) {
    for (const Rail rail : {Rail::net, Rail::sm}) {
        if (na::Context* context = rails.of(rail); context != nullptr) {
            pieces_[index(rail)] = std::make_unique<Pieces>(context->cls(), &Engine::ended);
        }
    }
    Directory& d = directory();
    const std::lock_guard guard(d.mutex);
    do {
        serial_ = static_cast<std::uint32_t>(low(d.next++, kSerialBits));
    } while (serial_ == 0 || std::any_of(d.engines.begin(), d.engines.end(),
                                         [this](const auto& e) { return e.first == serial_; }));
    d.engines.emplace_back(serial_, this);
}

Engine::~Engine() {
    Directory& d = directory();
    const std::lock_guard guard(d.mutex);
    std::erase_if(d.engines, [this](const auto& e) { return e.second == this; });
}

TransferId Engine::id_of(const Transfer& t) const noexcept {
    return (std::uint64_t{serial_} << (kSlotBits + kGenerationBits)) |
           (std::uint64_t{t.slot_} << kGenerationBits) | low(t.generation_, kGenerationBits);
}

// The lock is held. Null: it has ended.
Transfer* Engine::find(TransferId id) const noexcept {
    const std::uint64_t slot = low(id >> kGenerationBits, kSlotBits);
    if (id >> (kSlotBits + kGenerationBits) != serial_ || slot >= slots_.size()) {
        return nullptr;
    }
    Transfer* t = slots_[static_cast<std::size_t>(slot)].get();
    return t->active_ && low(t->generation_, kGenerationBits) == low(id, kGenerationBits) ? t
                                                                                          : nullptr;
}

void Engine::cancel_any(TransferId id) noexcept {
    Directory& d = directory();
    // Held throughout: the engine must not go away.
    const std::lock_guard guard(d.mutex);
    for (const auto& [serial, engine] : d.engines) {
        if (serial == id >> (kSlotBits + kGenerationBits)) {
            engine->cancel(id);
            return;
        }
    }
}

Transfer* Engine::take() noexcept {
    std::unique_lock guard(lock_);
    Transfer* t = free_.pop_front();
    if (t == nullptr) {
        if (slots_.size() >> kSlotBits != 0) {
            return nullptr;
        }
        try {
            slots_.emplace_back(new Transfer(*this, static_cast<std::uint32_t>(slots_.size())));
        } catch (const std::bad_alloc&) {
            return nullptr;
        }
        t = slots_.back().get();
    }
    used_.fetch_add(1, std::memory_order_relaxed);
    t->moved_ = 0;
    t->posted_all_ = false;
    t->cancel_asked_ = false;
    t->cancel_sent_ = false;
    t->status_ = Status::success;
    return t;
}

void Engine::release(Transfer& t) noexcept {
    put_back(t);
}

void Engine::put_back(Transfer& t) noexcept {
    // Given up outside the lock: the last reference to a descriptor deregisters memory.
    const BulkRef origin = std::move(t.origin_);
    const BulkRef local = std::move(t.local_);
    const na::AddressRef peer = std::move(t.peer_);
    const std::lock_guard guard(lock_);
    for (; t.attached_ != 0; --t.attached_) {
        pieces_[index(t.choice_.rail)]->give(*t.window_[t.attached_ - 1]);
    }
    t.idle_ = 0;
    free_.push_front(t);
    used_.fetch_sub(1, std::memory_order_release);
}

}  // namespace bulk
