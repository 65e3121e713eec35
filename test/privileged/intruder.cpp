// SPDX-License-Identifier: BSD-3-Clause
// A module that an unprivileged caller names in NA_PLUGIN_PATH.
#include <cstdio>

[[gnu::constructor]] static void run() {
    std::puts("intruder runs");
}
