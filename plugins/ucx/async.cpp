// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ucx/async.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <iterator>
#include <mutex>
#include <span>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <ucs/sys/event_set.h>
#include <ucs/type/status.h>

#include "na/util/fd.hpp"
#include "na/util/lineage.hpp"
#include "plugins/ucx/descriptors.hpp"

// Of libucs, in no public header; null where a UCX has none.
extern "C" {
[[gnu::weak]] ucs_status_t ucs_async_remove_handler(int id, int wait);
[[gnu::weak]] ucs_status_t ucs_async_dispatch_handlers(int* ids, std::size_t count,
                                                       ucs_event_set_types_t events);
}

namespace na::ucx::async {
namespace {

// The thread's set, as one process knows it. Like the thread, there is one for all classes. Written
// while classes and workers open, read by others.
struct {
    std::atomic<int> set{-1};          // -1: not known
    std::atomic<int> pipe{-1};         // in the set: UCX wakes its thread by it
    std::atomic<ino_t> pipe_file{0};   // what `pipe` is while the thread is there
    std::atomic<unsigned> process{0};  // util::forks() of the process that knows this
    std::atomic<bool> drained{false};  // by contexts: the process has no such thread
} known;

// UCX keeps the number of each member as its data.
bool is_numbered(const Member& m) noexcept {
    return m.data == static_cast<std::uint64_t>(m.fd);
}

ino_t file_of_pipe(int fd) noexcept {
    struct stat file {};
    return fd >= 0 && fstat(fd, &file) == 0 && S_ISFIFO(file.st_mode) ? file.st_ino : 0;
}

// The thread that was found is there; in a child, what UCX has left of it.
bool lives() noexcept {
    const ino_t file = known.pipe_file;
    return file != 0 && file_of_pipe(known.pipe) == file;
}

}  // namespace

void find_set(const std::vector<int>& before) {
    if (known.drained) {
        return;  // it is ours
    }
    const std::vector<int> fresh = opened_since(before);
    const auto is_new = [&](const Member& m) {
        return std::binary_search(fresh.begin(), fresh.end(), m.fd);
    };
    for (const int set : open_descriptors()) {
        if (!is_epoll_set(set)) {
            continue;
        }
        const std::vector<Member> members = members_of(set);
        if (!std::all_of(members.begin(), members.end(), is_numbered) ||
            std::none_of(members.begin(), members.end(), is_new)) {
            continue;
        }
        for (const Member& m : members) {
            if (const ino_t file = file_of_pipe(m.fd); file != 0) {
                known.set = set;
                known.pipe = m.fd;
                known.pipe_file = file;
                known.process = util::forks();
                close_on_exec(set);
                return;
            }
        }
    }
}

Error enter() {
    const unsigned process = util::forks();
    const Error fine{Status::success, {}};
    if (known.set < 0 || known.process == process) {
        return fine;
    }
    // Taken in children only, so that no child inherits it locked.
    static std::mutex mutex;
    const std::lock_guard guard(mutex);
    const int set = known.set;
    if (set < 0 || known.process == process) {
        return fine;
    }
    if (!lives()) {
        // The parent had closed all before: UCX starts a thread here.
        known.set = -1;
        known.drained = false;
        return fine;
    }
    if (ucs_async_dispatch_handlers == nullptr) {
        return Error{Status::opnotsupported,
                     "the parent of this process has UCX open: fork before it is opened"};
    }
    // Members of the parent's set stay the parent's.
    const util::UniqueFd fresh(epoll_create1(EPOLL_CLOEXEC));
    if (!fresh) {
        return Error{status_of_errno(errno), "cannot make a descriptor to wait on"};
    }
    if (dup3(fresh.get(), set, O_CLOEXEC) < 0) {
        return Error{status_of_errno(errno), "cannot replace a descriptor of the parent's UCX"};
    }
    known.drained = true;
    known.process = process;
    return fine;
}

void remove_handler(int fd) noexcept {
    if (ucs_async_remove_handler == nullptr) {
        return;
    }
    // UCX takes the number out of its set, and lets go of its thread where that succeeds.
    util::UniqueFd stand_in(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (stand_in && stand_in.get() != fd) {
        stand_in.reset(fcntl(stand_in.get(), F_DUPFD_CLOEXEC, fd));
    }
    if (known.set >= 0 && lives()) {
        epoll_event event{};
        event.data.u64 = static_cast<std::uint64_t>(fd);
        epoll_ctl(known.set, EPOLL_CTL_ADD, fd, &event);
    }
    ucs_async_remove_handler(fd, 1);
}

int Drain::fd() noexcept {
    return known.drained ? known.set.load() : -1;
}

void Drain::ready(std::uint32_t) {
    epoll_event events[16];
    const int count = epoll_wait(fd(), events, std::size(events), 0);
    for (const epoll_event& e : std::span(events, static_cast<std::size_t>(std::max(count, 0)))) {
        int id = static_cast<int>(e.data.u64);
        const int kinds = ((e.events & EPOLLIN) != 0 ? UCS_EVENT_SET_EVREAD : 0) |
                          ((e.events & EPOLLOUT) != 0 ? UCS_EVENT_SET_EVWRITE : 0) |
                          ((e.events & EPOLLERR) != 0 ? UCS_EVENT_SET_EVERR : 0);
        ucs_async_dispatch_handlers(&id, 1, static_cast<ucs_event_set_types_t>(kinds));
    }
}

}  // namespace na::ucx::async
