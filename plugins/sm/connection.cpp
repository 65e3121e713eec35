// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/sm/connection.hpp"

#include <algorithm>

#include <poll.h>
#include <sys/ioctl.h>
#include <time.h>

#include "plugins/sm/context.hpp"

namespace na::sm {

Connection::Connection(Context& context_, UniqueFd socket_, Credentials process_, Mapping region,
                       const Geometry& geometry, bool outgoing_, std::uint8_t remote_context_)
    : context(context_),
      outgoing(outgoing_),
      remote_context(remote_context_),
      socket(std::move(socket_)),
      process(process_),
      rx_pool_(region.at<std::byte>(geometry.pool_offset(outgoing_ ? 1 : 0))),
      geometry_(geometry),
      peer_max_{SIZE_MAX, SIZE_MAX},
      peer_sleep_(&unanswered_sleep_),
      out_(region.at<Direction>(0)[outgoing_ ? 0 : 1]),
      in_(region.at<Direction>(0)[outgoing_ ? 1 : 0]),
      region_(std::move(region)),
      user_(context_.domain().permits().join(process, socket.get(), in_.hazard.permit,
                                             out_.bar.barred)) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        line_max_[lane] = static_cast<std::int64_t>(
            std::min(kLineBytes, context.max_message(static_cast<Lane>(lane))));
    }
    limit_inject();
    tx_.attach(out_);
    rx_.attach(in_);
    pool_.attach(region_.at<std::byte>(geometry.pool_offset(outgoing ? 0 : 1)), geometry);
}

Connection::~Connection() {
    context.domain().permits().leave(user_, region_);
}

void Connection::set_attach(bool works, const Nonce& nonce) noexcept {
    nonce_ = nonce;
    attach_ = works ? Attach::yes : Attach::no;
    out_.producer.attach.store(static_cast<std::uint32_t>(attach_), std::memory_order_release);
}

Attach Connection::peer_attach() const noexcept {
    switch (in_.producer.attach.load(std::memory_order_acquire)) {
        case static_cast<std::uint32_t>(Attach::unknown):
            return Attach::unknown;
        case static_cast<std::uint32_t>(Attach::yes):
            return Attach::yes;
        default:
            return Attach::no;
    }
}

void Connection::set_peer_pages(Mapping status, Mapping ready, Mapping permits,
                                std::uint32_t bit) noexcept {
    status_page_ = std::move(status);
    ready_page_ = std::move(ready);
    permits_page_ = std::move(permits);
    peer_sleep_ = &status_page_.at<StatusPage>(0)->sleep;
    peer_sleepless_ = status_page_.at<StatusPage>(0)->sleepless == 1;
    peer_ready_ = ready_page_.at<ReadyMap>(0);
    peer_bit_ = bit;
    rung_ = 0;  // the sleeps for which we have knocked so far were none of the peer's
    answered = true;
}

void Connection::set_peer_limits(const std::uint64_t (&max_message)[kLanes]) noexcept {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        peer_max_[lane] = max_message[lane];
    }
    limit_inject();
}

void Connection::become(State next) noexcept {
    state = next;
    limit_inject();
}

// Of the messages that are queued on a lane.
void Connection::change_busy(std::size_t lane, std::uint32_t by) noexcept {
    lane_busy_[lane] += by;
    limit_inject();
}

void Connection::limit_inject() noexcept {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        // Before there is an answer send() is to look first whether there will be one.
        inject_below_[lane] = state == State::open && answered && lane_busy_[lane] == 0
                                  ? std::min(kInlineBytes, peer_max_[lane]) + 1
                                  : 0;
    }
}

bool Connection::peer_is_same() noexcept {
    constexpr std::int64_t kFresh = 1'000'000;
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    const std::int64_t now = t.tv_sec * 1'000'000'000 + t.tv_nsec;
    if (now - seen_alive_ < kFresh) {
        return true;
    }
    // The socket alone proves nothing: a child of the peer may hold it.
    if (state != State::open || hung_up() || !shows(process.pid, nonce_)) {
        return false;
    }
    seen_alive_ = now;
    return true;
}

bool Connection::hung_up() const noexcept {
    pollfd p{.fd = socket.get(), .events = 0, .revents = 0};
    return ::poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLERR)) != 0;
}

bool Connection::untouched() const noexcept {
    int unread = 0;  // (reading would say first that the peer has closed with something unread)
    return !answered && rx_.untouched() && served_ == nullptr &&
           ioctl(socket.get(), FIONREAD, &unread) == 0 && unread == 0;
}

void Connection::complete(Op& op, Status status) noexcept {
    state_of(op).stage = Stage::idle;
    context.sink().complete(
        op, plugin::Completion{.status = status, .size = ok(status) ? op.length : 0});
}

void Connection::end_all(Status status, bool tell) noexcept {
    const auto end = [&](Op& op) {
        if (tell) {
            complete(op, status);
        } else {
            state_of(op).stage = Stage::idle;
        }
    };
    while (Op* op = queue_.front()) {
        queue_.remove(*op);
        // One that is streaming has a slot as well.
        for (Slot& s : slots_) {
            if (s.op == op) {
                s.op = nullptr;
            }
        }
        end(*op);
    }
    for (Slot& s : slots_) {
        if (Op* op = std::exchange(s.op, nullptr)) {
            end(*op);
        }
        s.use = Use::none;
    }
    slots_free_ = ~std::uint64_t{0};
    slots_used_ = 0;
    if (served_ != nullptr) {
        for (unsigned i = 0; i < kSlots; ++i) {
            if (plugin::Arrival* a = std::exchange(served_[i].arrival, nullptr)) {
                context.sink().finish(a, status);
            }
            served_[i].use = Use::none;
        }
    }
    acks_owed_ = aborts_owed_ = gets_served_ = 0;
    lane_busy_[0] = lane_busy_[1] = 0;
    limit_inject();
}

}  // namespace na::sm
