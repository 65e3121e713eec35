// SPDX-License-Identifier: BSD-3-Clause
// Who may come in: a peer costs descriptors, and UCX does not survive the want of them. It closes
// the socket that it listens at (worker.hpp), and ends the process where an endpoint that it makes
// for a newcomer finds none. So some are kept back, and newcomers that would need them are told so
// at the bootstrap port.
#include <algorithm>
#include <new>
#include <utility>

#include <sys/epoll.h>

#include "na/util/files.hpp"
#include "na/util/log.hpp"
#include "plugins/ucx/context.hpp"

namespace na::ucx {
namespace {

// Descriptors that a peer takes here at most, while its way is made: connections of UCX's to it and
// from it, the connection to its bootstrap port, its process.
constexpr std::size_t kPerPeer = 6;
// Kept back for what the process does beside: peers that are here, probes, files of the program.
constexpr std::size_t kReserve = 8;
// How long an admitted newcomer may take to its way before its descriptors are given to another.
constexpr std::int64_t kOnTheWay = 1000 * session::kMs;
constexpr std::int64_t kComplaint = 1000 * session::kMs;  // between two in the log
// Newcomers whose descriptors are kept for them: attempts that come to nothing count, too.
constexpr std::size_t kMostExpected = 64;
// Workers together: each takes descriptors of its own.
constexpr std::size_t kMostWorkers = 4;

}  // namespace

Frame::Refusal Context::admit() noexcept {
    const std::int64_t now = session::now_ns();
    if (now - admitted_at_ > kOnTheWay) {
        expected_ = 0;
    }
    const std::size_t least = kReserve + kPerPeer;
    const std::size_t promised = kPerPeer * std::min<std::size_t>(expected_, kMostExpected);
    const std::size_t free = util::free_descriptors(least + promised);
    if (free < least) {
        refused_one("no descriptor is left for another peer");
        return Frame::Refusal::full;
    }
    if (workers_.back()->deaf() && !replace_worker()) {
        refused_one(
            "UCX has closed the socket that it listened at for want of descriptors, and "
            "there are too few for another one");
        return Frame::Refusal::full;
    }
    if (free < least + promised) {
        return Frame::Refusal::soon;
    }
    ++expected_;
    admitted_at_ = now;
    unmarked_ = true;
    return Frame::Refusal::none;
}

void Context::refused_one(const char* why) noexcept {
    const std::int64_t now = session::now_ns();
    if (now < next_complaint_) {
        return;
    }
    next_complaint_ = now + kComplaint;
    std::size_t strangers = 0;
    for (const auto& worker : workers_) {
        strangers += worker->hang_up_on_strangers();
    }
    NA_LOG_ERROR(
        poll,
        "{}: {}; newcomers are refused until there are some, {} so far; raise the limit on "
        "open files (ulimit -n){}",
        local().name, why, door_.refused() + 1,
        strangers != 0 ? "; connections that said nothing were closed" : "");
}

// Peers that know the former worker go on with it.
bool Context::replace_worker() noexcept {
    if (workers_.size() >= kMostWorkers ||
        util::free_descriptors(Worker::kFiles + kReserve) < Worker::kFiles + kReserve) {
        return false;
    }
    workers_.back()->forget_closed();
    try {
        workers_.reserve(workers_.size() + 1);
        auto made = Worker::make(domain_);
        if (!made) {
            NA_LOG_ERROR(poll, "{}: {}", local().name, made.error().message);
            return false;
        }
        Worker& worker = **made;
        if (!ok(take_messages(worker).status) ||
            (worker.fd() >= 0 && !watch_fd(worker.fd(), EPOLLIN, worker))) {
            return false;
        }
        try {
            door_.tell(worker.addresses());
        } catch (const std::bad_alloc&) {
            if (worker.fd() >= 0) {
                unwatch_fd(worker.fd());
            }
            return false;
        }
        workers_.push_back(std::move(*made));
    } catch (const std::bad_alloc&) {
        return false;  // the next newcomer asks again
    }
    NA_LOG_WARNING(poll,
                   "{}: UCX had closed the socket that it listened at for want of descriptors; it "
                   "listens again at another one",
                   local().name);
    return true;
}

void Context::close_unused_workers() noexcept {
    for (std::size_t i = 1; i + 1 < workers_.size();) {
        if (workers_[i]->ways != 0) {
            ++i;
            continue;
        }
        if (workers_[i]->fd() >= 0) {
            unwatch_fd(workers_[i]->fd());
        }
        workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(i));
    }
}

}  // namespace na::ucx
