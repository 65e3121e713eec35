// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ofi/domain.hpp"

#include <algorithm>
#include <new>

#include <fmt/format.h>

#include "na/session/wire.hpp"
#include "na/util/log.hpp"
#include "plugins/ofi/context.hpp"
#include "plugins/ofi/rma.hpp"
#include "plugins/ofi/segments.hpp"

namespace na::ofi {
namespace {

constexpr std::size_t kDefaultMessage = 4096;
constexpr std::size_t kMaxMessage = std::size_t{1} << 24;
// What a receiver keeps of one peer per lane, when nobody takes it.
constexpr std::size_t kWindowBytes = std::size_t{1} << 20;
constexpr std::size_t kMinWindow = 8;
constexpr std::size_t kMaxWindow = 256;
constexpr int kPortTries = 64;
constexpr int kNameTries = 64;

// No exception leaves a plugin.
template <typename T, typename Make>
Result<std::unique_ptr<T>> guarded(Make&& make) noexcept {
    try {
        return make();
    } catch (const std::bad_alloc&) {
        return Error{Status::nomem, {}};
    }
}

}  // namespace

Domain::Domain(const plugin::OpenSpec& spec, Choice choice)
    : protocol_(spec.protocol),
      choice_(std::move(choice)),
      no_block_(spec.info.no_block),
      contexts_(std::max<std::size_t>(spec.info.max_contexts, 1)) {
    caps_.protocol = protocol_;
    const std::size_t asked[] = {spec.info.max_unexpected, spec.info.max_expected};
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        caps_.max_message[lane] = asked[lane] == 0 ? kDefaultMessage : asked[lane];
        caps_.headroom[lane] = session::Header::kSize;
        caps_.ordered[lane] = choice_.ordered;
    }
    caps_.op_scratch = sizeof(Transfer);
    caps_.max_segments = kMaxSegments;
    caps_.wakes_on_credit = true;
    caps_.watches_receives = true;
    caps_.device_memory = choice_.device_memory;
    caps_.rma_delivery_complete = choice_.delivery_complete;
    const std::size_t largest = std::max(caps_.max_message[0], caps_.max_message[1]);
    window_ =
        static_cast<std::uint16_t>(std::clamp(kWindowBytes / largest, kMinWindow, kMaxWindow));
    if (choice_.provider->naming == Naming::ip) {
        format_ = choice_.ip.address.format();
    }
}

// Some may have died before anything was heard of them.
Domain::~Domain() {
    if (provider().probe == Probe::process) {
        remove_stale_segments();
    }
}

Result<std::unique_ptr<plugin::Domain>> Domain::open(const plugin::OpenSpec& spec) {
    return guarded<plugin::Domain>([&]() -> Result<std::unique_ptr<plugin::Domain>> {
        for (const std::size_t asked : {spec.info.max_unexpected, spec.info.max_expected}) {
            if (asked > kMaxMessage || (asked != 0 && asked < session::Header::kSize)) {
                return Error{
                    Status::invalid_arg,
                    fmt::format("messages of {} bytes: ofi+{} takes from {} to {}; move "
                                "larger data by put, get or "
                                "bulk transfer",
                                asked, spec.protocol, session::Header::kSize, kMaxMessage)};
            }
        }
        auto choice = choose(spec);
        if (!choice) {
            return std::move(choice).error();
        }
        if (choice->provider->naming == Naming::native && spec.info.max_contexts > 1) {
            return Error{Status::opnotsupported,
                         fmt::format("ofi+{} has one context per class: peers could not name "
                                     "others; open several classes",
                                     spec.protocol)};
        }
        std::unique_ptr<Domain> domain(new Domain(spec, std::move(*choice)));
        fid_fabric* fabric = nullptr;
        if (const int rc = fi_fabric(domain->choice_.info->fabric_attr, &fabric, nullptr);
            rc != 0) {
            return failure(rc, fmt::format("open the fabric of {}", domain->provider().fabric));
        }
        domain->fabric_.reset(fabric);
        fid_domain* d = nullptr;
        if (const int rc = fi_domain(fabric, domain->choice_.info.get(), &d, nullptr); rc != 0) {
            return failure(rc, fmt::format("open the domain of {}", domain->provider().fabric));
        }
        domain->domain_.reset(d);
        domain->registrar_.open(d, domain->info());
        if (Error error = domain->open_endpoints(spec); !ok(error.status)) {
            return error;
        }
        NA_LOG_INFO(cls, "ofi+{} is provider {} on {}, at {}", spec.protocol,
                    domain->provider().fabric, domain->info().domain_attr->name,
                    domain->self_uri());
        return std::unique_ptr<plugin::Domain>(std::move(domain));
    });
}

