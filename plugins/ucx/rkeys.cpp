// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ucx/rkeys.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "na/util/log.hpp"

namespace na::ucx {
namespace {

// UCX's form: a mask of memory domains, at most 64, then a length and so many bytes for each.
constexpr std::size_t kReadOn = 64 * 257;

}  // namespace

UnpackRoom::UnpackRoom() : bytes_(kMaxPackedKey + kReadOn) {}

const std::byte* UnpackRoom::fill(std::span<const std::byte> key) noexcept {
    std::copy(key.begin(), key.end(), bytes_.begin());
    if (used_ > key.size()) {
        std::memset(bytes_.data() + key.size(), 0, used_ - key.size());
    }
    used_ = key.size();
    return bytes_.data();
}

Rkeys::Rkeys() : keys_(std::make_unique<Rkey[]>(kMost)) {
    for (std::size_t i = 0; i < kMost; ++i) {
        recent_.push_back(keys_[i]);
    }
}

Rkeys::~Rkeys() {
    while (Rkey* k = recent_.pop_front()) {
        if (k->handle != nullptr) {
            ucp_rkey_destroy(k->handle);
        }
    }
}

Rkey* Rkeys::find(ucp_ep_h ep, const Region& remote, std::size_t part, UnpackRoom& room,
                  ucs_status_t& why) noexcept {
    const std::vector<std::byte>& packed = remote.native()[part].key;
    Rkey* oldest = nullptr;
    Rkey* found = nullptr;
    for (Rkey* k = recent_.front(); k != nullptr; k = recent_.next(*k)) {
        if (k->handle != nullptr && k->region == remote.key() && k->part == part &&
            k->packed == packed) [[likely]] {
            found = k;
            break;
        }
        if (k->users == 0) {
            oldest = k;
        }
    }
    if (found == nullptr) {
        if (oldest == nullptr) {
            why = UCS_ERR_NO_RESOURCE;
            return nullptr;
        }
        if (oldest->handle != nullptr) {
            ucp_rkey_destroy(oldest->handle);
            oldest->handle = nullptr;
        }
        try {
            oldest->packed.assign(packed.begin(), packed.end());
        } catch (const std::bad_alloc&) {
            why = UCS_ERR_NO_RESOURCE;
            return nullptr;
        }
        why = ucp_ep_rkey_unpack(ep, room.fill(packed), &oldest->handle);
        if (why != UCS_OK) {
            oldest->handle = nullptr;
            NA_LOG_INFO(rma, "UCX does not take a key of a peer's memory: {}",
                        ucs_status_string(why));
            return nullptr;
        }
        ++unpacked_;
        oldest->region = remote.key();
        oldest->part = part;
        found = oldest;
    }
    if (found != recent_.front()) {
        util::IntrusiveList<Rkey, &Rkey::hook>::remove(*found);
        recent_.push_front(*found);
    }
    return found;
}

}  // namespace na::ucx
