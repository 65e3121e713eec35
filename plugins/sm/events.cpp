// SPDX-License-Identifier: BSD-3-Clause
// What comes over sockets: peers that connect, answers, knocks, requests for memory, hang-ups.
#include <cerrno>
#include <ctime>
#include <new>

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "na/util/log.hpp"
#include "plugins/sm/context.hpp"

namespace na::sm {
namespace {

constexpr int kEvents = 64;
// Messages taken from one socket before the others get their turn.
constexpr int kSocketBudget = 64;

}  // namespace

bool Context::watch(int fd, Event event, std::uint32_t index) noexcept {
    epoll_event e{};
    e.events = EPOLLIN | EPOLLRDHUP;
    e.data.u64 = static_cast<std::uint64_t>(event) << 32 | index;
    return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &e) == 0;
}

// Something could not be sent for lack of room in the connection's socket.
void Context::wait_for_room(Connection& c) noexcept {
    if (c.full) {
        return;
    }
    epoll_event e{};
    e.events = EPOLLIN | EPOLLRDHUP | EPOLLOUT;
    e.data.u64 = static_cast<std::uint64_t>(Event::connection) << 32 | c.number;
    c.full = epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, c.socket.get(), &e) == 0;
}

void Context::go_on_sending(Connection& c) noexcept {
    while (!c.unsent.empty()) {
        const int error = answer_map(c, c.unsent.front());
        if (is_shortage(error)) {
            return;
        }
        if (error != 0) {
            hang_up(c, Status::hostunreach);
            return;
        }
        c.unsent.erase(c.unsent.begin());
        --stats_.replies_waiting;
    }
    if (c.bye_unsent) {
        const ByeMessage bye{Control::bye};
        if (is_shortage(send_message(c.socket.get(), &bye, sizeof bye))) {
            return;
        }
        c.bye_unsent = false;
    }
    // What was freed is told by who looks for that, with every look at the sockets.
    epoll_event e{};
    e.events = EPOLLIN | EPOLLRDHUP;
    e.data.u64 = static_cast<std::uint64_t>(Event::connection) << 32 | c.number;
    c.full = epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, c.socket.get(), &e) != 0;
}

void Context::set_timer(std::int64_t ns) noexcept {
    itimerspec t{};
    t.it_value.tv_sec = ns / 1'000'000'000;
    t.it_value.tv_nsec = ns % 1'000'000'000;
    timerfd_settime(timer_.get(), 0, &t, nullptr);
}

// An event says where to look, not what is there: a number may have got another owner since.
std::size_t Context::handle_events() noexcept {
    std::size_t handled = 0;
    if (!unanswered_.empty()) [[unlikely]] {
        answer_late();
    }
    if (muted_until_ != 0 && now() >= muted_until_) [[unlikely]] {
        mute_listener(false);
    }
    for (int round = 0; round < 4; ++round) {
        epoll_event events[kEvents];
        ++stats_.system_calls;
        const int n = epoll_wait(epoll_.get(), events, kEvents, 0);
        for (int i = 0; i < n; ++i) {
            const auto index = static_cast<std::uint32_t>(events[i].data.u64);
            switch (static_cast<Event>(events[i].data.u64 >> 32)) {
                case Event::listener:
                    handled += on_listener();
                    break;
                case Event::greeting:
                    if (index < greetings_.size() && greetings_[index].socket) {
                        on_greeting(index);
                        ++handled;
                    }
                    break;
                case Event::connection:
                    if (index < slots_.size() && slots_[index] != nullptr) {
                        handled += on_socket(*slots_[index]);
                    }
                    break;
                case Event::timer: {
                    std::uint64_t fired = 0;
                    [[maybe_unused]] const ssize_t r = read(timer_.get(), &fired, sizeof fired);
                    break;
                }
            }
        }
        if (n < kEvents) {
            break;
        }
    }
    return handled;
}

std::size_t Context::on_socket(Connection& c) noexcept {
    std::size_t handled = 0;
    if (c.full) [[unlikely]] {
        go_on_sending(c);
    }
    for (int i = 0; i < kSocketBudget && c.state == Connection::State::open; ++i) {
        Received message;
        ++stats_.system_calls;
        receive_message(c.socket.get(), message);
        switch (message.what) {
            case Received::What::nothing:
                return handled;
            case Received::What::hang_up:
                hang_up(c, Status::hostunreach);
                return handled + 1;
            case Received::What::message:
                break;
        }
        ++handled;
        if (message.bytes == 1 && message.fd_count == 0) {
            handled += receive_cold(c);
        } else {
            on_message(c, message);
        }
    }
    return handled;
}

void Context::on_message(Connection& c, Received& message) noexcept {
    switch (message.control()) {
        case Control::answer:
            on_answer(c, message);
            return;
        case Control::map:
            on_map(c, message);
            return;
        case Control::mapping:
            on_mapping(c, message);
            return;
        case Control::unmap:
            on_unmap(c, message);
            return;
        case Control::bye:
            on_bye(c);
            return;
        case Control::hello:
            break;
    }
    fail(c, "an unknown message on a connection's socket");
}

void Context::on_answer(Connection& c, Received& message) noexcept {
    Answer answer{};
    if (!c.outgoing || c.answered || !message.get(answer) || answer.magic != kHelloMagic) {
        fail(c, "an answer that is none");
        return;
    }
    if (answer.verdict != Verdict::accepted) {
        try {
            explain(c.peer != nullptr ? c.peer->name() : c.name, refusal(answer.verdict));
        } catch (const std::bad_alloc&) {  // for the text
        }
        hang_up(c, status_of(answer.verdict));
        return;
    }
    if (answer.version != kLayoutVersion || message.fd_count != kAnswerFds ||
        answer.bit >= kReadyBits) {
        fail(c, "an answer with values out of range");
        return;
    }
    auto status = map_peer_memory(message.fds[0].get(), kPageBytes, false);
    auto ready = map_peer_memory(message.fds[1].get(), kPageBytes, true);
    auto permits = map_peer_memory(message.fds[2].get(), kPermitBytes, false);
    if (!status || !ready || !permits) {
        NA_LOG_WARNING(sm, "the answer of a peer: {}",
                       (!status  ? status
                        : !ready ? ready
                                 : permits)
                           .error()
                           .message);
        fail(c, "an answer without usable shared memory");
        return;
    }
    c.set_peer_pages(std::move(*status), std::move(*ready), std::move(*permits), answer.bit);
    c.set_peer_limits(answer.max_message);
    c.set_attach(can_attach(c.process, answer.nonce), answer.nonce);
    // The peer may have waited for that word; and what we sent meanwhile may need a bit in its map.
    c.notify();
}

// The peer has dropped us, and keeps the connection for what we still want of it: answers, and its
// memory. It goes when nobody here holds the peer any more: drop(). If we have sent unexpected
// messages, an answer may be due, on this connection: it stays.
void Context::on_bye(Connection& c) noexcept {
    if (c.outgoing) {
        fail(c, "a goodbye from the side that was called");
        return;
    }
    c.receive(kRingLines);  // what it sent before
    if (c.state != Connection::State::open || c.sent_unexpected || c.parted) {
        return;
    }
    c.parted = true;
    if (std::exchange(c.holds_source, false)) {
        sink_.release(*c.peer);
    }
}

}  // namespace na::sm
