// SPDX-License-Identifier: BSD-3-Clause
// Peers that die.
//
// Libraries of reliable datagrams do not tell that a peer went: posts to it are answered "try
// again" while they try to connect, and what was sent before is not heard of. So, while something
// here depends on a peer (an expected receive, an operation), a timer runs: the peer is asked
// whether it still knows the session (check), and where the library does not get through, whether
// somebody is there at all is found out in another way (probe). Without such a dependency nothing
// runs.
//
// A probe is a connection to the peer's port that is never used. It stays while the peer is silent:
// the kernel ends it with the peer's process, though that has not taken it up yet; and a peer that
// is busy for minutes finds few of them, not one per second, which would fill the queue of its port
// until further ones go unanswered, as if nobody were there. Some are made nevertheless, less and
// less often: what has taken one up may forget it, and close the port all the same.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <string>

#include <poll.h>
#include <sys/socket.h>

#include "na/session/engine.hpp"
#include "na/util/log.hpp"
#include "na/util/tcp.hpp"

namespace na::session {
namespace {

constexpr std::int64_t kEager = kMs;          // of "try again", without a pause
constexpr std::int64_t kPatience = 40 * kMs;  // of "try again", before the first probe
constexpr std::int64_t kSilence = 400 * kMs;  // with a check unanswered, before a probe

constexpr std::int64_t kProbeMost = 8000 * kMs;  // growing to that
constexpr std::int64_t kProbeHeld = 8000 * kMs;  // between those that stay
constexpr std::int64_t kProbeHeldMost = 300'000 * kMs;
constexpr std::size_t kMostHeld = 128;                   // descriptors are the program's
constexpr std::int64_t kHeldLook = 200 * kMs;            // at one that has reached somebody
constexpr std::chrono::milliseconds kHeldSilence{2000};  // of its host, which is asked each second
constexpr std::int64_t kProbeLimit = 10'000 * kMs;       // an attempt that nobody answers
// One that begins then: the kernel's next try of the former may have been far off.
constexpr std::int64_t kLastProbe = 2000 * kMs;
constexpr std::int64_t kOutage = 10'000 * kMs;  // without a way to a peer that was there
// Between the news that nobody is there any more and the end of the session: what the peer said
// last may be here already, unread, or not handed over yet by a thread of the library.
constexpr std::int64_t kLastWords = 100 * kMs;

// Says that nobody is there, as opposed to trouble of our own.
bool says_gone(int error) noexcept {
    return error == ECONNREFUSED || error == ETIMEDOUT || error == ENOENT;
}

// Says that whoever was there a moment ago has gone, or wants nothing of this: nobody knows yet
// which.
bool says_ended(int error) noexcept {
    return error == ECONNRESET || error == EPIPE;
}

// Says that there is no way: a cable that is pulled, a switch that restarts. Says nothing about the
// peer.
bool says_no_way(int error) noexcept {
    return error == EHOSTUNREACH || error == ENETUNREACH || error == EHOSTDOWN || error == ENETDOWN;
}

}  // namespace

void Engine::watch(Link& link) noexcept {
    if (!link.watched.linked() && !link.self) {
        watched_.push_back(link);
        if (armed_) {  // another thread sleeps
            wake_within(kLook);
        }
    }
}

void Engine::blocked(Link& link) noexcept {
    ++stats_.blocked;
    retry_soon();
    if (link.blocked_since == 0) {
        link.blocked_since = now_ns();
        watch(link);
    }
}

void Engine::put_off(Link& link) noexcept {
    const std::int64_t now = now_ns();
    if (link.blocked_since == 0 || now - link.blocked_since < kEager) {
        blocked(link);
        return;
    }
    ++stats_.blocked;
    const std::int64_t pause = std::min((now - link.blocked_since) / 4, kLongestPause);
    link.retry_at = now + pause;
    wake_within(pause);
    watch(link);
}

bool Engine::still_pauses(std::int64_t until) noexcept {
    const std::int64_t now = now_ns();
    if (now >= until) {
        return false;
    }
    wake_within(until - now);
    return true;
}

void Engine::awaits(Op& op, bool begins) {
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
    link->inquires = false;
    link->awaited = begins ? link->awaited + 1 : link->awaited - (link->awaited != 0 ? 1 : 0);
    if (begins) {
        watch(*link);
    }
}

// Every kLook at most, while somebody's death would matter.
void Engine::look_around(std::int64_t now) {
    next_look_ = now + kLook;
    look();
    greeting_ = false;
    held_ = 0;
    for (Link* link = watched_.front(); link != nullptr;) {
        Link* next = watched_.next(*link);
        if (link->heard == 0) {
            link->heard = now;
            link->no_way.end();
            link->vacant.end();
            if (link->fading) {
                link->vacant.begin(now);
            }
            link->audited = false;
            link->probe_anew();
            link->hurried = false;
            if (link->state == Link::State::up) {
                link->end_probe();  // what it would tell is known
            }
        }
        const bool matters = link->audited || link->fading || link->misses() ||
                             link->awaited != 0 || link->wants || !link->requests.empty() ||
                             link->due != 0 || link->state == Link::State::greeting;
        // The next post that finds no room says it again; one that was canceled does not.
        if (!link->wants && link->state == Link::State::idle) {
            no_question(*link);
            if (link->refuted && link->awaited != 0) {
                lost(*link, Status::hostunreach);  // receives, when all that was to be sent ended
                link = next;
                continue;
            }
        }
        link->wants = false;
        if (!matters) {
            util::IntrusiveList<Link, &Link::watched>::remove(*link);
            link->end_probe();
            link->probe_anew();
        } else if (!link->dying.linked()) {
            check_link(*link, now);
            greeting_ = greeting_ || link->state == Link::State::greeting;
            held_ += link->probe_holds ? 1 : 0;
        }
        link = next;
    }
}

// Peers that die while nobody waits for them are not missed, and their links would stay. So whoever
// comes makes room: for each new link two others are asked for a sign of life.
void Engine::audit_some() noexcept {
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

void Engine::fade(Link& link) noexcept {
    if (!link.fading) {
        link.fading = true;
        link.vacant.begin(now_ns());
        watch(link);
    }
}

// What is under way ends, here after what has come, and at the peer, which is told: it may wait for
// nothing, and what it sends next would be for a session that there is no more.
void Engine::broke(Link& link) {
    NA_LOG_WARNING(addr,
                   "messages from {} were lost on their way: its connection broke (a firewall, a "
                   "translator of addresses, somebody who closed it?); what is under way ends",
                   link.address);
    const std::uint64_t cookie = link.in_cookie;
    ++stats_.broken;
    parted(link);
    tell_reset(link, cookie);
}

void Engine::end_doomed(Link& link) {
    const std::uint64_t cookie = link.state == Link::State::up ? link.in_cookie : 0;
    const bool ousted = std::exchange(link.ousted, false);
    lost(link, std::exchange(link.fate, Status::hostunreach));
    if (ousted && cookie != 0) {
        tell_reset(link, cookie);
    }
}

// The session is over here. The peer learns that before it sends something for it.
void Engine::tell_reset(Link& link, std::uint64_t cookie) noexcept {
    link.reset_cookie = cookie;
    link.reset_tells = false;
    link.due |= Link::kReset;
    work(link);
}

void Engine::check_link(Link& link, std::int64_t now) {
    // Counted at each look, however long the probes take that tell of them.
    if (link.no_way.on()) {
        link.no_way.lasts(now, kOutage);
    }
    const bool silent = link.vacant.on() && link.vacant.lasts(now, kLastWords);
    if (gone(link)) {
        departed(link);
        return;
    }
    if (link.fading && silent) {
        lost(link, Status::hostunreach);
        return;
    }
    if (!link.parting && lost_something(link, now)) {
        broke(link);
        return;
    }
    if (link.state == Link::State::greeting && now >= link.next_call) {
        link.call_interval = std::min(link.call_interval * 2, kCall);
        // Not all at the same time where many have begun together.
        link.next_call = now + link.call_interval / 2 +
                         static_cast<std::int64_t>(
                             random_number() % static_cast<std::uint64_t>(link.call_interval / 2));
        link.due |= Link::kHello;
        flush(link);
    } else if (link.state == Link::State::up && !link.parting && now - link.heard > kCall &&
               now >= link.next_call) {
        link.next_call = now + kCall;
        link.due |= Link::kCheck;
        ++stats_.checks;
        flush(link);
    }
    if (link.state == Link::State::greeting && now >= link.next_ask) {
        doubt(link, now);
    }
    const bool suspect = (link.blocked_since != 0 && now - link.blocked_since > kPatience) ||
                         (link.state == Link::State::up && now - link.heard > kSilence);
    if (link.probe || (suspect && now >= link.next_probe)) {
        probe(link, now);
    }
}

// Connects to the peer's listening port, no more: whether that is refused is the question. Answers
// errno's numbers: 0: somebody is there, EINPROGRESS: it will be seen.
int Engine::begin_probe(Link& link, std::int64_t now) {
    ++stats_.probes;
    link.probe_begun = now;
    link.next_probe = now + kProbe;
    link.probe_end = now + (link.vacant.on() ? kLastProbe : kProbeLimit);
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

int Engine::look_at_probe(Link& link, std::int64_t now) noexcept {
    int error = 0;
    pollfd set{link.probe.get(), POLLOUT, 0};
    if (::poll(&set, 1, 0) == 0) {
        return now < link.probe_end ? EINPROGRESS : ETIMEDOUT;
    }
    socklen_t size = sizeof error;
    getsockopt(link.probe.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
}

// A probe has reached somebody, and was ended there. The next one tells what that means.
void Engine::ask_again(Link& link, std::int64_t now) noexcept {
    link.answered = false;
    link.probe_anew();
    const bool lasted = now - link.probe_begun >= kProbe;
    if (lasted || !link.hurried) {  // not time and again where each is ended at once
        link.next_probe = now;
        link.hurried = !lasted;
    }
}

// As long as it lasts, and its host confirms that, there is nothing new. Otherwise, and from time
// to time, another one tells.
int Engine::look_at_held(Link& link, std::int64_t now) {
    if (now < link.probe_look) {
        return EINPROGRESS;
    }
    link.probe_look = now + kHeldLook;
    pollfd set{link.probe.get(), POLLRDHUP, 0};  // (what is said there is no news)
    const bool ended = ::poll(&set, 1, 0) != 0;
    const bool silent = !ended && util::silent(link.probe.get(), kHeldSilence);
    if (ended) {
        ask_again(link, now);
    } else if (!silent && now < link.next_probe) {
        return EINPROGRESS;
    }
    link.end_probe();
    if (!silent && now < link.next_probe) {
        return EINPROGRESS;
    }
    const int error = begin_probe(link, now);
    if (silent) {  // that was part of its time
        link.probe_end -= std::chrono::nanoseconds(kHeldSilence).count();
    }
    return error;
}

void Engine::probe(Link& link, std::int64_t now) {
    if (!traits_.port_is_tcp) {
        return;
    }
    const int error = link.probe_holds ? look_at_held(link, now)
                      : link.probe     ? look_at_probe(link, now)
                                       : begin_probe(link, now);
    if (error == EINPROGRESS) {
        return;
    }
    if (means_gone(link, error, now)) {
        lost(link, link.fate);
    }
}

Status Engine::unreached(const Link& link) const noexcept {
    if (!traits_.port_is_tcp || link.address.naming() != Naming::ip || link.self) {
        return Status::hostunreach;
    }
    util::IpEndpoint place = link.address.ip();
    place.port = static_cast<std::uint16_t>(place.port + link.target);
    // A class at the loopback address sends to no other host. Another address is not needed: the
    // system chooses one.
    const util::IpAddress& here = local_.address.ip().address;
    return util::status_unreached(here.is_loopback() ? here : util::IpAddress{}, place);
}

// What a probe that has ended says. Who meets a peer for the first time hears at once that there is
// no way to it; a session outlives a disturbance of the network, as the connection beneath it does,
// and its peer by so much that nothing of it is lost.
bool Engine::means_gone(Link& link, int error, std::int64_t now) {
    link.answered = error == 0;
    if (error == 0) {
        // (Where posts wait, each shall know better than that.)
        link.probe_holds = traits_.connects_aside && held_ < kMostHeld;
        if (link.probe_holds) {
            ++held_;
            util::keep_asking(link.probe.get());
            link.probe_look = now + kHeldLook;
        } else {
            link.end_probe();
        }
        if (traits_.connects_aside) {
            link.probe_interval =
                link.probe_holds ? std::clamp(link.probe_interval * 2, kProbeHeld, kProbeHeldMost)
                                 : std::clamp(link.probe_interval * 2, kProbe, kProbeMost);
        }
        link.next_probe = std::max(link.next_probe, now + link.probe_interval);
        link.no_way.end();
        link.vacant.end();
        return false;
    }
    link.end_probe();
    link.probe_interval = 0;
    bool gone = false;
    if (says_gone(error)) {
        gone = link.state != Link::State::up || link.vacant.lasts(now, kLastWords);
        link.next_probe = std::min(link.next_probe, now + kLastWordsStep);
    } else if (says_no_way(error) || unreached(link) == Status::addrnotavail) {
        gone = link.state != Link::State::up || link.no_way.lasts(now, kOutage);
    } else if (says_ended(error)) {
        ask_again(link, now);
    }
    if (gone) {
        link.fate = unreached(link);
        NA_LOG_INFO(addr, "{} {}: {}",
                    link.fate == Status::addrnotavail ? "this host has no way to" : "nobody is at",
                    link.address, std::strerror(error));
    }
    return gone;
}

// Where posts wait for connections: not before somebody has answered, and not while that is in
// doubt.
bool Engine::may_wait(Link& link) noexcept {
    if (link.self || (link.answered && !link.probe)) {
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
    if (means_gone(link, error, now)) {
        doom(link, link.fate);
    }
    return link.answered;
}

}  // namespace na::session
