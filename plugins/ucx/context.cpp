// SPDX-License-Identifier: BSD-3-Clause
// Life and progress.
#include "plugins/ucx/context.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include <sys/epoll.h>
#include <sys/resource.h>

#include "na/util/log.hpp"
#include "na/util/spell.hpp"
#include "plugins/ucx/transports.hpp"

namespace na::ucx {
namespace {

constexpr std::int64_t kFarewell = 20'000'000;  // ns: how long closing waits for what is sent
constexpr std::int64_t kFarewellStep = 1'000'000;
constexpr std::int64_t kCloseLimit = 500'000'000;  // ns: and for UCX to close endpoints
constexpr std::int64_t kFdInterval = 200'000;      // ns
// Between looks at connections, which cost by their number: at most a twentieth of the time.
constexpr std::int64_t kMarkInterval = 10 * session::kMs;
constexpr std::int64_t kMarkShare = 20;
constexpr std::int64_t kArrival = 1000 * session::kMs;  // from the bootstrap port to a greeting

// A stranger costs two descriptors while it is looked for where it says it is: whoever makes
// strangers up shall not use up what the process has.
std::size_t max_strangers() noexcept {
    constexpr rlim_t kShare = 16;
    rlimit files{};
    const bool known = getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY;
    return known ? std::clamp<std::size_t>(files.rlim_cur / kShare, 16, 1024) : 1024;
}

session::Traits traits_of(int fd) noexcept {
    return {.port_is_tcp = true,
            .library_fd = fd,
            .fd_interval = kFdInterval,
            .max_strangers = max_strangers()};
}

bool handle(ucp_worker_h worker, unsigned id, ucp_am_recv_callback_t call, void* context) noexcept {
    ucp_am_handler_param_t param{};
    param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
    param.id = id;
    param.cb = call;
    param.arg = context;
    return ucp_worker_set_am_recv_handler(worker, &param) == UCS_OK;
}

}  // namespace

Result<std::unique_ptr<plugin::Context>> Context::open(Domain& domain, std::uint8_t id,
                                                       BootstrapPort port, plugin::Sink& sink) {
    auto worker = Worker::make(domain);
    if (!worker) {
        return std::move(worker).error();
    }
    std::unique_ptr<Context> context(
        new Context(domain, id, std::move(*worker), std::move(port), sink));
    if (Error error = context->listen(); !ok(error.status)) {
        return error;
    }
    return std::unique_ptr<plugin::Context>(std::move(context));
}

Context::Context(Domain& domain, std::uint8_t id, std::unique_ptr<Worker> worker,
                 BootstrapPort port, plugin::Sink& sink)
    : Engine(domain.local(), id, sink, traits_of(worker->fd())),
      domain_(domain),
      immediate_(at_least(1, 13)),  // earlier ones take such a message as any other
      door_(std::move(port), *this),
      requests_(domain.local().bounce_bytes()),
      carriers_(RmaHeader::kSize + kPieceBytes),
      unpack_room_(domain.registrar() != nullptr ? std::make_unique<UnpackRoom>() : nullptr),
      devices_(domain.local().caps.device_memory) {
    door_.tell(worker->addresses());
    workers_.push_back(std::move(worker));
}

Error Context::take_messages(const Worker& worker) noexcept {
    if (!handle(worker.get(), kMessageId, on_message, this) ||
        !handle(worker.get(), kRmaId, on_rma, this)) {
        return Error{Status::io_error, "UCX takes no handlers of active messages"};
    }
    return Error{Status::success, {}};
}

Error Context::listen() {
    if (Error error = Engine::open(); !ok(error.status)) {
        return error;
    }
    if (Error error = take_messages(*workers_.front()); !ok(error.status)) {
        return error;
    }
    if (!watch_fd(door_.fd(), EPOLLIN, door_) ||
        (async::Drain::fd() >= 0 && !watch_fd(async::Drain::fd(), EPOLLIN, drain_))) {
        return Error{Status::nomem,
                     "cannot wait on a port: raise the limit on open files (ulimit -n)"};
    }
    return Error{Status::success, {}};
}

Context::~Context() {
    say_goodbye();
    see_off();
    closed_ = true;
    release_peers();
    unwatch_fd(door_.fd());
    if (async::Drain::fd() >= 0) {
        unwatch_fd(async::Drain::fd());
    }
    for (auto& [key, link] : links()) {
        leave(*link);
    }
    close_all();
    // Whatever is left goes with the worker; keys before.
    for (auto* list : {&left_, &closing_}) {
        for (Way* way = list->front(); way != nullptr; way = list->next(*way)) {
            way->keys.reset();
        }
    }
    for (const auto& worker : workers_) {
        if (worker != workers_.front() && worker->fd() >= 0) {
            unwatch_fd(worker->fd());
        }
    }
    workers_.clear();
    for (auto* list : {&left_, &closing_}) {
        while (Way* way = list->pop_front()) {
            delete way;
        }
    }
}

// What was sent last shall get there, the goodbyes with it.
void Context::see_off() noexcept {
    closed_ = true;  // nothing more is taken
    std::vector<ucs_status_ptr_t> flushes;
    try {
        for (auto& [key, base] : links()) {
            const auto& link = static_cast<const Link&>(*base);
            if (link.way == nullptr || !link.way->ready || link.way->failed ||
                link.state != session::Link::State::up) {
                continue;
            }
            ucp_request_param_t param{};
            const ucs_status_ptr_t r = ucp_ep_flush_nbx(link.way->ep, &param);
            if (UCS_PTR_IS_PTR(r)) {
                flushes.push_back(r);
            }
        }
    } catch (const std::bad_alloc&) {
    }
    const auto under_way = [&] {
        return std::any_of(flushes.begin(), flushes.end(), [](ucs_status_ptr_t r) {
            return ucp_request_check_status(r) == UCS_INPROGRESS;
        });
    };
    for (util::Spell waits(kFarewellStep);
         under_way() && !waits.lasts(session::now_ns(), kFarewell);) {
        progress_workers();
    }
    for (ucs_status_ptr_t r : flushes) {
        ucp_request_free(r);
    }
}

void Context::close_all() noexcept {
    close_left();
    for (const std::int64_t end = session::now_ns() + kCloseLimit;
         !closing_.empty() && session::now_ns() < end;) {
        progress_workers();
        settle_spent();
        close_left();
    }
}

// --- progress

// There is one, but for times after descriptors had run out.
unsigned Context::progress_workers() noexcept {
    unsigned moved = ucp_worker_progress(workers_.front()->get());
    for (std::size_t i = 1; i < workers_.size(); ++i)
        [[unlikely]] {
            moved += ucp_worker_progress(workers_[i]->get());
        }
    return moved;
}

std::size_t Context::poll() {
    arrivals_ = 0;
    if (!left_.empty() || !closing_.empty()) [[unlikely]] {
        close_left();
    }
    if (workers_.size() > 1) [[unlikely]] {
        close_unused_workers();
    }
    if (unmarked_) [[unlikely]] {
        mark_connections();
    }
    moved_ = progress_workers();
    std::size_t events = arrivals_;
    if (!spent_.empty()) {
        events += settle_spent();
    }
    if (!failed_.empty()) [[unlikely]] {
        events += bury_failed();
    }
    if (!serving_.empty()) {
        events += serve();
    }
    if (!transfers_.empty()) {
        events += post_waiting();
    }
    return events;
}

// UCX's connections are in its epoll sets. They are looked at while peers come or are greeted, and
// once after that.
void Context::mark_connections() noexcept {
    const std::int64_t start = session::now_ns();
    if (start < next_mark_) {
        return;
    }
    const bool more = start - admitted_at_ < kArrival ||
                      std::any_of(links().begin(), links().end(), [](const auto& entry) {
                          return entry.second->state == session::Link::State::greeting;
                      });
    for (const auto& worker : workers_) {
        worker->keep_from_helpers();
    }
    unmarked_ = more;
    const std::int64_t end = session::now_ns();
    next_mark_ = end + std::max(kMarkInterval, (end - start) * kMarkShare);
}

// What UCX is done with. In the destructor the operations have ended before.
std::size_t Context::settle_spent() {
    std::size_t events = 0;
    while (Request* r = spent_.pop_front()) {
        ++events;
        --with_ucx_;
        Way* way = std::exchange(r->way, nullptr);
        --way->requests;
        --(r->home == &natives_ ? way->natives : r->message ? way->queued : way->carried);
        Op* op = ended(*r);
        if (r->home == &natives_) {
            native_ended(*r, way->failed || way->link == nullptr);
        }
        const ucs_status_t result = r->result;
        r->home->put_back(*r);
        if (op != nullptr && !closed_) {
            if (result != UCS_OK) {
                NA_LOG_INFO(op, "a message was not sent: {}", ucs_status_string(result));
            }
            complete(*op, status_of(result));
        }
    }
    return events;
}

Context::Rest Context::rest() noexcept {
    // UCX arms also while it works on a connection that is new, and then sleeps over what comes on
    // it: not before it has nothing more to do.
    if (moved_ != 0 || !spent_.empty() || !failed_.empty() || !left_.empty()) {
        return Rest::no;
    }
    if (!serving_.empty() || !closing_.empty()) {
        retry_soon();
    }
    if (unmarked_) {
        wake_within(session::kLook);
    }
    Rest how = Rest::watched;
    for (const auto& worker : workers_) {
        const ucs_status_t rc = ucp_worker_arm(worker->get());
        if (rc == UCS_ERR_BUSY) {
            return Rest::no;
        }
        how = rc == UCS_OK ? how : Rest::unwatched;
    }
    return how;
}

void Context::stats(std::vector<plugin::Stat>& out) const {
    Engine::stats(out);
    const plugin::Stat list[] = {
        {"ucx_immediate", stats_.immediate}, {"ucx_copied", stats_.copied},
        {"ucx_queued", stats_.queued},       {"ucx_endpoints", stats_.ways},
        {"ucx_failed", stats_.failed},       {"ucx_rma_pieces", stats_.pieces},
        {"ucx_rma_served", stats_.served},   {"ucx_rma_refused", stats_.refused},
        {"ucx_rma_late", stats_.late},       {"ucx_rma_native", stats_.native},
        {"ucx_bootstrap", door_.answered()}, {"ucx_turned_away", door_.refused()},
        {"ucx_workers", workers_.size()},
    };
    out.insert(out.end(), std::begin(list), std::end(list));
}

}  // namespace na::ucx
