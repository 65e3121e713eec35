// SPDX-License-Identifier: BSD-3-Clause
// A plugin author's view: the plugin contract and the C API of NA, nothing of the RPC layer.
#include <na.h>

#include <cstdio>
#include <na/plugin.hpp>

int main() {
    unsigned major = 0;
    NA_Version_get(&major, nullptr, nullptr);
    const na::plugin::Entry entry;
    const bool ok = major == NA_VERSION_MAJOR && entry.abi == na::plugin::kAbi;
    std::puts(ok ? "na works" : "na does not work");
    return ok ? 0 : 1;
}
