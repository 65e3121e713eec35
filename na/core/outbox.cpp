// SPDX-License-Identifier: BSD-3-Clause
#include "na/core/outbox.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "na/core/context.hpp"

namespace na::inline impl {

using plugin::Posted;
using State = Operation::State;

Outbox::Outbox(Context& context) noexcept : context_(context) {}

Outbox::~Outbox() {
    for (const auto& bundle : bundles_) {
        // Of one that the transport has taken with it.
        if (bundle->op->referenced_) {
            bundle->op->address_->unref();
        }
        context_.cls_.destroy_op(bundle->op);
        context_.cls_.free_message(std::move(bundle->buffer));
    }
}

std::size_t Outbox::size_of(const Operation& op) const noexcept {
    return op.length - context_.cls_.headroom(op.lane());
}

// Of a bundle that goes where `like` does.
std::size_t Outbox::room(const Operation& like) const noexcept {
    const Lane lane = like.lane();
    return std::min(like.address_->most_bundled(),
                    context_.cls_.max_message(lane) - context_.cls_.headroom(lane));
}

// The peer takes less than we do: what every transport takes by default, or still less.
void Outbox::learn(Operation& bundle) noexcept {
    constexpr std::size_t kUsual = 4000;
    const std::size_t size = bundle.length - context_.cls_.headroom(bundle.lane());
    bundle.address_->set_most_bundled(std::min(size / 2, kUsual));
}

void Outbox::count(std::int32_t n) noexcept {
    context_.attend();
    const std::uint32_t waiting =
        waiting_.load(std::memory_order_relaxed) + static_cast<std::uint32_t>(n);
    waiting_.store(waiting, std::memory_order_relaxed);
    context_.inject_below_ = waiting == 0 ? context_.inject_limit_ : 0;
}

// --- what waits
// ---------------------------------------------------------------------------------------------------------

Outbox::Destination* Outbox::find(const Operation& op) noexcept {
    for (std::size_t i = 0; i < used_; ++i) {
        if (destinations_[i].is(op)) {
            return &destinations_[i];
        }
    }
    return nullptr;
}

void Outbox::add(Destination& to, Operation& op) noexcept {
    op.set_state(State::gathered);
    op.address_->ref();
    op.referenced_ = true;
    to.ops.push_back(op);
    to.bytes += bundle::kPart + size_of(op);
    ++to.count;
    count(1);
}

Operation* Outbox::pop(Destination& to) noexcept {
    Operation* op = to.ops.pop_front();
    if (op != nullptr) {
        to.bytes -= bundle::kPart + size_of(*op);
        --to.count;
        count(-1);
    }
    return op;
}

Outbox::Taken Outbox::take(Operation& op, Company company, Status& status) noexcept {
    if (company == Company::none || size_of(op) > message_) {
        if (waiting() != 0) {
            flush(*op.address_);
        }
        return Taken::no;
    }
    Destination* to = waiting() == 0 ? nullptr : find(op);
    if (to != nullptr &&
        (to->bytes + bundle::kPart + size_of(op) > room(op) || to->count == bundle::kMaxParts)) {
        flush(*to);
        to = nullptr;
    }
    if (to == nullptr) {
        if (company == Company::take || context_.retry_.blocks(op)) {
            return Taken::no;
        }
        const auto free = std::find_if(destinations_.begin(), destinations_.end(),
                                       [](const Destination& d) { return d.address == nullptr; });
        if (free == destinations_.end()) {
            return Taken::no;
        }
        to = &*free;
        used_ = std::max(used_, static_cast<std::size_t>(free - destinations_.begin()) + 1);
        to->address = op.address_;
        to->target = op.target_id;
        to->lane = op.lane();
        to->bytes = bundle::kHeader;
    }
    if (company == Company::take) {
        return flush_with(*to, op, status);
    }
    add(*to, op);
    return Taken::waits;
}

// Its end is said to the caller, if it comes now.
Outbox::Taken Outbox::flush_with(Destination& to, Operation& op, Status& status) noexcept {
    struct Told {
        bool ended = false;
        Status status = Status::success;
    } told;
    void* const owner = std::exchange(op.owner, &told);
    const Operation::Handler handler =
        std::exchange(op.handler, [](Operation& o, const Outcome& outcome) noexcept {
            auto& end = *static_cast<Told*>(o.owner);
            end.ended = true;
            end.status = outcome.status;
        });
    add(to, op);
    flush(to);
    op.owner = owner;
    op.handler = handler;
    if (!told.ended) {
        return Taken::waits;
    }
    status = told.status;
    return ok(told.status) ? Taken::gone : Taken::failed;
}

void Outbox::remove(Operation& op) noexcept {
    Destination* to = find(op);
    Ops::remove(op);
    to->bytes -= bundle::kPart + size_of(op);
    --to->count;
    count(-1);
    if (to->count == 0) {
        to->address = nullptr;
    }
}

bool Outbox::holds(const Address& peer) const noexcept {
    return std::any_of(destinations_.begin(),
                       destinations_.begin() + static_cast<std::ptrdiff_t>(used_),
                       [&](const Destination& to) { return to.address == &peer && to.count != 0; });
}

void Outbox::fail(const Address& peer, Status why, std::optional<std::uint8_t> context) noexcept {
    for (std::size_t i = 0; i < used_; ++i) {
        Destination& to = destinations_[i];
        if (to.address == &peer && (!context || to.target == *context)) {
            while (Operation* op = pop(to)) {
                context_.end(*op, Outcome{.status = why});
            }
            to.address = nullptr;
        }
    }
}

// --- leaving
// ---------------------------------------------------------------------------------------------------------

void Outbox::flush() noexcept {
    for (std::size_t i = 0; i < used_; ++i) {
        if (destinations_[i].address != nullptr) {
            flush(destinations_[i]);
        }
    }
    used_ = 0;
}

void Outbox::flush(const Address& peer) noexcept {
    for (std::size_t i = 0; i < used_; ++i) {
        if (destinations_[i].address == &peer) {
            flush(destinations_[i]);
        }
    }
}

void Outbox::flush(Destination& to) noexcept {
    while (to.count != 0) {
        if (to.count == 1 || context_.retry_.blocks(to.address, to.target) || !send_bundle(to)) {
            send_alone(*pop(to));
        }
    }
    to.address = nullptr;
}

void Outbox::send_alone(Operation& op) noexcept {
    Posted answer = Posted::again();
    if (!context_.retry_.blocks(op)) [[likely]] {
        op.set_state(State::posted);
        answer = context_.plugin_->send(op);
    }
    switch (answer.what) {
        case Posted::What::done:
            context_.end(op, Outcome{.status = Status::success, .size = op.length});
            return;
        case Posted::What::pending:
            ++context_.posted_;
            return;
        case Posted::What::again:
            context_.counters_.retries.add();
            if (!context_.queue(op)) {
                context_.end(op, Outcome{.status = Status::nomem});
            }
            return;
        case Posted::What::failed:
            context_.end(op, Outcome{.status = answer.status});
            return;
    }
}

// As many as there are and as fit, to where `like` goes: its operation is ready to be posted.
template <typename Front, typename Pop>
void Outbox::fill(Bundle& bundle, const Operation& like, Front&& front, Pop&& pop) noexcept {
    const Lane lane = like.lane();
    const std::size_t headroom = context_.cls_.headroom(lane);
    const std::size_t limit = room(like);
    Operation& op = *bundle.op;
    op.kind = like.kind;
    op.target_id = like.target_id;
    op.tag = context_.bundle_tag();
    op.buffer = bundle.buffer.data;
    op.local = bundle.buffer.region.get();
    op.remote = nullptr;
    op.peer = like.peer;
    op.address_ = like.address_;
    auto* const start = static_cast<std::byte*>(bundle.buffer.data) + headroom;
    std::byte* at = start + bundle::kHeader;
    bundle.count = 0;
    for (Operation* part = front(); part != nullptr && bundle.count < bundle::kMaxParts;
         part = front()) {
        const std::size_t size = size_of(*part);
        if (static_cast<std::size_t>(at - start) + bundle::kPart + size > limit) {
            break;
        }
        const auto* bytes = static_cast<const std::byte*>(part->buffer);
        at = bundle::add(at, part->tag, {bytes + headroom, size});
        pop();
        bundle.parts.push_back(*part);
        ++bundle.count;
    }
    bundle::begin(start, bundle.count);
    op.length = headroom + static_cast<std::size_t>(at - start);
}

// False: nothing has left.
bool Outbox::send_bundle(Destination& to) noexcept {
    Bundle* bundle = take_bundle();
    if (bundle == nullptr) [[unlikely]] {
        return false;
    }
    Context& context = context_;
    fill(
        *bundle, *to.ops.front(), [&] { return to.ops.front(); }, [&] { (void)pop(to); });
    if (bundle->count < 2) [[unlikely]] {
        Operation* alone = bundle->parts.pop_front();
        give(*bundle);
        if (alone != nullptr) {
            send_alone(*alone);
        }
        return alone != nullptr;
    }
    Operation& op = *bundle->op;
    op.set_state(State::posted);
    const Posted answer = context.plugin_->send(op);
    if (answer.what == Posted::What::pending || answer.what == Posted::What::done) [[likely]] {
        left(op);
    }
    if (answer.what == Posted::What::pending) {
        for (Operation* part = bundle->parts.front(); part != nullptr;
             part = bundle->parts.next(*part)) {
            part->set_state(State::bundled);
        }
        to.address->ref();
        op.referenced_ = true;
        ++context.posted_;
        return true;
    }
    op.set_state(State::idle);
    if (answer.what == Posted::What::again) {
        context.plugin_->withdrawn(op);  // its parts wait one by one
    }
    if (answer.what == Posted::What::failed && answer.status == Status::msgsize) {
        learn(op);
    }
    while (Operation* part = bundle->parts.pop_front()) {
        if (answer.what == Posted::What::done) [[likely]] {
            context.end(*part, Outcome{.status = Status::success, .size = part->length});
        } else if (answer.what == Posted::What::again || answer.status == Status::msgsize) {
            send_alone(*part);  // the first one learns whether there is room for it at least
        } else {
            context.end(*part, Outcome{.status = answer.status});
        }
    }
    give(*bundle);
    return true;
}

// --- what waits for the transport
// ---------------------------------------------------------------------------------------------------------

bool Outbox::may_join(const Operation& op) const noexcept {
    return (op.kind == OpKind::send_unexpected || op.kind == OpKind::send_expected) && op.joins_ &&
           size_of(op) <= message_;
}

void Outbox::join(RetryQueue::Waiting& waiting) noexcept {
    Operation* const first = waiting.front();
    Operation* const second = first == nullptr ? nullptr : waiting.next(*first);
    if (!enabled() || second == nullptr || !may_join(*first) || !may_join(*second) ||
        first->lane() != second->lane() ||
        bundle::kHeader + 2 * bundle::kPart + size_of(*first) + size_of(*second) > room(*first) ||
        waiting_bundles_ == kMostWaiting) {
        return;
    }
    Bundle* bundle = take_bundle();
    if (bundle == nullptr) [[unlikely]] {
        return;
    }
    context_.plugin_->withdrawn(*first);
    const Lane lane = first->lane();
    fill(
        *bundle, *first,
        [&]() -> Operation* {
            Operation* op = waiting.front();
            return op != nullptr && may_join(*op) && op->lane() == lane ? op : nullptr;
        },
        [&] { (void)waiting.pop_front(); });
    for (Operation* part = bundle->parts.front(); part != nullptr;
         part = bundle->parts.next(*part)) {
        part->set_state(State::bundled);
    }
    Operation& op = *bundle->op;
    op.address_->ref();
    op.referenced_ = true;
    op.set_state(State::queued);
    waiting.push_front(op);
    bundle->waits = true;
    ++waiting_bundles_;
}

void Outbox::no_longer_waits(Bundle& bundle) noexcept {
    waiting_bundles_ -= std::exchange(bundle.waits, false) ? 1 : 0;
}

// In the place of the bundle, which is out of the queue.
void Outbox::restore(Bundle& bundle, RetryQueue::Waiting& waiting) noexcept {
    Ops reversed;
    while (Operation* part = bundle.parts.pop_front()) {
        reversed.push_front(*part);
    }
    while (Operation* part = reversed.pop_front()) {
        part->set_state(State::queued);
        waiting.push_front(*part);
    }
    Operation& op = *bundle.op;
    op.set_state(State::idle);
    op.referenced_ = false;
    op.address_->unref();
    no_longer_waits(bundle);
    give(bundle);
}

bool Outbox::part(Operation& op, RetryQueue::Waiting& waiting) noexcept {
    if (op.handler != &Outbox::on_sent) {
        return false;
    }
    learn(op);
    restore(*static_cast<Bundle*>(op.owner), waiting);
    return true;
}

void Outbox::part_with(const Operation& part, RetryQueue::Waiting& waiting) noexcept {
    Operation* const first = waiting.front();
    if (first == nullptr || first->handler != &Outbox::on_sent) {
        return;
    }
    auto& bundle = *static_cast<Bundle*>(first->owner);
    for (Operation* p = bundle.parts.front(); p != nullptr; p = bundle.parts.next(*p)) {
        if (p == &part) {
            context_.plugin_->withdrawn(*waiting.pop_front());
            restore(bundle, waiting);
            return;
        }
    }
}

void Outbox::left(const Operation& op) noexcept {
    if (op.handler == &Outbox::on_sent) {
        auto& bundle = *static_cast<Bundle*>(op.owner);
        context_.counters_.bundles_sent.add();
        context_.counters_.bundled_sent.add(bundle.count);
        no_longer_waits(bundle);
    }
}

// --- bundles
// ---------------------------------------------------------------------------------------------------------

Outbox::Bundle* Outbox::take_bundle() noexcept {
    if (free_ == nullptr) {
        if (bundles_.size() == kMostBundles) {
            return nullptr;
        }
        Class& cls = context_.cls_;
        try {
            auto bundle = std::make_unique<Bundle>();
            bundle->outbox = this;
            bundles_.reserve(kMostBundles);
            bundle->buffer = cls.allocate_message(
                std::max(cls.max_message(Lane::unexpected), cls.max_message(Lane::expected)));
            if (bundle->buffer.data == nullptr) {
                return nullptr;
            }
            try {
                bundle->op = cls.create_op(false);
            } catch (const std::bad_alloc&) {
                cls.free_message(std::move(bundle->buffer));
                throw;
            }
            bundle->op->owner = bundle.get();
            bundle->op->handler = &Outbox::on_sent;
            free_ = bundle.get();
            bundles_.push_back(std::move(bundle));
        } catch (const std::bad_alloc&) {
            return nullptr;
        }
    }
    return std::exchange(free_, free_->next);
}

void Outbox::give(Bundle& bundle) noexcept {
    bundle.next = std::exchange(free_, &bundle);
}

void Outbox::on_sent(Operation& op, const Outcome& outcome) noexcept {
    Bundle& bundle = *static_cast<Bundle*>(op.owner);
    Outbox& self = *bundle.outbox;
    self.no_longer_waits(bundle);
    while (Operation* part = bundle.parts.pop_front()) {
        self.context_.end(*part, Outcome{.status = outcome.status,
                                         .size = ok(outcome.status) ? part->length : 0});
    }
    self.give(bundle);
}

void Outbox::forget(Operation& op) noexcept {
    Ops::remove(op);
    context_.end(op, Outcome{.status = Status::success, .size = op.length});
}

}  // namespace na::inline impl
