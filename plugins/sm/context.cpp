// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/sm/context.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "na/util/log.hpp"

namespace na::sm {
namespace {

// How often the sockets are looked at: under traffic, and when nothing has come for a while. A peer that is only held up by
// the scheduler should not make us spend system calls on waiting for it.
constexpr std::int64_t kBusyInterval = 1'000'000;
constexpr std::int64_t kIdleInterval = 20'000;
constexpr std::int64_t kIdleAfter = 10'000'000;
// The clock is read every so many polls, less often the faster they follow each other.
constexpr std::int64_t kClockInterval = 2'000;
constexpr std::uint32_t kMaxClockEvery = 256;
// Cold rings looked at per look at the sockets, in case a peer has tampered with the ready map.
constexpr std::uint32_t kSweepStep = 64;
// A hot ring may be displaced when it had nothing for so many polls.
constexpr std::uint32_t kIdlePolls = 64;
// When to try a peer again whose backlog is full.
constexpr std::int64_t kConnectRetry = 1'000'000;

}  // namespace

Context::Context(Domain& domain, std::uint8_t id, plugin::Sink& sink)
    : domain_(domain),
      sink_(sink),
      id_(id),
      max_message_{domain.caps().max_message[0], domain.caps().max_message[1]} {}

Result<std::unique_ptr<plugin::Context>> Context::open(Domain& domain, std::uint8_t id,
                                                       plugin::Sink& sink) {
    std::unique_ptr<Context> context(new Context(domain, id, sink));
    Error error;
    if (!ok(context->set_up(error))) {
        return error;
    }
    return std::unique_ptr<plugin::Context>(std::move(context));
}

Status Context::set_up(Error& error) {
    const auto failed = [&](Error&& why) {
        error = std::move(why);
        return error.status;
    };
    auto status = make_shared_memory(kPageBytes, true);
    if (!status) {
        return failed(std::move(status).error());
    }
    auto ready = make_shared_memory(kPageBytes, false);
    if (!ready) {
        return failed(std::move(ready).error());
    }
    auto listener = domain_.take_listener(id_);
    if (!listener) {
        return failed(std::move(listener).error());
    }
    status_page_ = std::move(*status);
    status_ = status_page_.mapping.at<StatusPage>(0);
    status_->version = kLayoutVersion;
    status_->pid = static_cast<std::uint32_t>(getpid());
    ready_page_ = std::move(*ready);
    ready_ = ready_page_.mapping.at<ReadyMap>(0);
    listener_ = std::move(*listener);
    nonce_ = domain_.random().next();
    freed_ = domain_.allocations().generation();
    epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_) {
        return failed(os_error(errno, "cannot make an epoll descriptor"));
    }
    spare_.reset(fcntl(epoll_.get(), F_DUPFD_CLOEXEC, 0));
    timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (!spare_ || !timer_ || !watch(listener_.get(), Event::listener, 0) ||
        !watch(timer_.get(), Event::timer, 0)) {
        return failed(os_error(errno, "cannot watch the listening socket"));
    }
    return Status::success;
}

// The core has ended the operations. Arrivals are its, too, but only we know that no more bytes
// will come.
Context::~Context() {
    for (const auto& c : slots_) {
        if (c != nullptr) {
            close_connection(*c);
        }
    }
}

// Everything that refers to the connection, but for its place in slots_.
void Context::close_connection(Connection& c) noexcept {
    end_copies(c, Status::canceled, false);
    c.end_all(Status::canceled, false);
    if (Peer* peer = std::exchange(c.peer, nullptr)) {
        Link& link = peer->link(id_);
        std::erase(link.all, &c);
        if (link.to(c.remote_context) == &c) {
            link.set(c.remote_context, nullptr);
        }
        if (c.holds_source) {
            sink_.release(*peer);
        }
    }
}

// --- progress
// --------------------------------------------------------------------------------------------------------

std::size_t Context::progress() {
    std::size_t events = 0;
    ++polls_;
    if ((chores_ & kArmed) != 0) [[unlikely]] {
        disarm();
    }
    for (std::uint32_t i = 0; i < hot_count_; ++i) {
        Hot& hot = hot_[i];
        if (hot.word->load(std::memory_order_acquire) == hot.expected) {
            events += receive_hot(hot);
        }
    }
    if (ready_->summary.load(std::memory_order_relaxed) != 0) [[unlikely]] {
        events += receive_ready();
    }
    if (--countdown_ == 0) [[unlikely]] {
        events += tick();
    }
    if (chores_ != 0) [[unlikely]] {
        events += chores();
    }
    return events;
}

