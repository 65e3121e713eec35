// SPDX-License-Identifier: BSD-3-Clause
// A peer: its name, and per context of this domain the connections to it.
//
// The name is constant. link(k) belongs to context k, whose calls the core serialises; contexts do
// not look at each other's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "na/plugin.hpp"

namespace na::sm {

class Connection;

// What one context has with one peer.
struct alignas(64) Link {
    // The connection on which messages to a context of the peer are sent, for as long as it lives:
    // that keeps order. Null: none yet.
    Connection* to(std::uint8_t target) const noexcept {
        if (target == 0) [[likely]] {
            return first;
        }
        return target <= others.size() ? others[target - 1U] : nullptr;
    }
    void set(std::uint8_t target, Connection* connection) {
        if (target == 0) {
            first = connection;
            return;
        }
        if (others.size() < target) {
            others.resize(target, nullptr);
        }
        others[target - 1U] = connection;
    }

    // In place of one that was set, or none: allocates nothing.
    void replace(std::uint8_t target, Connection* connection) noexcept {
        if (target == 0) {
            first = connection;
        } else if (target <= others.size()) {
            others[target - 1U] = connection;
        }
    }

    // An open connection to a context of the peer, or to any.
    Connection* open(std::optional<std::uint8_t> context) const noexcept;

    Connection* first = nullptr;      // to context 0
    std::vector<Connection*> others;  // to context i + 1
    std::vector<Connection*> all;     // polled, whatever they are used for
};

class Peer final : public plugin::Peer {
 public:
    Peer(std::string name, std::size_t contexts, bool self)
        : name_(std::move(name)), self_(self), links_(std::make_unique<Link[]>(contexts)) {}

    std::string uri() const override;
    std::size_t encode(std::span<std::byte> out) const override;

    const std::string& name() const noexcept { return name_; }
    bool is_self() const noexcept { return self_; }
    Link& link(std::uint8_t context) noexcept { return links_[context]; }

 private:
    const std::string name_;
    const bool self_;
    const std::unique_ptr<Link[]> links_;
};

}  // namespace na::sm
