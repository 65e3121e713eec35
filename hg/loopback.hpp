// SPDX-License-Identifier: BSD-3-Clause
// RPCs to oneself, without the transport: the arguments are copied (payloads beyond the eager size
// handed over) to a target handle of the same context, and the results back. Codes, callbacks and
// references are those of any RPC.
#pragma once

#include <cstddef>

#include "hg/handle.hpp"

namespace hg {

class Loopback {
 public:
    // The handle's next RPC is one of these.
    static bool wanted(const Handle& origin) noexcept;
    // For Handle::forward(), send_response() and cancel(), which have prepared the handle.
    static na::Status forward(Handle& origin, std::size_t payload, Block* beyond,
                              std::size_t beyond_size) noexcept;
    static na::Status respond(Handle& target, na::Status code, std::size_t payload, Block* beyond,
                              std::size_t beyond_size) noexcept;
    static void cancel(Handle& origin) noexcept;

 private:
    static void end(Handle& origin, na::Status status) noexcept;
};

}  // namespace hg
