// SPDX-License-Identifier: BSD-3-Clause
// Users of NA, nothing of the RPC layer: the plugin contract, the C API, the C++ API.
#include <na.h>

#include <cstdio>
#include <na/domain.hpp>
#include <na/plugin.hpp>

int main() {
    unsigned major = 0;
    NA_Version_get(&major, nullptr, nullptr);
    const na::plugin::Entry entry;
    const auto domain = na::Domain::listen("na+sm");
    if (!domain) {
        std::puts(domain.error().text().c_str());
    }
    const bool ok =
        major == NA_VERSION_MAJOR && entry.abi == na::plugin::kAbi && domain && domain->listening();
    std::puts(ok ? "na works" : "na does not work");
    return ok ? 0 : 1;
}
