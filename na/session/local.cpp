// SPDX-License-Identifier: BSD-3-Clause
#include "na/session/local.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "na/session/peer.hpp"
#include "na/session/wire.hpp"
#include "na/util/log.hpp"

namespace na::session {
namespace {

constexpr std::size_t kMaxMessage = std::size_t{1} << 24;
constexpr std::size_t kMinBounce = 8192;
// What a receiver keeps of one peer per lane, when nobody takes it.
constexpr std::size_t kWindowBytes = std::size_t{4} << 20;
constexpr std::size_t kMinWindow = 8;
constexpr std::size_t kMaxWindow = 256;
constexpr int kPortTries = 64;

std::size_t size_of(std::size_t asked, std::size_t usual) noexcept {
    return asked == 0 ? usual : asked;
}

// Users of na.h do not see the header of expected messages: for them, too, the usual size is the
// least that they know from elsewhere.
std::size_t expected_of(const InitInfo& info, std::size_t usual) noexcept {
    return size_of(info.max_expected, usual == kUsualMessage ? usual + Header::kSize : usual);
}

std::size_t largest_of(const InitInfo& info, std::size_t usual) noexcept {
    return std::max(size_of(info.max_unexpected, usual), expected_of(info, usual));
}

bool is_of_this_machine(const util::IpAddress& address) {
    const auto all = util::interfaces();
    return all && std::any_of(all->begin(), all->end(), [&](const util::Interface& i) {
               return std::find(i.addresses.begin(), i.addresses.end(), address) !=
                      i.addresses.end();
           });
}

}  // namespace

Local::Local(std::string_view class_name, const plugin::OpenSpec& spec, Naming n,
             std::size_t usual_message)
    : name(fmt::format("{}+{}", class_name, spec.protocol)),
      protocol(spec.protocol),
      naming(n),
      no_block(spec.info.no_block),
      listening(spec.listen),
      // Where peers could not name further ones there are none.
      contexts(n == Naming::native
                   ? std::uint8_t{1}
                   : std::max<std::uint8_t>({spec.contexts, spec.info.max_contexts, 1})),
      reserved(std::max<std::uint8_t>(spec.info.max_contexts, 1)),
      roster(reserved),
      window(static_cast<std::uint16_t>(
          std::clamp(kWindowBytes / largest_of(spec.info, usual_message), kMinWindow, kMaxWindow))),
      largest(largest_of(spec.info, usual_message)) {
    caps.protocol = protocol;
    caps.max_message[0] = size_of(spec.info.max_unexpected, usual_message);
    caps.max_message[1] = expected_of(spec.info, usual_message);
    caps.inject = std::max(caps.max_message[0], caps.max_message[1]);
    caps.headroom[0] = caps.headroom[1] = Header::kSize;
    caps.wakes_on_credit = true;
    caps.watches_receives = true;
}

Error Local::check_sizes(std::string_view class_name, const plugin::OpenSpec& spec) {
    for (const std::size_t asked :
         {spec.info.max_unexpected, spec.info.max_expected - spec.info.expected_spare}) {
        if (asked > kMaxMessage || (asked != 0 && asked < Header::kSize)) {
            return Error{Status::invalid_arg,
                         fmt::format("messages of {} bytes: {}+{} takes from {} to {}; move larger "
                                     "data by put, get or bulk transfer",
                                     asked, class_name, spec.protocol, Header::kSize, kMaxMessage)};
        }
    }
    return Error{Status::success, {}};
}

std::size_t Local::bounce_bytes() const noexcept {
    return std::max({largest, kMaxControl, kMinBounce});
}

Result<std::unique_ptr<plugin::Peer>> Local::connect(std::string_view uri,
                                                     std::string_view why_not) const {
    if (!why_not.empty() || scheme_of(uri).empty()) {
        return Error{
            Status::invalid_arg,
            fmt::format("\"{}\" is no address of {}{}{}: the form is {}", uri.substr(0, 128), name,
                        why_not.empty() ? "" : ", ", why_not, this->uri())};
    }
    auto to = Address::parse(naming, uri.substr(uri.find("://") + 3), format);
    if (!to) {
        return std::move(to).error();
    }
    if (everywhere && to->ip().port == address.ip().port && is_of_this_machine(to->ip().address)) {
        to = address;  // oneself
    }
    return std::unique_ptr<plugin::Peer>(
        std::make_unique<Peer>(std::move(*to), protocol, contexts));
}

Result<std::unique_ptr<plugin::Peer>> Local::decode_peer(
    std::span<const std::byte> identity) const {
    auto to = Address::decode(naming, format, identity);
    if (!to) {
        return std::move(to).error();
    }
    return std::unique_ptr<plugin::Peer>(
        std::make_unique<Peer>(std::move(*to), protocol, contexts));
}

std::string_view Local::seen_from_here(std::string_view identity,
                                       std::span<char, Address::kMaxBytes> room) const noexcept {
    if (naming != Naming::ip || address.ip().address.scope == 0 || identity.size() > room.size()) {
        return identity;
    }
    return Address::with_scope_of(address, identity, room);
}

Error no_port_behind() {
    return Error{Status::addrinuse, "no port behind 65535 for a further context"};
}

std::string_view scheme_of(std::string_view uri) noexcept {
    const std::size_t colon = uri.find("://");
    return colon == std::string_view::npos ? std::string_view{} : uri.substr(0, colon);
}

void add_once(std::vector<plugin::ProtocolInfo>& list, plugin::ProtocolInfo row) {
    const bool there =
        std::any_of(list.begin(), list.end(), [&](const plugin::ProtocolInfo& other) {
            return other.protocol == row.protocol && other.device == row.device;
        });
    if (!there) {
        list.push_back(std::move(row));
    }
}

std::string names_of(std::string_view class_name, const std::vector<plugin::ProtocolInfo>& list) {
    std::vector<std::string> names;
    for (const plugin::ProtocolInfo& i : list) {
        std::string name = fmt::format("{}+{}", class_name, i.protocol);
        if (std::find(names.begin(), names.end(), name) == names.end()) {
            names.push_back(std::move(name));
        }
    }
    return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

Error listen_in_row(
    Local& local, const util::IpChoice& ip,
    const std::function<Result<std::uint16_t>(std::uint8_t id, std::uint16_t port)>& open,
    const std::function<void()>& close) {
    // What was in the way last.
    struct {
        std::size_t port = 0;
        std::size_t context = 0;
        std::string why;
    } obstacle;
    // All of them, that of context 0 at this port.
    const auto listen = [&](std::uint16_t first) -> Result<bool> {
        close();
        for (std::size_t id = 0; id < local.reserved; ++id) {
            obstacle = {first + id, id, {}};
            if (obstacle.port > UINT16_MAX) {
                return no_port_behind();
            }
            const auto port =
                open(static_cast<std::uint8_t>(id), static_cast<std::uint16_t>(first + id));
            if (!port) {
                obstacle.why = port.error().message;
                return port.error();
            }
            if (id == 0) {
                first = *port;
                local.address = Address::of_ip({.address = ip.address, .port = first});
                local.everywhere = ip.any;
            }
        }
        return true;
    };
    util::PortRange ports = ip.ports;
    if (ports.first != ports.last && local.listening) {
        // Whoever lets a range through a firewall means all contexts.
        const int behind = local.reserved - 1;
        if (ports.last - ports.first < behind) {
            return Error{Status::invalid_arg,
                         fmt::format("{}: ports {} are {}, and each of {} contexts (max_contexts) "
                                     "needs one: give more ports, or allow fewer contexts",
                                     local.name, ports.text(), ports.last - ports.first + 1,
                                     local.reserved)};
        }
        ports.last = static_cast<std::uint16_t>(ports.last - behind);
    }
    for (int i = 1;; ++i) {
        const auto r = util::bind_in_range(ports, listen);
        if (r) {
            return Error{Status::success, {}};
        }
        // Any port will do, but those of further contexts must be free as well.
        const int tries = ports.is_any() && local.reserved > 1 ? kPortTries : 1;
        if (r.status() == Status::addrinuse && i < tries) {
            continue;
        }
        if (r.status() == Status::addrinuse && !local.listening && !ports.is_any()) {
            NA_LOG_INFO(cls,
                        "{}: port {} is in use on {}: any other will do, as the class does not "
                        "listen",
                        local.name, ports.text(), ip.address.text());
            ports = {};
            i = 0;
            continue;
        }
        close();
        if (r.status() != Status::addrinuse) {
            return Error{r.status(), fmt::format("{}: {}", local.name, r.error().message)};
        }
        std::string text =
            obstacle.port == 0 ? "the address" : fmt::format("port {}", obstacle.port);
        if (obstacle.context != 0) {
            text += fmt::format(", for context {} of a class at {},", obstacle.context,
                                obstacle.port - obstacle.context);
        }
        text += obstacle.port > UINT16_MAX
                    ? " does not exist"
                    : fmt::format(" is in use on {} ({})", ip.bind_address().text(), obstacle.why);
        return Error{
            Status::addrinuse,
            fmt::format("{}: {}{}: choose {}", local.name,
                        ip.ports.first == ip.ports.last
                            ? std::string()
                            : fmt::format("none of the ports {} will do, the last because ",
                                          ip.ports.text()),
                        text,
                        ip.ports.is_any() ? "one that is free, with those behind it"
                                          : "another port, or 0 for any")};
    }
}

}  // namespace na::session
