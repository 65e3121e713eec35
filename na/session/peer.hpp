// SPDX-License-Identifier: BSD-3-Clause
// A peer: its address, and per context of this domain the links to its contexts.
//
// The address is constant. links(k) belongs to context k, whose calls the core serialises; contexts
// do not look at each other's.
#pragma once

#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "na/plugin.hpp"
#include "na/session/address.hpp"
#include "na/session/contexts.hpp"

namespace na::session {

struct Link;

class Peer final : public plugin::Peer {
 public:
    struct Links {
        Link* to(std::uint8_t target) const noexcept {
            if (target == 0) [[likely]] {
                return first;
            }
            return target <= others.size() ? others[target - 1U] : nullptr;
        }
        void set(std::uint8_t target, Link* link) {
            if (target == 0) {
                first = link;
                return;
            }
            if (others.size() < target) {
                others.resize(target, nullptr);
            }
            others[target - 1U] = link;
        }
        void clear(std::uint8_t target) noexcept {
            if (target == 0) {
                first = nullptr;
            } else if (target <= others.size()) {
                others[target - 1U] = nullptr;
            }
        }
        Link* first = nullptr;      // to context 0
        std::vector<Link*> others;  // to context i + 1
    };

    Peer(Address address, std::string_view protocol, std::size_t contexts)
        : address_(std::move(address)),
          protocol_(protocol),
          links_(std::make_unique<Links[]>(contexts)) {}

    std::string uri() const override { return protocol_ + "://" + address_.text(); }
    std::size_t encode(std::span<std::byte> out) const override {
        const std::string& id = address_.identity();
        if (out.size() >= id.size()) {
            std::memcpy(out.data(), id.data(), id.size());
        }
        return id.size();
    }

    const Address& address() const noexcept { return address_; }
    Links& links(std::uint8_t context) noexcept { return links_[context]; }

    // Whether it has that context, as far as it has told; any thread.
    bool has_context(std::uint8_t id) const noexcept {
        const std::lock_guard guard(mutex_);
        return !contexts_ || contexts_->open.has(id);
    }
    // What it has told one of our contexts, which may be older than what it has told another. Any
    // thread.
    void learn(const Contexts& told) noexcept {
        const std::lock_guard guard(mutex_);
        if (!contexts_ || contexts_->life != told.life || contexts_->edition < told.edition) {
            contexts_ = told;
        }
    }
    // What was asked for now, which holds whatever came before it: one edition that was made up, of
    // a number that is never reached, would else be believed for ever. Where another answer was
    // newer after all, the next who cares asks.
    void hears(const Contexts& told) noexcept {
        const std::lock_guard guard(mutex_);
        contexts_ = told;
    }

 private:
    const Address address_;
    const std::string protocol_;
    const std::unique_ptr<Links[]> links_;
    mutable std::mutex mutex_;
    std::optional<Contexts> contexts_;  // what it has told last; guarded by mutex_
};

}  // namespace na::session
