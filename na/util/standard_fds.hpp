// SPDX-License-Identifier: BSD-3-Clause
// Descriptors 0 to 2 belong to the program, also where it has closed them: a printf() would write
// into whatever the library or a library beneath opened there, a segment or a connection.
#pragma once

namespace na::util {

// `fd`, or a copy above 2 in its place, close-on-exec. -1 and errno: `fd` was negative, or no
// descriptor is left; `fd` is closed then.
int above_standard(int fd) noexcept;

// Occupies those of the descriptors 0 to 2 that are closed, while an object of this type lives.
// For the descriptors of libfabric and UCX, which take the lowest that are free. Reads and writes
// of the program answer EBADF, as with a closed descriptor. Any thread.
class OccupiedStandardFds {
 public:
    OccupiedStandardFds() noexcept;
    ~OccupiedStandardFds();
    OccupiedStandardFds(const OccupiedStandardFds&) = delete;
    OccupiedStandardFds& operator=(const OccupiedStandardFds&) = delete;
};

}  // namespace na::util