EndpointSpec Domain::endpoint_spec() const noexcept {
    return {.fabric = fabric_.get(),
            .domain = domain_.get(),
            .choice = &choice_,
            .registrar = &registrar_,
            .largest = std::max(caps_.max_message[0], caps_.max_message[1]),
            .waits = !no_block_};
}

// An endpoint for context `id`, at its place next to address_.
Result<std::unique_ptr<Endpoint>> Domain::listen_as(std::uint8_t id) const {
    Address at = address_;
    if (choice_.provider->naming == Naming::ip) {
        at = Address::of_ip({.address = choice_.ip.bind_address(), .port = address_.ip().port});
    } else if (choice_.provider->naming == Naming::native) {
        return Endpoint::open(endpoint_spec(), {});
    }
    return Endpoint::open(endpoint_spec(), at.raw(id));
}

// All endpoints, context 0 at this port; sets address_.
Result<bool> Domain::listen(std::uint16_t port) {
    endpoints_.clear();
    if (choice_.provider->naming == Naming::ip) {
        address_ = Address::of_ip({.address = choice_.ip.address, .port = port});
    }
    for (std::size_t id = 0; id < contexts_; ++id) {
        if (choice_.provider->naming == Naming::ip && id != 0 &&
            address_.ip().port + id > UINT16_MAX) {
            return Error{Status::addrinuse, "no port behind 65535 for a further context"};
        }
        auto endpoint = listen_as(static_cast<std::uint8_t>(id));
        if (!endpoint) {
            return std::move(endpoint).error();
        }
        if (id == 0) {
            auto name = (*endpoint)->name();
            if (!name) {
                return std::move(name).error();
            }
            address_ =
                choice_.provider->naming == Naming::ip
                    ? Address::of_ip({.address = choice_.ip.address, .port = name->ip().port})
                    : std::move(*name);
            registrar_.bind_to((*endpoint)->ep());
        }
        endpoints_.push_back(std::move(*endpoint));
    }
    return true;
}

Error Domain::open_endpoints(const plugin::OpenSpec& spec) {
    const auto explain = [&](const Error& e) {
        if (ok(e.status)) {
            return e;
        }
        std::string text = e.message;
        if (e.status == Status::addrinuse && choice_.provider->naming == Naming::ip) {
            text = fmt::format(
                "{} is in use on {} ({}){}: choose another port, or 0 for any",
                choice_.ip.ports.is_any() ? "the address"
                                          : fmt::format("port {}", choice_.ip.ports.text()),
                choice_.ip.address.text(), e.message,
                contexts_ > 1 ? fmt::format(", or one of the {} behind it for further contexts",
                                            contexts_ - 1)
                              : std::string());
        } else if (choice_.provider->naming == Naming::text && !spec.host.empty() &&
                   (e.status == Status::addrinuse || e.status == Status::busy ||
                    e.status == Status::exist)) {
            text = fmt::format("the name \"{}\" is in use ({}): choose another one", spec.host,
                               e.message);
            return Error{Status::addrinuse, fmt::format("ofi+{}: {}", spec.protocol, text)};
        }
        return Error{e.status, fmt::format("ofi+{}: {}", spec.protocol, text)};
    };
    if (choice_.provider->naming != Naming::ip) {
        if (choice_.provider->naming == Naming::text) {
            return explain(open_named());
        }
        const auto r = listen(0);
        return r ? Error{Status::success, {}} : explain(r.error());
    }
    // Any port will do, but those of further contexts must be free as well.
    const int tries = choice_.ip.ports.is_any() && contexts_ > 1 ? kPortTries : 1;
    for (int i = 1;; ++i) {
        const auto r =
            util::bind_in_range(choice_.ip.ports, [&](std::uint16_t port) { return listen(port); });
        if (r) {
            return Error{Status::success, {}};
        }
        if (r.status() != Status::addrinuse || i >= tries) {
            endpoints_.clear();
            return explain(r.error());
        }
    }
}

