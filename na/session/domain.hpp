// SPDX-License-Identifier: BSD-3-Clause
// What domains with sessions have in common: this side of the sessions, and the peers.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "na/plugin.hpp"
#include "na/session/local.hpp"

namespace na::session {

class Domain : public plugin::Domain {
 public:
    const plugin::Caps& caps() const noexcept final { return local_.caps; }
    std::string self_uri() const final { return local_.uri(); }
    Result<std::unique_ptr<plugin::Peer>> connect(std::string_view uri) final;
    Result<std::unique_ptr<plugin::Peer>> decode_peer(std::span<const std::byte> identity) final;

    // For contexts.
    const Local& local() const noexcept { return local_; }

 protected:
    Domain(std::string_view class_name, const plugin::OpenSpec& spec, Naming naming,
           std::size_t usual_message = kUsualMessage)
        : local_(class_name, spec, naming, usual_message) {}

    // Why addresses with this scheme ("tcp" of "tcp://host:port") cannot be reached from here, in
    // words that follow "is no address of ofi+tcp, "; empty: they can.
    virtual std::string foreign(std::string_view scheme) const = 0;

    // Completed while it opens; constant from then on.
    Local local_;
};

}  // namespace na::session
