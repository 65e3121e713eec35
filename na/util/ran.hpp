// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace na::util {

// Says how many callbacks ran at the end of what runs them, whether that returns or throws; not
// sooner, as what the program gave to be written belongs to the program.
struct Ran {
    explicit Ran(unsigned* count) noexcept : out(count) {}
    ~Ran() {
        if (out != nullptr) {
            *out = number;
        }
    }
    Ran(const Ran&) = delete;
    Ran& operator=(const Ran&) = delete;

    unsigned* const out;  // null: nobody wants to know
    unsigned number = 0;
};

}  // namespace na::util
