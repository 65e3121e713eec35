// SPDX-License-Identifier: BSD-3-Clause
// Tells UCX of memory that peers may reach by UCX's own puts and gets. Any thread.
//
// UCX 1.13 gives peers all rights to it, whatever is asked for: who reads from here may write as
// well, if it does not go through this code.
#pragma once

#include <memory>
#include <mutex>
#include <span>

#include "plugins/ucx/library.hpp"
#include "plugins/ucx/memory.hpp"

namespace na::ucx {

class Registrar {
 public:
    // `context` outlives it and everything that was registered, as the object does itself.
    explicit Registrar(ucp_context_h context);

    // Whether UCX was built for that kind of memory, and finds a device with it.
    bool knows(MemoryKind kind) const noexcept;
    bool knows_a_device() const noexcept;

    // Makes the region reachable, and its descriptors say how. Where that is not possible, host
    // memory stays as it is: peers reach it by messages. Errors: opnotsupported, nomem, io_error;
    // of memory of devices only.
    Error offer(Region& region, std::span<const Segment> segments, MemoryKind kind);

 private:
    class Held;

    Error map(std::span<const Segment> segments, MemoryKind kind, std::vector<NativePart>& parts,
              Held& held);

    const ucp_context_h context_;
    std::uint64_t kinds_ = 0;  // bits of ucs_memory_type_t
    std::mutex mutex_;         // UCX may have been built without its own
};

}  // namespace na::ucx
