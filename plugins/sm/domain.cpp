// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/sm/domain.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <new>

#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "na/util/config.hpp"
#include "na/util/guarded.hpp"
#include "na/util/host.hpp"
#include "na/util/log.hpp"
#include "plugins/sm/address.hpp"
#include "plugins/sm/context.hpp"
#include "plugins/sm/op_state.hpp"
#include "plugins/sm/peer.hpp"
#include "plugins/sm/rendezvous.hpp"

namespace na::sm {

using util::guarded;

namespace {

// 16 KiB of arguments, and what goes before them: to have more leave at once costs less than to
// have it fetched.
constexpr std::size_t kDefaultMessage = 16384 + 256;
constexpr std::size_t kMaxMessage = std::size_t{1} << 30;
// Messages up to this travel through the inject pool: two copies that overlap cost less than a
// system call and an answer.
constexpr std::size_t kLargestInject = 20480;
constexpr std::size_t kPoolBytes =
    512 * 1024;  // per direction; pages are taken from the system as they are used
constexpr int kBacklog = 4096;

// Numbers of endpoints in this process: an address is not used twice while the process lives, so
// that a late message never meets the wrong endpoint.
std::uint32_t next_number() noexcept {
    static std::atomic<std::uint32_t> next{0};
    return next.fetch_add(1, std::memory_order_relaxed);
}

std::size_t limit(std::size_t asked) noexcept {
    return asked == 0 ? kDefaultMessage : asked;
}

Geometry choose_geometry(std::size_t largest_message) noexcept {
    // Whole pages: otherwise copies of 2 KiB take a fifth longer.
    const std::size_t buffer = std::clamp(page_round(std::min(largest_message, kLargestInject)),
                                          std::size_t{Geometry::kMinBuffer}, kLargestInject);
    const std::size_t count =
        std::clamp(kPoolBytes / buffer, std::size_t{8}, std::size_t{Geometry::kMaxCount});
    return {static_cast<std::uint32_t>(buffer), static_cast<std::uint32_t>(count)};
}

// Comma-separated user ids, or "any".
void parse_users(const std::string& text, bool& any, std::vector<std::uint32_t>& users) {
    std::string_view rest = text;
    while (!rest.empty()) {
        const std::size_t comma = rest.find(',');
        const std::string_view word = rest.substr(0, comma);
        rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
        std::uint32_t uid = 0;
        const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), uid);
        if (word == "any") {
            any = true;
        } else if (error == std::errc{} && stop == word.data() + word.size()) {
            users.push_back(uid);
        } else {
            NA_LOG_WARNING(sm, "{}=\"{}\": \"{}\" is no user id and is ignored",
                           config::kSmAllowUids.name, text, word);
        }
    }
}

}  // namespace

Domain::Domain(const plugin::OpenSpec& spec)
    : contexts_(std::max<std::size_t>({spec.contexts, spec.info.max_contexts, 1})),
      listens_(spec.listen),
      namespaces_(util::find_namespaces()),
      sleepless_(spec.info.no_block),
      attaching_(config::number(config::kSmCma) == 0   ? Attaching::never
                 : config::number(config::kSmCma) == 1 ? Attaching::unprivileged
                                                       : Attaching::always),
      allocations_(random_) {
    caps_.protocol = "sm";
    caps_.max_message[0] = limit(spec.info.max_unexpected);
    caps_.max_message[1] = limit(spec.info.max_expected);
    caps_.op_scratch = sizeof(OpState);
    caps_.inject = kInlineBytes;
    caps_.max_segments = kMaxSegments;
    caps_.wakes_on_credit = true;
    geometry_ = choose_geometry(std::max(caps_.max_message[0], caps_.max_message[1]));
    parse_users(config::value(config::kSmAllowUids), any_user_, users_);
}

Domain::~Domain() = default;

Result<std::unique_ptr<plugin::Domain>> Domain::open(const plugin::OpenSpec& spec) {
    return guarded<plugin::Domain>([&]() -> Result<std::unique_ptr<plugin::Domain>> {
        for (const std::size_t asked :
             {spec.info.max_unexpected, spec.info.max_expected - spec.info.expected_spare}) {
            if (asked > kMaxMessage) {
                return Error{
                    Status::invalid_arg,
                    fmt::format("messages of {} bytes: sm takes at most {}; move larger data by "
                                "put, get or bulk transfer",
                                asked, kMaxMessage)};
            }
        }
        std::unique_ptr<Domain> domain(new Domain(spec));
        Error error;
        if (!ok(domain->permits_.open(error)) || !ok(domain->take_name(spec, error))) {
            return error;
        }
        return std::unique_ptr<plugin::Domain>(std::move(domain));
    });
}

