// SPDX-License-Identifier: BSD-3-Clause
#include "hg/class.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "hg/auto_sm.hpp"
#include "hg/context.hpp"
#include "hg/wire.hpp"
#include "na/util/config.hpp"
#include "na/util/immortal.hpp"
#include "na/util/log.hpp"
#include "na/util/uri.hpp"

namespace hg {
namespace {

using na::Error;
using na::Lane;
using na::Result;
using na::Status;

constexpr std::uint32_t kMostRequests = INT32_MAX / 4;
constexpr std::uint64_t kLongestStall = 1'000'000'000;  // ms

// Every class of the process, for dump_counters().
struct Classes {
    std::mutex mutex;
    std::vector<Class*> list;
};
Classes& classes() noexcept {
    static na::util::Immortal<Classes> c;  // classes may be closed by static destructors
    return c.get();
}

std::uint8_t flags_of(ChecksumLevel level) noexcept {
    switch (level) {
        case ChecksumLevel::none:
            return 0;
        case ChecksumLevel::headers:
            return wire::kHeaderChecksum;
        case ChecksumLevel::payload:
            return wire::kHeaderChecksum | wire::kPayloadChecksum;
    }
    return 0;
}

na::InitInfo sm_info(const na::InitInfo& net) {
    na::InitInfo info = net;
    info.ip_subnet.clear();
    info.auth_key.clear();
    info.address_format = na::AddressFormat::unspec;
    info.device_memory = false;
    info.traffic_class = na::TrafficClass::unspec;
    return info;
}

}  // namespace

Class::Class(std::unique_ptr<na::Class> owned, na::Class& net, std::unique_ptr<na::Class> sm,
             bool listen, Options options)
    : options_(std::move(options)),
      listen_(listen),
      threaded_(net.threaded()),
      checksum_flags_(flags_of(options_.checksum)),
      owned_(std::move(owned)),
      net_(&net),
      sm_(std::move(sm)),
      space_({.net = net_, .sm = sm_.get()}, this),
      registry_(!net.info().single_class) {
    const std::lock_guard guard(classes().mutex);
    classes().list.push_back(this);
}

Result<std::unique_ptr<Class>> Class::open(std::string_view info_string, bool listen,
                                           Options options) {
    std::unique_ptr<na::Class> owned;
    na::Class* net = options.external;
    if (net == nullptr) {
        auto opened = na::Class::open(info_string, listen, options.na);
        if (!opened) {
            return std::move(opened).error();
        }
        owned = std::move(*opened);
        net = owned.get();
    } else {
        listen = net->listening();
    }
    std::unique_ptr<na::Class> sm;
    if (options.auto_sm && net->class_name() != "na") {
        const std::string name = options.sm_name.empty() ? "na+sm" : "na+sm://" + options.sm_name;
        auto opened = na::Class::open(name, listen, sm_info(net->info()));
        if (!opened) {
            return Error{opened.status(),
                         fmt::format("auto_sm cannot open {}: {}", name, opened.error().message)};
        }
        sm = std::move(*opened);
    }
    for (const na::Class* c : {net, sm.get()}) {
        if (c != nullptr &&
            (c->max_message(Lane::unexpected) <
                 c->headroom(Lane::unexpected) + wire::kRequestSize ||
             c->max_message(Lane::expected) < c->headroom(Lane::expected) + wire::kResponseSize)) {
            return Error{Status::msgsize, fmt::format("messages of {}+{} are too small for the RPC "
                                                      "headers: raise max_unexpected_size "
                                                      "and max_expected_size",
                                                      c->class_name(), c->protocol())};
        }
    }
    if (options.overflow_limit == 0) {
        options.overflow_limit = na::config::number(na::config::kOverflowLimit);
    }
    if (options.overflow_total == 0) {
        options.overflow_total = na::config::number(na::config::kOverflowTotal);
    }
    if (options.unacked_limit == 0) {
        options.unacked_limit = na::config::number(na::config::kUnackedLimit);
    }
    options.stall_timeout =
        std::min<std::uint64_t>(na::config::number(na::config::kStallTimeout), kLongestStall);
    if (options.request_limit == 0) {
        options.request_limit = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
            na::config::number(na::config::kRequestLimit), 1, kMostRequests));
    }
    if (options.coalesce == Options::Coalesce::as_environment) {
        options.coalesce = static_cast<Options::Coalesce>(
            std::min<std::uint64_t>(na::config::number(na::config::kCoalesce),
                                    static_cast<std::uint64_t>(Options::Coalesce::always)));
    }
    if (options.coalesce_limit == 0) {
        options.coalesce_limit = na::config::number(na::config::kCoalesceLimit);
    }
    if (options.coalesce_limit == 0) {
        options.coalesce = Options::Coalesce::never;
    }
    options.post_init = std::min(options.post_init, kMostRequests);
    options.request_limit = std::max(options.request_limit, options.post_init);
    return std::unique_ptr<Class>(
        new Class(std::move(owned), *net, std::move(sm), listen, std::move(options)));
}

Class::~Class() {
    {
        const std::lock_guard guard(classes().mutex);
        std::erase(classes().list, this);
    }
    if (options_.stats) {
        log_counters();
    }
    if (user.release != nullptr) {
        user.release(user.data);
    }
}

Result<bool> Class::closable() const {
    {
        const std::lock_guard guard(mutex_);
        if (context_count_ != 0) {
            return Error{Status::busy, fmt::format("{} contexts still exist: destroy them first",
                                                   context_count_)};
        }
    }
    if (const auto n = addresses_.load(std::memory_order_acquire); n != 0) {
        return Error{Status::busy,
                     fmt::format("{} addresses are still in use: free them first", n)};
    }
    if (const auto n = space_.live(); n != 0) {
        return Error{Status::busy,
                     fmt::format("{} bulk descriptors still exist: free them first", n)};
    }
    return true;
}

