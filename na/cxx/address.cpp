// SPDX-License-Identifier: BSD-3-Clause
#include "na/address.hpp"

#include "na/cxx/state.hpp"

namespace na::inline v1 {

using detail::Peer;

Address::Address(const Address& other) noexcept : peer_(other.peer_), domain_(other.domain_) {
    if (peer_ != nullptr) {
        Peer::core(*this)->ref();
    }
}

Address::Address(Address&& other) noexcept
    : peer_(std::exchange(other.peer_, nullptr)), domain_(std::move(other.domain_)) {}

Address& Address::operator=(Address other) noexcept {
    std::swap(peer_, other.peer_);
    std::swap(domain_, other.domain_);
    return *this;
}

Address::~Address() {
    if (peer_ != nullptr) {
        Peer::core(*this)->unref();
    }
}

std::string Address::uri() const {
    return peer_ == nullptr ? std::string() : Peer::core(*this)->uri();
}

bool Address::is_self() const noexcept {
    return peer_ != nullptr && Peer::core(*this)->is_self();
}

std::vector<std::byte> Address::encode() const {
    std::vector<std::byte> bytes(peer_ == nullptr ? 0 : Peer::core(*this)->encoded_size());
    if (!bytes.empty()) {
        check(Peer::core(*this)->encode(bytes), "encode an address");
    }
    return bytes;
}

}  // namespace na::inline v1