std::size_t Context::receive_hot(Hot& hot) noexcept {
    const std::size_t n = hot.connection->receive(kBudget);
    if (n == 0) {
        return 0;  // its first line only, or no room for it: still what we watch
    }
    hot.word = hot.connection->rx().word();
    hot.expected = hot.connection->rx().expected();
    hot.used = polls_;
    return n;
}

std::size_t Context::receive_cold(Connection& c) noexcept {
    if (c.state == Connection::State::closed || !c.rx().ready()) {
        return 0;
    }
    if (c.hot_index >= 0) {
        return receive_hot(hot_[c.hot_index]);
    }
    const std::size_t n = c.receive(kBudget);
    heat(c);
    return n;
}

std::size_t Context::receive_ready() noexcept {
    ++stats_.ready_polls;
    std::size_t events = 0;
    for (std::uint64_t words = ready_->summary.exchange(0); words != 0; words &= words - 1) {
        const auto w = static_cast<std::uint32_t>(std::countr_zero(words));
        std::uint64_t bits = ready_->leaf[w].exchange(0);
        full_fence();
        for (; bits != 0; bits &= bits - 1) {
            const std::uint32_t bit = w * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
            for (std::size_t n = bit; n < slots_.size(); n += kReadyBits) {
                if (slots_[n] != nullptr) {
                    events += receive_cold(*slots_[n]);
                }
            }
        }
    }
    return events;
}

void Context::look_again(Connection& c) noexcept {
    const std::uint32_t bit = c.number % kReadyBits;
    ready_->leaf[bit / 64].fetch_or(std::uint64_t{1} << (bit % 64));
    ready_->summary.fetch_or(std::uint64_t{1} << (bit / 64));
}

// --- hot rings
// -------------------------------------------------------------------------------------------------------

// Makes a ring that just had something hot, if there is room, or a hot one that has been idle.
void Context::heat(Connection& c) noexcept {
    if (c.state != Connection::State::open || c.hot_index >= 0) {
        return;
    }
    if (hot_count_ == kHot) {
        Hot* oldest = &hot_[0];
        for (Hot& h : hot_) {
            if (polls_ - h.used > polls_ - oldest->used) {
                oldest = &h;
            }
        }
        if (polls_ - oldest->used < kIdlePolls) {
            return;
        }
        cool(*oldest->connection);
    }
    c.hot_index = static_cast<std::int8_t>(hot_count_);
    hot_[hot_count_++] = {c.rx().word(), c.rx().expected(), polls_, &c};
    c.rx().set_hot(true);
}

void Context::cool(Connection& c) noexcept {
    if (c.hot_index < 0) {
        return;
    }
    const auto index = static_cast<std::uint32_t>(c.hot_index);
    c.hot_index = -1;
    hot_[index] = hot_[--hot_count_];
    if (index != hot_count_) {
        hot_[index].connection->hot_index = static_cast<std::int8_t>(index);
    }
    c.rx().set_hot(false);
    full_fence();
    if (c.rx().ready()) {
        look_again(c);
    }
}

// --- clock
// -----------------------------------------------------------------------------------------------------------

