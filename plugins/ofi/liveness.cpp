// SPDX-License-Identifier: BSD-3-Clause
// Waiting, and peers that die.
//
// Providers of reliable datagrams do not tell that a peer went: posts to it are answered "try
// again" while they try to connect, and what was sent before is not heard of. So, while something
// here depends on a peer (an expected receive, an operation), a timer runs: the peer is asked
// whether it still knows the session (check), and where the provider does not get through, whether
// somebody is there at all is found out in another way (probe). Without such a dependency nothing
// runs.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "na/util/log.hpp"
#include "plugins/ofi/context.hpp"

namespace na::ofi {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kLook = 5 * kMs;             // between looks at watched links
constexpr std::int64_t kCall = 300 * kMs;           // between checks of a silent peer
constexpr std::int64_t kPatience = 40 * kMs;        // of "try again", before the first probe
constexpr std::int64_t kSilence = 400 * kMs;        // with a check unanswered, before a probe
constexpr std::int64_t kProbe = 1000 * kMs;         // between probes
constexpr std::int64_t kProbeLimit = 10'000 * kMs;  // an attempt that nobody answers
constexpr std::int64_t kRetry = 1 * kMs;            // sleep while posts wait for the provider
// Sleeps while messages wait for room in the core: from the first to the second, doubling.
constexpr std::int64_t kFirstHeldNap = kMs / 10;
constexpr std::int64_t kLastHeldNap = 10 * kMs;
// Sleeps without a descriptor of the provider: from the first to the second, doubling.
constexpr std::int64_t kFirstNap = kMs / 20;
constexpr std::int64_t kLastNap = 10 * kMs;

// Says that nobody is there, as opposed to trouble of our own.
bool says_gone(int error) noexcept {
    return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH ||
           error == EHOSTDOWN || error == ETIMEDOUT || error == ENETDOWN || error == ENOENT;
}

}  // namespace

