// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ucx/domain.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "na/util/guarded.hpp"
#include "na/util/log.hpp"
#include "plugins/ucx/context.hpp"
#include "plugins/ucx/transports.hpp"

namespace na::ucx {

using util::guarded;

Domain::Domain(const plugin::OpenSpec& spec, util::IpChoice ip)
    : session::Domain("ucx", spec, session::Naming::ip), ip_(std::move(ip)) {
    local_.format = ip_.address.format();
    local_.caps.op_scratch = sizeof(Transfer);
    local_.caps.max_segments = kMaxSegments;
}

Result<std::unique_ptr<plugin::Domain>> Domain::open(const plugin::OpenSpec& spec) {
    return guarded<plugin::Domain>([&]() -> Result<std::unique_ptr<plugin::Domain>> {
        if (Error error = session::Local::check_sizes("ucx", spec); !ok(error.status)) {
            return error;
        }
        auto settings = settle(spec);
        if (!settings) {
            return std::move(settings).error();
        }
        std::unique_ptr<Domain> domain(new Domain(spec, std::move(settings->ip)));
        ucp_params_t params{};
        params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
        // Nothing else: what is not asked for, UCX does not take from peers.
        params.features = UCP_FEATURE_AM;
        if (!spec.info.no_block) {
            params.features |= UCP_FEATURE_WAKEUP;
        }
        params.mt_workers_shared = domain->local_.contexts > 1 ? 1 : 0;
        ucp_context_h ucp = nullptr;
        if (const ucs_status_t rc = ucp_init(&params, settings->config.get(), &ucp); rc != UCS_OK) {
            const Error error = failure(rc, "open UCX");
            return Error{error.status,
                         fmt::format("{}: {}{}{}", domain->local_.name, error.message,
                                     users_variables().empty() ? "" : "; the environment has ",
                                     users_variables())};
        }
        domain->ucp_.reset(ucp);
        if (Error error = domain->listen(); !ok(error.status)) {
            return error;
        }
        NA_LOG_INFO(cls, "{} is UCX {} at {}", domain->local_.name, version_text(),
                    domain->self_uri());
        return std::unique_ptr<plugin::Domain>(std::move(domain));
    });
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
        if (kind != MemoryKind::host && kind != MemoryKind::unknown) {
            return Error{Status::opnotsupported,
                         fmt::format("{} moves host memory only: copy device memory there first",
                                     local_.name)};
        }
        auto region = std::make_unique<Region>(segments, access);
        gate_.add(*region);
        return std::unique_ptr<plugin::Region>(std::move(region));
    });
}

Result<std::unique_ptr<plugin::Region>> Domain::decode_region(std::span<const std::byte> encoded,
                                                              std::uint64_t) {
    return guarded<plugin::Region>([&] { return Region::decode(encoded); });
}

Result<std::unique_ptr<plugin::Context>> Domain::open_context(std::uint8_t id, plugin::Sink& sink) {
    return guarded<plugin::Context>([&]() -> Result<std::unique_ptr<plugin::Context>> {
        BootstrapPort port;
        {
            const std::lock_guard guard(mutex_);
            port = std::move(ports_[id]);
        }
        if (!port.fd) {  // an earlier context had it
            auto fresh = listen_at(ip_.bind_address(),
                                   static_cast<std::uint16_t>(local_.address.ip().port + id));
            if (!fresh) {
                return std::move(fresh).error();
            }
            port = std::move(*fresh);
        }
        return Context::open(*this, id, std::move(port), sink);
    });
}

}  // namespace na::ucx