// --- addresses
// -------------------------------------------------------------------------------------------------------

Result<AddressRef> Class::lookup(std::string_view name) {
    name = na::util::without_blanks(name);
    if (!has_pair_prefix(name)) {
        auto net = net_->lookup(name);
        if (!net) {
            return std::move(net).error();
        }
        if (sm_ != nullptr && (*net)->is_self()) {
            return Address::make(*this, std::move(*net), sm_->self());
        }
        return Address::make(*this, std::move(*net), {});
    }
    const auto pair = parse_pair(name);
    if (!pair) {
        return Error{
            Status::invalid_arg,
            fmt::format("\"{}\" is not uid://<host>#<shared-memory address>#<network address>",
                        name)};
    }
    const bool here = pair->host == host_id();
    // A class that is shared memory itself takes that part.
    if (here && net_->class_name() == "na") {
        auto net = net_->lookup(pair->sm);
        if (!net) {
            return std::move(net).error();
        }
        return Address::make(*this, std::move(*net), {});
    }
    na::AddressRef sm_ref;
    if (here && sm_ != nullptr) {
        auto sm = sm_->lookup(pair->sm);
        if (!sm) {
            return std::move(sm).error();
        }
        sm_ref = std::move(*sm);
    }
    auto net = net_->lookup(pair->net);
    if (!net) {
        return std::move(net).error();
    }
    return Address::make(*this, std::move(*net), std::move(sm_ref));
}

AddressRef Class::self() {
    return Address::make(*this, net_->self(), sm_ == nullptr ? na::AddressRef{} : sm_->self());
}

// --- properties
// ------------------------------------------------------------------------------------------------------

std::size_t Class::eager_size(Lane lane) const noexcept {
    const std::size_t header = lane == Lane::unexpected ? wire::kRequestSize : wire::kResponseSize;
    std::size_t least = SIZE_MAX;
    for (const na::Class* c :
         {static_cast<const na::Class*>(net_), static_cast<const na::Class*>(sm_.get())}) {
        if (c != nullptr) {
            least = std::min(least, c->max_message(lane) - c->headroom(lane) - header);
        }
    }
    return least;
}

std::size_t Class::contents_within() const noexcept {
    constexpr std::size_t kMercurysMessage = 4096;
    constexpr std::size_t kMercurysHeaders = 36;  // at most, the transport's included
    const std::size_t asked = options_.na.max_unexpected;
    return std::max(asked == 0 ? kMercurysMessage : asked, kMercurysHeaders) - kMercurysHeaders;
}

Status Class::set_offset(Lane lane, std::size_t bytes) {
    if (bytes > eager_size(lane)) {
        NA_LOG_ERROR(cls, "an offset of {} bytes: only {} fit into a message", bytes,
                     eager_size(lane));
        return Status::invalid_arg;
    }
    offset_[static_cast<std::size_t>(lane)] = bytes;
    return Status::success;
}

void Class::set_handle_create(const HandleCreate& create) {
    const std::lock_guard guard(mutex_);
    handle_create_ = create;
    for (Context* context : contexts_) {
        if (context != nullptr) {
            context->set_handle_create(create);
        }
    }
}

Class::HandleCreate Class::handle_create() const {
    const std::lock_guard guard(mutex_);
    return handle_create_;
}

void Class::set_more_data(const MoreData& more) {
    const std::lock_guard guard(more_data_mutex_);
    more_data_ = more;
}

Class::MoreData Class::more_data() const {
    const std::lock_guard guard(more_data_mutex_);
    return more_data_;
}

// --- contexts
// --------------------------------------------------------------------------------------------------------

Status Class::enter(Context& context) {
    const std::lock_guard guard(mutex_);
    if (contexts_[context.id()] != nullptr) {
        return Status::busy;
    }
    contexts_[context.id()] = &context;
    ++context_count_;
    return Status::success;
}

void Class::leave(Context& context) noexcept {
    const std::lock_guard guard(mutex_);
    if (contexts_[context.id()] == &context) {
        contexts_[context.id()] = nullptr;
        --context_count_;
        closed_.add(context.counters());
    }
}

bool Class::has_context(std::uint8_t id) const {
    const std::lock_guard guard(mutex_);
    return contexts_[id] != nullptr;
}

Counters::Values Class::counters() const noexcept {
    const std::lock_guard guard(mutex_);
    Counters::Values sum = closed_;
    for (Context* context : contexts_) {
        if (context != nullptr) {
            sum.add(context->counters());
        }
    }
    return sum;
}

void Class::log_counters() const noexcept {
    const Counters::Values v = counters();
    NA_LOG_INFO(diag,
                "{}+{}: requests {} sent {} received {} active, responses {} sent {} received, "
                "overflow {} requests {} "
                "responses, {} malformed messages, {} bulk transfers, {} requests refused and {} "
                "not answered, "
                "{} large payloads refused, {} large responses given up, {} stalled peers "
                "disconnected, {} messages sent together "
                "in {} and {} received in {}",
                net_->class_name(), net_->protocol(), v.requests_sent, v.requests_received,
                v.requests_active, v.responses_sent, v.responses_received, v.requests_overflow,
                v.responses_overflow, v.malformed, v.bulk_transfers, v.requests_refused,
                v.requests_unanswered, v.overflow_refused, v.responses_given_up, v.peers_stalled,
                v.bundled_sent, v.bundles_sent, v.bundled_received, v.bundles_received);
}

void Class::log_all_counters() noexcept {
    const std::lock_guard guard(classes().mutex);
    for (const Class* c : classes().list) {
        c->log_counters();
    }
}

}  // namespace hg
