// SPDX-License-Identifier: BSD-3-Clause
// System calls only: a signal handler may neither allocate nor use streams.
#include "support/hindrance.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/until.hpp"

namespace support {
namespace {

struct Directory {
    Directory(int at, const char* path) noexcept
        : fd(openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
    ~Directory() {
        if (fd >= 0) {
            close(fd);
        }
    }
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;

    // Calls `each` with the entries that are numbers, and their text.
    template <typename Each>
    void numbers(Each&& each) const noexcept {
        alignas(std::uint64_t) char bytes[4096];
        long n = 0;
        while (fd >= 0 && (n = syscall(SYS_getdents64, fd, bytes, sizeof bytes)) > 0) {
            for (long at = 0; at < n;) {
                const auto* entry = reinterpret_cast<const dirent64*>(bytes + at);
                if (const int number = std::atoi(entry->d_name); number > 0) {
                    each(number, entry->d_name);
                }
                at += entry->d_reclen;
            }
        }
    }

    const int fd;
};

// The beginning of a file as text; empty: it cannot be read.
template <std::size_t kSize>
bool read_text(int at, const char* name, const char* file, char (&text)[kSize]) noexcept {
    char path[64];
    const std::size_t length = std::strlen(name);
    if (length + 1 + std::strlen(file) >= sizeof path) {
        return false;
    }
    std::memcpy(path, name, length);
    path[length] = '/';
    std::strcpy(path + length + 1, file);
    const int fd = openat(at, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    const ssize_t n = read(fd, text, kSize - 1);
    close(fd);
    text[std::max<ssize_t>(n, 0)] = 0;
    return n > 0;
}

struct Process {
    int id;
    int parent;
    bool ours;
};
constexpr std::size_t kMostProcesses = 2048;

// This process, and those that descend from it, to the front; answers how many.
std::size_t family(const Directory& proc, std::span<Process> all) noexcept {
    const int self = getpid();
    all[0] = {self, 0, true};  // there, however many others come before it
    std::size_t count = 1;
    proc.numbers([&](int id, const char* name) {
        char text[512];
        // The name of the program, in brackets, may hold any character.
        if (id != self && count < all.size() && read_text(proc.fd, name, "stat", text)) {
            const char* end = std::strrchr(text, ')');
            if (end != nullptr && std::strlen(end) > 4) {
                all[count++] = {id, std::atoi(end + 4), false};
            }
        }
    });
    for (bool more = true; std::exchange(more, false);) {
        for (std::size_t i = 0; i < count; ++i) {
            for (std::size_t k = 0; k < count && !all[i].ours; ++k) {
                if (all[k].ours && all[k].id == all[i].parent) {
                    all[i].ours = more = true;
                }
            }
        }
    }
    const auto end = std::partition(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count),
                                    [](const Process& p) { return p.ours; });
    return static_cast<std::size_t>(end - all.begin());
}

}  // namespace

std::size_t Hindrance::list(std::span<Thread, kMost> threads) noexcept {
    const Directory proc(AT_FDCWD, "/proc");
    Process processes[kMostProcesses];
    const std::size_t processes_count = family(proc, processes);
    std::size_t count = 0;
    for (std::size_t i = 0; i < processes_count; ++i) {
        char path[32] = "";
        // No formatted output in a handler.
        char digits[16];
        std::size_t n = 0;
        for (int id = processes[i].id; id != 0; id /= 10) {
            digits[n++] = static_cast<char>('0' + id % 10);
        }
        std::reverse_copy(digits, digits + n, path);
        std::strcpy(path + n, "/task");
        const Directory tasks(proc.fd, path);
        tasks.numbers([&](int id, const char* name) {
            char text[128];
            if (count < threads.size() && read_text(tasks.fd, name, "schedstat", text)) {
                // Time on a processor, time waiting for one, and how often.
                const char* second = std::strchr(text, ' ');
                threads[count++] = {id, second == nullptr ? 0 : std::atoll(second)};
            }
        });
    }
    std::sort(threads.begin(), threads.begin() + static_cast<std::ptrdiff_t>(count),
              [](const Thread& a, const Thread& b) { return a.id < b.id; });
    return count;
}

void Hindrance::start() noexcept {
    began_ = std::chrono::steady_clock::now();
    count_ = list(threads_);
}

std::chrono::nanoseconds Hindrance::so_far() const noexcept {
    std::array<Thread, kMost> now;
    const std::size_t count = list(now);
    const std::int64_t wall =
        std::chrono::nanoseconds(std::chrono::steady_clock::now() - began_).count();
    std::int64_t most = 0;
    std::int64_t sum = 0;
    std::size_t k = 0;
    for (std::size_t i = 0; i < count; ++i) {
        while (k < count_ && threads_[k].id < now[i].id) {
            ++k;
        }
        const bool was_there = k < count_ && threads_[k].id == now[i].id;
        const std::int64_t waited = now[i].waited - (was_there ? threads_[k].waited : 0);
        most = std::max(most, waited);
        sum += std::max<std::int64_t>(waited, 0);
    }
    return std::chrono::nanoseconds(std::min(std::max(most, std::min(sum, wall / 4 * 3)), wall));
}

bool Deadline::prolonged() {
    using std::chrono::steady_clock;
    if (!looking_) {
        looking_ = true;
        hindrance_.start();
        end_ = steady_clock::now() + limit_;
        return true;
    }
    const std::chrono::nanoseconds more = hindrance_.so_far() - given_;
    // Not for ever less.
    if (more < limit_ / 64) {
        return false;
    }
    given_ += more;
    end_ += more;
    return true;
}

}  // namespace support
