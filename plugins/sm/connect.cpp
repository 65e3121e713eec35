// SPDX-License-Identifier: BSD-3-Clause
// Connections that this side makes, on the first message to a peer. Nothing waits: the region is
// made here, so that messages can be written into it before the peer has even looked.
#include <algorithm>
#include <cerrno>
#include <new>
#include <optional>

#include <sys/epoll.h>
#include <unistd.h>

#include <fmt/format.h>

#include "na/util/log.hpp"
#include "plugins/sm/context.hpp"

namespace na::sm {

using plugin::Posted;

Connection* Context::reach(Peer& peer, std::uint8_t target, Posted& answer) noexcept {
    Connection* c = peer.link(id_).to(target);
    if (c != nullptr && !c->answered && replace_unanswered(peer, *c)) [[unlikely]] {
        c = peer.link(id_).to(target);
    }
    if (c == nullptr) {
        answer = connect(peer, target, c);
    }
    return c;
}

// A process that dies closes its listening socket last: what is sent to it in that moment makes a
// connection that nobody ever takes up, and its name may have a new owner before we look at our
// sockets. What has been sent over such a connection nobody has seen; if nothing waits for an
// answer to it, it goes in silence, and what is posted now reaches the new owner. (Where there is a
// sign that somebody took it up, or refused it, the sockets are looked at for that, soon.)
bool Context::replace_unanswered(Peer& peer, Connection& c) noexcept {
    if (!c.outgoing || c.state != Connection::State::open || !c.hung_up() || !c.untouched() ||
        in_use(c) || sink_.awaited(peer)) {
        return false;
    }
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, c.socket.get(), nullptr);
    c.silent = true;
    c.become(Connection::State::closed);
    bury(c);
    return true;
}

Posted Context::connect(Peer& peer, std::uint8_t target, Connection*& made) noexcept {
    try {
        return try_connect(peer, target, made);
    } catch (const std::bad_alloc&) {
        made = nullptr;
        return Posted::failed(Status::nomem);
    }
}

Posted Context::try_connect(Peer& peer, std::uint8_t target, Connection*& made) {
    const auto failed = [&](const Error& error) {
        explain(peer.name(), error);
        return Posted::failed(error.status);
    };
    const std::optional<Owner> owner = owner_of(peer.name());
    if (owner && !owner->lives_in(domain_.namespaces())) {
        return failed({Status::addrnotavail,
                       "it is in another network namespace or pid namespace (a container)"});
    }
    ConnectResult connected = connect_socket(socket_name(peer.name(), target));
    switch (connected.how) {
        case Connected::yes:
            break;
        case Connected::refused: {
            const Error why = why_refused(peer);
            return why.status == Status::hostunreach ? Posted::failed(why.status) : failed(why);
        }
        case Connected::busy:
            connect_blocked_ = true;
            wake_self();
            return Posted::again();
        case Connected::failed:
            return failed(os_error(connected.error, "cannot connect"));
    }
    if (!domain_.allows_user(connected.peer.uid)) {
        return failed(
            {Status::permission,
             fmt::format("it belongs to user {}: add the id to NA_SM_ALLOW_UIDS to talk to it",
                         connected.peer.uid)});
    }
    // The kernel does not number a process that lives in a namespace beside or above this one.
    if (connected.peer.pid == 0) {
        return failed({Status::addrnotavail, "it is in another pid namespace (a container)"});
    }
    if (owner && owner->process != connected.peer.pid) {
        return failed(
            {Status::permission,
             fmt::format("process {} listens under this name, which is not its own{}",
                         connected.peer.pid,
                         owner->namespaces != 0 ? "" : " (or it lives in another pid namespace)")});
    }
    const auto elsewhere = [&](const Connection* c) {
        return c->process.pid != connected.peer.pid;
    };
    if (const auto& all = peer.link(id_).all; std::any_of(all.begin(), all.end(), elsewhere)) {
        if (!owns(peer.name(), target, connected.peer.pid)) {
            return failed(
                {Status::permission,
                 fmt::format("process {} listens as context {} of a name that is another's",
                             connected.peer.pid, target)});
        }
        // The next progress() ends what waits for the old owner of the name; who posts after that
        // means the new one.
        end_predecessor(peer, connected.peer.pid);
        wake_self();
        return Posted::failed(Status::hostunreach);
    }
    const Geometry& geometry = domain_.geometry();
    auto region = make_shared_memory(geometry.region_bytes(), false);
    if (!region) {
        return failed(region.error());
    }
    auto c = std::make_unique<Connection>(*this, std::move(connected.socket), connected.peer,
                                          std::move(region->mapping), geometry, true, target);
    Link& link = peer.link(id_);
    link.all.reserve(link.all.size() + 1);
    link.set(target, nullptr);  // makes room
    const int socket = c->socket.get();
    Connection& entered = enter(std::move(c));
    entered.peer = &peer;

    Hello hello{};
    hello.control = Control::hello;
    hello.version = kLayoutVersion;
    hello.magic = kHelloMagic;
    hello.geometry = geometry;
    hello.nonce = nonce();
    hello.max_message[0] = max_message_[0];
    hello.max_message[1] = max_message_[1];
    hello.bit = entered.number % kReadyBits;
    hello.context = id_;
    hello.target_context = target;
    hello.name_length = static_cast<std::uint16_t>(domain_.name().size());
    std::memcpy(hello.name, domain_.name().data(), domain_.name().size());
    const int fds[kHelloFds] = {region->fd.get(), status_page_.fd.get(), ready_page_.fd.get(),
                                domain_.permits().fd()};
    int error = send_message(socket, &hello, sizeof hello, fds);
    if ((error == EPIPE || error == ECONNRESET) && !entered.untouched()) {
        // Refused before the greeting: the answer in the socket says why, and is read in turn.
        error = 0;
    }
    if (error == 0 && !watch(socket, Event::connection, entered.number)) {
        error = errno;
    }
    if (error != 0) {
        const std::uint32_t number = entered.number;
        slots_[number].reset();
        free_slots_.push_back(number);
        --connections_;
        // Too many descriptors on their way, for all of this user's processes: peers will take
        // them.
        if (is_shortage(error)) {
            connect_blocked_ = true;
            wake_self();
            return Posted::again();
        }
        if (error == EPIPE || error == ECONNRESET) {
            return Posted::failed(Status::hostunreach);
        }
        return failed(os_error(error, "cannot greet the peer"));
    }
    link.all.push_back(&entered);
    link.set(target, &entered);
    ++stats_.connected;
    // Until it answers the peer cannot know our ready map from anything but the greeting: rings
    // start hot where there is room.
    heat(entered);
    made = &entered;
    return Posted::done();
}

