// SPDX-License-Identifier: BSD-3-Clause
// What comes in by a ring. Each take_...() copies the head and body of a message once, checks them,
// and only then acts; a value that no correct peer would write ends the connection.
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "na/util/lock.hpp"
#include "plugins/sm/context.hpp"
#include "plugins/sm/receive_ready.hpp"
#include "plugins/sm/region.hpp"

namespace na::sm {
namespace {

constexpr std::size_t kBody = sizeof(Head);

bool valid_lane(std::uint8_t lane) noexcept {
    return lane < kLanes;
}

// What an acknowledgement can say. That an operation was canceled is for its owner to say, and then
// the answer is nobody's.
bool may_answer(Status status, bool taken_back) noexcept {
    switch (status) {
        case Status::success:
        case Status::permission:
        case Status::noentry:
        case Status::nomem:
        case Status::access:
        case Status::fault:
        case Status::overflow:
        case Status::msgsize:
            return true;
        case Status::canceled:
            return taken_back;
        default:
            return false;
    }
}

}  // namespace

bool Connection::takes(std::uint8_t lane) noexcept {
    if (uncalled_ && lane == static_cast<std::uint8_t>(Lane::unexpected)) [[unlikely]] {
        bad_ = "an unexpected message to a class that does not listen";
        return false;
    }
    return valid_lane(lane);
}

Connection::Step Connection::take_inline(const Head& head) noexcept {
    const std::size_t size = head.value;
    if (size > kInlineBytes || !takes(head.aux)) [[unlikely]] {
        return Step::bad;
    }
    const std::uint32_t lines = size <= kLineBytes ? 1 : lines_for(sizeof(Head) + size);
    if (lines > 1 && !rx_.ready(lines)) [[unlikely]] {
        // An older build writes the first line first: the others follow within nanoseconds, unless
        // it was stopped in between.
        for (int i = 0; i < 64 && !rx_.ready(lines); ++i) {
            util::cpu_relax();
        }
        if (!rx_.ready(lines)) {
            half_ = lines;
            return Step::later;
        }
    }
    several_ = lines > 1 ? 1 : 0;
    const auto lane = static_cast<Lane>(head.aux);
    if (size > context.max_message(lane)) [[unlikely]] {
        context.sink().dropped("a message longer than this class takes");
        give_back(lines);
        return Step::taken;
    }
    if (peer == nullptr && !adopt(lane)) [[unlikely]] {
        return Step::bad;
    }
    if (lines == 2) [[likely]] {
        if (!context.sink().deliver_two(lane, *peer, head.tag, {rx_.at_front(kBody), kLineBytes},
                                        {rx_.line(1).payload, size - kLineBytes})) [[unlikely]] {
            stalled_ = true;
            return Step::later;
        }
        give_back(2);
        return Step::taken;
    }
    // Bytes of more lines are put together for the core.
    std::byte whole[kInlineBytes];
    const std::byte* bytes = rx_.at_front(kBody);
    if (lines > 1) {
        rx_.copy(kBody, whole, size);
        bytes = whole;
    }
    if (!context.sink().deliver(lane, *peer, head.tag, {bytes, size})) [[unlikely]] {
        stalled_ = true;
        return Step::later;
    }
    give_back(lines);
    return Step::taken;
}

std::size_t Connection::receive(unsigned budget) noexcept {
    if (!rx_.ready()) {
        stalled_ = false;
        half_ = 0;
        return 0;
    }
    Watch next;
    const std::size_t taken = receive_ready(budget, next);
    if (taken != 0) {
        context.watch(*this, next);
    }
    return taken;
}

// Any message. False: it was not taken, and nothing behind it can be.
bool Connection::take_other() noexcept {
    const Step step = take(rx_.front<Head>());
    if (step != Step::taken) {
        finish_receiving(step, false);
    }
    return step == Step::taken;
}

// `used_up`: the others get their turn now.
void Connection::finish_receiving(Step step, bool used_up) noexcept {
    if (step == Step::bad) {
        context.fail(*this, bad_ != nullptr ? bad_ : "a malformed message in the ring");
    } else if (stalled_) {
        context.add_refused(*this);
    } else if (used_up) {
        // Also when the ring is cold: nobody will set its bit for what is in it already.
        context.look_again(*this);
    }
}

Connection::Step Connection::take(const Head& head) noexcept {
    switch (head.kind) {
        case Kind::inline_message:
            return take_inline(head);
        case Kind::inject:
            return take_inject(head);
        case Kind::iov:
            return take_iov(head);
        case Kind::bounce:
            return take_bounce(head);
        case Kind::data:
            return take_data(head);
        case Kind::ack:
            return take_ack(head);
        case Kind::put:
            return take_put(head);
        case Kind::get:
            return take_get(head);
        case Kind::reply:
            return take_reply(head);
        case Kind::abort:
            return take_abort(head);
        case Kind::none:
            break;
    }
    bad_ = "an unknown kind of message in the ring";
    return Step::bad;
}

// A message on a connection whose peer was dropped here: the peer comes back.
bool Connection::adopt(Lane lane) noexcept {
    plugin::Peer* source = context.sink().source(std::as_bytes(std::span(name)));
    if (source == nullptr) {
        return false;
    }
    peer = static_cast<Peer*>(source);
    if (!context.adopted(*this, lane)) {
        context.sink().release(*std::exchange(peer, nullptr));
        return false;
    }
    holds_source = true;
    return true;
}

// The buffer and length that a line names, checked. False: out of range.
bool Connection::get_buffer(std::uint32_t& length, const std::byte*& at) const noexcept {
    const auto inject = rx_.front<Inject>(kBody);
    if (inject.buffer >= geometry_.buffer_count || inject.length == 0 ||
        inject.length > geometry_.buffer_bytes) {
        return false;
    }
    length = inject.length;
    at = rx_pool_ + std::size_t{inject.buffer} * geometry_.buffer_bytes;
    return true;
}

Connection::Step Connection::take_inject(const Head& head) noexcept {
    std::uint32_t size = 0;
    const std::byte* from = nullptr;
    if (!takes(head.aux) || !get_buffer(size, from)) [[unlikely]] {
        return Step::bad;
    }
    const auto lane = static_cast<Lane>(head.aux);
    if (size > context.max_message(lane)) [[unlikely]] {
        context.sink().dropped("a message longer than this class takes");
        give_back_buffer();
        return Step::taken;
    }
    if (peer == nullptr && !adopt(lane)) [[unlikely]] {
        return Step::bad;
    }
    if (!context.sink().deliver(lane, *peer, head.tag, {from, size})) [[unlikely]] {
        stalled_ = true;
        return Step::later;
    }
    give_back_buffer();
    return Step::taken;
}

// The state of the peer's slot; null: no such slot.
Connection::Served* Connection::served(unsigned slot) noexcept {
    if (slot >= kSlots) {
        return nullptr;
    }
    if (served_ == nullptr) [[unlikely]] {
        served_.reset(new (std::nothrow) Served[kSlots]);
        if (served_ == nullptr) {
            return nullptr;
        }
    }
    return &served_[slot];
}

Connection::Step Connection::take_iov(const Head& head) noexcept {
    const auto iov = rx_.front<Iov>(kBody);
    Served* s = served(head.value);
    const std::uint64_t bit = std::uint64_t{1} << (head.value % kSlots);
    if (s == nullptr || s->use != Use::none || (acks_owed_ & bit) != 0 || !takes(head.aux) ||
        iov.length == 0 || !attached()) {
        return Step::bad;
    }
    if (state == State::draining) {
        give_back(1);  // its memory is gone
        return Step::taken;
    }
    const auto lane = static_cast<Lane>(head.aux);
    const auto claim = [&](Claim from, Claim to) {
        auto expected = static_cast<std::uint32_t>(from);
        return in_.claims[head.value].compare_exchange_strong(
            expected, static_cast<std::uint32_t>(to), std::memory_order_acq_rel);
    };
    if (!claim(Claim::offered, Claim::reading)) {
        give_back(1);  // taken back
        acknowledge(head.value, Status::canceled);
        return Step::taken;
    }
    if (iov.length > context.max_message(lane)) {
        context.sink().dropped("a message longer than this class takes");
        give_back(1);
        acknowledge(head.value, Status::msgsize);
        return Step::taken;
    }
    if (peer == nullptr && !adopt(lane)) {
        return Step::bad;
    }
    plugin::Arrival* a = context.sink().arrive(lane, *peer, head.tag, iov.length);
    if (a == nullptr) {
        // If that fails it was taken back: found out the next time.
        static_cast<void>(claim(Claim::reading, Claim::offered));
        stalled_ = true;
        return Step::later;
    }
    Status status = Status::success;
    if (a->data != nullptr) {
        status = context.read_peer(*this, a->data, iov.address, iov.length);
    }
    if (ok(status) && !claim(Claim::reading, Claim::taken)) {
        status = Status::fault;  // taken back meanwhile: nobody knows what was read
    }
    give_back(1);
    context.sink().finish(a, status);
    if (status == Status::hostunreach) {
        context.hang_up(*this, status);
        return Step::taken;
    }
    acknowledge(head.value, status);
    return Step::taken;
}

Connection::Step Connection::take_bounce(const Head& head) noexcept {
    const auto announce = rx_.front<Announce>(kBody);
    Served* s = served(head.value);
    const std::uint64_t bit = std::uint64_t{1} << (head.value % kSlots);
    if (s == nullptr || s->use != Use::none || (acks_owed_ & bit) != 0 || !takes(head.aux) ||
        announce.length == 0) {
        return Step::bad;
    }
    const auto lane = static_cast<Lane>(head.aux);
    Served made;
    made.left = announce.length;
    if (announce.length > context.max_message(lane)) {
        context.sink().dropped("a message longer than this class takes");
        made.use = Use::discard;
    } else {
        if (peer == nullptr && !adopt(lane)) {
            return Step::bad;
        }
        made.use = Use::message;
        made.arrival = context.sink().arrive_in_parts(lane, *peer, head.tag, announce.length);
        if (made.arrival == nullptr) {
            stalled_ = true;
            return Step::later;
        }
    }
    *s = made;
    give_back(1);
    return Step::taken;
}

Connection::Step Connection::take_data(const Head& head) noexcept {
    std::uint32_t size = 0;
    const std::byte* from = nullptr;
    Served* s = served(head.value);
    if (s == nullptr || !get_buffer(size, from) || size > s->left) {
        return Step::bad;
    }
    switch (s->use) {
        case Use::message:
            if (s->arrival->data != nullptr) {
                std::memcpy(static_cast<std::byte*>(s->arrival->data) + s->done, from, size);
            }
            break;
        case Use::put:
            if (ok(s->status)) {
                s->status = context.domain().regions().use(
                    s->key, Access::write, s->offset + s->done, size,
                    [&](const LocalRegion& region) {
                        copy_in(region.list, s->offset + s->done, from, size);
                    });
            }
            break;
        case Use::discard:
            break;
        default:
            return Step::bad;
    }
    give_back_buffer();
    s->done += size;
    s->left -= size;
    if (s->left == 0) {
        const Use use = std::exchange(s->use, Use::none);
        if (use == Use::message) {
            context.sink().finish(std::exchange(s->arrival, nullptr), Status::success);
        } else if (use == Use::put) {
            acknowledge(head.value, s->status);
        }
    }
    return Step::taken;
}

Connection::Step Connection::take_put(const Head& head) noexcept {
    const auto range = rx_.front<RemoteRange>(kBody);
    Served* s = served(head.value);
    const std::uint64_t bit = std::uint64_t{1} << (head.value % kSlots);
    if (s == nullptr || s->use != Use::none || (acks_owed_ & bit) != 0 || range.length == 0) {
        return Step::bad;
    }
    Served made;
    made.use = Use::put;
    made.left = range.length;
    made.key = range.key;
    made.offset = range.offset;
    made.status = context.domain().regions().use(range.key, Access::write, range.offset,
                                                 range.length, [](const LocalRegion&) {});
    *s = made;
    give_back(1);
    return Step::taken;
}

Connection::Step Connection::take_get(const Head& head) noexcept {
    const auto range = rx_.front<RemoteRange>(kBody);
    Served* s = served(head.value);
    const std::uint64_t bit = std::uint64_t{1} << (head.value % kSlots);
    if (s == nullptr || s->use != Use::none || (acks_owed_ & bit) != 0 || range.length == 0) {
        return Step::bad;
    }
    give_back(1);
    const Status status = context.domain().regions().use(range.key, Access::read, range.offset,
                                                         range.length, [](const LocalRegion&) {});
    if (!ok(status)) {
        acknowledge(head.value, status);
        return Step::taken;
    }
    Served made;
    made.use = Use::get;
    made.left = range.length;
    made.key = range.key;
    made.offset = range.offset;
    *s = made;
    gets_served_ |= bit;
    context.add_work(*this);
    return Step::taken;
}

Connection::Step Connection::take_reply(const Head& head) noexcept {
    std::uint32_t size = 0;
    const std::byte* from = nullptr;
    if (head.value >= kSlots || !get_buffer(size, from)) {
        return Step::bad;
    }
    Slot& s = slots_[head.value];
    if (s.use != Use::get || size > s.left) {
        return Step::bad;
    }
    if (s.op != nullptr) {
        OpState& state_here = state_of(*s.op);
        copy_in(static_cast<const Region*>(s.op->local)->list, s.op->local_offset + state_here.done,
                from, size);
        state_here.done += size;
    }
    give_back_buffer();
    s.left -= size;
    if (s.left == 0) {
        Op* op = s.op;
        free_slot(head.value);
        if (op != nullptr) {
            complete(*op, Status::success);
        }
    }
    return Step::taken;
}

Connection::Step Connection::take_ack(const Head& head) noexcept {
    if (head.value >= kSlots) {
        return Step::bad;
    }
    const Slot s = slots_[head.value];
    const auto status = static_cast<Status>(head.aux);
    if (!may_answer(status, s.op == nullptr)) {
        return Step::bad;
    }
    // A get that succeeds ends with its last reply; a put that is still being written is not
    // acknowledged.
    if ((s.use != Use::iov && s.use != Use::put && s.use != Use::get) ||
        (s.use == Use::get && ok(status)) ||
        (s.op != nullptr && state_of(*s.op).stage != Stage::waiting) ||
        (aborts_owed_ & std::uint64_t{1} << head.value) != 0) {
        return Step::bad;
    }
    give_back(1);
    free_slot(head.value);
    if (s.op != nullptr) {
        complete(*s.op, status);
    }
    return Step::taken;
}

Connection::Step Connection::take_abort(const Head& head) noexcept {
    Served* s = served(head.value);
    if (s == nullptr) {
        return Step::bad;
    }
    switch (s->use) {
        case Use::message:
            s->use = Use::none;
            give_back(1);
            context.sink().finish(std::exchange(s->arrival, nullptr), Status::canceled);
            return Step::taken;
        case Use::put:
            s->use = Use::none;
            give_back(1);
            acknowledge(head.value, Status::canceled);
            return Step::taken;
        case Use::discard:
            s->use = Use::none;
            give_back(1);
            return Step::taken;
        default:
            return Step::bad;
    }
}

}  // namespace na::sm
