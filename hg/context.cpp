// SPDX-License-Identifier: BSD-3-Clause
#include "hg/context.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>

#include <fmt/format.h>

#include "na/core/posting.hpp"
#include "na/util/log.hpp"
#include "na/util/spell.hpp"

namespace hg {
namespace {

using na::Error;
using na::Result;
using na::Status;
using Stage = Handle::Stage;

constexpr auto kCloseTime = std::chrono::seconds(2);
constexpr auto kLastTime = std::chrono::milliseconds(200);  // for what is sent in the end
constexpr auto kCloseStep = std::chrono::milliseconds(10);  // of both: see Spell

// Between polls while a context closes: what is on its way comes at once, and a peer that does not
// answer is not worth a processor.
class Pace {
 public:
    void next() {
        if (++polls_ > kEager) {
            std::this_thread::sleep_for(nap_);
            nap_ = std::min(nap_ * 2, kLongest);
        }
    }

 private:
    static constexpr unsigned kEager = 256;
    static constexpr std::chrono::microseconds kLongest{1000};
    unsigned polls_ = 0;
    std::chrono::microseconds nap_{10};
};
// Receives are posted in small steps, as they are needed, up to the budget: a handle that is used
// often stays in the cache, and a context that gets few requests stays small.
constexpr std::int32_t kPostStep = 16;

}  // namespace

Context::Context(Class& cls, std::uint8_t id)
    : cls_(cls),
      id_(id),
      threaded_(cls.threaded()),
      done_(threaded_),
      work_(threaded_),
      overflow_(cls, threaded_),
      unacked_(cls.options().unacked_limit, std::max(cls.options().request_limit / 2, 1U),
               threaded_),
      owed_(cls.options().request_limit, threaded_),
      patient_(cls.options().coalesce == Options::Coalesce::always),
      loop_lock_(threaded_) {}

Result<std::unique_ptr<Context>> Context::open(Class& cls, std::uint8_t id, Requests requests) {
    std::unique_ptr<Context> context(new Context(cls, id));
    auto net = na::Context::open(cls.net(), id);
    if (!net) {
        return std::move(net).error();
    }
    context->net_ = std::make_unique<Port>(*context, bulk::Rail::net, std::move(*net));
    context->only_ = &context->net_->na();
    if (cls.sm() != nullptr) {
        auto sm = na::Context::open(*cls.sm(), id);
        if (!sm) {
            return std::move(sm).error();
        }
        context->sm_ = std::make_unique<Port>(*context, bulk::Rail::sm, std::move(*sm));
    }
    context->bulk_ = std::make_unique<bulk::Engine>(
        cls.space(), bulk::ContextRails{.net = &context->net(), .sm = context->sm()},
        [](void* arg) noexcept { static_cast<Context*>(arg)->announce(); }, context.get());
    // Receives of answers and acknowledgements are posted before what they answer is sent: one
    // without a receive answers a call that has been canceled, or nothing at all.
    for (const Port* port : {context->net_.get(), context->sm_.get()}) {
        if (port != nullptr) {
            port->na().drop_unmatched_expected();
            port->na().take_latest_receive();
            context->gathers_ = context->gathers_ || port->gathers();
        }
    }
    context->alone_ = !context->threaded_ && !context->gathers_;
    if (const Status s = context->open_waiter(); !ok(s)) {
        return Error{s, "no descriptor to wait on (raise the limit on open files?)"};
    }
    context->handles_ = std::make_unique<HandlePool>(*context);
    if (const Status s = cls.enter(*context); !ok(s)) {
        return Error{s, fmt::format("context {} exists already", id)};
    }
    context->entered_ = true;
    if (cls.listening() && requests == Requests::at_once) {
        if (const Status s = context->accept(); !ok(s)) {
            return Error{s, "no receive for requests could be posted"};
        }
    }
    if (!cls.listening()) {
        context->refuse();
    }
    return context;
}

// A peer that calls a class which does not listen would wait for ever: a few receives take such
// requests, each of which is answered with opnotsupported (Port::overloaded()).
void Context::refuse() noexcept {
    accepting_.store(true, std::memory_order_seq_cst);
    for (Port* port : {net_.get(), sm_.get()}) {
        if (port != nullptr) {
            (void)post_requests(*port);
        }
    }
}

Status Context::accept() noexcept {
    if (!cls_.listening()) {
        return Status::opnotsupported;
    }
    if (accepting_.exchange(true, std::memory_order_seq_cst)) {
        return Status::success;
    }
    for (Port* port : {net_.get(), sm_.get()}) {
        if (port != nullptr && !post_requests(*port)) {
            (void)unpost();
            return Status::nomem;
        }
    }
    return Status::success;
}

// A transport that must not be waited on makes this context poll; one that cannot be, poll every
// now and then.
Status Context::open_waiter() {
    bool waitable = true;
    bool may_sleep = true;
    for (const Port* port : {net_.get(), sm_.get()}) {
        if (port != nullptr) {
            waitable = waitable && port->na().wait_fd() >= 0;
            may_sleep = may_sleep && port->na().may_sleep();
        }
    }
    if (!waitable) {
        if (may_sleep) {
            waiter_.nap_between_polls();
        }
        return Status::success;
    }
    if (const Status s = waiter_.open(); !ok(s)) {
        return s;
    }
    for (const Port* port : {net_.get(), sm_.get()}) {
        if (port != nullptr) {
            if (const Status s = waiter_.add(port->na().waiter()); !ok(s)) {
                return s;
            }
        }
    }
    return Status::success;
}

Context::~Context() {
    if (entered_) {
        cls_.leave(*this);
    }
    if (user.release != nullptr) {
        user.release(user.data);
    }
    bulk_.reset();
    handles_.reset();
}

// --- requests
// --------------------------------------------------------------------------------------------------------

// False: not one receive could be posted. (That none is posted says nothing: requests that have
// waited take them at once, and all there may be may be in use.)
bool Context::post_requests(Port& port) noexcept {
    for (std::int32_t i = 0; i < kPostStep && accepting_.load(std::memory_order_seq_cst); ++i) {
        if (!port.enter_budget() &&
            !(port.posted() == 0 && port.raise_budget() && port.enter_budget())) {
            return true;
        }
        Handle* handle = nullptr;
        try {
            // A program that does not listen is not shown handles that serve nobody.
            handle = handles_->take(
                port, cls_.listening() ? HandlePool::Hook::call : HandlePool::Hook::skip);
        } catch (const std::bad_alloc&) {
            NA_LOG_ERROR(rpc, "out of memory: no further requests are received at a time");
        }
        if (handle == nullptr) {
            port.leave_budget();
            return i != 0;
        }
        if (!handle->post_request()) {
            return i != 0;
        }
    }
    return true;
}

// The port has few receives left.
void Context::post_more(Port& port) noexcept {
    Grow& grow = grow_[bulk::index(port.rail())];
    if (!grow.pending.exchange(true, std::memory_order_acq_rel)) {
        grow.port = &port;
        grow.run = [](Completion& c) {
            auto& g = static_cast<Grow&>(c);
            Port& its_port = *g.port;
            g.pending.store(false, std::memory_order_release);  // it is another thread's now
            (void)its_port.context().post_requests(its_port);
        };
        push_work(grow);
    }
}

Status Context::unpost() noexcept {
    accepting_.store(false, std::memory_order_seq_cst);
    // Who posts looks at that under the transport's lock: what was posted before can be seen now.
    for (const Port* port : {net_.get(), sm_.get()}) {
        if (port != nullptr) {
            const na::Posting posting(port->na());
        }
    }
    na::util::Spell waits(kCloseStep);
    for (Pace pace;; pace.next()) {
        handles_->for_each([](Handle& handle) {
            if (handle.stage() == Stage::posted) {
                handle.port_->na().cancel(*handle.kit_->recv);
            }
        });
        poll();
        leave();
        if (net_->posted() == 0 && (sm_ == nullptr || sm_->posted() == 0)) {
            return Status::success;
        }
        if (waits.lasts(kCloseTime)) {
            NA_LOG_ERROR(ctx, "the transport still has receives after {} s", kCloseTime.count());
            return Status::timeout;
        }
    }
}

// --- closing
// ---------------------------------------------------------------------------------------------------------

// Whether operations of this context are still in the transport, or work is queued.
bool Context::nothing_under_way() noexcept {
    if (!work_.empty() || bulk_->runnable()) {
        return false;
    }
    bool idle = true;
    handles_->for_each([&](const Handle& h) {
        idle = idle && h.kit_->send->idle() && h.kit_->recv->idle() &&
               h.transfer_id_.load(std::memory_order_acquire) == 0;
    });
    return idle;
}

// Requests that are owed a response by a program that, as far as is known, sends none then. True:
// there were some, and their origins are being told.
bool Context::end_forgotten() noexcept {
    bool any = false;
    while (Handle* handle = owed_.forgotten()) {
        any = handle->end_owed() || any;
    }
    return any;
}

Result<bool> Context::begin_end() {
    if (!threaded_ || gate_.close()) {
        return true;
    }
    announce();  // the sleepers look at gate_.asked()
    return Error{Status::busy,
                 "a thread is in HG_Progress or HG_Trigger of the context, or this is one of its "
                 "callbacks: let them return first"};
}

Result<bool> Context::close(bool patient) {
    if (const Status s = unpost(); !ok(s)) {
        return Error{Status::busy, "the transport did not give the receives for requests back"};
    }
    handles_->for_each([](Handle& handle) {
        if (handle.stage() == Stage::in_flight || handle.stage() == Stage::straggler) {
            handle.cancel();
        }
    });
    bulk_->cancel_all();
    // Responses get time to leave, and other threads to destroy their handles; what waits for a
    // peer longer than that is given up.
    std::chrono::milliseconds limit = kCloseTime;
    na::util::Spell waits(kCloseStep);
    bool last = false;
    for (Pace pace;; pace.next()) {
        unsigned count = 0;
        const std::uint32_t due = poll();
        (void)(alone_ ? trigger(0, due, count) : trigger_inside(due, count));
        if (nothing_under_way() && bulk_->idle() && done_.empty() &&
            (!threaded_ || !patient || handles_->used() == 0)) {
            if (!end_forgotten()) {
                break;
            }
            continue;  // what they are told has to leave
        }
        if (waits.lasts(limit)) {
            if (last) {
                break;
            }
            handles_->for_each([](Handle& handle) { handle.give_up(); });
            last = !end_forgotten();
            limit = kLastTime;
            waits.end();
        }
    }
    if (const std::uint32_t n = done_.count(); n != 0) {
        return Error{Status::busy, fmt::format("{} callbacks wait for HG_Trigger", n)};
    }
    if (const std::size_t held = handles_->used(); held != 0) {
        return Error{Status::busy,
                     fmt::format("{} handles still exist: destroy them first, and respond to their "
                                 "requests",
                                 held)};
    }
    if (!bulk_->idle()) {
        return Error{Status::busy, fmt::format("{} bulk transfers have not ended", bulk_->used())};
    }
    if (!nothing_under_way()) {
        return Error{Status::busy, "operations are still with the transport"};
    }
    return true;
}

void Context::end_all(Status code) noexcept {
    handles_->for_each([&](Handle& handle) {
        // Its program may give it back, and it may be another RPC's, at any time.
        if (!handle.ref_if_held()) {
            return;
        }
        if (handle.stage() == Stage::in_flight) {
            handle.cancel();
        } else if (handle.stage() == Stage::received && handle.is_target() &&
                   ok(handle.claim_response())) {
            handle.end_with(code);
        }
        handle.unref();
    });
    bulk_->cancel_all();
}

// --- progress
// --------------------------------------------------------------------------------------------------------

std::uint32_t Context::poll_with_care() noexcept {
    waiter_.disarm();
    net_->na().poll();
    if (sm_ != nullptr) {
        sm_->na().poll();
    }
    const std::uint32_t due = work_off();
    if (due != 0) {
        settle();
    }
    return due;
}

std::uint32_t Context::work_off() noexcept {
    if (bulk_->runnable()) {
        bulk_->progress();
    }
    if (!work_.empty()) {
        run_work();
    }
    bool watching = false;
    for (Port* port : {net_.get(), sm_.get()}) {
        if (port != nullptr && port->shares.watching()) [[unlikely]] {
            port->shares.look();
            watching = true;
        }
    }
    if (!threaded_) {
        attention_ =
            sm_ != nullptr || waiter_.armed() || !work_.empty() || bulk_->runnable() || watching;
    }
    return done_.count();
}

// What is queued while this runs waits for the next round, so that one round ends.
bool Context::run_work() noexcept {
    for (std::uint32_t n = work_.count(); n != 0; --n) {
        na::CompletionQueue::Node* node = work_.pop();
        if (node == nullptr) {
            return false;
        }
        auto& work = static_cast<Completion&>(*node);
        work.run(work);
    }
    return true;
}

bool Context::arm() noexcept {
    return work_.empty() && !bulk_->runnable() && !net_->shares.late() && net_->na().arm() &&
           (sm_ == nullptr || (!sm_->shares.late() && sm_->na().arm()));
}

// One round of a thread among others.
std::uint32_t Context::poll_inside() noexcept {
    if (!threaded_) {
        return poll_with_care();
    }
    const na::util::Inside inside(gate_);
    if (!inside) {
        return 0;
    }
    const std::uint32_t due = poll_with_care();
    leave();
    return due;
}

Status Context::progress_slowly(unsigned timeout_ms) noexcept {
    if (!threaded_) {
        return waiter_.drive(
            timeout_ms, [this] { poll(); }, [this] { return !done_.empty(); },
            [this] { return arm(); });
    }
    const std::uint32_t asked = gate_.asked();  // before it is inside: who finds it there asks
    const na::util::Inside inside(gate_);
    if (!inside) {
        return Status::busy;
    }
    const Status s = waiter_.drive(
        timeout_ms, [this] { poll(); }, [&] { return !done_.empty() || gate_.asked() != asked; },
        [this] { return arm(); });
    return ok(s) && done_.empty() ? Status::timeout : s;
}

bool Context::ready() noexcept {
    if (waiter_.fd() < 0) {
        return true;
    }
    if (!threaded_) {
        attention_ = true;  // of the next poll, which ends it
    }
    waiter_.set_armed();
    return !done_.empty() || !arm() || !done_.empty();
}

Counters::Values Context::counters() noexcept {
    Counters::Values sum = loop_counters_.values();
    for (const Port* port : {net_.get(), sm_.get()}) {
        if (port != nullptr) {
            Counters::Values values = port->counters.values();
            const na::Counters& na = port->na().counters();
            values.bundles_sent = na.bundles_sent.get();
            values.bundled_sent = na.bundled_sent.get();
            values.bundles_received = na.bundles_received.get();
            values.bundled_received = na.bundled_received.get();
            values.peers_stalled = port->shares.dropped();
            sum.add(values);
        }
    }
    handles_->for_each([&](const Handle& handle) {
        const Stage stage = handle.stage();
        sum.requests_active +=
            stage == Stage::received || stage == Stage::answering || stage == Stage::answered;
    });
    sum.requests_unanswered = unanswered_.load(std::memory_order_relaxed);
    sum.responses_given_up = given_up_.load(std::memory_order_relaxed);
    sum.overflow_refused = overflow_.refused();
    sum.bulk_transfers = bulk_->counters().transfers.get();
    return sum;
}

}  // namespace hg