Error Context::why_refused(const Peer& peer) {
    // Versions that exist, and the next: a peer may be newer.
    for (std::uint32_t version = 1; version <= kLayoutVersion + 1; ++version) {
        if (version != kLayoutVersion &&
            connect_socket(socket_name(peer.name(), 0, version)).how == Connected::yes) {
            return {Status::protonosupport,
                    fmt::format("it is alive, and its library has version {} of the shared-memory "
                                "layout, this one {}: use one version on both sides",
                                version, kLayoutVersion)};
        }
    }
    return {Status::hostunreach, {}};
}

void Context::explain(std::string_view name, const Error& error) noexcept {
    const std::uint32_t bit = std::uint32_t{1} << static_cast<unsigned>(error.status);
    if ((explained_ & bit) == 0) {
        explained_ |= bit;
        NA_LOG_ERROR(sm, "sm://{}: {}", name, error.message);
        return;
    }
    try {
        log::set_last_error(fmt::format("sm://{}: {}", name, error.message));
    } catch (const std::bad_alloc&) {
        log::set_last_error(error.message);
    }
}

// Gives the connection its number, and room in every list that it may enter.
Connection& Context::enter(std::unique_ptr<Connection> connection) {
    if (free_slots_.empty()) {
        const std::size_t size = slots_.size() + 1;
        free_slots_.reserve(size);
        work_.reserve(size);
        starved_.reserve(size);
        cooled_.reserve(size);
        refused_.reserve(size);
        unanswered_.reserve(size);
        dying_.reserve(size);
        slots_.emplace_back();
        free_slots_.push_back(static_cast<std::uint32_t>(size - 1));
    }
    const std::uint32_t number = free_slots_.back();
    free_slots_.pop_back();
    connection->number = number;
    ++connections_;
    slots_[number] = std::move(connection);
    return *slots_[number];
}

Nonce Context::nonce() const noexcept {
    if (domain_.attaching() == Attaching::never) {
        return {};  // peers find nothing at address 0, and do not attach either
    }
    return {reinterpret_cast<std::uintptr_t>(&nonce_), nonce_};
}

}  // namespace na::sm
