// SPDX-License-Identifier: BSD-3-Clause
#include "hg/peer.hpp"

#include "hg/cxx/engine_core.hpp"

namespace hg {
namespace detail {

PeerCore::PeerCore(EngineCore& engine, AddressRef address)
    : engine_(engine), address_(std::move(address)) {
    engine_.ref();
    engine_.add(*this);
}

PeerCore::~PeerCore() {
    engine_.remove(*this);
    drop_handles();
    address_.reset();
    engine_.unref();
}

Result<Handle*> PeerCore::take(const RpcInfo& rpc) {
    for (std::size_t i = 0; i < kLook; ++i) {
        std::atomic<Handle*>& slot = idle_[(rpc.id + i) % kIdle];
        if (slot.load(std::memory_order_relaxed) == nullptr) {
            continue;
        }
        Handle* handle = slot.exchange(nullptr, std::memory_order_acq_rel);
        if (handle == nullptr) {
            continue;
        }
        if (handle->info().id == rpc.id) [[likely]] {
            return handle;
        }
        Status s = handle->reset(nullptr, rpc.id);
        if (s == Status::noentry) {
            s = engine_.know(rpc);
            s = ok(s) ? handle->reset(nullptr, rpc.id) : s;
        }
        if (ok(s)) {
            return handle;
        }
        handle->unref_user();
        return Error{s, {}};
    }
    // A handle keeps the context open; until there is one, this does.
    if (!engine_.enter(engine_.calls)) {
        return Error{Status::canceled, {}};
    }
    try {
        auto made = make(rpc);
        engine_.leave(engine_.calls);
        return made;
    } catch (...) {
        engine_.leave(engine_.calls);
        throw;
    }
}

Result<Handle*> PeerCore::make(const RpcInfo& rpc) {
    auto made = engine_.context().create_handle(address_.get(), rpc.id);
    if (!made && made.status() == Status::noentry) {
        if (const Status s = engine_.know(rpc); !ok(s)) {
            return Error{s, {}};
        }
        made = engine_.context().create_handle(address_.get(), rpc.id);
    }
    return made;
}

void PeerCore::give(Handle& handle) noexcept {
    if (!engine_.closing()) [[likely]] {
        for (std::size_t i = 0; i < kLook; ++i) {
            std::atomic<Handle*>& slot = idle_[(handle.info().id + i) % kIdle];
            Handle* none = nullptr;
            if (slot.load(std::memory_order_relaxed) == nullptr &&
                slot.compare_exchange_strong(none, &handle, std::memory_order_acq_rel,
                                             std::memory_order_relaxed)) {
                if (engine_.closing()) [[unlikely]] {
                    drop_handles();  // which may have looked before
                }
                return;
            }
        }
    }
    handle.unref_user();
}

void PeerCore::drop_handles() noexcept {
    for (std::atomic<Handle*>& slot : idle_) {
        if (Handle* handle = slot.exchange(nullptr, std::memory_order_acq_rel); handle != nullptr) {
            handle->unref_user();
        }
    }
}

void ref(PeerCore* peer) noexcept {
    peer->refs.fetch_add(1, std::memory_order_relaxed);
}

void unref(PeerCore* peer) noexcept {
    if (peer->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        delete peer;
    }
}

EngineCore& engine_of(PeerCore& peer) noexcept {
    return peer.engine();
}

PeerCore* peer_of(const RequestState& request) {
    return new PeerCore(*request.engine, AddressRef::share(request.handle->info().addr));
}

}  // namespace detail

std::string Peer::uri() const {
    return core_ == nullptr ? std::string() : core_->address().uri();
}

bool Peer::same(const Peer& a, const Peer& b) noexcept {
    if (a.core_ == nullptr || b.core_ == nullptr) {
        return a.core_ == b.core_;
    }
    return a.core_ == b.core_ || a.core_->address().same_peer(b.core_->address());
}

}  // namespace hg
