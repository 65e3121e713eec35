// SPDX-License-Identifier: BSD-3-Clause
// Endpoints of UCX's: how peers are reached, and left.
//
// A peer's bootstrap port is asked for the address of its worker, and an endpoint is made with
// that. UCX reports the end of endpoints (tcp, InfiniBand); with shared memory the peer's process
// is watched. An endpoint is closed in poll() only: UCX must not be in the midst of working on it.
#include <cstring>
#include <new>
#include <utility>

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "na/util/log.hpp"
#include "plugins/ucx/context.hpp"

namespace na::ucx {

using plugin::Posted;

namespace {

// UCX is not asked for an endpoint where there are fewer descriptors: 1.13.1 ends the process where
// it lacks one in the middle.
constexpr std::size_t kFilesOfWay = 4;

}  // namespace

std::unique_ptr<session::Link> Context::make_link(session::Address address, std::uint8_t target) {
    return std::make_unique<Link>(*this, std::move(address), target);
}

void Link::ready(std::uint32_t) {
    context.dialed(*this);
}

void ProcessWatch::ready(std::uint32_t) {
    context_.process_ended(link_);
}

// --- there

// done: there is a way.
Posted Context::reach(Link& link) noexcept {
    if (link.way != nullptr) {
        return link.way->failed ? Posted::failed(Status::hostunreach) : waiting(link);
    }
    try {
        if (!link.self) {
            return dial(link);
        }
        if (!make_way(link, workers_.back()->addresses().all.data())) {
            return Posted::failed(Status::hostunreach);
        }
        return link.way->ready ? Posted::done() : waiting(link);
    } catch (const std::bad_alloc&) {
        retry_soon();
        return Posted::again();
    }
}

Posted Context::dial(Link& link) {
    if (link.dial == nullptr) {
        if (pauses(link)) {
            return Posted::again();
        }
        if (const Files files = files_for(link, kFilesOfWay); files != Files::enough) [[unlikely]] {
            return files == Files::wait ? Posted::again() : Posted::failed(Status::nomem);
        }
        auto dial = std::make_unique<Dial>(link.address.raw(link.target));
        if (dial->state() == Dial::State::gone) {
            NA_LOG_INFO(addr, "nobody is at {}: {}", link.address, std::strerror(dial->error()));
            return Posted::failed(Status::hostunreach);
        }
        if (dial->state() == Dial::State::failed || !watch_fd(dial->fd(), EPOLLIN, link)) {
            NA_LOG_WARNING(addr, "cannot connect to {}: {}", link.address,
                           std::strerror(dial->error()));
            blocked(link);
            return Posted::again();
        }
        link.dial = std::move(dial);
    }
    return waiting(link);
}

// Who does not answer is suspect after a while; a descriptor wakes us when it does.
Posted Context::waiting(Link& link) noexcept {
    if (link.blocked_since == 0) {
        link.blocked_since = session::now_ns();
    }
    watch(link);
    return Posted::again();
}

void Context::dialed(Link& link) {
    if (link.dial == nullptr || link.dial->go_on() == Dial::State::waiting) {
        return;
    }
    unwatch_fd(link.dial->fd());
    const std::unique_ptr<Dial> dial = std::move(link.dial);
    switch (dial->state()) {
        case Dial::State::done:
            // Other versions of UCX may have other addresses, and UCX does not look.
            if ((static_cast<unsigned char>(workers_.back()->addresses().all.front()) & 15U) !=
                (static_cast<unsigned char>(*dial->address()) & 15U)) {
                NA_LOG_WARNING(addr, "{} has a UCX whose addresses UCX {} does not understand",
                               link.address, version_text());
                lost(link, Status::hostunreach);
            } else if (const Files files = files_for(link, kFilesOfWay); files != Files::enough) {
                if (files == Files::none) {
                    lost(link, Status::nomem);
                }
            } else if (make_way(link, dial->address())) {
                watch_process(link, dial->frame());
            } else {
                lost(link, Status::hostunreach);
            }
            return;
        case Dial::State::soon:
            put_off(link);
            return;
        case Dial::State::full:
            NA_LOG_WARNING(addr,
                           "{} is alive, and has no descriptor left for another peer: raise its "
                           "limit on open files (ulimit -n)",
                           link.address);
            lost(link, Status::busy);
            return;
        case Dial::State::failed:
            blocked(link);
            return;
        case Dial::State::apart:
            NA_LOG_WARNING(addr,
                           "{} is of another user or in other name spaces, whose shared memory {} "
                           "cannot attach: use ucx+tcp or ucx+all",
                           link.address, local().name);
            lost(link, Status::hostunreach);
            return;
        case Dial::State::wrong:
            malformed("an answer of a port that is none of ours");
            NA_LOG_WARNING(addr, "{} is no address of {}", link.address, local().name);
            lost(link, Status::hostunreach);
            return;
        default:
            NA_LOG_INFO(addr, "nobody is at {}: {}", link.address, std::strerror(dial->error()));
            lost(link, Status::hostunreach);
    }
}

bool Context::make_way(Link& link, const void* address) noexcept {
    std::unique_ptr<Way> way(new (std::nothrow) Way);
    if (way == nullptr) {
        return false;
    }
    way->context = this;
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = static_cast<const ucp_address_t*>(address);
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = on_failure;
    params.err_handler.arg = way.get();
    if (const ucs_status_t rc = ucp_ep_create(workers_.back()->get(), &params, &way->ep);
        rc != UCS_OK) {
        NA_LOG_INFO(addr, "UCX cannot reach {}: {}", link.address, ucs_status_string(rc));
        return false;
    }
    ++stats_.ways;
    expected_ -= expected_ != 0 ? 1 : 0;
    way->worker = workers_.back().get();
    ++way->worker->ways;
    way->link = &link;
    unmarked_ = unmarked_ || !link.self;
    link.way = way.release();
    await_ready(*link.way);
    return true;
}

// Nothing is sent before UCX has connected the endpoint: what it queues meanwhile may be overtaken,
// and 1.13.1 ends the process with an assertion where a peer dies while UCX's own messages for
// connecting wait behind ours. A flush ends with that.
void Context::await_ready(Way& way) noexcept {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.send = on_ready;
    param.user_data = &way;
    const ucs_status_ptr_t answer = ucp_ep_flush_nbx(way.ep, &param);
    if (UCS_PTR_IS_PTR(answer)) {
        ++way.requests;
    } else {
        way.ready = answer == nullptr;
        if (way.ready) {
            unblocked(*way.link);
        } else {
            on_failure(&way, way.ep, UCS_PTR_STATUS(answer));
        }
    }
}

// Called by UCX.
void Context::on_ready(void* request, ucs_status_t status, void* ours) {
    auto& way = *static_cast<Way*>(ours);
    ucp_request_free(request);
    --way.requests;
    ++way.context->arrivals_;
    way.ready = status == UCS_OK;
    if (way.link == nullptr) {
        return;
    }
    if (way.ready) {
        unblocked(*way.link);
    } else {
        on_failure(&way, way.ep, status);
    }
}

// Where the number is another process's by now, that one's end is taken for the peer's: the session
// ends, and can be made again.
void Context::watch_process(Link& link, const Frame& frame) noexcept {
#ifdef SYS_pidfd_open
    if (frame.machine == 0 || frame.machine != this_machine() || frame.process == 0 ||
        frame.process == static_cast<std::uint32_t>(getpid())) {
        return;
    }
    link.process.process.reset(
        static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(frame.process), 0)));
    if (link.process.process && !watch_fd(link.process.process.get(), EPOLLIN, link.process)) {
        link.process.process.reset();
    }
