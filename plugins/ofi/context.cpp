// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ofi/context.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>

#include <rdma/fi_cm.h>

#include "na/util/files.hpp"
#include "na/util/log.hpp"
#include "plugins/ofi/parked.hpp"
#include "plugins/ofi/segments.hpp"
#include "plugins/ofi/spots.hpp"

namespace na::ofi {
namespace {

constexpr std::size_t kBatch = 16;
constexpr std::size_t kReserve = 8;  // of descriptors, for peers that are here and for the program
constexpr std::size_t kMaxPiece = std::size_t{1} << 30;
constexpr std::int64_t kSettle = 50'000'000;  // ns: how long closing waits for connections
constexpr int kSettles = 4;
constexpr std::int64_t kConnectionLook = 20'000'000;  // ns: rxm looks at them every 10 ms
constexpr std::int64_t kFarewell = 20'000'000;  // ns: how long closing waits for what is under way
constexpr std::int64_t kFarewellStep = 1'000'000;

// Beyond the provider's own buffers a message is fetched by the receiver, or comes in pieces.
constexpr std::int64_t kInOrder = 1'000'000'000;  // ns
constexpr std::int64_t kOvertaking = 30 * kInOrder;

std::int64_t overtaking(const Provider& provider, const session::Local& local) noexcept {
    const std::size_t largest = std::max(local.caps.max_message[0], local.caps.max_message[1]);
    return !provider.breaks ? 0 : largest <= provider.in_order ? kInOrder : kOvertaking;
}

session::Traits traits_of(const Domain& domain, const Endpoint& endpoint) noexcept {
    const Provider& provider = domain.provider();
    return {.port_is_tcp = provider.probe == Probe::tcp,
            .connects_aside = provider.connects_aside,
            .connects_once = provider.connects_once,
            .looks = provider.probe == Probe::process,
            .library_fd = endpoint.wait_fd(),
            .fd_interval = session::kLook,
            .reserve = kReserve,
            .overtaking = overtaking(provider, domain.local())};
}

// Of the provider's room. The rest is for what is injected, and for the peers' own
// (RequestPool::take).
std::size_t most_requests(std::size_t room) noexcept {
    constexpr std::size_t kMost = session::RequestPool<Request>::kMost;
    return room == 0 ? kMost : std::min(kMost, room / 4 * 3);  // 0: it does not say
}

}  // namespace

Context::Context(Domain& domain, std::uint8_t id, std::unique_ptr<Endpoint> endpoint,
                 plugin::Sink& sink)
    : session::Engine(domain.local(), id, sink, traits_of(domain, *endpoint)),
      domain_(domain),
      inject_(domain.provider().inject ? domain.info().tx_attr->inject_size : 0),
      largest_piece_(std::min(domain.info().ep_attr->max_msg_size, kMaxPiece)),
      endpoint_(std::move(endpoint)),
      pool_(domain.local().bounce_bytes(), most_requests(domain.info().tx_attr->size)) {}

Context::~Context() {
    domain_.context_closes(id());
    say_goodbye();
    see_off();
    if (domain_.provider().forgets_requests) {
        settle();
    }
    release_peers();
    for (const auto& [key, link] : links()) {
        if (gone(*link)) {
            mourns(of(*link));
        }
    }
    if (mourning_) {
        remove_stale_segments();
    }
    if (domain_.provider().probe == Probe::process) {
        leave_for_others();
        endpoint_.reset();
        close_parked();
    }
    endpoint_.reset();
}

std::unique_ptr<session::Link> Context::make_link(session::Address address, std::uint8_t target) {
    return std::make_unique<Link>(*this, std::move(address), target);
}

// Waits for what is under way, not longer than the goodbyes take: what the core had it has ended.
void Context::see_off() noexcept {
    for (util::Spell waits(kFarewellStep);
         under_way_ != 0 && !waits.lasts(session::now_ns(), kFarewell);) {
        fi_cq_data_entry entries[kBatch];
        const ssize_t n = fi_cq_read(endpoint_->cq(), entries, kBatch);
        if (n == -FI_EAVAIL) {
            fi_cq_err_entry error{};
            if (fi_cq_readerr(endpoint_->cq(), &error, 0) < 0) {
                break;
            }
            under_way_ -= std::min<std::size_t>(under_way_, 1);
        }
        for (ssize_t i = 0; i < n; ++i) {
            auto* token = static_cast<Token*>(entries[i].op_context);
            under_way_ -= token != nullptr && token->what == Token::What::request ? 1 : 0;
        }
        if (n <= 0) {
            std::this_thread::yield();  // to a thread of the provider's, perhaps
        }
    }
}

// Lets the provider take up the connections that were made to it, and let go of those on which
// nothing was said: probes of peers, which would not learn otherwise that we close, and strangers.
void Context::settle() noexcept {
    util::IpEndpoint here;
    try {
        if (const auto name = endpoint_->name()) {
            here = name->ip();
        }
    } catch (const std::bad_alloc&) {
    }
    for (int i = 0; i < kSettles; ++i) {  // not as long as strangers like
        settle_once();
        if (util::hang_up_on_strangers(here) == 0) {
            return;
        }
    }
}

void Context::settle_once() noexcept {
    const int fd = endpoint_->queue_fd();
    fid* queue = &endpoint_->cq()->fid;
    const std::int64_t start = session::now_ns();
    for (std::int64_t now = start; now - start < kSettle; now = session::now_ns()) {
        // Its descriptor tells that there are some, as soon as it is asked to take back what it has
        // told of others; without one they are found when it looks.
        pollfd set{fd, POLLIN, 0};
        if (fd >= 0
                ? fi_trywait(domain_.fabric(), &queue, 1) == FI_SUCCESS && ::poll(&set, 1, 0) == 0
                : now - start > kConnectionLook) {
            break;
        }
        errno = 0;  // as in read_queue()
        fi_cq_data_entry entries[kBatch];
        fi_cq_err_entry error{};
        if (fi_cq_read(endpoint_->cq(), entries, kBatch) == -FI_EAVAIL &&
            fi_cq_readerr(endpoint_->cq(), &error, 0) < 0) {
            break;
        }
    }
}

// --- requests

Request* Context::take_request(const Link& link) noexcept {
    return pool_.take(
        [this](std::byte* memory, std::size_t bytes) {
            return domain_.registrar().local(memory, bytes, *endpoint_->ep());
        },
        link.request_count);
}

// Answers the operation that ends with it, if there is one.
Op* Context::finish(Request& r) noexcept {
    Op* op = ended(r);
    r.transfer = nullptr;
    r.bounced = false;
    if (r.debtor != FI_ADDR_NOTAVAIL) [[unlikely]] {
        pay(r);
    }
    --under_way_;
    pool_.put_back(r);
    return op;
}

void Context::done(Request& r, int error, const char* text) {
    session::Link* link = r.link;  // null: what it belonged to has ended before
    const bool gone = means_lost(error);
    const Status status = status_with_peer(error);
    if (error != 0) [[unlikely]] {
        ++stats_.errors;
        if (link == nullptr) {
            NA_LOG_INFO(op, "an operation to a lost peer failed: {}", text);
        } else {
            NA_LOG_INFO(op, "an operation to {} failed: {}", link->address, text);
        }
    }
    if (r.transfer != nullptr) {
        piece_done(r, status);
    } else if (Op* op = finish(r)) {
        complete(*op, status);
    }
    if (gone && link != nullptr && (error == FI_ECONNREFUSED || !begins_anew(*link))) {
        parted(*link);
    }
}

// --- progress

std::size_t Context::poll() {
    if (rested_) [[unlikely]] {
        rested_ = false;
        look_at_files();
    }
    if (unmarked_) [[unlikely]] {
        mark_sockets();
    }
    std::size_t events = starving_ ? read_queue_starved() : read_queue();
    if (endpoint_->starved()) [[unlikely]] {
        endpoint_->repost();
    }
    if (!transfers_.empty()) [[unlikely]] {
        events += go_on();
    }
    if (lent_ != 0) [[unlikely]] {
        look_for_silence();
    }
    return events;
}

// shm of libfabric 1.17 ends the process where it finds a newcomer in its queue, and has no
// descriptor to open the segment of that with. Two are kept for the time of that look. Shortage is
// looked for after each sleep and every few milliseconds.
void Context::look_at_files() noexcept {
    if (domain_.provider().probe != Probe::process) {
        return;
    }
    for (util::UniqueFd& spare : spares_) {
        if (!spare) {
            spare.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        }
    }
    starving_ = util::free_descriptors(std::size(spares_)) < std::size(spares_);
}

std::size_t Context::read_queue_starved() noexcept {
    for (util::UniqueFd& spare : spares_) {
        spare.reset();
    }
    const std::size_t events = read_queue();
    look_at_files();
    return events;
}

Context::Rest Context::rest() noexcept {
    rested_ = true;
    if (unmarked_) {
        wake_within(session::kLook);
    }
    if (retiring() || mourning_) {
        wake_within(session::kLook);
    }
    if (!silence_.empty()) {
        wake_within(util::SilenceWatch::kInterval);
    }
    if (!transfers_.empty() || endpoint_->starved()) {
        retry_soon();
    }
    if (endpoint_->wait_fd() < 0) {
        return Rest::unwatched;
    }
    fid* queue = &endpoint_->cq()->fid;
    return fi_trywait(domain_.fabric(), &queue, 1) == FI_SUCCESS ? Rest::watched : Rest::no;
}

void Context::look() {
    look_at_files();
    if (!retired_.empty()) {
        look_at_retired();
    }
    if (std::exchange(mourning_, false)) {
        remove_stale_segments();
    }
}

std::size_t Context::read_queue() noexcept {
    fi_cq_data_entry entries[kBatch];
    std::size_t events = 0;
    follow_spots();
    for (;;) {
        // tcp of libfabric 1.17 reads errno when a stranger has hung up before a whole connection
        // request: with what is left there, EAGAIN mostly, it would keep the socket for ever, and
        // its readiness would keep us awake.
        errno = 0;
        const ssize_t n = fi_cq_read(endpoint_->cq(), entries, kBatch);
        if (n == -FI_EAGAIN || n == 0) {
            return events;
        }
        if (n < 0) [[unlikely]] {
            if (n != -FI_EAVAIL) {
                NA_LOG_ERROR(poll, "cannot read the completion queue: {}",
                             fi_strerror(static_cast<int>(-n)));
                return events;
            }
            if (!read_error()) {
                return events;  // another look finds it, if it is there
            }
            ++events;
            continue;
        }
        for (ssize_t i = 0; i < n; ++i) {
            const fi_cq_data_entry& e = entries[i];
            auto* token = static_cast<Token*>(e.op_context);
            if (token == nullptr) [[unlikely]] {
                continue;
            }
            if (token->what == Token::What::request) {
                done(static_cast<Request&>(*token), 0, "");
                continue;
            }
            auto& buffer = static_cast<ReceiveBuffer&>(*token);
            if ((e.flags & FI_RECV) != 0 || e.len != 0) {
                const auto* at =
                    endpoint_->multi() ? static_cast<const std::byte*>(e.buf) : buffer.memory;
                arrived({at, e.len});
            }
            // A single receive is used up, a multi-receive when the provider says so.
            if (!endpoint_->multi() || (e.flags & FI_MULTI_RECV) != 0) {
                endpoint_->unposted(buffer);
                (void)endpoint_->post(buffer);
            }
        }
        events += static_cast<std::size_t>(n);
        if (static_cast<std::size_t>(n) < kBatch) {
            return events;
        }
    }
}

bool Context::read_error() noexcept {
    fi_cq_err_entry error{};
    char data[64];
    error.err_data = data;
    error.err_data_size = sizeof data;
    if (fi_cq_readerr(endpoint_->cq(), &error, 0) < 0) {
        return false;
    }
    char text[128] = "";
    const char* words =
        fi_cq_strerror(endpoint_->cq(), error.prov_errno, error.err_data, text, sizeof text);
    auto* token = static_cast<Token*>(error.op_context);
    if (token == nullptr) {
        NA_LOG_WARNING(poll, "the provider reports: {} ({})", fi_strerror(error.err),
                       words == nullptr ? "" : words);
        return true;
    }
    if (token->what == Token::What::buffer) {
        malformed("a message that the provider could not receive");
        auto& buffer = static_cast<ReceiveBuffer&>(*token);
        if (!endpoint_->multi() || (error.flags & FI_MULTI_RECV) != 0) {
            endpoint_->unposted(buffer);
        }
        return true;
    }
    char both[256];
    std::snprintf(both, sizeof both, "%s (%s)", fi_strerror(error.err),
                  words == nullptr ? "" : words);
    done(static_cast<Request&>(*token), error.err, both);
    return true;
}

// --- the rest

void Context::cancel(Op& op) {
    if (op.kind == OpKind::put || op.kind == OpKind::get) {
        cancel_transfer(*static_cast<Transfer*>(op.scratch));
        return;
    }
    Engine::cancel(op);
}

void Context::stats(std::vector<plugin::Stat>& out) const {
    Engine::stats(out);
    const plugin::Stat list[] = {
        {"ofi_injected", stats_.injected},     {"ofi_copied", stats_.copied},
        {"ofi_errors", stats_.errors},         {"ofi_rma_inject", stats_.rma_inject},
        {"ofi_rma_bounce", stats_.rma_bounce}, {"ofi_rma_direct", stats_.rma_direct},
    };
    out.insert(out.end(), std::begin(list), std::end(list));
}

}  // namespace na::ofi
