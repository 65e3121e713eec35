// SPDX-License-Identifier: BSD-3-Clause
// The choice among the addresses of the machine's interfaces.
#include "na/util/ip.hpp"

#include <algorithm>
#include <climits>
#include <filesystem>
#include <tuple>

#include <unistd.h>

#include "na/util/log.hpp"

namespace na::util {
namespace {

struct Candidate {
    const Interface* interface;
    IpAddress address;
};

const Interface* find(std::span<const Interface> all, std::string_view name) {
    const auto i =
        std::find_if(all.begin(), all.end(), [&](const Interface& x) { return x.name == name; });
    return i == all.end() ? nullptr : &*i;
}

const Interface* owner_of(std::span<const Interface> all, const IpAddress& address) {
    for (const Interface& i : all) {
        for (const IpAddress& a : i.addresses) {
            // A link-local address without its interface is any interface's.
            if (a == address ||
                (address.scope == 0 && a.v6 == address.v6 && a.bytes == address.bytes)) {
                return &i;
            }
        }
    }
    if (!address.v6 && address.is_loopback()) {  // all of 127/8 is this machine
        for (const Interface& i : all) {
            if (i.loopback) {
                return &i;
            }
        }
    }
    return nullptr;
}

// The network interfaces of an RDMA device.
std::vector<std::string> interfaces_of_device(const std::string& device) {
    std::vector<std::string> names;
    std::error_code error;
    const auto folder = std::filesystem::path("/sys/class/infiniband") / device / "device/net";
    for (std::filesystem::directory_iterator i(folder, error), end; !error && i != end;
         i.increment(error)) {
        names.push_back(i->path().filename());
    }
    return names;
}

// What a user meant by everything but the host.
struct Wish {
    std::string_view text;  // whole, for messages
    AddressFormat format;
    std::string_view subnet_text;
    std::optional<IpSubnet> subnet;
    std::span<const Interface> all;
    std::vector<const Interface*> among;  // as the domain allows

