// SPDX-License-Identifier: BSD-3-Clause
// Peers.
#pragma once

#include "na/detail/standard.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "na/detail/ref.hpp"
#include "na/result.hpp"

namespace na::inline v1 {

namespace detail {
struct Peer;
}

// A peer: cheap to copy, keeps its Domain open. From Domain::lookup(), Domain::decode_address(),
// Domain::self(), or a message that came. There need not be anybody at it: who posts learns.
//
// Any thread; one object is changed by one thread at a time.
class Address {
 public:
    // Nobody.
    Address() = default;
    // The same peer.
    Address(const Address& other) noexcept;
    Address(Address&& other) noexcept;
    Address& operator=(Address other) noexcept;
    ~Address();

    // False: nobody.
    explicit operator bool() const noexcept { return peer_ != nullptr; }
    // Text for Domain::lookup(), here and in other processes: "<class>+<protocol>://<address>".
    // Nobody: "".
    std::string uri() const;
    // Whether it is the Domain's own.
    bool is_self() const noexcept;
    // Bytes for Domain::decode_address() of a Domain of the same protocol, here and in other
    // processes. Nobody: none.
    std::vector<std::byte> encode() const;

    // The same peer of the same Domain.
    friend bool operator==(const Address& a, const Address& b) noexcept {
        return a.peer_ == b.peer_;
    }

 private:
    friend struct detail::Peer;
    friend struct std::hash<Address>;
    detail::Peer* peer_ = nullptr;
    detail::Ref<detail::DomainState> domain_;
};

// One context of a peer: what a message or a transfer is for. An Address alone stands for the
// peer's context 0.
//
//     context.put(op, {peer, 3}, local.all(), remote.at(0), done);
class Target {
 public:
    // The Address must outlive the Target: write it into the call.
    Target(const Address& address, std::uint8_t context = 0) noexcept  // NOLINT: implicit by design
        : address_(&address), context_(context) {}
    // The peer.
    const Address& address() const noexcept { return *address_; }
    // Its id.
    std::uint8_t context() const noexcept { return context_; }

 private:
    const Address* address_;
    std::uint8_t context_;
};

}  // namespace na::inline v1

// For unordered containers.
template <>
struct std::hash<na::v1::Address> {
    std::size_t operator()(const na::v1::Address& address) const noexcept {
        return std::hash<const void*>{}(address.peer_);
    }
};