std::int64_t Context::now() noexcept {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

std::size_t Context::tick() noexcept {
    const std::int64_t time = now();
    const std::int64_t passed = std::max<std::int64_t>(time - clock_, 1);
    clock_ = time;
    // The number of polls that takes about kClockInterval, moving by at most a factor of two at a
    // time upwards.
    const std::int64_t wanted = static_cast<std::int64_t>(clock_every_) * kClockInterval / passed;
    clock_every_ = static_cast<std::uint32_t>(std::clamp<std::int64_t>(
        std::min<std::int64_t>(wanted, std::int64_t{clock_every_} * 2), 1, kMaxClockEvery));
    countdown_ = clock_every_;
    if (time < next_events_) {
        return 0;
    }
    std::size_t events = handle_events();
    events += sweep(kSweepStep);
    if (freed_ != domain_.allocations().generation()) {
        tell_freed();
    }
    if (stats_.received != received_then_) {
        received_then_ = stats_.received;
        last_traffic_ = time;
    }
    next_events_ = time + (time - last_traffic_ < kIdleAfter ? kBusyInterval : kIdleInterval);
    return events;
}

std::size_t Context::sweep(std::uint32_t count) noexcept {
    std::size_t events = 0;
    count = std::min(count, static_cast<std::uint32_t>(slots_.size()));
    for (; count != 0; --count) {
        if (++swept_ >= slots_.size()) {
            swept_ = 0;
        }
        if (slots_[swept_] != nullptr) {
            events += receive_cold(*slots_[swept_]);
        }
    }
    return events;
}

// --- chores
// ----------------------------------------------------------------------------------------------------------

void Context::add_work(Connection& c) noexcept {
    if (!c.in_work) {
        c.in_work = true;
        work_.push_back(&c);
    }
    chores_ |= kWork;
    wake_self();
}

void Context::add_starved(Connection& c) noexcept {
    if (!c.is_starved) {
        c.is_starved = true;
        starved_.push_back(&c);
    }
    wake_self();
}

// Something was posted after arm() had said that there is nothing to do.
void Context::wake_self() noexcept {
    if ((chores_ & kArmed) != 0) {
        set_timer(1);
    }
}

std::size_t Context::chores() noexcept {
    std::size_t events = 0;
    if ((chores_ & kWork) != 0) {
        for (std::size_t i = 0; i < work_.size();) {
            Connection& c = *work_[i];
            if (c.pump()) {
                ++i;
            } else {
                c.in_work = false;
                work_[i] = work_.back();
                work_.pop_back();
            }
        }
        if (work_.empty()) {
            chores_ &= ~kWork;
        }
    }
    if ((chores_ & kCopies) != 0) {
        events += run_copies();
    }
    if ((chores_ & kDying) != 0) {
        events += bury();
    }
    return events;
}

// --- the end of connections
// ------------------------------------------------------------------------------------------

void Context::fail(Connection& c, const char* what) noexcept {
    ++stats_.bad_input;
    sink_.dropped(what);
    hang_up(c, Status::hostunreach);
    c.state = Connection::State::closed;
}

void Context::hang_up(Connection& c, Status why) noexcept {
    if (c.state != Connection::State::open) {
        return;
    }
    c.state = Connection::State::draining;
    c.why = why;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, c.socket.get(), nullptr);
    // The peer notices at once, and its messages from now on have no reader.
    shutdown(c.socket.get(), SHUT_RDWR);
    dying_.push_back(&c);
    chores_ |= kDying;
}

std::size_t Context::bury() noexcept {
    std::size_t events = 0;
    for (std::size_t i = 0; i < dying_.size();) {
        Connection& c = *dying_[i];
        // Messages that were published before the end still count; those that the core has no room
        // for now, later.
        events += drain(c);
        if (c.state == Connection::State::draining && c.stalled()) {
            ++i;
            continue;
        }
        c.state = Connection::State::closed;
        dying_[i] = dying_.back();
        dying_.pop_back();
        bury(c);
        ++events;
    }
    if (dying_.empty()) {
        chores_ &= ~kDying;
    }
    return events;
}

// Takes what was published, but not what a peer might go on to publish.
std::size_t Context::drain(Connection& c) noexcept {
    std::size_t events = 0;
    while (c.drained < kRingLines) {
        const std::size_t n = c.receive(kBudget);
        if (n == 0) {
            break;
        }
        events += n;
        c.drained += static_cast<std::uint32_t>(n);
    }
    return events;
}

void Context::bury(Connection& c) noexcept {
    const std::unique_ptr<Connection> owned = std::move(slots_[c.number]);
    cool(c);
    const auto forget = [&](std::vector<Connection*>& list, bool& member) {
        if (std::exchange(member, false)) {
            std::erase(list, &c);
        }
    };
    forget(work_, c.in_work);
    forget(starved_, c.is_starved);
    free_slots_.push_back(c.number);
    --connections_;
    end_copies(c, c.why, true);
    c.end_all(c.why, true);
    Peer* peer = std::exchange(c.peer, nullptr);
    if (peer == nullptr) {
        --orphans_;
        return;
    }
    Link& link = peer->link(id_);
    std::erase(link.all, &c);
    if (link.to(c.remote_context) == &c) {
        link.set(c.remote_context, nullptr);
    }
    if (!c.silent) {
        ++stats_.lost;
        // What the peer published on its other connections came before its end.
        for (Connection* other : link.all) {
            drain(*other);
            other->drained = 0;
        }
        sink_.peer_lost(*peer, c.why);
    }
    if (c.holds_source) {
        sink_.release(*peer);
    }
}

