// SPDX-License-Identifier: BSD-3-Clause
// A process that is short of descriptors.
#pragma once

#include <cstddef>

#include <fcntl.h>
#include <sys/resource.h>

#include "support/two_process.hpp"

namespace crash {

// Limits the open files of this process to few more than it has.
class FewFiles {
 public:
    explicit FewFiles(std::size_t more) {
        PARTY_REQUIRE(getrlimit(RLIMIT_NOFILE, &before_) == 0);
        // Numbers count, and some are in use far up: of the free ones all but a few are taken away.
        rlimit now = before_;
        now.rlim_cur = 0;
        for (std::size_t left = more; left != 0; ++now.rlim_cur) {
            left -= fcntl(static_cast<int>(now.rlim_cur), F_GETFD) == -1 ? 1 : 0;
        }
        PARTY_REQUIRE(setrlimit(RLIMIT_NOFILE, &now) == 0);
    }
    ~FewFiles() { setrlimit(RLIMIT_NOFILE, &before_); }
    FewFiles(const FewFiles&) = delete;
    FewFiles& operator=(const FewFiles&) = delete;

 private:
    rlimit before_{};
};

}  // namespace crash
