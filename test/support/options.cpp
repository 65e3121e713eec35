// SPDX-License-Identifier: BSD-3-Clause
#include "support/options.hpp"

#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include <sys/socket.h>
#include <unistd.h>

#include "na/util/ip.hpp"

namespace support {

// Not in catch_main.cpp, which is compiled without the sanitizers that kSlow asks about.
Options& options() noexcept {
    static Options o{
        .protocol = "loop+loop", .seed = 1, .limit_s = 60 * kSlow, .rounds = 1, .example = {}};
    return o;
}

const char* lacks(Promise promise) noexcept {
    std::string_view protocol = options().protocol;
    if (protocol.starts_with("fault+")) {
        protocol = protocol.substr(6, protocol.find('?') - 6);
    }
    if (promise == Promise::all_given_back) {
        return protocol.starts_with("ofi+tcp")
                   ? "libfabric's tcp;ofi_rxm forgets the sockets of connection requests that it "
                     "has "
                     "not taken up when an endpoint closes (docs/ofi.md, Limits)"
                   : nullptr;
    }
    const char* rma = std::getenv("NA_UCX_RMA");
    const bool native =
        protocol.starts_with("ucx+") && rma != nullptr && std::string_view(rma) == "native";
    if (native && (promise == Promise::forged_gets_end || promise == Promise::checked_keys)) {
        return "puts and gets are UCX's own, which trust peers (docs/ucx.md, Puts and gets)";
    }
    if (native && promise == Promise::deaths_at_work) {
        return "UCX ends the process that owes an answer to a put or get of its own to a peer that "
               "dies (docs/ucx.md, Limits)";
    }
    if (protocol == "ucx+shm" || protocol == "ucx+all") {
        return promise == Promise::deaths_at_work || promise == Promise::others_survive
                   ? "UCX's shared memory has one queue per receiver that all senders write to: "
                     "one "
                     "that is killed after it has claimed a place, and before it has filled it, "
                     "stops the queue for all (docs/ucx.md, Limits)"
                   : nullptr;
    }
    if (protocol != "ofi+shm") {
        return nullptr;
    }
    switch (promise) {
        case Promise::others_survive:
            return "libfabric's shm takes the answers of all peers in the order of the transfers: "
                   "one that a dead peer owes holds up those of the others (docs/ofi.md, Limits)";
        case Promise::deaths_at_work:
            return "libfabric's shm locks the queues of a process, in shared memory, against all "
                   "who send to it: who is killed with that lock leaves the others waiting for "
                   "ever (docs/ofi.md, Limits)";
        case Promise::checked_keys:
            return "libfabric's shm copies by process_vm_readv what is got, and looks at no key "
                   "(docs/ofi.md, Security)";
        case Promise::all_given_back:
        case Promise::forged_gets_end:
            break;
    }
    return nullptr;
}

std::vector<std::string> other_names() {
    const std::string& protocol = options().protocol;
    if (protocol == "ofi+tcp") {
        return {"ofi+tcp_exp", "ofi+tcp;ofi_rxm"};
    }
    if (protocol == "ofi+tcp;ofi_rxm") {
        return {"ofi+tcp_rxm", "ofi+tcp"};
    }
    if (protocol == "ofi+shm") {
        return {"ofi+sm"};
    }
    if (protocol == "ucx+all") {
        return {"ucx+tcp", "ucx+shm"};
    }
    if (protocol == "ucx+tcp" || protocol == "ucx+shm") {
        return {"ucx+all"};
    }
    return {};
}

std::string ip_endpoint(const std::string& uri) {
    const std::size_t at = uri.find("://");
    const auto endpoint =
        na::util::parse_endpoint(at == std::string::npos ? uri : uri.substr(at + 3));
    return endpoint ? endpoint->text() : "";
}

std::optional<na::util::UniqueFd> hold_port(const std::string& uri) {
    const auto place = na::util::parse_endpoint(uri.substr(uri.find("://") + 3));
    if (!place) {
        return na::util::UniqueFd();
    }
    na::util::UniqueFd fd(
        socket(place->address.v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int yes = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_storage name{};
    const socklen_t size = place->address.fill(name, place->port);
    if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), size) != 0) {
        return std::nullopt;
    }
    return fd;
}

std::string lasting_host(const std::string& name) {
    if (ip_endpoint(options().example).empty()) {
        return name;
    }
    // Below the ports that the system gives to whoever asks for any; others may run the same test
    // now.
    static unsigned next = static_cast<unsigned>(getpid());
    for (unsigned tries = 0; tries < 1000; ++tries) {
        const na::util::IpEndpoint place{*na::util::IpAddress::parse("127.0.0.1"),
                                         static_cast<std::uint16_t>(20000 + (next++ * 7) % 12000)};
        sockaddr_storage address;
        const socklen_t length = place.address.fill(address, place.port);
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const bool free = bind(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0;
        close(fd);
        if (free) {
            return place.text();
        }
    }
    throw std::runtime_error("no free port");
}

}  // namespace support