#else
    (void)link;
    (void)frame;
#endif
}

// --- and away

// UCX has noticed that the peer went. Called by UCX.
void Context::on_failure(void* ours, ucp_ep_h, ucs_status_t status) {
    auto& way = *static_cast<Way*>(ours);
    if (way.failed) {
        return;
    }
    way.failed = true;
    NA_LOG_DEBUG(addr, "UCX gives an endpoint up: {}", ucs_status_string(status));
    if (way.link != nullptr) {
        ++way.context->stats_.failed;
        way.context->failed_.push_back(way);
    }
}

std::size_t Context::bury_failed() {
    std::size_t events = 0;
    while (Way* way = failed_.pop_front()) {
        ++events;
        if (!begins_anew(*way->link)) {
            parted(*way->link);
        }
    }
    return events;
}

void Context::process_ended(Link& link) noexcept {
    unwatch_fd(link.process.process.get());
    link.process.process.reset();
    departed(link);
}

void Context::leave(session::Link& base) noexcept {
    auto& link = static_cast<Link&>(base);
    if (link.dial != nullptr) {
        unwatch_fd(link.dial->fd());
        link.dial.reset();
    }
    if (link.process.process) {
        unwatch_fd(link.process.process.get());
        link.process.process.reset();
    }
    link.met = false;
    forget_owed(link);
    Way* way = std::exchange(link.way, nullptr);
    if (way == nullptr) {
        return;
    }
    way->link = nullptr;
    if (way->hook.linked()) {
        util::IntrusiveList<Way, &Way::hook>::remove(*way);
    }
    left_.push_back(*way);
}

// Begins to close those that were left, and looks at those that UCX closes.
void Context::close_left() noexcept {
    while (Way* way = left_.pop_front()) {
        begin_close(*way);
        closing_.push_back(*way);
    }
    for (Way* way = closing_.front(); way != nullptr;) {
        Way* next = closing_.next(*way);
        if (end_close(*way)) {
            util::IntrusiveList<Way, &Way::hook>::remove(*way);
            --way->worker->ways;
            delete way;
        }
        way = next;
    }
}

// What is queued ends with it: on_sent(). Keys go before the endpoint, but for those that UCX works
// with.
void Context::begin_close(Way& way) noexcept {
    if (way.natives == 0) {
        way.keys.reset();
    }
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    way.closing = ucp_ep_close_nbx(way.ep, &param);
    if (UCS_PTR_IS_ERR(way.closing)) {
        NA_LOG_WARNING(addr, "UCX cannot close an endpoint: {}",
                       ucs_status_string(UCS_PTR_STATUS(way.closing)));
        way.closing = nullptr;
    }
}

bool Context::end_close(Way& way) noexcept {
    if (way.closing != nullptr) {
        if (ucp_request_check_status(way.closing) == UCS_INPROGRESS) {
            return false;
        }
        ucp_request_free(way.closing);
        way.closing = nullptr;
    }
    return way.requests == 0;
}

}  // namespace na::ucx
