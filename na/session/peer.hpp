// SPDX-License-Identifier: BSD-3-Clause
// A peer: its address, and per context of this domain the links to its contexts.
//
// The address is constant. links(k) belongs to context k, whose calls the core serialises; contexts
// do not look at each other's.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "na/plugin.hpp"
#include "na/session/address.hpp"

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

    // How many contexts it has, once it has told; any thread.
    bool has_context(std::uint8_t id) const noexcept {
        return id < contexts_.load(std::memory_order_relaxed);
    }
    void set_contexts(std::uint8_t n) noexcept { contexts_.store(n, std::memory_order_relaxed); }

 private:
    const Address address_;
    const std::string protocol_;
    const std::unique_ptr<Links[]> links_;
    std::atomic<std::uint16_t> contexts_{256};
};

}  // namespace na::session
