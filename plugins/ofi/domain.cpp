// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ofi/domain.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "na/session/wire.hpp"
#include "na/util/guarded.hpp"
#include "na/util/log.hpp"
#include "na/util/tcp.hpp"
#include "plugins/ofi/context.hpp"
#include "plugins/ofi/rma.hpp"
#include "plugins/ofi/segments.hpp"
#include "plugins/ofi/spots.hpp"

namespace na::ofi {
namespace {

constexpr std::string_view kClass = "ofi";
constexpr int kNameTries = 64;

bool is_taken(Status status) noexcept {
    return status == Status::addrinuse || status == Status::busy || status == Status::exist;
}

// Where the user does not say.
std::size_t usual_message(const Choice& choice) noexcept {
    return std::min(choice.provider->message, choice.info->ep_attr->max_msg_size);
}

// Whether the provider sends messages as large as was asked for, and the session's own. Headers are
// part of either.
Error check_limit(const plugin::OpenSpec& spec, const Choice& choice) {
    const std::size_t limit = choice.info->ep_attr->max_msg_size;
    const std::string_view provider = choice.provider->fabric;
    if (limit < session::kMaxControl) {
        return Error{
            Status::opnotsupported,
            fmt::format("ofi+{}: provider {} sends no more than {} bytes at once, greetings "
                        "take up to {}: choose another protocol",
                        spec.protocol, provider, limit, session::kMaxControl)};
    }
    struct Asked {
        std::string_view argument;
        std::size_t size;
        std::size_t spare;  // not asked for
    };
    const Asked all[] = {
        {"max_unexpected_size", spec.info.max_unexpected, 0},
        {"max_expected_size", spec.info.max_expected, spec.info.expected_spare},
    };
    for (const auto& [argument, size, spare] : all) {
        if (size > limit) {
            return Error{
                Status::invalid_arg,
                fmt::format("ofi+{}: {} of {} bytes is more than provider {} sends at once: "
                            "ask for {} at most; move larger data by put, get or bulk "
                            "transfer",
                            spec.protocol, argument, size - spare, provider, limit - spare)};
        }
    }
    return Error{Status::success, {}};
}

}  // namespace

Domain::Domain(const plugin::OpenSpec& spec, Choice choice)
    : session::Domain(kClass, spec, choice.provider->naming, usual_message(choice)),
      listens_(spec.listen),
      choice_(std::move(choice)) {
    plugin::Caps& caps = local_.caps;
    caps.wire = choice_.provider->fabric;
    caps.ordered[0] = caps.ordered[1] = choice_.ordered;
    caps.op_scratch = sizeof(Transfer);
    caps.max_segments = kMaxSegments;
    caps.takes_auth_key = choice_.keyed;
    caps.takes_traffic_class = choice_.traffic_class;
    caps.takes_ip_subnet = caps.takes_ip_format = local_.naming == Naming::ip;
    caps.rma_delivery_complete = choice_.delivery_complete;
    caps.costly_messages = choice_.provider->costly_messages;
    if (local_.naming == Naming::ip) {
        local_.format = choice_.ip.address.format();
    }
}

// Of names that were made up.
void Domain::forget_spots() const noexcept {
    try {
        for (std::size_t id = 0; id < local_.contexts; ++id) {
            forget_spot(local_.address.raw(static_cast<std::uint8_t>(id)).c_str());
        }
    } catch (const std::bad_alloc&) {
    }
}

// Some may have died before anything was heard of them.
Domain::~Domain() {
    if (provider().probe == Probe::process) {
        remove_stale_segments(kLastLook);
        if (choice_.name.empty()) {
            forget_spots();
        }
    }
}

namespace {

Error only_one(std::string_view protocol) {
    return Error{Status::opnotsupported,
                 fmt::format("ofi+{} has one context per class: peers could not name others; open "
                             "several classes",
                             protocol)};
}

}  // namespace

Result<std::unique_ptr<plugin::Domain>> Domain::open(const plugin::OpenSpec& spec) {
    return util::guarded<plugin::Domain>([&]() -> Result<std::unique_ptr<plugin::Domain>> {
        if (Error error = session::Local::check_sizes(kClass, spec); !ok(error.status)) {
            return error;
        }
        auto choice = choose(spec);
        if (!choice) {
            return std::move(choice).error();
        }
        if (choice->provider->naming == Naming::native && spec.info.max_contexts > 1) {
            return only_one(spec.protocol);
        }
        if (Error error = check_limit(spec, *choice); !ok(error.status)) {
            return error;
        }
        std::unique_ptr<Domain> domain(new Domain(spec, std::move(*choice)));
        fid_fabric* fabric = nullptr;
        if (const int rc = fi_fabric(domain->choice_.info->fabric_attr, &fabric, nullptr);
            rc != 0) {
            return failure(rc, fmt::format("open the fabric of {}", domain->provider().fabric));
        }
        domain->base_->fabric.reset(fabric);
        fid_domain* d = nullptr;
        if (const int rc = fi_domain(fabric, domain->choice_.info.get(), &d, nullptr); rc != 0) {
            return failure(rc, fmt::format("open the domain of {}", domain->provider().fabric));
        }
        domain->base_->domain.reset(d);
        domain->registrar_.open(d, domain->info());
        domain->local_.caps.device_memory =
            domain->choice_.device_memory && domain->registrar_.knows_a_device();
        if (Error error = domain->open_endpoints(spec); !ok(error.status)) {
            return error;
        }
        domain->local_.caps.looks =
            !domain->local_.no_block && domain->endpoints_.front()->wait_fd() < 0;
        NA_LOG_INFO(cls, "ofi+{} is provider {} on {}, at {}", spec.protocol,
                    domain->provider().fabric, domain->info().domain_attr->name,
                    domain->self_uri());
        return std::unique_ptr<plugin::Domain>(std::move(domain));
    });
}

EndpointSpec Domain::endpoint_spec() const noexcept {
    return {.fabric = base_->fabric.get(),
            .domain = base_->domain.get(),
            .choice = &choice_,
            .registrar = &registrar_,
            .largest = local_.largest,
            .waits = !local_.no_block,
            .many = listens_};
}

// What libfabric is told to listen at for context `id`; `port`: of IP only.
std::string Domain::source_of(std::uint8_t id, std::uint16_t port) const {
    switch (local_.naming) {
        case Naming::ip:
            return Address::of_ip({.address = choice_.ip.bind_address(), .port = port}).raw(0);
        case Naming::text:
            return local_.address.raw(id);
        case Naming::native:
            break;
    }
    return {};
}

// An error of an endpoint there; `port`: of IP only.
Error Domain::at_place(Error error, std::uint16_t port) const {
    if (local_.naming != Naming::ip) {
        return error;
    }
    const util::IpEndpoint place{.address = choice_.ip.bind_address(), .port = port};
    return Error{
        error.status,
        fmt::format("{}: {}{}", port == 0 ? place.address.text() : place.text(), error.message,
                    error.status == Status::permission ? util::why_refused(port) : "")};
}

namespace {

// The socket that the provider listens at: a helper program that holds it keeps the port taken
// after this process has gone.
void keep_from_helpers(const util::IpEndpoint& here) noexcept {
    util::close_on_exec([&](const util::IpEndpoint& own, const util::IpEndpoint&) {
        return own.port == here.port && (own.address == here.address || own.address.is_any());
    });
}

}  // namespace

// The endpoint of the next context; answers what libfabric calls it.
Result<Address> Domain::add_endpoint(std::string_view source) {
    auto endpoint = Endpoint::open(endpoint_spec(), source);
    if (!endpoint) {
        return std::move(endpoint).error();
    }
    auto name = (*endpoint)->name();
    if (!name) {
        return std::move(name).error();
    }
    if (endpoints_.empty()) {
        registrar_.bind_to((*endpoint)->ep());
    }
    if (local_.naming == Naming::ip) {
        keep_from_helpers(name->ip());
    }
    if (provider().peeks) {
        util::make_room_for_peers(name->ip());
    }
    endpoints_.push_back(std::move(*endpoint));
    return name;
}

Error Domain::open_endpoints(const plugin::OpenSpec& spec) {
    if (local_.naming == Naming::ip) {
        return open_in_row();
    }
    const Error e = local_.naming == Naming::text ? open_named() : [this] {
        auto r = open_all();
        return r ? Error{Status::success, {}} : std::move(r).error();
    }();
    if (ok(e.status)) {
        return e;
    }
    if (local_.naming == Naming::text && !spec.host.empty() && is_taken(e.status)) {
        return Error{Status::addrinuse,
                     fmt::format("{}: the name \"{}\" is in use ({}): choose another one",
                                 local_.name, spec.host, e.message)};
    }
    return Error{e.status, fmt::format("{}: {}", local_.name, e.message)};
}

Error Domain::open_in_row() {
    return session::listen_in_row(
        local_, choice_.ip,
        [this](std::uint8_t id, std::uint16_t port) -> Result<std::uint16_t> {
            auto name = add_endpoint(source_of(id, port));
            if (!name) {
                // Where it is in use listen_in_row() says so.
                return name.status() == Status::addrinuse ? std::move(name).error()
                                                          : at_place(std::move(name).error(), port);
            }
            return name->ip().port;
        },
        [this] { endpoints_.clear(); });
}

// All endpoints, at names that local_.address tells, or that libfabric chooses; sets the address.
Result<Address> Domain::open_all() {
    endpoints_.clear();
    for (std::size_t id = 0; id < local_.reserved; ++id) {
        auto name = add_endpoint(source_of(static_cast<std::uint8_t>(id), 0));
        if (!name) {
            return name;
        }
        if (id == 0) {
            local_.address = std::move(*name);
        }
    }
    return local_.address;
}

// At the name that was asked for, or at one that is free: a process of the same id may have left
// some. The name of a class that is not listening is a wish, as in session::listen_in_row().
Error Domain::open_named() {
    remove_stale_segments();
    bool any = choice_.name.empty();
    for (int tries = kNameTries;; --tries) {
        local_.address =
            Address::of_bytes(Naming::text, any ? session::fresh_name() : choice_.name);
        const auto r = open_all();
        if (r) {
            return Error{Status::success, {}};
        }
        if (!is_taken(r.status()) || (!any && local_.listening) || tries == 0) {
            return r.error();
        }
        any = true;
    }
}

// Other names of the same provider are welcome.
std::string Domain::foreign(std::string_view scheme) const {
    const auto rows = providers();
    const bool same = std::any_of(rows.begin(), rows.end(), [&](const Provider& p) {
        return p.protocol == usual_name(scheme) && p.fabric == provider().fabric;
    });
    return same ? std::string() : fmt::format("which is provider {} here", provider().fabric);
}

Result<std::unique_ptr<plugin::Region>> Domain::register_memory(std::span<const Segment> segments,
                                                                Access access, MemoryKind kind,
                                                                std::uint64_t device) {
    return util::guarded<plugin::Region>(
        [&] { return registrar_.make(segments, access, kind, device); });
}

Result<std::unique_ptr<plugin::Region>> Domain::decode_region(std::span<const std::byte> encoded,
                                                              std::uint64_t length) {
    return util::guarded<plugin::Region>([&] { return registrar_.decode(encoded, length); });
}

Result<std::unique_ptr<plugin::Context>> Domain::open_context(std::uint8_t id, plugin::Sink& sink) {
    return util::guarded<plugin::Context>([&]() -> Result<std::unique_ptr<plugin::Context>> {
        std::unique_ptr<Endpoint> endpoint;
        {
            const std::lock_guard guard(mutex_);
            if (id < endpoints_.size()) {
                endpoint = std::move(endpoints_[id]);
            }
        }
        if (endpoint == nullptr) {  // an earlier context had it, or it was not promised
            if (id != 0 && local_.naming == Naming::native) {
                return only_one(local_.protocol);
            }
            const auto port = local_.naming == Naming::ip ? local_.port_of(id) : std::uint16_t{0};
            if (id != 0 && local_.naming == Naming::ip && port == 0) {
                return session::no_port_behind();
            }
            auto fresh = Endpoint::open(endpoint_spec(), source_of(id, port));
            if (!fresh) {
                return at_place(std::move(fresh).error(), port);
            }
            endpoint = std::move(*fresh);
            if (const auto name = endpoint->name(); name && local_.naming == Naming::ip) {
                keep_from_helpers(name->ip());
            }
        }
        fid_ep* const ep = endpoint->ep();
        context_closes(id);  // until there is one that says when it does
        auto context = std::make_unique<Context>(*this, id, std::move(endpoint), sink);
        if (id == 0) {
            registrar_.bind_to(ep);
        }
        if (Error error = context->open(); !ok(error.status)) {
            return error;
        }
        return std::unique_ptr<plugin::Context>(std::move(context));
    });
}

}  // namespace na::ofi
