// SPDX-License-Identifier: BSD-3-Clause
// Plain types that programs, the core and transports have in common. Values; nothing here has a
// thread or an owner.
#pragma once

#include "na/detail/standard.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace na {

// Expected messages are for a receive that names their source and tag; unexpected ones for anybody
// who receives.
enum class Lane : std::uint8_t { unexpected, expected };
// How many there are.
inline constexpr std::size_t kLanes = 2;

// What peers may do with memory; bits.
enum class Access : std::uint8_t { none = 0, read = 1, write = 2, read_write = 3 };
// Whether all of `want` is in `have`.
constexpr bool allows(Access have, Access want) noexcept {
    return (static_cast<unsigned>(have) & static_cast<unsigned>(want)) ==
           static_cast<unsigned>(want);
}

// Where memory is: with the processor, or on a device.
enum class MemoryKind : std::uint8_t { host, cuda, rocm, ze, unknown };

// The family of addresses to listen at, for transports over IP; native: the transport's own.
enum class AddressFormat : std::uint8_t { unspec, ipv4, ipv6, native };

// What a fabric is asked for where it tells traffic apart; a hint.
enum class TrafficClass : std::uint8_t {
    unspec,
    best_effort,
    low_latency,
    bulk_data,
    dedicated_access,
    scavenger,
    network_ctrl,
};

// A piece of memory. Layout equals struct na_segment and struct iovec.
struct Segment {
    void* base = nullptr;    // its first byte
    std::size_t length = 0;  // bytes
};

// How a transport is opened; what is left out gets the default.
struct InitInfo {
    std::string ip_subnet;           // "192.0.2.0/24": the addresses to choose among; empty: any
    std::string auth_key;            // for fabrics that have keys
    std::size_t max_unexpected = 0;  // bytes, 0: the plugin's default
    std::size_t max_expected = 0;    // bytes, 0: the plugin's default
    std::size_t expected_spare = 0;  // of those, what na.h has added for a header; leave it 0
    bool no_block = false;           // never sleeps: wait_fd() and arm() are not called
    bool no_retry = false;           // `again` goes to the caller
    AddressFormat address_format = AddressFormat::unspec;  // family to listen at
    std::uint8_t max_contexts = 1;                         // that have their places
    // One thread at a time uses the class, which takes no locks then. Two threads inside it are
    // undefined behaviour; a debug build reports them and ends the process.
    bool single_class = false;
    bool single_context = false;                        // the user promises one thread per context
    bool device_memory = false;                         // memory of devices will be registered
    TrafficClass traffic_class = TrafficClass::unspec;  // asked of the fabric
};

}  // namespace na
