// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/sm/shared_memory.hpp"

#include <cerrno>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <fmt/format.h>

#include "na/util/quiet_signal.hpp"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace na::sm {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

Mapping::~Mapping() {
    if (base_ != nullptr) {
        munmap(base_, bytes_);
    }
}

bool Mapping::vacate() noexcept {
    return mmap(base_, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                -1, 0) != MAP_FAILED;
}

Result<SharedMemory> make_shared_memory(std::size_t bytes, bool owner_writes) {
    const util::QuietSignal quiet(SIGXFSZ);
    SharedMemory made;
    // The name is for /proc/<pid>/maps only.
    made.fd.reset(memfd_create("cinnabar-sm", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!made.fd) {
        return os_error(errno, "cannot make shared memory (memfd_create)");
    }
    // Who was given a descriptor for reading must not open it again for writing; a new memfd is
    // open to everybody.
    if (fchmod(made.fd.get(), S_IRUSR | S_IWUSR) != 0 ||
        ftruncate(made.fd.get(), static_cast<off_t>(bytes)) != 0) {
        return os_error(errno, "cannot size shared memory");
    }
    void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, made.fd.get(), 0);
    if (base == MAP_FAILED) {
        return os_error(errno, "cannot map shared memory");
    }
    made.mapping = Mapping(base, bytes);
    // F_SEAL_FUTURE_WRITE is of Linux 5.1; without it peers of the same user could write the page,
    // as they could by ptrace.
    if (owner_writes) {
        static_cast<void>(fcntl(made.fd.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
    }
    if (fcntl(made.fd.get(), F_ADD_SEALS, kSizeSeals) != 0) {
        return os_error(errno, "cannot seal shared memory");
    }
    return made;
}

Result<Mapping> map_peer_memory(int fd, std::size_t bytes, bool writable) noexcept try {
    struct stat file {};
    struct statfs system {};
    if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || fstatfs(fd, &system) != 0 ||
        system.f_type != TMPFS_MAGIC) {
        return Error{Status::protocol_error, "the descriptor is no shared memory"};
    }
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & kSizeSeals) != kSizeSeals) {
        return Error{Status::protocol_error, "the shared memory is not sealed"};
    }
    if (file.st_size < 0 || static_cast<std::uint64_t>(file.st_size) != bytes) {
        return Error{Status::protocol_error, "the shared memory has the wrong size"};
    }
    void* base =
        mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        return os_error(errno, "cannot map the peer's memory");
    }
    return Mapping(base, bytes);
} catch (const std::bad_alloc&) {  // for the text of an error
    return Error{Status::nomem, {}};
}

Result<UniqueFd> reopen_read_only(int fd) {
    UniqueFd copy(open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_RDONLY | O_CLOEXEC));
    if (!copy) {
        return os_error(errno, "cannot reopen shared memory for reading");
    }
    return copy;
}

}  // namespace na::sm
