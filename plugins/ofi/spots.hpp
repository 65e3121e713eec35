// SPDX-License-Identifier: BSD-3-Clause
// Where the segments of this process's endpoints are mapped.
//
// libfabric's shm notes where it maps each, for good, and finds neighbours, endpoints of its own
// process, by the first note under their name. So does a context that is opened again, or a class
// under a name that was used before, although the memory there may be another's by then. That spot
// is kept therefore: nothing else comes to it when the endpoint closes, and the segment of a later
// one of that name is mapped there a second time, also that of another process, which libfabric
// takes for the former one likewise.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

namespace na::ofi {

// The provider has made the segment `name`, and mapped it; `file`: a descriptor of that, or none.
// False: neighbours would find something else at its spot, and must not look.
bool take_spot(const std::string& name, int file) noexcept;
// The provider has unmapped it.
void leave_spot(const std::string& name) noexcept;
// Nothing will have that name any more.
void forget_spot(const std::string& name) noexcept;

// How many are kept for names that nobody of this process has now.
extern std::atomic<std::size_t> kept_spots;
void follow_others() noexcept;
// Before the provider looks for anybody, whom we name or who has greeted us: other processes may
// have such names by now.
inline void follow_spots() noexcept {
    if (kept_spots.load(std::memory_order_acquire) != 0) [[unlikely]] {
        follow_others();
    }
}

}  // namespace na::ofi