    bool fits(const IpAddress& a) const {
        return (format != AddressFormat::ipv4 || !a.v6) &&
               (format != AddressFormat::ipv6 || a.v6) && (!subnet || subnet->contains(a));
    }
    // What a candidate has to fulfil, for messages.
    std::string conditions() const {
        std::string out = format == AddressFormat::ipv4   ? "an IPv4 address"
                          : format == AddressFormat::ipv6 ? "an IPv6 address"
                                                          : "an address";
        return subnet ? fmt::format("{} in ip_subnet {}", out, subnet_text) : out;
    }
    std::string has() const { return fmt::format("this machine has {}", to_string(all)); }
};

void add(std::vector<Candidate>& out, const Wish& wish, const Interface& interface) {
    for (const IpAddress& a : interface.addresses) {
        if (wish.fits(a)) {
            out.push_back({&interface, a});
        }
    }
}

std::optional<Candidate> best(const std::vector<Candidate>& candidates) {
    const auto rank = [](const Candidate& c) {
        return std::tuple(!c.interface->up, c.interface->loopback || c.address.is_loopback(),
                          c.address.is_link_local(), c.interface->route, c.interface->overlay,
                          c.interface->distance, c.address.v6);
    };
    const auto i =
        std::min_element(candidates.begin(), candidates.end(),
                         [&](const Candidate& a, const Candidate& b) { return rank(a) < rank(b); });
    return i == candidates.end() ? std::nullopt : std::optional(*i);
}

Result<Candidate> choose_any(const Wish& wish, std::string_view where) {
    std::vector<Candidate> candidates;
    for (const Interface* i : wish.among) {
        add(candidates, wish, *i);
    }
    if (const auto c = best(candidates)) {
        return *c;
    }
    return Error{Status::addrnotavail, fmt::format("\"{}\": {} has not {}; {}", wish.text, where,
                                                   wish.conditions(), wish.has())};
}

bool allowed(const Wish& wish, const Interface* interface) {
    return std::find(wish.among.begin(), wish.among.end(), interface) != wish.among.end();
}

Result<Candidate> choose_exactly(const Wish& wish, IpAddress address) {
    const Interface* interface = owner_of(wish.all, address);
    if (interface == nullptr) {
        return Error{Status::addrnotavail,
                     fmt::format("\"{}\": {} is not an address of this machine; {}", wish.text,
                                 address.text(), wish.has())};
    }
    if (!allowed(wish, interface)) {
        return Error{Status::addrnotavail,
                     fmt::format("\"{}\": {} belongs to {}; {}", wish.text, address.text(),
                                 interface->name, wish.has())};
    }
    if (!wish.fits(address)) {
        return Error{Status::invalid_arg,
                     fmt::format("\"{}\": {} is not {}, which was asked for as well", wish.text,
                                 address.text(), wish.conditions())};
    }
    if (address.is_link_local() && address.v6 && address.scope == 0) {
        for (const IpAddress& a : interface->addresses) {
            address = a.bytes == address.bytes ? a : address;
        }
    }
    return Candidate{interface, address};
}

bool is_own_name(const std::string& name) {
    char own[HOST_NAME_MAX + 1] = {};
    return gethostname(own, sizeof own - 1) == 0 && name == own;
}

Result<Candidate> choose_by_name(const Wish& wish, const std::string& name) {
    auto addresses = look_up(name, wish.format);
    if (!addresses && is_own_name(name)) {  // perhaps it has one of the other family
        return choose_any(wish, "this machine");
    }
    if (!addresses) {
        return Error{addresses.status(),
                     fmt::format("\"{}\": no interface \"{}\", and {}; {}", wish.text, name,
                                 addresses.error().message, wish.has())};
    }
    std::vector<Candidate> candidates;
    for (const IpAddress& a : *addresses) {
        const Interface* interface = owner_of(wish.all, a);
        if (interface != nullptr && allowed(wish, interface) && wish.fits(a)) {
            candidates.push_back({interface, a});
        }
    }
    const auto c = best(candidates);
    // Distributions let the machine's own name mean 127.0.1.1, where no other machine can reach it.
    if ((!c || c->address.is_loopback()) && is_own_name(name)) {
        return choose_any(wish, "this machine");
    }
    if (c) {
        return *c;
    }
    std::string all;
    for (const IpAddress& a : *addresses) {
        all += (all.empty() ? "" : ", ") + a.text();
    }
    return Error{Status::addrnotavail,
                 fmt::format("\"{}\": {} is {}, which is not {} of this machine; {}", wish.text,
                             name, all, wish.conditions(), wish.has())};
}

// Leaves in `among` what the domain allows.
std::optional<Error> restrict(Wish& wish, const std::string& domain) {
    if (domain.empty()) {
        return std::nullopt;
    }
    std::vector<const Interface*> left;
    if (const Interface* i = find(wish.all, domain)) {
        left.push_back(i);
    } else {
        for (const std::string& name : interfaces_of_device(domain)) {
            if (const Interface* x = find(wish.all, name)) {
                left.push_back(x);
            }
        }
    }
    if (left.empty()) {
        return Error{Status::nodev,
                     fmt::format("\"{}\": \"{}\" is neither an interface nor a device with one; {}",
                                 wish.text, domain, wish.has())};
    }
    wish.among = std::move(left);
    return std::nullopt;
}

Result<Candidate> choose(const Wish& wish, const HostText& parts, bool& any) {
    if (parts.host.empty()) {
        return choose_any(wish, parts.domain.empty() ? "this machine" : parts.domain);
    }
    if (const auto address = IpAddress::parse(parts.host)) {
        any = address->is_any();
        if (!any) {
            return choose_exactly(wish, *address);
        }
        if (!parts.domain.empty() ||
            (wish.format != AddressFormat::unspec && !wish.fits(*address) && !wish.subnet)) {
            return Error{
                Status::invalid_arg,
                fmt::format("\"{}\": {} means all interfaces, and one of them or another format "
                            "was asked for as well",
                            wish.text, parts.host)};
        }
        Wish same_kind = wish;
        same_kind.format = address->format();
        return choose_any(same_kind, "this machine");
    }
    if (const Interface* interface = find(wish.all, parts.host)) {
        if (!allowed(wish, interface)) {
            return Error{Status::invalid_arg,
                         fmt::format("\"{}\": {} does not belong to {}; {}", wish.text, parts.host,
                                     parts.domain, wish.has())};
        }
        Wish there = wish;
        there.among = {interface};
        return choose_any(there, parts.host);
    }
    return choose_by_name(wish, parts.host);
}

// Whether the host text means the loopback and nothing else.
bool names_loopback(const HostText& parts) {
    if (parts.host.empty()) {
        return false;
    }
    const auto address = IpAddress::parse(parts.host);
    return address ? address->is_loopback() : !is_own_name(parts.host);
}

// Whether there is a link to other machines, up or not.
bool has_a_link(std::span<const Interface> all) {
    return std::any_of(all.begin(), all.end(),
                       [](const Interface& i) { return !i.loopback && !i.overlay; });
}

}  // namespace

IpAddress IpChoice::bind_address() const noexcept {
    IpAddress out = address;
    if (any) {
        out.bytes = {};
        out.scope = 0;
    }
    return out;
}

Result<IpChoice> choose_address(std::string_view host, AddressFormat format,
                                std::string_view subnet, std::span<const Interface> interfaces) {
    auto parts = parse_host(host);
    if (!parts) {
        return std::move(parts).error();
    }
    Wish wish{.text = host,
              .format = format == AddressFormat::native ? AddressFormat::unspec : format,
              .subnet_text = subnet,
              .subnet = std::nullopt,
              .all = interfaces,
              .among = {}};
    for (const Interface& i : interfaces) {
        wish.among.push_back(&i);
    }
    if (!subnet.empty()) {
        auto parsed = parse_subnet(subnet);
        if (!parsed) {
            return std::move(parsed).error();
        }
        wish.subnet = *parsed;
    }
    if (auto error = restrict(wish, parts->domain)) {
        return *std::move(error);
    }
    bool any = false;
    auto chosen = choose(wish, *parts, any);
    if (!chosen) {
        return std::move(chosen).error();
    }
    return IpChoice{.address = chosen->address,
                    .interface = chosen->interface->name,
                    .domain = parts->domain,
                    .any = any,
                    .cut_off = chosen->address.is_loopback() && subnet.empty() &&
                               parts->domain.empty() && (any || !names_loopback(*parts)) &&
                               has_a_link(interfaces),
                    .ports = parts->ports};
}

Result<IpChoice> choose_address(const plugin::OpenSpec& spec) {
    auto all = interfaces();
    if (!all) {
        return std::move(all).error();
    }
    auto choice = choose_address(spec.host, spec.info.address_format, spec.info.ip_subnet, *all);
    if (choice && choice->cut_off) {
        NA_LOG_ERROR(cls,
                     "\"{}\" opens at {}, where no other host reaches it: no link with an address "
                     "is up; this machine has {}. Open again when the link is up, or name an "
                     "address",
                     spec.host, choice->address.text(), to_string(*all));
    }
    return choice;
}

}  // namespace na::util
