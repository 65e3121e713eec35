// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ofi/providers.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace na::ofi {
namespace {

constexpr std::uint16_t version(unsigned major, unsigned minor) noexcept {
    return static_cast<std::uint16_t>(major << 8 | minor);
}

// A round trip for what does not fit costs more than to copy it, over the kernel's TCP as much as
// the call itself. rxm does not send more at once; its own limit must be the same on both sides, so
// that it is not changed here.
constexpr std::size_t kMessage = std::size_t{16} * 1024;

// rxm makes room as it is needed, 16 KiB each. What is injected counts, too, and is not known to us
// until the peer has answered.
constexpr std::size_t kRxmDepth = 2048;

// shm of libfabric 1.17 with the depths that are asked for: a power of two.
constexpr std::size_t kSegment = std::size_t{16} << 20;

constexpr Provider kProviders[] = {
    {
        .protocol = "tcp",
        .fabric = "tcp",
        .since = version(1, 18),
        .probe = Probe::tcp,
        .message = kMessage,
        .costly_messages = true,
        .breaks = true,
        .in_order = SIZE_MAX,
        .remark = "reliable datagrams of its own from libfabric 1.18 on; before, only connected "
                  "endpoints",
    },
    {
        .protocol = "tcp",
        .fabric = "tcp;ofi_rxm",
        .probe = Probe::tcp,
        .message = kMessage,
        .depth = kRxmDepth,
        .costly_messages = true,
        .breaks = true,
        .in_order = kMessage,
        .polls_all = true,
        .forgets_requests = true,
        .connects_once = true,
        .remark = "where tcp has no reliable datagrams",
    },
    {
        .protocol = "tcp;ofi_rxm",
        .fabric = "tcp;ofi_rxm",
        .probe = Probe::tcp,
        .message = kMessage,
        .depth = kRxmDepth,
        .costly_messages = true,
        .breaks = true,
        .in_order = kMessage,
        .polls_all = true,
        .forgets_requests = true,
        .connects_once = true,
    },
    {
        .protocol = "verbs",
        .fabric = "verbs;ofi_rxm",
        .breaks = true,
        .connects_once = true,
    },
    {
        .protocol = "verbs;ofi_rxm",
        .fabric = "verbs;ofi_rxm",
        .breaks = true,
        .connects_once = true,
    },
    {
        .protocol = "opx",
        .fabric = "opx",
        .naming = Naming::native,
        .host = HostForm::hfi,
        .wait_fd = false,
    },
    {
        .protocol = "cxi",
        .fabric = "cxi",
        .naming = Naming::native,
        .auth_key = KeyForm::service_vni,
        .host = HostForm::device_port,
    },
    {
        .protocol = "gni",
        .fabric = "gni",
        .naming = Naming::native,
        .host = HostForm::ignored,
        .multi_recv = false,
    },
    {
        .protocol = "psm2",
        .fabric = "psm2",
        .naming = Naming::native,
        .wait_fd = false,
    },
    {
        .protocol = "shm",
        .fabric = "shm",
        .since = version(2, 0),
        .naming = Naming::text,
        .probe = Probe::process,
        .wait_fd = false,
        .rma_errors = false,
        .forgets_peers = false,
        // It writes into their segment when it removes them, mapped or not.
        .forgets_closed_neighbours = false,
        .forgets_names = false,  // as far as can be read
    },
    {
        .protocol = "shm",
        .fabric = "shm",
        .naming = Naming::text,
        .probe = Probe::process,
        // Messages of 4 KiB: larger ones are fetched by the provider, and so held up by whoever of
        // all peers stands still.
        .costly_messages = true,
        .segment = kSegment,
        .wait_fd = false,
        .rma_errors = false,
        .forgets_peers = false,
        .forgets_names = false,
    },
    {
        .protocol = "sockets",
        .fabric = "sockets",
        .probe = Probe::tcp,
        .message = kMessage,
        .depth = 96,  // of the 128 that it has for what is sent and what comes
        .costly_messages = true,
        .inject = false,
        .breaks = true,
        .in_order = SIZE_MAX,
        // It connects within a post, which waits for that, FI_SOCKETS_CONN_TIMEOUT (15 s): and
        // takes what nobody has answered until then for a connection.
        .connects_aside = false,
        .tells_no_way = false,
        .peeks = true,
    },
    {
        .protocol = "net",
        .fabric = "net",
        .probe = Probe::tcp,
        .costly_messages = true,
        .breaks = true,
        .in_order = SIZE_MAX,
        .by_default = false,
        .remark = "the native tcp in the making, only in 1.16 and 1.17",
    },
};

constexpr Setting kSettings[] = {
    // us between looks at connections, 10000 by default: a first call takes two of them. For the
    // price of 1000 system calls a second while somebody polls.
    {"FI_OFI_RXM_CM_PROGRESS_INTERVAL", "1000"},
    // Receives of 16 KiB that are reserved and cleared: over tcp for all connections of an endpoint
    // together, 4096 by default, 50 MiB a context, and a pass over so much memory that calls are
    // slower for it; over verbs for each connection, 128 by default.
    {"FI_OFI_RXM_MSG_RX_SIZE", "128"},
};

// As such providers declare it: native byte order, and the padding counts in its size.
struct ServiceKey {
    std::uint32_t service;
    std::uint16_t vni;
};
static_assert(sizeof(ServiceKey) == 8);

// All of the text.
template <typename Number>
bool read(std::string_view text, Number& number) noexcept {
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && stop == text.data() + text.size();
}

std::string service_key(const ServiceKey& key) {
    std::string bytes(sizeof key, '\0');  // padding is zero, as some compare keys whole
    std::memcpy(bytes.data() + offsetof(ServiceKey, service), &key.service, sizeof key.service);
    std::memcpy(bytes.data() + offsetof(ServiceKey, vni), &key.vni, sizeof key.vni);
    return bytes;
}

}  // namespace

