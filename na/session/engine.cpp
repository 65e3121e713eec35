// SPDX-License-Identifier: BSD-3-Clause
// Life, progress, and sleep.
#include "na/session/engine.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <new>

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "na/util/log.hpp"

namespace na::session {
namespace {

constexpr std::int64_t kRetry = 1 * kMs;  // sleep while posts wait for the transport
// Sleeps while messages wait for room in the core: from the first to the second, doubling.
constexpr std::int64_t kFirstHeldNap = kMs / 10;
constexpr std::int64_t kLastHeldNap = 10 * kMs;
// Sleeps without a descriptor of the library: from the first to the second, doubling.
constexpr std::int64_t kFirstNap = kMs / 20;
constexpr std::int64_t kLastNap = 10 * kMs;
// Descriptors that are looked at in one progress(): a peer that keeps one ready does not keep us.
constexpr int kMaxReady = 64;
constexpr unsigned kLastWords = 256;  // polls for what was said last

bool add_to(const util::UniqueFd& set, int fd, std::uint32_t events, void* what) noexcept {
    epoll_event event{};
    event.events = events;
    event.data.ptr = what;
    return epoll_ctl(set.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

// --- life

Engine::Engine(const Local& local, std::uint8_t id, plugin::Sink& sink, const Traits& traits)
    : local_(local), id_(id), sink_(sink), traits_(traits) {
    local_.roster.opens(id);
}

Error Engine::open() {
    if (local_.no_block) {
        return Error{Status::success, {}};
    }
    set_.reset(epoll_create1(EPOLL_CLOEXEC));
    timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (!set_ || !timer_) {
        return Error{
            Status::nomem,
            "cannot make a descriptor to wait on: raise the limit on open files (ulimit -n)"};
    }
    if (!add_to(set_, timer_.get(), EPOLLIN, nullptr)) {
        return Error{Status::io_error, "cannot wait on a timer"};
    }
    return Error{Status::success, {}};
}

void Engine::say_goodbye() noexcept {
    local_.roster.closes(id_);
    for (auto& [key, link] : links_) {
        if (link->state == Link::State::up && !link->self) {
            link->due |= Link::kBye;
            flush(*link);
        }
    }
}

void Engine::release_peers() noexcept {
    for (auto& [key, link] : links_) {
        if (link->peer != nullptr) {
            link->peer->links(id_).clear(link->target);
            if (link->holds_source) {
                sink_.release(*link->peer);
            }
        }
    }
}

// --- progress

std::size_t Engine::progress() {
    std::size_t events = 0;
    if (armed_) [[unlikely]] {
        armed_ = false;
        polls_ = 0;
        next_fd_look_ = 0;  // one of them may have ended the sleep
        if (timer_due_ != 0 && timer_due_ <= now_ns()) {
            std::uint64_t count = 0;
            [[maybe_unused]] const ssize_t n = read(timer_.get(), &count, sizeof count);
            timer_due_ = 0;
        }
    }
    full_ = false;
    try {
        events += poll();
        if (!departing_.empty()) [[unlikely]] {
            events += end_departed(events == 0);
        }
        if (!work_.empty()) [[unlikely]] {
            events += do_work();
        }
        // While nothing comes there is time to look at the clock more often: who connects shall not
        // wait for many polls that others may make slow.
        if ((!watched_.empty() || fd_count_ != 0 || traits_.looks) &&
            (polls_++ & (events == 0 && fd_count_ != 0 ? 3U : 63U)) == 0) [[unlikely]] {
            const std::int64_t now = now_ns();
            if (fd_count_ != 0 && now >= next_fd_look_) {
                look_at_fds(now);
            }
            if (now >= next_look_) {
                look_around(now);
            }
        }
        if (!dead_.empty()) [[unlikely]] {
            bury_dead();
        }
    } catch (const std::bad_alloc&) {
        NA_LOG_WARNING(poll, "out of memory: messages may be lost");
    }
    if (events != 0) {
        busy_ = true;
        held_nap_ = 0;
        vain_arms_ = 0;
    }
    return events;
}

// A poll that finds nothing has found all that they sent, and so have many together, whoever else
// is heard in them.
std::size_t Engine::end_departed(bool quiet) {
    if (!quiet && ++last_words_ < kLastWords) {
        return 0;
    }
    std::size_t events = 0;
    while (Link* link = departing_.pop_front()) {
        ++events;
        parted(*link);
    }
    return events;
}

// What could not be done at once: messages of our own, messages that the core had no room for.
std::size_t Engine::do_work() {
    std::size_t events = 0;
    for (Link* link = work_.front(); link != nullptr;) {
        Link* next = work_.next(*link);
        if (link->doomed) [[unlikely]] {
            end_doomed(*link);
        }
        const bool flushed = link->due == 0 || flush(*link);
        if (link->holding()) {
            deliver_held(*link);
        }
        if (link->parting) [[unlikely]] {
            parted(*link);
        }
        if (flushed && link->due == 0 && !link->doomed && !link->holding()) {
            util::IntrusiveList<Link, &Link::work>::remove(*link);
            remove_if_idle(*link);  // a last word was all that it had
            ++events;
        }
        link = next;
    }
    return events;
}

// --- sleep

// Without a descriptor the library cannot take up who connects, and so is told of him again at
// once: who waits would not sleep. (Nobody else tells: wake-ups without an event are usual.)
void Engine::rest_starved() noexcept {
    constexpr unsigned kVain = 64;  // arms that nothing came after, between looks
    if (++vain_arms_ >= kVain) {
        vain_arms_ = 0;
        const util::UniqueFd one(fcntl(timer_.get(), F_DUPFD_CLOEXEC, 3));
        const bool starved = !one && (errno == EMFILE || errno == ENFILE);
        if (starved && !starved_) {
            NA_LOG_WARNING(poll,
                           "no descriptor is left: who connects now waits until one is; raise the "
                           "limit on open files (ulimit -n)");
        }
        starved_ = starved;
    }
    if (starved_) {
        pollfd own{set_.get(), POLLIN, 0};
        ::poll(&own, 1, 1);
    }
}

bool Engine::arm() {
    if (!set_ || !departing_.empty()) {
        return false;
    }
    rest_starved();
    const Rest how = rest();
    if (how == Rest::no) {
        return false;
    }
    if (!watched_.empty()) {
        wake_within(greeting_ ? kLook : kCall / 3);
    }
    if (full_) {
        wake_within(kRetry);
    } else if (!work_.empty()) {
        held_nap_ = std::clamp(held_nap_ * 2, kFirstHeldNap, kLastHeldNap);
        wake_within(held_nap_);
    }
    if (how == Rest::unwatched) {
        // Looked at from time to time; quickly after something came, ever less often in silence.
        idle_nap_ = busy_ || idle_nap_ == 0 ? kFirstNap : std::min(idle_nap_ * 2, kLastNap);
        busy_ = false;
        wake_within(idle_nap_);
    }
    armed_ = true;
    return true;
}

void Engine::set_timer(std::int64_t due) noexcept {
    if (!timer_ || (timer_due_ != 0 && timer_due_ <= due)) {
        return;
    }
    timer_due_ = due;
    itimerspec spec{};
    spec.it_value.tv_sec = due / 1'000'000'000;
    spec.it_value.tv_nsec = due % 1'000'000'000;
    timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

bool Engine::watch_fd(int fd, std::uint32_t events, Watcher& who) noexcept {
    if (!fds_) {
        fds_.reset(epoll_create1(EPOLL_CLOEXEC));
        if (!fds_) {
            return false;
        }
        if (set_ && !add_to(set_, fds_.get(), EPOLLIN, nullptr)) {
            fds_.reset();
            return false;
        }
    }
    if (!add_to(fds_, fd, events, &who)) {
        return false;
    }
    ++fd_count_;
    return true;
}

void Engine::unwatch_fd(int fd) noexcept {
    if (fds_ && epoll_ctl(fds_.get(), EPOLL_CTL_DEL, fd, nullptr) == 0) {
        --fd_count_;
    }
}

void Engine::look_at_fds(std::int64_t now) {
    next_fd_look_ = now + traits_.fd_interval;
    // One at a time: what is done about one may take others along.
    epoll_event event{};
    for (int n = 0; n < kMaxReady && epoll_wait(fds_.get(), &event, 1, 0) == 1; ++n) {
        static_cast<Watcher*>(event.data.ptr)->ready(event.events);
    }
}

// --- the rest

void Engine::stats(std::vector<plugin::Stat>& out) const {
    const plugin::Stat list[] = {
        {"session_received", stats_.received},   {"session_held", stats_.held},
        {"session_control", stats_.control},     {"session_blocked", stats_.blocked},
        {"session_no_credit", stats_.no_credit}, {"session_begun", stats_.sessions},
        {"session_lost", stats_.lost},           {"session_broken", stats_.broken},
        {"session_probes", stats_.probes},       {"session_checks", stats_.checks},
        {"session_bad_input", stats_.bad_input}, {"session_turned_away", stats_.turned_away},
        {"session_links", links_.size()},        {"session_no_files", stats_.no_files},
    };
    out.insert(out.end(), std::begin(list), std::end(list));
}

}  // namespace na::session