// At the name that was asked for, or at one that is free: a process of the same id may have left
// some.
Error Domain::open_named() {
    remove_stale_segments();
    for (int tries = kNameTries;; --tries) {
        address_ = Address::of_bytes(Naming::text,
                                     choice_.name.empty() ? session::fresh_name() : choice_.name);
        const auto r = listen(0);
        if (r) {
            return Error{Status::success, {}};
        }
        const bool taken = r.status() == Status::addrinuse || r.status() == Status::busy ||
                           r.status() == Status::exist;
        if (!taken || !choice_.name.empty() || tries == 0) {
            return r.error();
        }
    }
}

Result<std::unique_ptr<plugin::Peer>> Domain::connect(std::string_view uri) {
    return guarded<plugin::Peer>([&]() -> Result<std::unique_ptr<plugin::Peer>> {
        const std::size_t colon = uri.find("://");
        const std::string_view scheme = uri.substr(0, colon);
        // Other names of the same provider are welcome.
        const auto rows = providers();
        const bool same = std::any_of(rows.begin(), rows.end(), [&](const Provider& p) {
            return p.protocol == scheme && p.fabric == provider().fabric;
        });
        if (colon == std::string_view::npos || !same) {
            return Error{Status::invalid_arg,
                         fmt::format("\"{}\" is no address of ofi+{}: the form is {}",
                                     uri.substr(0, 128), protocol_, self_uri())};
        }
        auto address = Address::parse(provider().naming, uri.substr(colon + 3), format_);
        if (!address) {
            return std::move(address).error();
        }
        return std::unique_ptr<plugin::Peer>(
            std::make_unique<Peer>(std::move(*address), protocol_, contexts_));
    });
}

Result<std::unique_ptr<plugin::Peer>> Domain::decode_peer(std::span<const std::byte> identity) {
    return guarded<plugin::Peer>([&]() -> Result<std::unique_ptr<plugin::Peer>> {
        auto address = Address::decode(provider().naming, format_, identity);
        if (!address) {
            return std::move(address).error();
        }
        return std::unique_ptr<plugin::Peer>(
            std::make_unique<Peer>(std::move(*address), protocol_, contexts_));
    });
}

Result<std::unique_ptr<plugin::Region>> Domain::register_memory(std::span<const Segment> segments,
                                                                Access access, MemoryKind kind,
                                                                std::uint64_t device) {
    return guarded<plugin::Region>([&] { return registrar_.make(segments, access, kind, device); });
}

Result<std::unique_ptr<plugin::Region>> Domain::decode_region(std::span<const std::byte> encoded,
                                                              std::uint64_t length) {
    return guarded<plugin::Region>([&] { return Region::decode(encoded, length); });
}

Result<std::unique_ptr<plugin::Context>> Domain::open_context(std::uint8_t id, plugin::Sink& sink) {
    return guarded<plugin::Context>([&]() -> Result<std::unique_ptr<plugin::Context>> {
        std::unique_ptr<Endpoint> endpoint;
        {
            const std::lock_guard guard(mutex_);
            endpoint = std::move(endpoints_[id]);
        }
        if (endpoint == nullptr) {  // an earlier context had it
            auto fresh = listen_as(id);
            if (!fresh) {
                return std::move(fresh).error();
            }
            endpoint = std::move(*fresh);
        }
        auto context = std::make_unique<Context>(*this, id, std::move(endpoint), sink);
        if (Error error = context->open(); !ok(error.status)) {
            return error;
        }
        return std::unique_ptr<plugin::Context>(std::move(context));
    });
}

}  // namespace na::ofi