std::vector<std::string_view> ambiguous_protocols() {
    std::vector<std::string_view> list;
    for (const Provider& p : kProviders) {
        const bool differs = std::any_of(
            std::begin(kProviders), std::end(kProviders),
            [&](const Provider& x) { return x.protocol == p.protocol && x.fabric != p.fabric; });
        if (differs && std::find(list.begin(), list.end(), p.protocol) == list.end()) {
            list.push_back(p.protocol);
        }
    }
    return list;
}

Result<NativeHost> parse_native_host(const Provider& provider, std::string_view text) {
    constexpr std::uint32_t kLargestPort = 510;  // the largest that libfabric's cxi takes
    const bool has_ports = provider.host == HostForm::device_port;
    const std::size_t colon = text.find(':');
    NativeHost host{.device = std::string(text.substr(0, colon))};
    const bool good = colon == std::string_view::npos || read(text.substr(colon + 1), host.port) ||
                      colon + 1 == text.size();
    if (!good || (has_ports && host.port > kLargestPort)) {
        return Error{Status::invalid_arg,
                     fmt::format("ofi+{}://{}: the form is [device][:port], the port a number{}",
                                 provider.protocol, text,
                                 has_ports ? fmt::format(" from 0 (any) to {}", kLargestPort)
                                           : std::string())};
    }
    return host;
}

std::vector<std::string> domain_names(const Provider& provider, const NativeHost& host) {
    constexpr std::string_view kHfi = "hfi1_";
    if (host.device.empty() || provider.host == HostForm::ignored) {
        return {};
    }
    std::vector<std::string> names{host.device};
    if (provider.host == HostForm::hfi && host.device.starts_with(kHfi)) {
        names.push_back("ib" + host.device.substr(kHfi.size()));
    }
    return names;
}

Result<std::string> auth_key_bytes(const Provider& provider, std::string_view text) {
    if (provider.auth_key == KeyForm::bytes) {
        return std::string(text);
    }
    const std::size_t colon = text.find(':');
    ServiceKey key{};
    if (colon == std::string_view::npos || !read(text.substr(0, colon), key.service) ||
        !read(text.substr(colon + 1), key.vni)) {
        // The key itself is nobody else's business.
        return Error{Status::invalid_arg,
                     fmt::format("ofi+{}: auth_key is malformed: provider {} takes "
                                 "\"service:vni\", two decimal numbers up to {} and {}, as in "
                                 "\"1:10\"",
                                 provider.protocol, provider.fabric, UINT32_MAX, UINT16_MAX)};
    }
    return service_key(key);
}

std::span<const Setting> settings() noexcept {
    return kSettings;
}

std::span<const Provider> providers() noexcept {
    return kProviders;
}

std::string_view usual_name(std::string_view protocol) noexcept {
    constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
        {"tcp_exp", "tcp"}, {"tcp_rxm", "tcp;ofi_rxm"}, {"sm", "shm"}};
    for (const auto& [other, usual] : kOthers) {
        if (protocol == other) {
            return usual;
        }
    }
    return protocol;
}

}  // namespace na::ofi
