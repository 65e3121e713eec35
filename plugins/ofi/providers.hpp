// SPDX-License-Identifier: BSD-3-Clause
// What is known about libfabric's providers: one row each. No other file names one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "na/result.hpp"
#include "na/session/address.hpp"
#include "na/session/local.hpp"

namespace na::ofi {

using session::Naming;

// What the text of auth_key is to the provider.
enum class KeyForm : std::uint8_t {
    bytes,        // its key, as it is
    service_vni,  // two numbers, as the C structure {uint32_t service; uint16_t vni;}
};

// What the host part of an info string is to a provider whose addresses are its own. The form is
// [device][:port] for all of them.
enum class HostForm : std::uint8_t {
    device,       // the name of a domain; endpoints have no ports to choose
    hfi,          // the same, and hfi1_N is the domain ibN
    device_port,  // and the port is the endpoint's, from 0 (any that is free) to 510
    ignored,      // the provider chooses by itself
};

struct NativeHost {
    std::string device;      // empty: any
    std::uint32_t port = 0;  // 0: any
};

// How to find out whether somebody lives at an address where posts are answered "try again" for
// ever: providers keep trying to connect to the dead and do not say so.
enum class Probe : std::uint8_t {
    none,
    tcp,      // the listening port is TCP: connect to it
    process,  // the name begins with the process id
};

// Protocols that different providers are taken for, by version.
std::vector<std::string_view> ambiguous_protocols();

// Mercury's other names for some protocols; what has none is returned as it is.
std::string_view usual_name(std::string_view protocol) noexcept;

struct Provider {
    std::string_view protocol;  // in info strings and addresses
    std::string_view fabric;    // libfabric's name
    std::uint16_t since =
        0;  // minor version of libfabric 1 from which on it is taken, major << 8 | minor
    Naming naming = Naming::ip;
    Probe probe = Probe::none;
    KeyForm auth_key = KeyForm::bytes;
    HostForm host = HostForm::device;              // where naming is native
    std::size_t message = session::kUsualMessage;  // how large one may be, unless the user says
    // Operations under way that it has room for, of all peers together (tx_attr->size), at most:
    // where it has none left, peers that take nothing keep it from the others.
    std::size_t depth = 256;
    // Several small messages in one take less, also of the time of those that wait for company
    // (Caps::costly_messages).
    bool costly_messages = false;
    // Bytes of /dev/shm that an endpoint may take. It is refused where that is not free for each
    // processor, with no word of the reason. 0: it takes none, or not known how much.
    std::size_t segment = 0;
    bool wait_fd = true;     // completion queues have descriptors to wait on
    bool multi_recv = true;  // FI_MULTI_RECV works
    bool delivery_complete =
        true;            // puts complete when they are visible at the target (FI_DELIVERY_COMPLETE)
    bool inject = true;  // what is injected leaves at once, and not only with later progress
    bool rma_errors = true;  // a put or get that the target refuses is reported, and not forgotten
    // Transfers with a peer that dies end by themselves, when its connection breaks. Until then the
    // provider may write to the user's memory.
    bool breaks = false;
    // Where connections break: messages up to that size keep their order.
    std::size_t in_order = 0;
    // A queue without descriptor is polled over all connections, one with a descriptor over those
    // that have something: slower with a few, far faster with many.
    bool polls_all = false;
    // Closes with connection requests that nobody looked at, and leaves their sockets open.
    bool forgets_requests = false;
    // Posts do not wait for a connection; else the peer's port is tried before it is handed over.
    bool connects_aside = true;
    // Says when the system sends nothing from the endpoint's address to a peer; else it tries for
    // ever.
    bool tells_no_way = true;
    // Looks at the head of a message before it takes it, so that the beginning of one stays in the
    // socket: see util::make_room().
    bool peeks = false;
    // Two processes have one connection, known by address and process id: another one, to another
    // address of the same process, is refused without a word, as long as that lasts.
    bool connects_once = false;
    // What a lost peer still owes holds up nobody else, and its place in the address vector can be
    // given up at any time: see places.cpp.
    bool forgets_peers = true;
    // So can the place of an endpoint of this process that has closed.
    bool forgets_closed_neighbours = true;
    // Where it had an endpoint of this process is nothing to it when that has closed: see
    // spots.hpp.
    bool forgets_names = true;
    bool by_default = true;        // listed among the protocols; others only when asked for
    std::string_view remark = {};  // why it is as it is
};

// A variable of the environment that libfabric reads when it is first asked, and what we want it to
// be where the user has not set it.
struct Setting {
    const char* variable;
    const char* value;
};
std::span<const Setting> settings() noexcept;

// Takes the host part of an info string apart, for a provider whose naming is native. Errors:
// invalid_arg, with the form.
Result<NativeHost> parse_native_host(const Provider& provider, std::string_view text);

// The domains of libfabric that a device may stand for, most likely first; empty: any.
std::vector<std::string> domain_names(const Provider& provider, const NativeHost& host);

// The key that is meant by a text. Errors: invalid_arg, with the form that the provider wants.
Result<std::string> auth_key_bytes(const Provider& provider, std::string_view text);

// In order of preference; several rows of one protocol: the first that this libfabric has.
std::span<const Provider> providers() noexcept;

}  // namespace na::ofi
