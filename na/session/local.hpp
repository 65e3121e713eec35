// SPDX-License-Identifier: BSD-3-Clause
// This side of all sessions of a domain: what its engines need to know of it, and what domains with
// sessions have in common. A Domain owns one and completes it while it opens; constant from then
// on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "na/plugin.hpp"
#include "na/session/address.hpp"
#include "na/session/contexts.hpp"
#include "na/session/secret.hpp"

namespace na::session {

inline constexpr std::size_t kUsualMessage = 4096;

struct Local {
    // Fills the messages' part of `caps`, and what the sizes of messages decide. `usual_message`:
    // how large they may be where `spec` does not say.
    Local(std::string_view class_name, const plugin::OpenSpec& spec, Naming naming,
          std::size_t usual_message = kUsualMessage);

    // Whether messages may be as large as was asked for. Errors: invalid_arg.
    static Error check_sizes(std::string_view class_name, const plugin::OpenSpec& spec);

    const std::string name;      // "ofi+tcp", for messages to users
    const std::string protocol;  // "tcp"
    const Naming naming;
    const bool no_block;
    const bool listening;         // peers may be told to come here
    const std::uint8_t contexts;  // that the class may have
    const std::uint8_t reserved;  // those that it has places for from the beginning
    // What peers are told, as engines come and go: what listens where another context would be is
    // somebody else.
    mutable Roster roster;
    const std::uint16_t window;  // messages per peer and lane that are kept; bounds their bytes
    const std::size_t largest;   // message of either lane, header included
    const Secret secret;

    // The Domain's to complete.
    plugin::Caps caps;
    AddressFormat format = AddressFormat::unspec;  // Naming::ip: the family of all addresses
    Address address;                               // what peers are told
    bool everywhere = false;                       // but it listens at all of this machine's

    // What an engine sends at most, its own messages included, and a little more for transfers: the
    // buffers of requests.
    std::size_t bounce_bytes() const noexcept;

    // Where the class has ports: that of a context; 0: there is none.
    std::uint16_t port_of(std::uint8_t id) const noexcept {
        const unsigned port = address.ip().port + unsigned{id};
        return port > UINT16_MAX ? std::uint16_t{0} : static_cast<std::uint16_t>(port);
    }

    // An identity that came from a peer. Which interface a link-local address is behind its owner
    // says in his machine's numbers; those who are told of ours are behind the one that has it.
    // What is changed is in `room`.
    std::string_view seen_from_here(std::string_view identity,
                                    std::span<char, Address::kMaxBytes> room) const noexcept;

    std::string uri() const { return protocol + "://" + address.text(); }

    // For Domain::connect and decode_peer. `why_not`: why the scheme (scheme_of()) is not spoken
    // here; empty: it is.
    Result<std::unique_ptr<plugin::Peer>> connect(std::string_view uri,
                                                  std::string_view why_not) const;
    Result<std::unique_ptr<plugin::Peer>> decode_peer(std::span<const std::byte> identity) const;
};

// The class is at the last ports there are.
Error no_port_behind();

// "tcp" of "tcp://host:port"; empty: there is none.
std::string_view scheme_of(std::string_view uri) noexcept;

// For lists of what there is: a row, unless it is there; and what users write: "ofi+tcp, ofi+shm",
// or "none".
void add_once(std::vector<plugin::ProtocolInfo>& list, plugin::ProtocolInfo row);
std::string names_of(std::string_view class_name, const std::vector<plugin::ProtocolInfo>& list);

// Naming::ip: one listener per context, context k at port + k, so that a peer is named by one port.
// Takes the ports of `ip` in turn until all are free, and, where any will do, several times. Those
// of a class that is not listening are a wish: programs give client and server the same text. Sets
// `local.address`.
//   open(id, port)  opens that of a context at ip.bind_address(); 0: any port. Answers the port.
//                   addrinuse: others are tried
//   close()         closes all
// Errors: addrinuse with what was asked for and what to do; what open() says.
Error listen_in_row(
    Local& local, const util::IpChoice& ip,
    const std::function<Result<std::uint16_t>(std::uint8_t id, std::uint16_t port)>& open,
    const std::function<void()>& close);

}  // namespace na::session
