// SPDX-License-Identifier: BSD-3-Clause
// UCX's keys to a peer's memory, unpacked: they belong to an endpoint, so each has its own. Made
// when a transfer first needs one, and kept; those that were not used for longest go first. In a
// Context, whose calls are serialised.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <ucp/api/ucp.h>

#include "na/util/intrusive_list.hpp"
#include "plugins/ucx/memory.hpp"

namespace na::ucx {

struct Rkey {
    ucp_rkey_h handle = nullptr;
    std::uint64_t region = 0;
    std::size_t part = 0;
    std::vector<std::byte> packed;
    std::size_t users = 0;  // transfers that UCX works on
    util::ListHook hook;
};

// What keys are unpacked from: UCX takes them without their length, and reads on where they are
// malformed. Behind the key there are zeros, which to UCX are keys of no bytes.
class UnpackRoom {
 public:
    UnpackRoom();
    const std::byte* fill(std::span<const std::byte> key) noexcept;

 private:
    std::vector<std::byte> bytes_;
    std::size_t used_ = 0;
};

class Rkeys {
 public:
    Rkeys();
    // Before UCX's worker goes.
    ~Rkeys();
    Rkeys(const Rkeys&) = delete;
    Rkeys& operator=(const Rkeys&) = delete;

    // The key to a part of a peer's region. Null: `why` says; UCS_ERR_NO_RESOURCE: all are in use.
    Rkey* find(ucp_ep_h ep, const Region& remote, std::size_t part, UnpackRoom& room,
               ucs_status_t& why) noexcept;
    std::uint64_t unpacked() const noexcept { return unpacked_; }

 private:
    static constexpr std::size_t kMost = 64;

    const std::unique_ptr<Rkey[]> keys_;
    util::IntrusiveList<Rkey, &Rkey::hook> recent_;  // the last used first
    std::uint64_t unpacked_ = 0;
};

}  // namespace na::ucx
