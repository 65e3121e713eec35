// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/sm/permits.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "na/util/log.hpp"
#include "na/util/random.hpp"
#include "plugins/sm/region.hpp"
#include "plugins/sm/ring.hpp"

namespace na::sm {
namespace {

// A peer that is at work is done within microseconds, unless it was interrupted.
constexpr int kYields = 64;
constexpr std::int64_t kNap = 50'000;             // ns
constexpr std::int64_t kProcessLook = 1'000'000;  // ns, between looks at /proc

std::int64_t nanoseconds(clockid_t clock) noexcept {
    timespec t{};
    clock_gettime(clock, &t);
    return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

std::uint64_t number(const void* address) noexcept {
    return reinterpret_cast<std::uintptr_t>(address);
}

// The process with which the connection was made has ended.
bool departed(const PermitUser& user) noexcept {
    const ProcessId now = find_process(user.pid);
    return now.start == 0 || now.start > user.joined;
}

}  // namespace

std::uint64_t seal_of(std::uint64_t key) noexcept {
    const std::uint64_t seal = util::keyed_hash(key, 0x7065726d69740000U, {}, 0, 0);
    return seal != 0 ? seal : 1;
}

ProcessId find_process(pid_t pid) noexcept {
    ProcessId found{pid, 0};
    char path[32];
    std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(pid));
    const UniqueFd file(open(path, O_RDONLY | O_CLOEXEC));
    char text[1024];
    const ssize_t n = file ? read(file.get(), text, sizeof text - 1) : -1;
    found.start = kill(pid, 0) != 0 && errno == ESRCH ? 0 : ProcessId::kUnknown;
    if (n <= 0) {
        return found;
    }
    text[n] = '\0';
    // The name of the program may hold anything; field 3 follows its last parenthesis.
    char* at = std::strrchr(text, ')');
    if (at == nullptr || std::strlen(at) < 4) {
        return found;
    }
    const char state = at[2];
    std::uint64_t fields[20] = {};  // from field 4
    at += 3;
    for (std::uint64_t& field : fields) {
        field = std::strtoull(at, &at, 10);
    }
    const std::uint64_t threads = fields[20 - 4];
    // The first thread of a process may have ended before the others.
    const bool ended = (state == 'Z' || state == 'X') && threads <= 1;
    found.start = ended ? 0 : std::max(fields[22 - 4], ProcessId::kUnknown);
    return found;
}

// --- the owner
// -----------------------------------------------------------------------------------------------

Status PermitTable::open(Error& error) {
    auto memory = make_shared_memory(kPermitBytes, true);
    if (!memory) {
        error = std::move(memory).error();
        return error.status;
    }
    memory_ = std::move(*memory);
    banned_.reserve(kMostBanned);
    return Status::success;
}

// Requires: mutex_. Memory is taken here, since a page that the kernel cannot provide would be a
// signal at its first use.
bool PermitTable::reserve(std::size_t count) noexcept {
    try {
        while (free_.size() < count) {
            if (grown_ >= kPermits ||
                fallocate(memory_.fd.get(), 0, off_t{grown_} * off_t{sizeof(PermitEntry)},
                          off_t{kChunk} * off_t{sizeof(PermitEntry)}) != 0) {
                return false;
            }
            // withdraw() allocates nothing.
            free_.reserve(std::size_t{grown_} + kChunk);
            for (std::uint32_t i = kChunk; i-- > 0;) {
                if (grown_ + i != 0) {
                    free_.push_back(grown_ + i);
                }
            }
            grown_ += kChunk;
        }
    } catch (const std::bad_alloc&) {
        return false;
    }
    return true;
}

std::uint32_t PermitTable::grant(const Region& region, Access access) noexcept {
    const auto segments = region.list.segments();
    const std::lock_guard guard(mutex_);
    if (!reserve(segments.size())) {
        return 0;
    }
    std::uint32_t next = 0;
    for (std::size_t i = segments.size(); i-- > 0;) {
        const std::uint32_t index = free_.back();
        free_.pop_back();
        PermitEntry& e = entries()[index];
        e.base.store(number(segments[i].base), std::memory_order_relaxed);
        e.length.store(segments[i].length, std::memory_order_relaxed);
        e.allocation.store(region.allocation, std::memory_order_relaxed);
        e.allocation_base.store(region.allocation_base, std::memory_order_relaxed);
        e.access.store(static_cast<std::uint32_t>(access), std::memory_order_relaxed);
        e.next.store(next, std::memory_order_relaxed);
        next = index;
    }
    entries()[next].seal.store(region.seal(), std::memory_order_release);
    return next;
}

void PermitTable::withdraw(std::uint32_t permit) noexcept {
    PermitEntry& first = entries()[permit];
    first.seal.store(0, std::memory_order_relaxed);
    full_fence();
    if (in_use(permit, false)) [[unlikely]] {
        const std::int64_t start = nanoseconds(CLOCK_MONOTONIC);
        std::int64_t next_look = start + kProcessLook;
        for (int turn = 0;; ++turn) {
            const std::int64_t now = nanoseconds(CLOCK_MONOTONIC);
            const bool look = now >= next_look;
            if (look) {
                next_look = now + kProcessLook;
            }
            if (!in_use(permit, look)) {
                break;
            }
            if (now - start >= kPatience) {
                evict(permit);
                break;
            }
            if (turn < kYields) {
                sched_yield();
            } else {
                const timespec nap{0, kNap};
                nanosleep(&nap, nullptr);
            }
        }
    }
    const std::lock_guard guard(mutex_);
    for (std::uint32_t index = permit; index != 0;) {
        const std::uint32_t next = entries()[index].next.load(std::memory_order_relaxed);
        free_.push_back(index);
        index = next;
    }
}

// Whether a peer works with the permit. Drops what ended connections left when it is done with.
bool PermitTable::in_use(std::uint32_t permit, bool look_at_processes) noexcept {
    const std::lock_guard guard(users_mutex_);
    bool used = false;
    for (std::size_t i = 0; i < users_.size();) {
        const PermitUser& user = *users_[i];
        const std::uint32_t word = user.hazard->load(std::memory_order_acquire);
        if (user.socket < 0 &&
            (word == 0 || user.given_up || (look_at_processes && departed(user)))) {
            users_[i] = std::move(users_.back());
            users_.pop_back();
            continue;
        }
        used |= word == permit && !user.given_up && !(look_at_processes && departed(user));
        ++i;
    }
    return used;
}

// The peers that still work with the permit have had their time.
void PermitTable::evict(std::uint32_t permit) noexcept {
    const std::lock_guard guard(users_mutex_);
    for (const auto& each : users_) {
        const PermitUser& user = *each;
        if (user.hazard->load(std::memory_order_acquire) != permit) {
            continue;
        }
        if (!user.given_up) {
            NA_LOG_WARNING(rma,
                           "process {} works on memory that is deregistered and does not finish: "
                           "its connection ends, and it does not access memory directly any more",
                           user.pid);
            late_.fetch_add(1, std::memory_order_relaxed);
            ban(user.pid);
        }
        if (user.socket >= 0) {
            // The context notices, as it notices a peer that hung up.
            shutdown(user.socket, SHUT_RDWR);
        }
    }
}

// Requires: users_mutex_. A process costs one wait, however many connections it has: none of them
// is waited for any more.
void PermitTable::ban(pid_t pid) noexcept {
    for (const auto& user : users_) {
        if (user->pid == pid) {
            user->barred->store(1, std::memory_order_release);
            user->given_up = true;
        }
    }
    const ProcessId process = find_process(pid);
    if (process.start == 0 || banned(pid)) {
        return;
    }
    std::erase_if(banned_, [](const ProcessId& p) { return find_process(p.pid) != p; });
    if (banned_.size() == kMostBanned) {
        banned_.erase(banned_.begin());
    }
    banned_.push_back(process);
}

// Requires: users_mutex_.
bool PermitTable::banned(pid_t pid) const noexcept {
    return !banned_.empty() &&
           std::find(banned_.begin(), banned_.end(), find_process(pid)) != banned_.end();
}

PermitUser& PermitTable::join(const Credentials& process, int socket,
                              const std::atomic<std::uint32_t>& hazard,
                              std::atomic<std::uint32_t>& barred) {
    const std::int64_t tick = 1'000'000'000 / sysconf(_SC_CLK_TCK);
    auto made = std::make_unique<PermitUser>(
        PermitUser{.hazard = &hazard,
                   .barred = &barred,
                   .pid = process.pid,
                   .joined = static_cast<std::uint64_t>(nanoseconds(CLOCK_BOOTTIME) / tick) + 1,
                   .socket = socket,
                   .kept = {}});
    const std::lock_guard guard(users_mutex_);
    users_.push_back(std::move(made));
    PermitUser& user = *users_.back();
    if (banned(user.pid)) {
        barred.store(1, std::memory_order_release);
        user.given_up = true;
    }
    return user;
}

void PermitTable::leave(PermitUser& user, Mapping& region) noexcept {
    // From here on the peer begins nothing over this connection.
    user.barred->store(1, std::memory_order_relaxed);
    full_fence();
    const std::lock_guard guard(users_mutex_);
    if (!user.given_up && user.hazard->load(std::memory_order_acquire) != 0 && !departed(user))
        [[unlikely]] {
        const auto kept = std::count_if(users_.begin(), users_.end(), [&](const auto& other) {
            return other->pid == user.pid && other->socket < 0;
        });
        if (kept < kMostKept) {
            user.socket = -1;
            user.kept = std::move(region);
            return;
        }
        ban(user.pid);
    }
    const auto it = std::find_if(users_.begin(), users_.end(),
                                 [&](const auto& other) { return other.get() == &user; });
    *it = std::move(users_.back());
    users_.pop_back();
}

// --- the peer
// ------------------------------------------------------------------------------------------------

Status PermitUse::begin(std::uint32_t permit, std::uint64_t seal, Access want,
                        std::span<const Segment> segments, std::uint64_t allocation,
                        std::uint64_t allocation_base, std::uint64_t offset,
                        std::uint64_t length) noexcept {
    if (permit == 0 || permit >= kPermits) {
        return Status::noentry;
    }
    permit_ = permit;
    seal_ = seal;
    hazard_.store(permit, std::memory_order_relaxed);
    full_fence();
    if (barred_.load(std::memory_order_acquire) != 0) [[unlikely]] {
        return Status::again;
    }
    const PermitEntry& first = table_[permit];
    if (first.seal.load(std::memory_order_acquire) != seal_) [[unlikely]] {
        return Status::noentry;
    }
    if (!allows(static_cast<Access>(first.access.load(std::memory_order_relaxed)), want)) {
        return Status::permission;
    }
    // What the owner registered has to be what the descriptor says.
    std::uint64_t total = 0;
    bool same = first.allocation.load(std::memory_order_relaxed) == allocation &&
                first.allocation_base.load(std::memory_order_relaxed) == allocation_base;
    std::uint32_t index = permit;
    for (const Segment& s : segments) {
        if (index == 0 || index >= kPermits) {
            same = false;
            break;
        }
        const PermitEntry& e = table_[index];
        const std::uint64_t registered = e.length.load(std::memory_order_relaxed);
        same = same && e.base.load(std::memory_order_relaxed) == number(s.base) &&
               registered == s.length;
        total += registered;
        index = e.next.load(std::memory_order_relaxed);
    }
    if (offset > total || length > total - offset) {
        return Status::overflow;
    }
    return same && index == 0 ? Status::success : Status::noentry;
}

bool PermitUse::stands() const noexcept {
    std::atomic_thread_fence(std::memory_order_acquire);
    return table_[permit_].seal.load(std::memory_order_relaxed) == seal_;
}

}  // namespace na::sm
