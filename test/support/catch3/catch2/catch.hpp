// SPDX-License-Identifier: BSD-3-Clause
// The header of Catch2 2.x on top of Catch2 3: what the tests use and 3 calls otherwise.
#pragma once

#include <string>

#include <catch2/catch_all.hpp>

namespace Catch {

namespace clara = Clara;
using Matchers::EndsWith;
using Matchers::StartsWith;
using TestEventListenerBase = EventListenerBase;

inline auto Contains(const std::string& part) {
    return Matchers::ContainsSubstring(part);
}

}  // namespace Catch

#ifdef CATCH_CONFIG_MAIN
int main(int argc, char** argv) {
    return Catch::Session().run(argc, argv);
}
#endif
