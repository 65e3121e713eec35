// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ofi/context.hpp"

#include <algorithm>
#include <cerrno>
#include <new>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <fmt/format.h>
#include <rdma/fi_cm.h>

#include "na/util/log.hpp"

namespace na::ofi {
namespace {

constexpr std::size_t kBatch = 16;
constexpr std::size_t kChunk = 32;
constexpr std::size_t kMaxRequests = 1024;
constexpr std::size_t kMinBounce = 8192;
constexpr std::size_t kMaxPiece = std::size_t{1} << 30;
constexpr std::int64_t kSettle = 50'000'000;          // ns: how long closing waits for connections
constexpr std::int64_t kConnectionLook = 20'000'000;  // ns: rxm looks at them every 10 ms
constexpr std::int64_t kFarewell = 20'000'000;  // ns: how long closing waits for what is under way

std::size_t largest_of(const plugin::Caps& caps) noexcept {
    return std::max(caps.max_message[0], caps.max_message[1]);
}

}  // namespace

Context::Context(Domain& domain, std::uint8_t id, std::unique_ptr<Endpoint> endpoint,
                 plugin::Sink& sink)
    : domain_(domain),
      id_(id),
      sink_(sink),
      window_(domain.window()),
      inject_(domain.provider().inject ? domain.info().tx_attr->inject_size : 0),
      bounce_bytes_(std::max({largest_of(domain.caps()), kMaxControl, kMinBounce})),
      largest_piece_(std::min(domain.info().ep_attr->max_msg_size, kMaxPiece)),
      endpoint_(std::move(endpoint)) {}

Error Context::open() {
    if (domain_.provider().probe == Probe::process) {
        processes_.reset(epoll_create1(EPOLL_CLOEXEC));  // if that fails, others look
    }
    if (domain_.no_block()) {
        return Error{Status::success, {}};
    }
    set_.reset(epoll_create1(EPOLL_CLOEXEC));
    timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (!set_ || !timer_) {
        return Error{
            Status::nomem,
            "cannot make a descriptor to wait on: raise the limit on open files (ulimit -n)"};
    }
    epoll_event event{};
    event.events = EPOLLIN;
    if (epoll_ctl(set_.get(), EPOLL_CTL_ADD, timer_.get(), &event) != 0) {
        return Error{Status::io_error, "cannot wait on a timer"};
    }
    if (processes_) {
        epoll_ctl(set_.get(), EPOLL_CTL_ADD, processes_.get(), &event);
    }
    return Error{Status::success, {}};
}

Context::~Context() {
    for (auto& [key, link] : links_) {
        if (link->state == Link::State::up && !link->self) {
            link->due |= Link::kBye;
            flush(*link);
        }
    }
    see_off();
    if (domain_.provider().forgets_requests) {
        settle();
    }
    for (auto& [key, link] : links_) {
        if (link->peer != nullptr) {
            link->peer->links(id_).set(link->target, nullptr);
            if (link->holds_source) {
                sink_.release(*link->peer);
            }
        }
    }
    for (auto& [key, link] : links_) {
        if (process_gone(*link)) {
            remove_left(*link);
        }
    }
    endpoint_.reset();
}

// Waits for what is under way, not longer than the goodbyes take: what the core had it has ended.
void Context::see_off() noexcept {
    for (const std::int64_t end = now_ns() + kFarewell; under_way_ != 0 && now_ns() < end;) {
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
    }
}

// Lets the provider take up the connections that were made to it.
void Context::settle() noexcept {
    const int fd = endpoint_->wait_fd();
    const std::int64_t start = now_ns();
    for (std::int64_t now = start; now - start < kSettle; now = now_ns()) {
        // Its descriptor tells that there are some; without one they are found when it looks.
        pollfd set{fd, POLLIN, 0};
        if (fd >= 0 ? ::poll(&set, 1, 0) == 0 : now - start > kConnectionLook) {
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
// --------------------------------------------------------------------------------------------------------

Request* Context::take_request() noexcept {
    if (free_.empty() && !grow_requests()) [[unlikely]] {
        return nullptr;
    }
    return free_.pop_front();
}

bool Context::grow_requests() noexcept {
    if (chunks_.size() * kChunk >= kMaxRequests) {
        return false;
    }
    try {
        Chunk chunk;
        chunk.requests = std::make_unique<Request[]>(kChunk);
        chunk.memory.reset(new std::byte[kChunk * bounce_bytes_]);
        auto mr = domain_.registrar().local(chunk.memory.get(), kChunk * bounce_bytes_);
        if (!mr) {
            NA_LOG_WARNING(mem, "{}", mr.error().message);
            return false;
        }
        chunk.registration = std::move(*mr);
        chunks_.reserve(chunks_.size() + 1);
        for (std::size_t i = 0; i < kChunk; ++i) {
            Request& r = chunk.requests[i];
            r.what = Token::What::request;
            r.bounce = chunk.memory.get() + i * bounce_bytes_;
            r.descriptor =
                chunk.registration == nullptr ? nullptr : fi_mr_desc(chunk.registration.get());
            free_.push_back(r);
        }
        chunks_.push_back(std::move(chunk));
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
}

// The provider has it.
void Context::start(Request& r, Link& link) noexcept {
    r.link = &link;
    link.requests.push_back(r);
    ++under_way_;
}

void Context::finish(Request& r) noexcept {
    if (r.hook.linked()) {
        util::IntrusiveList<Request, &Request::hook>::remove(r);
    }
    r.op = nullptr;
    r.transfer = nullptr;
    r.link = nullptr;
    r.bounced = false;
    if (r.debtor != FI_ADDR_NOTAVAIL) [[unlikely]] {
        pay(r);
    }
    --under_way_;
    free_.push_front(r);
}

void Context::done(Request& r, int error, const char* text) {
    Link* link = r.link;  // null: what it belonged to has ended before
    const bool gone = means_lost(error);
    const Status status = gone ? Status::hostunreach : status_of(error);
    if (error != 0) [[unlikely]] {
        ++stats_.errors;
        NA_LOG_INFO(op, "an operation to {} failed: {}",
                    link == nullptr ? "a lost peer" : link->address.text(), text);
    }
    if (r.transfer != nullptr) {
        piece_done(r, status);
    } else {
        Op* op = r.op;
        finish(r);
        if (op != nullptr) {
            sink_.complete(*op, {.status = status, .size = op->length});
        }
    }
    if (gone && link != nullptr) {
        lost(*link, Status::hostunreach);
    }
}

// --- progress
// --------------------------------------------------------------------------------------------------------

std::size_t Context::progress() {
    std::size_t events = 0;
    if (armed_) [[unlikely]] {
        armed_ = false;
        polls_ = 0;
        if (timer_due_ != 0 && timer_due_ <= now_ns()) {
            std::uint64_t count = 0;
            [[maybe_unused]] const ssize_t n = read(timer_.get(), &count, sizeof count);
            timer_due_ = 0;
        }
    }
    full_ = false;
    try {
        events += read_queue();
        if (endpoint_->starved()) [[unlikely]] {
            endpoint_->repost();
        }
        if (!work_.empty() || !transfers_.empty()) [[unlikely]] {
            events += do_work();
        }
        if ((!watched_.empty() || processes_) && (polls_++ & 63) == 0) [[unlikely]] {
            look_around();
        }
        if (!dead_.empty()) [[unlikely]] {
            bury_dead();
        }
    } catch (const std::bad_alloc&) {
        NA_LOG_WARNING(poll, "out of memory: messages may be lost");
    }
    if (events != 0) {
        busy_ = true;
        held_nap_ = 0;
    }
    return events;
}

std::size_t Context::read_queue() noexcept {
    fi_cq_data_entry entries[kBatch];
    std::size_t events = 0;
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
            events += read_error() ? 1 : 0;
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
        ++stats_.bad_input;
        sink_.dropped("a message that the provider could not receive");
        auto& buffer = static_cast<ReceiveBuffer&>(*token);
        if (!endpoint_->multi() || (error.flags & FI_MULTI_RECV) != 0) {
            endpoint_->unposted(buffer);
        }
        return true;
    }
    const std::string both =
        fmt::format("{} ({})", fi_strerror(error.err), words == nullptr ? "" : words);
    done(static_cast<Request&>(*token), error.err, both.c_str());
    return true;
}

// What could not be done at once: messages of our own, pieces of transfers, messages that the core
// had no room for.
std::size_t Context::do_work() {
    std::size_t events = 0;
    for (Transfer* t = transfers_.front(); t != nullptr;) {
        Transfer* next = transfers_.next(*t);
        if (t->link->state == Link::State::up) {
            const ssize_t rc = post_pieces(*t);
            if (rc != -FI_EAGAIN) {
                util::IntrusiveList<Transfer, &Transfer::hook>::remove(*t);
                end_if_done(*t);
                ++events;
            }
        }
        t = next;
    }
    for (Link* link = work_.front(); link != nullptr;) {
        Link* next = work_.next(*link);
        if (link->doomed) [[unlikely]] {
            lost(*link, Status::hostunreach);
        }
        const bool flushed = link->due == 0 || flush(*link);
        if (link->holding()) {
            deliver_held(*link);
        }
        if (flushed && link->due == 0 && !link->doomed && !link->holding()) {
            util::IntrusiveList<Link, &Link::work>::remove(*link);
            ++events;
        }
        link = next;
    }
    return events;
}

// --- the rest
// --------------------------------------------------------------------------------------------------------

void Context::cancel(Op& op) {
    if (op.kind == OpKind::put || op.kind == OpKind::get) {
        cancel_transfer(*static_cast<Transfer*>(op.scratch));
        return;
    }
    Link* link = static_cast<Peer*>(op.peer)->links(id_).to(op.target_id);
    if (link == nullptr) {
        return;
    }
    // The provider keeps our copy and will deliver it: the operation ends now, and truthfully. Who
    // is told "canceled" relies on it that the message does not arrive.
    for (Request* r = link->requests.front(); r != nullptr; r = link->requests.next(*r)) {
        if (r->op == &op) {
            r->op = nullptr;
            sink_.complete(op, {.status = Status::success, .size = op.length});
            return;
        }
    }
}

void Context::stats(std::vector<plugin::Stat>& out) const {
    const plugin::Stat list[] = {
        {"ofi_injected", stats_.injected},
        {"ofi_copied", stats_.copied},
        {"ofi_received", stats_.received},
        {"ofi_held", stats_.held},
        {"ofi_control", stats_.control},
        {"ofi_again", stats_.refused},
        {"ofi_no_credit", stats_.no_credit},
        {"ofi_sessions", stats_.sessions},
        {"ofi_lost", stats_.lost},
        {"ofi_probes", stats_.probes},
        {"ofi_checks", stats_.checks},
        {"ofi_bad_input", stats_.bad_input},
        {"ofi_errors", stats_.errors},
        {"ofi_rma_inject", stats_.rma_inject},
        {"ofi_rma_bounce", stats_.rma_bounce},
        {"ofi_rma_direct", stats_.rma_direct},
        {"ofi_links", links_.size()},
    };
    out.insert(out.end(), std::begin(list), std::end(list));
}

}  // namespace na::ofi
