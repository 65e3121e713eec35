// SPDX-License-Identifier: BSD-3-Clause
// How connections end: the peer hangs up, breaks the protocol, or is dropped here.
#include <cerrno>
#include <new>

#include <sys/epoll.h>
#include <sys/socket.h>

#include "plugins/sm/context.hpp"

namespace na::sm {

void Context::fail(Connection& c, const char* what) noexcept {
    ++stats_.bad_input;
    sink_.dropped(what);
    hang_up(c, Status::hostunreach);
    c.become(Connection::State::closed);
}

void Context::hang_up(Connection& c, Status why) noexcept {
    if (c.state != Connection::State::open) {
        return;
    }
    c.become(Connection::State::draining);
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
        c.become(Connection::State::closed);
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
    if (std::exchange(c.cooled, std::uint8_t{0}) != 0) {
        std::erase(cooled_, &c);
    }
    forget(refused_, c.is_refused);
    forget(unanswered_, c.is_unanswered);
    stats_.replies_waiting -= c.unsent.size();
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
    const bool sends = link.to(c.remote_context) == &c;
    if (sends) {
        link.replace(c.remote_context, nullptr);
    }
    if (!c.silent) {
        mourn(*peer, c);
    }
    if (sends) {
        link.replace(c.remote_context, link.open(c.remote_context));
    }
    if (c.holds_source) {
        sink_.release(*peer);
    }
}

// The operations of the connection have ended with it. What the core holds ends only if it waits
// for the context at the other end and no other connection leads there: all of it with the last
// connection to the peer.
void Context::mourn(Peer& peer, const Connection& c) noexcept {
    ++stats_.lost;
    Link& link = peer.link(id_);
    // What the peer published on its other connections came before its end.
    for (Connection* other : link.all) {
        drain(*other);
        other->drained = 0;
    }
    if (link.open({}) == nullptr) {
        sink_.peer_lost(peer, c.why);
    } else if (link.open(c.remote_context) == nullptr) {
        sink_.context_lost(peer, c.remote_context, c.why);
    }
}

// A process shows up under the name: what is left of an earlier owner of that name is dead, though
// a forked child may keep its sockets open. True: there is something left of one.
bool Context::end_predecessor(Peer& peer, pid_t process) noexcept {
    bool found = false;
    for (Connection* c : peer.link(id_).all) {
        if (c->process.pid != process) {
            found = true;
            hang_up(*c, Status::hostunreach);
        }
    }
    return found;
}

// The core gives the peer up. What stands in the rings goes with them.
void Context::disconnect(plugin::Peer& peer) {
    for (Connection* c : static_cast<Peer&>(peer).link(id_).all) {
        hang_up(*c, Status::hostunreach);
        c->become(Connection::State::closed);
    }
    wake_self();
}

// The user lets go of the peer, the peer perhaps not of us: it is told, and its messages are taken
// until it closes, so that none is lost that was on its way. If it had told us so before, there is
// nothing to wait for.
void Context::drop(plugin::Peer& dropped) {
    auto& peer = static_cast<Peer&>(dropped);
    Link& link = peer.link(id_);
    for (Connection* c : std::exchange(link.all, {})) {
        c->peer = nullptr;
        c->holds_source = false;
        ++orphans_;
        const bool stays = c->state == Connection::State::open && orphans_ <= kMaxOrphans &&
                           (c->parted || say_goodbye(*c));
        if (stays) {
            try {
                c->name = peer.name();
                if (c->parted && !c->sent_unexpected) {
                    c->silent = true;
                    hang_up(*c, Status::hostunreach);  // after its last words
                }
                continue;
            } catch (const std::bad_alloc&) {
            }
        }
        hang_up(*c, Status::hostunreach);
        c->become(Connection::State::closed);
    }
    link.first = nullptr;
    link.others.clear();
}

// At once, or as soon as the socket has room. False: there is nobody to say it to.
bool Context::say_goodbye(Connection& c) noexcept {
    const ByeMessage bye{Control::bye};
    const int error = c.full ? EAGAIN : send_message(c.socket.get(), &bye, sizeof bye);
    if (is_shortage(error)) {
        c.bye_unsent = true;
        wait_for_room(c);
        return c.full;
    }
    return error == 0;
}

bool Context::adopted(Connection& c, Lane lane) noexcept {
    Link& link = c.peer->link(id_);
    try {
        link.all.push_back(&c);
        // A peer that sent an unexpected message keeps the connection: see on_bye().
        if (lane == Lane::unexpected && link.to(c.remote_context) == nullptr) {
            link.set(c.remote_context, &c);
        }
    } catch (const std::bad_alloc&) {
        std::erase(link.all, &c);
        return false;
    }
    --orphans_;
    return true;
}

}  // namespace na::sm
