// SPDX-License-Identifier: BSD-3-Clause
// Shared memory of this program's own, where that is allowed: others look for what is dead in
// theirs, and here it is removed sooner than it may be where they are.
#include <sched.h>
#include <sys/mount.h>

namespace {

[[maybe_unused]] const bool alone =
    unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
    mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") == 0;

}  // namespace