std::int64_t now_ns() noexcept {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

void Context::set_timer(std::int64_t due) noexcept {
    if (!timer_ || (timer_due_ != 0 && timer_due_ <= due)) {
        return;
    }
    timer_due_ = due;
    itimerspec spec{};
    spec.it_value.tv_sec = due / 1'000'000'000;
    spec.it_value.tv_nsec = due % 1'000'000'000;
    timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

void Context::watch(Link& link) noexcept {
    if (!link.watched.linked() && !link.self) {
        watched_.push_back(link);
        if (armed_) {  // another thread sleeps
            set_timer(now_ns() + kLook);
        }
    }
}

void Context::blocked(Link& link) noexcept {
    ++stats_.refused;
    full_ = true;
    if (link.blocked_since == 0) {
        link.blocked_since = now_ns();
        watch(link);
    }
}

void Context::awaits(Op& op, bool begins) {
    auto& peer = static_cast<Peer&>(*op.peer);
    Link* link = peer.links(id_).to(op.target_id);
    if (link == nullptr) {
        if (!begins) {
            return;
        }
        try {
            link = &link_to(peer, op.target_id);
        } catch (const std::bad_alloc&) {
            return;
        }
    }
    link->awaited = begins ? link->awaited + 1 : link->awaited - (link->awaited != 0 ? 1 : 0);
    if (begins) {
        watch(*link);
    }
}

bool Context::arm() {
    if (!set_) {
        return false;
    }
    if (!watched_.empty()) {
        set_timer(now_ns() + (greeting_ ? kLook : kCall / 3));
    }
    if (full_ || !transfers_.empty() || endpoint_->starved()) {
        set_timer(now_ns() + kRetry);
    } else if (!work_.empty()) {
        held_nap_ = std::clamp(held_nap_ * 2, kFirstHeldNap, kLastHeldNap);
        set_timer(now_ns() + held_nap_);
    }
    if (endpoint_->wait_fd() >= 0) {
        fid* queue = &endpoint_->cq()->fid;
        fid_fabric* fabric = domain_.fabric();
        if (fi_trywait(fabric, &queue, 1) != FI_SUCCESS) {
            return false;
        }
    } else {
        // Looked at from time to time; quickly after something came, ever less often in silence.
        idle_nap_ = busy_ || idle_nap_ == 0 ? kFirstNap : std::min(idle_nap_ * 2, kLastNap);
        busy_ = false;
        set_timer(now_ns() + idle_nap_);
    }
    armed_ = true;
    return true;
}

// Every kLook at most, while somebody's death would matter.
void Context::look_around() {
    const std::int64_t now = now_ns();
    if (now < next_look_) {
        return;
    }
    next_look_ = now + kLook;
    greeting_ = false;
    for (Link* link = watched_.front(); link != nullptr;) {
        Link* next = watched_.next(*link);
        if (link->heard == 0) {
            link->heard = now;
        }
        const bool matters = link->awaited != 0 || link->wants || !link->requests.empty() ||
                             link->due != 0 || link->state == Link::State::greeting;
        if (!matters) {
            util::IntrusiveList<Link, &Link::watched>::remove(*link);
        } else if (!link->dying) {
            check_link(*link, now);
            greeting_ = greeting_ || link->state == Link::State::greeting;
        }
        link = next;
    }
}

void Context::check_link(Link& link, std::int64_t now) {
    if (process_gone(link)) {
        lost(link, Status::hostunreach);
        return;
    }
    if (link.state == Link::State::greeting && now >= link.next_call) {
        link.call_interval = std::min(link.call_interval * 2, kCall);
        link.next_call = now + link.call_interval;
        if (link.offer == 0) {  // we yielded to a hello that led nowhere
            link.state = Link::State::idle;
            greet(link);
        } else {
            link.due |= Link::kHello;
            flush(link);
        }
    } else if (link.state == Link::State::up && now - link.heard > kCall && now >= link.next_call) {
        link.next_call = now + kCall;
        link.due |= Link::kCheck;
        ++stats_.checks;
        flush(link);
    }
    const bool suspect = (link.blocked_since != 0 && now - link.blocked_since > kPatience) ||
                         (link.state == Link::State::up && now - link.heard > kSilence);
    if (link.probe || (suspect && now >= link.next_probe)) {
        probe(link, now);
    }
}

// Connects to the peer's listening port, no more: whether that is refused is the question.
void Context::probe(Link& link, std::int64_t now) {
    if (domain_.provider().probe != Probe::tcp) {
        return;
    }
    int error = 0;
    if (!link.probe) {
        ++stats_.probes;
        link.next_probe = now + kProbe;
        link.probe_end = now + kProbeLimit;
        const std::string bytes = link.address.to_fabric(link.target);
        const auto* address = reinterpret_cast<const sockaddr*>(bytes.data());
        link.probe.reset(socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        if (!link.probe) {
            return;
        }
        if (connect(link.probe.get(), address, static_cast<socklen_t>(bytes.size())) == 0) {
            link.probe.reset();
            return;
        }
        error = errno;
    } else {
        pollfd set{link.probe.get(), POLLOUT, 0};
        if (::poll(&set, 1, 0) == 0) {
            error = now < link.probe_end ? EINPROGRESS : ETIMEDOUT;
        } else {
            socklen_t size = sizeof error;
            getsockopt(link.probe.get(), SOL_SOCKET, SO_ERROR, &error, &size);
        }
    }
    if (error == EINPROGRESS) {
        return;
    }
    link.probe.reset();
    if (says_gone(error)) {
        NA_LOG_INFO(addr, "nobody is at {}: {}", link.address.text(), fi_strerror(error));
        lost(link, Status::hostunreach);
    }
}

// Probe::process: a descriptor of the peer's process, which tells its end.
void Context::watch_process(Link& link) {
    if (domain_.provider().probe != Probe::process || link.process) {
        return;
    }
    const int pid = link.address.process();
#ifdef SYS_pidfd_open
    if (pid > 0) {
        link.process.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    }
#endif
    if (link.process && set_) {
        epoll_event event{};
        event.events = EPOLLIN | EPOLLONESHOT;
        event.data.fd = link.process.get();
        epoll_ctl(set_.get(), EPOLL_CTL_ADD, link.process.get(), &event);
    }
}

bool Context::process_gone(Link& link) noexcept {
    if (domain_.provider().probe != Probe::process) {
        return false;
    }
    if (link.process) {
        pollfd set{link.process.get(), POLLIN, 0};
        return ::poll(&set, 1, 0) > 0;
    }
    const int pid = link.address.process();
    return pid > 0 && kill(pid, 0) != 0 && errno == ESRCH;
}

}  // namespace na::ofi
