// SPDX-License-Identifier: BSD-3-Clause
// What a test executable was started with, and how a case says that it did not run. Set by
// catch_main.cpp before the first case, constant afterwards.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "na/util/fd.hpp"

namespace support {

struct Options {
    std::string protocol;    // --protocol: the info string of the transport under test
    std::uint64_t seed = 1;  // --seed: every random choice of a test comes from it
    unsigned limit_s = 0;    // --limit: seconds that one case may take
    unsigned rounds = 1;     // --rounds: how often crash tests repeat what they do
    std::string example;     // an address of the transport as text; empty without --protocol
};
Options& options() noexcept;

// A host text ("name", "127.0.0.1:24680") at which an endpoint can be opened, and opened again by
// another process when the first is gone: what a transport over IP takes is a port, that is free
// now; others are given `name`.
std::string lasting_host(const std::string& name);
// The IP address and port that a URI of the transport under test ends with; empty: it is none over
// IP.
std::string ip_endpoint(const std::string& uri);

// Keeps the port of an address, if it has one, from being given to another program, whose tests run
// at the same time. Nobody listens. Nothing: somebody has it already.
std::optional<na::util::UniqueFd> hold_port(const std::string& uri);

// Other info strings whose classes reach those of the transport under test, and are reached by
// them. Of some versions of libraries not all do: then lookup says so.
std::vector<std::string> other_names();

// Call and return from a case whose capability is missing: it is reported as skipped, with the
// reason. An executable of which every case was skipped exits with 77.
void skip(const std::string& reason);

// What every transport promises, but for the libraries of some: docs say which. Null: the transport
// under test keeps it, alone or behind the fault transport. Else the reason, for skip().
enum class Promise : std::uint8_t {
    others_survive,   // transfers with others go on when a peer dies in the middle of one
    deaths_at_work,   // a peer may be killed at any point of what it does
    all_given_back,   // a class that has closed has no descriptor open
    forged_gets_end,  // a get by a forged description ends, and harms nobody
    checked_keys,     // and reads nothing: memory that was not registered cannot be reached
};
const char* lacks(Promise promise) noexcept;

// Sanitizers slow everything down: multiply deadlines, divide repetitions by this. (Not inline:
// catch_main.cpp is compiled without them.)
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr unsigned kSlow = 4;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
constexpr unsigned kSlow = 4;
#else
constexpr unsigned kSlow = 1;
#endif
#else
constexpr unsigned kSlow = 1;
#endif

}  // namespace support