Status Domain::take_name(const plugin::OpenSpec& spec, Error& error) {
    const auto bind = [&](const std::string& name) -> Status {
        auto reservation = bind_socket(reservation_name(name), 0);
        if (!reservation) {
            error = std::move(reservation).error();
            return error.status;
        }
        auto listener = bind_socket(socket_name(name, 0), kBacklog);
        if (!listener) {
            error = std::move(listener).error();
            return error.status;
        }
        name_ = name;
        reservation_ = std::move(*reservation);
        first_listener_ = std::move(*listener);
        return Status::success;
    };

    // A name is where others find a listener; who does not listen gets a number, whatever was
    // written.
    if (listens_ && !spec.host.empty()) {
        auto name = check_name(spec.host);
        if (!name) {
            error = std::move(name).error();
            return error.status;
        }
        if (const auto owner = owner_of(*name);
            owner && (owner->process != getpid() || !owner->lives_in(namespaces_))) {
            error = {Status::invalid_arg,
                     fmt::format("the sm name \"{}\" is of the form <pid>-<number>, which belongs "
                                 "to process {}: leave the "
                                 "name out, or choose another",
                                 *name, owner->process)};
            return error.status;
        }
        const Status s = bind(*name);
        if (!ok(s)) {
            error.message = fmt::format("sm://{}: {}", *name, error.message);
        }
        return s;
    }
    // A number can be taken by an explicit name, or by what a forked parent with this process id
    // left: try the next.
    for (int attempts = 0; attempts < 1000; ++attempts) {
        const Status s = bind(make_name({.process = getpid(), .namespaces = namespaces_},
                                        next_number(), static_cast<std::uint32_t>(random_.next())));
        if (s != Status::addrinuse) {
            return s;
        }
    }
    return error.status;
}

bool Domain::allows_user(std::uint32_t uid) const noexcept {
    return uid == geteuid() || any_user_ ||
           std::find(users_.begin(), users_.end(), uid) != users_.end();
}

std::string Domain::self_uri() const {
    return std::string(kScheme) + name_;
}

std::unique_ptr<plugin::Peer> Domain::make_peer(std::string name) const {
    const bool self = name == name_;
    return std::make_unique<Peer>(std::move(name), contexts_, self);
}

Result<std::unique_ptr<plugin::Peer>> Domain::connect(std::string_view uri) {
    return guarded<plugin::Peer>([&]() -> Result<std::unique_ptr<plugin::Peer>> {
        auto name = parse_uri(uri);
        if (!name) {
            return std::move(name).error();
        }
        return make_peer(std::move(*name));
    });
}

Result<std::unique_ptr<plugin::Peer>> Domain::decode_peer(std::span<const std::byte> identity) {
    return guarded<plugin::Peer>([&]() -> Result<std::unique_ptr<plugin::Peer>> {
        auto name = check_name({reinterpret_cast<const char*>(identity.data()), identity.size()});
        if (!name) {
            return Error{Status::protocol_error, "malformed sm address: " + name.error().message};
        }
        return make_peer(std::move(*name));
    });
}

Result<std::unique_ptr<plugin::Region>> Domain::register_memory(std::span<const Segment> segments,
                                                                Access access, MemoryKind kind,
                                                                std::uint64_t) {
    return guarded<plugin::Region>([&]() -> Result<std::unique_ptr<plugin::Region>> {
        if (kind != MemoryKind::host) {
            return Error{Status::opnotsupported, "sm moves host memory only"};
        }
        auto place = allocations_.find(segments[0].base, segments[0].length);
        for (const Segment& s : segments.subspan(1)) {
            if (!place) {
                break;
            }
            const auto other = allocations_.find(s.base, s.length);
            if (!other || other->id != place->id) {
                place.reset();
            }
        }
        // Peers reach memory directly by a mapping of its allocation, or where they can attach.
        const bool reachable = place.has_value() || attaching_ != Attaching::never;
        auto region = std::make_unique<LocalRegion>(
            regions_, reachable ? &permits_ : nullptr,
            std::vector<Segment>(segments.begin(), segments.end()), random_.next(), access);
        if (place) {
            region->allocation = place->id;
            region->allocation_base = place->base;
        }
        return std::unique_ptr<plugin::Region>(std::move(region));
    });
}

Result<std::unique_ptr<plugin::Region>> Domain::decode_region(std::span<const std::byte> encoded,
                                                              std::uint64_t length) {
    return guarded<plugin::Region>([&]() -> Result<std::unique_ptr<plugin::Region>> {
        return sm::decode_region(encoded, length);
    });
}

Result<std::unique_ptr<plugin::Context>> Domain::open_context(std::uint8_t id, plugin::Sink& sink) {
    return guarded<plugin::Context>([&]() -> Result<std::unique_ptr<plugin::Context>> {
        return Context::open(*this, id, sink);
    });
}

Result<UniqueFd> Domain::take_listener(std::uint8_t context) {
    if (context == 0) {
        const std::lock_guard guard(mutex_);
        if (first_listener_) {
            return std::move(first_listener_);
        }
    }
    return bind_socket(socket_name(name_, context), kBacklog);
}

void* Domain::allocate(std::size_t bytes) {
    return allocations_.allocate(bytes);
}

void Domain::deallocate(void* memory, std::size_t) {
    allocations_.deallocate(memory);
}

void Domain::retire(void* memory, std::size_t) {
    allocations_.retire(memory);
}

}  // namespace na::sm
