// SPDX-License-Identifier: BSD-3-Clause
// Addresses of endpoints: as text in URIs, as the bytes that travel, and as the transport's library
// takes them.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "na/result.hpp"
#include "na/util/ip.hpp"

namespace na::session {

// How endpoints are named.
enum class Naming : std::uint8_t {
    ip,      // IP address and port; context k of an endpoint listens on port + k
    text,    // a name within the machine; context k appends ".k"
    native,  // bytes of the library; no further contexts
};

// The address of an endpoint, that is, of its context 0. A value.
class Address {
 public:
    static constexpr std::size_t kMaxBytes = 256;  // of an identity

    Address() = default;
    static Address of_ip(const util::IpEndpoint& ip);
    static Address of_bytes(Naming naming, std::string bytes);  // a name, or native bytes

    // What follows "://". `format` restricts IP addresses. Names of hosts are looked up. Errors:
    // invalid_arg, addrnotavail.
    static Result<Address> parse(Naming naming, std::string_view text, AddressFormat format);
    std::string text() const;

    // The bytes that travel: equal for equal addresses. Errors: invalid_arg.
    const std::string& identity() const noexcept { return identity_; }
    static Result<Address> decode(Naming naming, AddressFormat format,
                                  std::span<const std::byte> identity);

    // An identity with the interface of `one`, if both have one; in `room`, which has its size.
    static std::string_view with_scope_of(const Address& one, std::string_view identity,
                                          std::span<char> room) noexcept;

    // What the library reports, and takes, for context `id`: a sockaddr, a terminated name, its own
    // bytes.
    static Result<Address> from_raw(Naming naming, const void* bytes, std::size_t size);
    std::string raw(std::uint8_t id) const;
    // Whether it can be anywhere: not behind the last port.
    bool has_place_for(std::uint8_t id) const noexcept {
        return naming_ != Naming::ip || ip_.port + unsigned{id} <= UINT16_MAX;
    }

    Naming naming() const noexcept { return naming_; }
    const util::IpEndpoint& ip() const noexcept { return ip_; }
    const std::string& name() const noexcept { return bytes_; }

 private:
    Naming naming_ = Naming::ip;
    util::IpEndpoint ip_;
    std::string bytes_;
    std::string identity_;
};

// Names are "<process>-<number>" as sm has them, or what the user gave.
std::string fresh_name();
// Fit for any file system and library: up to 64 letters, digits, '-', '_' and '.'.
bool is_name(std::string_view text) noexcept;

}  // namespace na::session

// In messages: unlike text() as an argument, it needs no memory before the log is ready for there
// to be none.
template <>
struct fmt::formatter<na::session::Address> : fmt::formatter<std::string> {
    template <typename Context>
    auto format(const na::session::Address& address, Context& context) const {
        return fmt::formatter<std::string>::format(address.text(), context);
    }
};
