// SPDX-License-Identifier: BSD-3-Clause
// What a receive hands to its callback.
#pragma once

#include "na/detail/standard.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

#include "na/address.hpp"

namespace na::inline v1 {

// A message that came. In a callback only: what shall stay is copied (an Address is cheap to copy).
struct Message {
    std::span<std::byte> data;  // in the buffer of the receive
    std::uint32_t tag;          // as the sender said
    const Address& source;      // nobody, after a failure
    bool last;                  // multi-receive: the buffer is used up, the operation has ended
};

}  // namespace na::inline v1