// The user lets go of the peer, the peer perhaps not of us: it is told, and its messages are taken
// until it closes, so that none is lost that was on its way.
void Context::drop(plugin::Peer& dropped) {
    auto& peer = static_cast<Peer&>(dropped);
    Link& link = peer.link(id_);
    for (Connection* c : std::exchange(link.all, {})) {
        c->peer = nullptr;
        c->holds_source = false;
        ++orphans_;
        const ByeMessage bye{Control::bye};
        if (c->state == Connection::State::open && orphans_ <= kMaxOrphans &&
            send_message(c->socket.get(), &bye, sizeof bye) == 0) {
            try {
                c->name = peer.name();
                continue;
            } catch (const std::bad_alloc&) {
            }
        }
        hang_up(*c, Status::hostunreach);
        c->state = Connection::State::closed;
    }
    link.first = nullptr;
    link.others.clear();
}

void Context::adopted(Connection& c, Lane lane) noexcept {
    --orphans_;
    Link& link = c.peer->link(id_);
    link.all.push_back(&c);
    // A peer that sent an unexpected message keeps the connection: see on_bye().
    if (lane == Lane::unexpected && link.to(c.remote_context) == nullptr) {
        link.set(c.remote_context, &c);
    }
}

// --- sleeping
// --------------------------------------------------------------------------------------------------------

void Context::disarm() noexcept {
    stand_down();
    connect_blocked_ = false;
    // What woke us, if it was a socket, is to be taken off it.
    events_soon();
}

void Context::stand_down() noexcept {
    chores_ &= ~kArmed;
    status_->sleep.store(status_->sleep.load(std::memory_order_relaxed) + 1,
                         std::memory_order_relaxed);
    for (Connection* c : starved_) {
        c->is_starved = false;
        c->want_credit(false);
    }
    starved_.clear();
    for (Connection* c : work_) {
        c->want_credit(false);
    }
}

// Sockets need no look here: what waits in them keeps wait_fd() readable.
bool Context::arm() {
    if ((chores_ & (kArmed | kDying)) != 0) {
        return (chores_ & kDying) == 0;
    }
    if (connect_blocked_) {
        set_timer(kConnectRetry);
    }
    chores_ |= kArmed;
    for (Connection* c : starved_) {
        c->want_credit(true);
    }
    for (Connection* c : work_) {
        c->want_credit(true);
    }
    status_->sleep.store(status_->sleep.load(std::memory_order_relaxed) + 1,
                         std::memory_order_relaxed);
    full_fence();
    if (anything_ready()) {
        stand_down();
        return false;
    }
    return true;
}

bool Context::anything_ready() noexcept {
    if (ready_->summary.load(std::memory_order_relaxed) != 0 || copies_can_run()) {
        return true;
    }
    for (Connection* c : starved_) {
        if (c->got_credit()) {
            return true;
        }
    }
    for (Connection* c : work_) {
        if (c->unblocked()) {
            return true;
        }
    }
    // All rings, and not the ready map alone: a peer could have taken another one's bit away.
    return std::any_of(slots_.begin(), slots_.end(), [](const std::unique_ptr<Connection>& c) {
        return c != nullptr && c->state == Connection::State::open && c->rx().ready();
    });
}

void Context::cancel(Op& op) {
    OpState& s = state_of(op);
    if (s.stage == Stage::copying) {
        end_copy(op, Status::canceled);
    } else if (s.stage != Stage::idle && s.connection->take_back(op)) {
        sink_.complete(op, plugin::Completion{.status = Status::canceled});
    }
}

void Context::stats(std::vector<plugin::Stat>& out) const {
    const plugin::Stat list[] = {
        {"sm_inline", stats_.inline_messages},
        {"sm_injected", stats_.injected},
        {"sm_attached", stats_.attached_messages},
        {"sm_bounced", stats_.bounced},
        {"sm_received", stats_.received},
        {"sm_knocks", stats_.knocks},
        {"sm_system_calls", stats_.system_calls},
        {"sm_ready_polls", stats_.ready_polls},
        {"sm_rma_local", stats_.rma_local},
        {"sm_rma_shared", stats_.rma_shared},
        {"sm_rma_attached", stats_.rma_attached},
        {"sm_rma_bounced", stats_.rma_bounced},
        {"sm_bad_input", stats_.bad_input},
        {"sm_connected", stats_.connected},
        {"sm_accepted", stats_.accepted},
        {"sm_refused", stats_.refused},
        {"sm_lost", stats_.lost},
        {"sm_connections", connections_},
    };
    out.insert(out.end(), std::begin(list), std::end(list));
}

}  // namespace na::sm
