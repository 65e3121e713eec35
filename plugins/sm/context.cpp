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
    status_->sleepless = domain_.sleepless() ? 1 : 0;
    ready_page_ = std::move(*ready);
    ready_ = ready_page_.mapping.at<ReadyMap>(0);
    listener_ = std::move(*listener);
    nonce_ = domain_.random().next();
    freed_ = domain_.allocations().generation();
    epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_) {
        return failed(os_error(errno, "cannot make an epoll descriptor"));
    }
    spare_.reset(fcntl(epoll_.get(), F_DUPFD_CLOEXEC, 3));
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
    // Also where a forked child still holds the socket.
    shutdown(c.socket.get(), SHUT_RDWR);
    end_copies(c, Status::canceled, false);
    c.end_all(Status::canceled, false);
    if (Peer* peer = std::exchange(c.peer, nullptr)) {
        Link& link = peer->link(id_);
        std::erase(link.all, &c);
        if (link.to(c.remote_context) == &c) {
            link.replace(c.remote_context, nullptr);
        }
        if (c.holds_source) {
            sink_.release(*peer);
        }
    }
}

void Context::cancel(Op& op) {
    OpState& s = state_of(op);
    if (s.stage == Stage::copying) {
        end_copy(op, Status::canceled);
    } else if (s.stage != Stage::idle) {
        if (const auto end = s.connection->take_back(op)) {
            sink_.complete(op,
                           plugin::Completion{.status = *end, .size = ok(*end) ? op.length : 0});
        }
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
        {"sm_replies_waiting", stats_.replies_waiting},
        {"sm_late_peers", domain_.permits().late()},
    };
    out.insert(out.end(), std::begin(list), std::end(list));
}

}  // namespace na::sm
