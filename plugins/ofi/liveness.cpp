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
#include "plugins/ofi/segments.hpp"

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
    if (retiring()) {
        set_timer(now_ns() + kLook);
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
    if (processes_) {
        look_at_processes();
    }
    if (!retired_.empty()) {
        look_at_retired();
    }
    greeting_ = false;
    for (Link* link = watched_.front(); link != nullptr;) {
        Link* next = watched_.next(*link);
        if (link->heard == 0) {
            link->heard = now;
            link->audited = false;
        }
        const bool matters = link->audited || link->awaited != 0 || link->wants ||
                             !link->requests.empty() || link->due != 0 ||
                             link->state == Link::State::greeting;
        if (!matters) {
            util::IntrusiveList<Link, &Link::watched>::remove(*link);
        } else if (!link->dying) {
            check_link(*link, now);
            greeting_ = greeting_ || link->state == Link::State::greeting;
        }
        link = next;
    }
}

// Those that have ended, whether somebody waits for them or not: what the provider has of them is
// much.
void Context::look_at_processes() {
    epoll_event event{};
    // One at a time: the end of one may take other links along.
    while (epoll_wait(processes_.get(), &event, 1, 0) == 1) {
        Link& link = *static_cast<Link*>(event.data.ptr);
        lost(link, Status::hostunreach);
    }
}

// Peers that die while nobody waits for them are not missed, and their links would stay. So whoever
// comes makes room: for each new link two others are asked for a sign of life.
void Context::audit_some() noexcept {
    for (int n = 0; n < 2 && !known_.empty(); ++n) {
        Link& link = *known_.pop_front();
        known_.push_back(link);
        if (link.state == Link::State::up && !link.self && !link.watched.linked()) {
            link.heard = now_ns();
            link.audited = true;
            watch(link);
        }
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

// Connects to the peer's listening port, no more: whether that is refused is the question. Answers
// errno's numbers: 0: somebody is there, EINPROGRESS: it will be seen.
int Context::begin_probe(Link& link, std::int64_t now) {
    ++stats_.probes;
    link.next_probe = now + kProbe;
    link.probe_end = now + kProbeLimit;
    link.answered = false;
    const std::string bytes = link.address.raw(link.target);
    const auto* address = reinterpret_cast<const sockaddr*>(bytes.data());
    link.probe.reset(socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!link.probe) {
        return EMFILE;
    }
    if (connect(link.probe.get(), address, static_cast<socklen_t>(bytes.size())) == 0) {
        return 0;
    }
    return errno;
}

int Context::look_at_probe(Link& link, std::int64_t now) noexcept {
    int error = 0;
    pollfd set{link.probe.get(), POLLOUT, 0};
    if (::poll(&set, 1, 0) == 0) {
        return now < link.probe_end ? EINPROGRESS : ETIMEDOUT;
    }
    socklen_t size = sizeof error;
    getsockopt(link.probe.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
}

void Context::probe(Link& link, std::int64_t now) {
    if (domain_.provider().probe != Probe::tcp) {
        return;
    }
    const int error = link.probe ? look_at_probe(link, now) : begin_probe(link, now);
    if (error == EINPROGRESS) {
        return;
    }
    link.probe.reset();
    link.answered = error == 0;
    if (says_gone(error)) {
        NA_LOG_INFO(addr, "nobody is at {}: {}", link.address.text(), fi_strerror(error));
        lost(link, Status::hostunreach);
    }
}

// Providers that connect within a post, and let it wait for that: not before somebody has answered,
// and not while that is in doubt. False: not yet. The core may be in a post.
bool Context::may_connect(Link& link) noexcept {
    if (domain_.provider().connects_aside || link.self || (link.answered && !link.probe)) {
        return true;
    }
    const std::int64_t now = now_ns();
    int error = EINPROGRESS;
    if (link.probe) {
        error = look_at_probe(link, now);
    } else if (now >= link.next_probe) {
        try {
            error = begin_probe(link, now);
        } catch (const std::bad_alloc&) {
        }
    }
    if (error == EINPROGRESS) {
        return false;
    }
    link.probe.reset();
    link.answered = error == 0;
    if (says_gone(error)) {
        NA_LOG_INFO(addr, "nobody is at {}: {}", link.address.text(), fi_strerror(error));
        link.doomed = true;
        work(link);
    }
    return link.answered;
}

namespace {

std::string segment_name(const Link& link) {
    std::string name = link.address.raw(link.target);
    name.resize(name.find('\0'));
    return name;
}

}  // namespace

// Probe::process: a descriptor of the peer's process, which tells its end.
void Context::watch_process(Link& link) {
    if (domain_.provider().probe != Probe::process || link.process) {
        return;
    }
#ifdef SYS_pidfd_open
    try {
        const std::string name = segment_name(link);
        const pid_t pid = segment_owner(name).process;
        if (pid > 0) {
            link.process.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
        }
        // It may have died before, and the number be another's.
        if (link.process && segment_owner(name).process != pid) {
            link.process.reset();
        }
    } catch (const std::bad_alloc&) {
    }
#endif
    if (link.process && processes_) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.ptr = &link;
        epoll_ctl(processes_.get(), EPOLL_CTL_ADD, link.process.get(), &event);
    }
}

// Closing the descriptor would not do where a forked child has it, too.
void Context::unwatch_process(Link& link) noexcept {
    if (link.process && processes_) {
        epoll_ctl(processes_.get(), EPOLL_CTL_DEL, link.process.get(), nullptr);
    }
    link.process.reset();
}

bool Context::process_gone(Link& link) noexcept {
    if (domain_.provider().probe != Probe::process || link.self) {
        return false;
    }
    if (link.process) {
        pollfd set{link.process.get(), POLLIN, 0};
        return ::poll(&set, 1, 0) > 0;
    }
    try {
        const std::string name = segment_name(link);
        const SegmentOwner owner = segment_owner(name);
        if (owner.process > 0) {  // not when it was greeted
            watch_process(link);
        }
        return owner.state == SegmentOwner::State::dead ||
               owner.state == SegmentOwner::State::missing;
    } catch (const std::bad_alloc&) {
    }
    return false;
}

// What a process that is no more has left of shared memory.
void Context::remove_left(const Link& link) noexcept {
    remove_segments(link.address.name());
}

}  // namespace na::ofi
