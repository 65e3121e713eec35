// SPDX-License-Identifier: BSD-3-Clause
// Peers of Probe::process: whether their process lives, and what it leaves. Their end is noticed
// whether somebody waits for them or not: what the provider has of them is much.
#include <new>
#include <string>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "plugins/ofi/context.hpp"
#include "plugins/ofi/segments.hpp"

namespace na::ofi {
namespace {

std::string segment_name(const Link& link) {
    std::string name = link.address.raw(link.target);
    name.resize(name.find('\0'));
    return name;
}

}  // namespace

// Probe::process: a descriptor of the peer's process, which tells its end.
void Context::meets(session::Link& with) noexcept {
    Link& link = of(with);
    unmarked_ = unmarked_ || (!link.self && link.address.naming() == session::Naming::ip);
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
    if (link.process) {
        watch_fd(link.process.get(), EPOLLIN, link);  // if that fails, it is looked at with others
    }
}

void Context::unwatch_process(Link& link) noexcept {
    if (link.process) {
        unwatch_fd(link.process.get());
        link.process.reset();
    }
}

void Context::process_ended(Link& link) noexcept {
    unwatch_process(link);
    departed(link);
}

void Link::ready(std::uint32_t) {
    context.process_ended(*this);
}

bool Context::gone(session::Link& with) noexcept {
    Link& link = of(with);
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
            meets(link);
        }
        return owner.state == SegmentOwner::State::dead ||
               owner.state == SegmentOwner::State::missing;
    } catch (const std::bad_alloc&) {
    }
    return false;
}

// What a process that is no more has left of shared memory goes with the next look, or with us.
void Context::mourns(const Link& link) noexcept {
    try {
        mourn(link.address.name());
        mourning_ = true;
    } catch (const std::bad_alloc&) {
    }
}

}  // namespace na::ofi
