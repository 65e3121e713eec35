// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ucx/domain.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "na/util/config.hpp"
#include "na/util/guarded.hpp"
#include "na/util/log.hpp"
#include "plugins/ucx/async.hpp"
#include "plugins/ucx/context.hpp"
#include "plugins/ucx/transports.hpp"

namespace na::ucx {

using util::guarded;

namespace {

// 64 KiB of arguments and what is in front of them. A round trip for what does not fit costs more
// than to copy it: over tcp as much as 32 KiB do.
constexpr std::size_t kMessage = 65 * 1024;
// Peers elsewhere are reached by tcp only.
bool through_kernel(std::string_view protocol) {
    bool tcp = false;
    for (const Transport& t : transports_of(protocol)) {
        if (t.name != "tcp" && !is_local(t.name)) {
            return false;
        }
        tcp = tcp || t.name == "tcp";
    }
    return tcp;
}

}  // namespace

Domain::Domain(const plugin::OpenSpec& spec, util::IpChoice ip)
    : session::Domain("ucx", spec, session::Naming::ip, kMessage), ip_(std::move(ip)) {
    local_.format = ip_.address.format();
    // Descriptors have one form, whatever UCX moves them over.
    local_.caps.wire = "all";
    local_.caps.op_scratch = sizeof(Transfer);
    local_.caps.max_segments = kMaxSegments;
    // Whatever UCX moves them over, contexts are found at TCP ports of ours.
    local_.caps.takes_ip_subnet = local_.caps.takes_ip_format = true;
    local_.caps.costly_messages = through_kernel(spec.protocol);
}

Result<std::unique_ptr<plugin::Domain>> Domain::open(const plugin::OpenSpec& spec) {
    return guarded<plugin::Domain>([&]() -> Result<std::unique_ptr<plugin::Domain>> {
        if (Error error = session::Local::check_sizes("ucx", spec); !ok(error.status)) {
            return error;
        }
        if (Error error = async::enter(); !ok(error.status)) {
            return Error{error.status, fmt::format("ucx+{}: {}", spec.protocol, error.message)};
        }
        auto settings = settle(spec);
        if (!settings) {
            return std::move(settings).error();
        }
        std::unique_ptr<Domain> domain(new Domain(spec, std::move(settings->ip)));
        ucp_params_t params{};
        params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
        // Nothing else: what is not asked for, UCX does not take from peers. With puts and gets it
        // takes addresses from them, unchecked, over whatever transport.
        params.features = UCP_FEATURE_AM | (settings->native ? UCP_FEATURE_RMA : 0);
        if (!spec.info.no_block) {
            params.features |= UCP_FEATURE_WAKEUP;
        }
        // Memory is registered from any thread.
        params.mt_workers_shared =
            domain->local_.reserved > 1 || !spec.info.single_class || settings->native ? 1 : 0;
        ucp_context_h ucp = nullptr;
        if (const ucs_status_t rc = ucp_init(&params, settings->config.get(), &ucp); rc != UCS_OK) {
            const Error error = failure(rc, "open UCX");
            return Error{error.status,
                         fmt::format("{}: {}{}{}", domain->local_.name, error.message,
                                     users_variables().empty() ? "" : "; the environment has ",
                                     users_variables())};
        }
        domain->ucp_.reset(ucp);
        if (settings->native) {
            domain->registrar_ = std::make_unique<Registrar>(ucp);
        }
        if (spec.info.device_memory) {
            domain->local_.caps.device_memory =
                settings->native && settings->minds_devices && domain->registrar_->knows_a_device();
            if (!settings->native) {
                return Error{
                    Status::opnotsupported,
                    fmt::format("{}: device memory (request_mem_device) is moved by UCX itself "
                                "only, which trusts peers: set {}=native for it, or leave "
                                "request_mem_device false",
                                domain->local_.name, config::kUcxRma.name)};
            }
            if (!settings->minds_devices) {
                return Error{
                    Status::opnotsupported,
                    fmt::format("{}: UCX {} takes memory of devices (request_mem_device) for the "
                                "host's here: set UCX_PROTO_ENABLE=y (the default from 1.16 on; "
                                "before, a get whose peer dies ends the process with it), or leave "
                                "request_mem_device false",
                                domain->local_.name, version_text())};
            }
        }
        if (Error error = domain->listen(); !ok(error.status)) {
            return error;
        }
        NA_LOG_INFO(cls, "{} is UCX {} at {}; puts and gets are {}", domain->local_.name,
                    version_text(), domain->self_uri(),
                    settings->native ? "UCX's own" : "messages");
        return std::unique_ptr<plugin::Domain>(std::move(domain));
    });
}

// A worker's address lists transports, and UCX takes those that both sides have. What the peer has
// is known when its address is; what its name says is enough to refuse some.
std::string Domain::foreign(std::string_view scheme) const {
    if (scheme == local_.protocol) {
        return {};
    }
    if (!known_protocol(scheme)) {
        return "which knows no such protocol";
    }
    // Who sets UCX_TLS has overruled the names.
    return config::of_library("UCX_TLS") || meet(local_.protocol, scheme)
               ? std::string()
               : fmt::format("which has no transport in common with ucx+{}", scheme);
}

Error Domain::listen() {
    return session::listen_in_row(
        local_, ip_,
        [&](std::uint8_t, std::uint16_t port) -> Result<std::uint16_t> {
            auto made = listen_at(ip_.bind_address(), port);
            if (!made) {
                return std::move(made).error();
            }
            ports_.push_back(std::move(*made));
            return ports_.back().port;
        },
        [&] { ports_.clear(); });
}

Result<std::unique_ptr<plugin::Region>> Domain::register_memory(std::span<const Segment> segments,
                                                                Access access, MemoryKind kind,
                                                                std::uint64_t) {
    return guarded<plugin::Region>([&]() -> Result<std::unique_ptr<plugin::Region>> {
        auto region = std::make_unique<Region>(segments, access, kind);
        if (!region->host() && !local_.caps.device_memory) {
            return Error{
                Status::opnotsupported,
                fmt::format("{} moves host memory only: copy device memory there first, or "
                            "open it with request_mem_device",
                            local_.name)};
        }
        if (registrar_ != nullptr) {
            if (Error error = registrar_->offer(*region, segments, kind); !ok(error.status)) {
                return Error{error.status, fmt::format("{}: {}", local_.name, error.message)};
            }
        }
        gate_.add(*region);
        return std::unique_ptr<plugin::Region>(std::move(region));
    });
}

Result<std::unique_ptr<plugin::Region>> Domain::decode_region(std::span<const std::byte> encoded,
                                                              std::uint64_t length) {
    return guarded<plugin::Region>([&] { return Region::decode(encoded, length); });
}

Result<std::unique_ptr<plugin::Context>> Domain::open_context(std::uint8_t id, plugin::Sink& sink) {
    return guarded<plugin::Context>([&]() -> Result<std::unique_ptr<plugin::Context>> {
        BootstrapPort port;
        {
            const std::lock_guard guard(mutex_);
            if (id < ports_.size()) {
                port = std::move(ports_[id]);
            }
        }
        if (!port.fd) {  // an earlier context had it, or it was not promised
            const std::uint16_t number = local_.port_of(id);
            if (number == 0) {
                return session::no_port_behind();
            }
            auto fresh = listen_at(ip_.bind_address(), number);
            if (!fresh) {
                return std::move(fresh).error();
            }
            port = std::move(*fresh);
        }
        return Context::open(*this, id, std::move(port), sink);
    });
}

}  // namespace na::ucx
