// SPDX-License-Identifier: BSD-3-Clause
// Cross-memory attach: reading and writing a peer's memory by system call.
//
// The kernel lets a process attach to whatever it may debug. A process with CAP_SYS_PTRACE may
// debug set-user-ID programs, too, and other users' processes. A peer could make such a process
// read and write them on its behalf: the peer executes a set-user-ID program under the number that
// it greeted with, while a child keeps the socket. Therefore attach is used only where the kernel's
// check protects everybody:
//
//   user       the peer's user (SO_PEERCRED) is this process's effective user
//   privilege  this process does not hold CAP_SYS_PTRACE, in any user namespace (NA_SM_CMA=2
//              overrides that)
//   program    a random number lies where the peer showed it, in the process of that number; looked
//              at again every millisecond, since an exec, or another process with that number,
//              replaces the memory
//
// Otherwise data goes through the shared buffers, and the owner of the memory checks each access.
#include <cerrno>

#include <linux/capability.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "plugins/sm/context.hpp"
#include "plugins/sm/region.hpp"

namespace na::sm {
namespace {

// Segments per call. The kernel takes up to 1024 (IOV_MAX); but both lists are on the stack, and
// stacks of user-level threads are of 16 KiB (Argobots).
constexpr std::size_t kBatch = 64;

Status status_of_attach(int error) noexcept {
    switch (error) {
        case ESRCH:
            return Status::hostunreach;
        case EPERM:
            return Status::access;
        case ENOMEM:
            return Status::nomem;
        default:
            return Status::fault;  // memory that is not there: freed, or a forged descriptor
    }
}

// The permitted set counts, not the effective one: a thread may raise what is permitted at any
// time.
bool may_debug_others() noexcept {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
    return syscall(SYS_capget, &header, sets) != 0 ||
           (sets[CAP_TO_INDEX(CAP_SYS_PTRACE)].permitted & CAP_TO_MASK(CAP_SYS_PTRACE)) != 0;
}

}  // namespace

bool shows(pid_t process, const Nonce& nonce) noexcept {
    std::uint64_t value = 0;
    iovec local{&value, sizeof value};
    iovec remote{reinterpret_cast<void*>(static_cast<std::uintptr_t>(nonce.address)), sizeof value};
    const ssize_t n = process_vm_readv(process, &local, 1, &remote, 1, 0);
    return n == static_cast<ssize_t>(sizeof value) && value == nonce.value;
}

bool Context::can_attach(const Credentials& process, const Nonce& nonce) const noexcept {
    if (domain_.attaching() == Attaching::never || process.pid <= 0 || process.uid != geteuid()) {
        return false;
    }
    if (process.pid == getpid()) {
        return shows(process.pid, nonce);
    }
    return (domain_.attaching() == Attaching::always || !may_debug_others()) &&
           shows(process.pid, nonce);
}

Status Context::read_peer(Connection& c, void* to, std::uint64_t address,
                          std::size_t bytes) noexcept {
    if (!c.peer_is_same()) {
        return Status::hostunreach;
    }
    std::size_t done = 0;
    while (done < bytes) {
        iovec local{static_cast<std::byte*>(to) + done, bytes - done};
        iovec remote{reinterpret_cast<void*>(static_cast<std::uintptr_t>(address + done)),
                     bytes - done};
        const ssize_t n = process_vm_readv(c.process.pid, &local, 1, &remote, 1, 0);
        if (n <= 0) {
            return status_of_attach(n < 0 ? errno : EFAULT);
        }
        done += static_cast<std::size_t>(n);
    }
    return Status::success;
}

Context::Copied Context::copy_attached(Op& op, std::size_t limit, Status& status) noexcept {
    OpState& s = state_of(op);
    if (!s.connection->peer_is_same()) {
        status = Status::hostunreach;
        events_soon();
        return Copied::failed;
    }
    SegmentList::Cursor local(static_cast<const Region*>(op.local)->list, op.local_offset + s.done);
    SegmentList::Cursor remote(static_cast<const Region*>(op.remote)->list,
                               op.remote_offset + s.done);
    iovec here[kBatch];
    iovec there[kBatch];
    std::size_t left = std::min<std::uint64_t>(limit, op.length - s.done);
    while (left != 0) {
        std::size_t bytes_here = 0;
        std::size_t bytes_there = 0;
        std::size_t n_here = local.fill(here, kBatch, left, bytes_here);
        std::size_t n_there = remote.fill(there, kBatch, left, bytes_there);
        // The shorter side decides: the call moves as much as both have.
        const std::size_t asked = std::min(bytes_here, bytes_there);
        const pid_t process = s.connection->process.pid;
        const ssize_t n = op.kind == OpKind::put
                              ? process_vm_writev(process, here, n_here, there, n_there, 0)
                              : process_vm_readv(process, here, n_here, there, n_there, 0);
        if (n <= 0 || asked == 0) {
            status = status_of_attach(n < 0 ? errno : EFAULT);
            return Copied::failed;
        }
        const auto moved = static_cast<std::size_t>(n);
        s.done += moved;
        left -= std::min(moved, left);
        local.skip(moved);
        remote.skip(moved);
    }
    return s.done == op.length ? Copied::done : Copied::some;
}

}  // namespace na::sm
