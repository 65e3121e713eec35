// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ofi/segments.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "na/util/log.hpp"
#include "plugins/ofi/neighbours.hpp"

namespace na::ofi {
namespace {

constexpr const char* kDirectory = "/dev/shm";  // where shm_open() has its files

std::string path_of(std::string_view name) {
    return std::string(kDirectory) + "/" + std::string(name);
}

struct flock whole_file(short type) noexcept {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    return lock;
}

util::UniqueFd open_segment(const std::string& path, int flags) noexcept {
    // Not what somebody else has put there: a link, or a pipe that would be waited for.
    return util::UniqueFd(open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

SegmentOwner owner_of(int fd) noexcept {
    struct flock lock = whole_file(F_WRLCK);
    struct stat file {};
    if (fcntl(fd, F_GETLK, &lock) != 0 || fstat(fd, &file) != 0) {
        return {};
    }
    SegmentOwner owner{.state = SegmentOwner::State::dead, .file = file.st_ino};
    if (lock.l_type != F_UNLCK) {
        owner.state = SegmentOwner::State::alive;
        owner.process = lock.l_pid > 0 ? lock.l_pid : 0;
    }
    return owner;
}

SegmentOwner look_up(const std::string& path) noexcept {
    const util::UniqueFd fd = open_segment(path, O_RDWR);  // to write: as the provider will
    if (fd) {
        return owner_of(fd.get());
    }
    return {.state = errno == ENOENT ? SegmentOwner::State::missing : SegmentOwner::State::unknown};
}

bool is_ours(std::string_view name) {
    return find_neighbour(std::string(name) + '\0') != nullptr;  // as libfabric has it
}

// By a bit that no segment has; the time of that is in the inode.
bool mark(int fd, const struct stat& file) noexcept {
    return fchmod(fd, (file.st_mode & ~static_cast<mode_t>(S_IFMT)) | S_ISVTX) == 0;
}

void unmark(int fd, const struct stat& file) noexcept {
    (void)fchmod(fd, file.st_mode & ~static_cast<mode_t>(S_IFMT | S_ISVTX));
}

// Marks what was found dead, unless it is `own`: that is marked when it is left. True: it was
// marked as long ago as that.
bool mourned(int fd, const struct stat& file, std::chrono::milliseconds mourning,
             bool own) noexcept {
    if (mourning.count() == 0) {
        return true;
    }
    if ((file.st_mode & S_ISVTX) == 0) {
        return !own && !mark(fd, file);
    }
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    const auto since = std::chrono::seconds(now.tv_sec - file.st_ctim.tv_sec) +
                       std::chrono::nanoseconds(now.tv_nsec - file.st_ctim.tv_nsec);
    return since < since.zero() || since >= mourning;  // the clock may have been set
}

bool number(std::string_view& text, int& value) noexcept {
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool good = error == std::errc{} && value >= 0 && stop != text.data();
    text.remove_prefix(good ? static_cast<std::size_t>(stop - text.data()) : 0);
    return good;
}

// libfabric notes the name of a segment at its end, with nothing but zeros after it. Where those
// begin; 0: nothing else is there, or it cannot be read.
off_t end_of_text(int fd, off_t size) noexcept {
    std::array<char, 4096> page;
    while (size > 0) {
        const off_t from = (size - 1) / std::ssize(page) * std::ssize(page);
        const ssize_t got = pread(fd, page.data(), static_cast<std::size_t>(size - from), from);
        if (got != size - from) {
            return 0;
        }
        const std::string_view bytes(page.data(), static_cast<std::size_t>(got));
        const std::size_t last = bytes.find_last_not_of('\0');
        if (last != std::string_view::npos) {
            return from + static_cast<off_t>(last + 1);
        }
        size = from;
    }
    return 0;
}

// "name~<process>": what a process leaves that is killed while it closes. Process 0: it is none.
struct Leftover {
    std::string_view name;
    pid_t process = 0;
};

Leftover leftover(std::string_view file) noexcept {
    const std::size_t mark = file.rfind('~');
    int process = 0;
    if (mark != file.npos && mark != 0) {
        std::string_view rest = file.substr(mark + 1);
        if (number(rest, process) && rest.empty() && process > 0) {
            return {.name = file.substr(0, mark), .process = process};
        }
    }
    return {.name = file};
}

constexpr off_t kLeastSegment = 65536;

// Whether it is a segment, and not something of another program.
bool is_segment(int fd, off_t size, std::string_view name) noexcept {
    const off_t end = size < kLeastSegment ? 0 : end_of_text(fd, size);
    std::array<char, NAME_MAX + 1> noted;
    const off_t from = std::max<off_t>(end - std::ssize(noted), 0);
    const auto length = static_cast<std::size_t>(end - from);
    if (length == 0 || pread(fd, noted.data(), length, from) != end - from) {
        return false;
    }
    std::string_view text(noted.data(), length);
    text.remove_prefix(text.rfind('\0') + 1);  // what was not found is one less than none
    return leftover(text).name == leftover(name).name;
}

// Whether its maker was killed before it was done (where the memory of the machine was used up, for
// one): libfabric writes the process into it at the end.
bool is_half_made(int fd, off_t size) noexcept {
    constexpr off_t kProcess = 4;
    std::int32_t process = 0;
    return size == 0 ||
           (size >= kLeastSegment && (size & (size - 1)) == 0 &&
            pread(fd, &process, sizeof process, kProcess) == sizeof process && process == 0);
}

// Calls `visit` with the name of each file.
template <typename Visit>
void for_each_file(Visit&& visit) {
    struct Close {
        void operator()(DIR* d) const noexcept { closedir(d); }
    };
    const std::unique_ptr<DIR, Close> all(opendir(kDirectory));
    while (const dirent* entry = all == nullptr ? nullptr : readdir(all.get())) {
        visit(std::string_view(entry->d_name));
    }
}

// ".1": the segment of context 1.
bool is_context(std::string_view rest) noexcept {
    int n = 0;
    if (!rest.starts_with('.')) {
        return false;
    }
    rest.remove_prefix(1);
    return number(rest, n) && rest.empty();
}

// The process in a name that we made up: "<process>-<number>", with or without a context. 0: it is
// none of ours.
pid_t maker(std::string_view file) noexcept {
    std::string_view name = leftover(file).name;
    int process = 0;
    int n = 0;
    if (!number(name, process) || !name.starts_with('-')) {
        return 0;
    }
    name.remove_prefix(1);
    if (!number(name, n)) {
        return 0;
    }
    return name.empty() || is_context(name) ? process : 0;
}

enum class Found { young, other };

// In the gate, as a judge. Young: it is dead, and goes later. `ours`: the name is.
Found remove_if_dead(std::string_view name, std::chrono::milliseconds mourning, bool ours,
                     bool own = false) {
    if (is_ours(name)) {
        return Found::other;
    }
    const std::string path = path_of(name);
    const util::UniqueFd fd = open_segment(path, O_RDONLY);
    struct stat file {};
    if (!fd || fstat(fd.get(), &file) != 0 || !S_ISREG(file.st_mode) || file.st_uid != geteuid() ||
        owner_of(fd.get()).state != SegmentOwner::State::dead) {
        return Found::other;
    }
    const bool marked = (file.st_mode & S_ISVTX) != 0;
    const auto proves = [&] {
        return is_segment(fd.get(), file.st_size, name) ||
               (ours && is_half_made(fd.get(), file.st_size));
    };
    if (!marked && !proves()) {
        return Found::other;
    }
    if (!mourned(fd.get(), file, mourning, own)) {
        return Found::young;
    }
    if (marked && !proves()) {
        return Found::other;
    }
    if (unlink(path.c_str()) == 0) {
        NA_LOG_INFO(cls, "removed {}: its process is dead", path);
    }
    return Found::other;
}

// Names whose owners were found dead, as far as there may be something left.
struct Mourned {
    using Names = std::set<std::string, std::less<>>;

    std::mutex mutex;
    Names names;

    // Whose `file` is.
    Names::const_iterator find(std::string_view file) const {
        file = leftover(file).name;
        const auto it = names.find(file);
        const std::size_t dot = file.rfind('.');
        return it == names.end() && dot != file.npos && is_context(file.substr(dot))
                   ? names.find(file.substr(0, dot))
                   : it;
    }
};
constexpr std::size_t kMostMourned = 1024;  // somebody may shut the gate for good

Mourned& all_mourned() {
    static Mourned& m = *new Mourned;  // never destroyed: classes may close while the process ends
    return m;
}

// libfabric removes the segment under the name that it has noted. If so, it will remove `other`.
bool divert(int fd, off_t size, std::string_view name, std::string_view other) noexcept {
    const off_t at = end_of_text(fd, size) - std::ssize(name);
    std::array<char, NAME_MAX> noted;
    return at >= 0 && name.size() <= noted.size() &&
           pread(fd, noted.data(), name.size(), at) == std::ssize(name) &&
           std::string_view(noted.data(), name.size()) == name &&
           pwrite(fd, other.data(), other.size(), at) == std::ssize(other);
}

}  // namespace

SegmentGate::SegmentGate(As as, std::chrono::milliseconds patience) noexcept
    : directory_(open(kDirectory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    using std::chrono::steady_clock;
    const int lock = (as == As::maker ? LOCK_SH : LOCK_EX) | LOCK_NB;
    const auto end = steady_clock::now() + patience;
    // However late a nap ends, the last try is one after the end.
    for (bool last = !directory_; !last && !entered_;) {
        last = steady_clock::now() >= end;
        entered_ = flock(directory_.get(), lock) == 0;
        if (!entered_ && !last) {
            if (errno != EWOULDBLOCK) {
                return;
            }
            const timespec nap{.tv_sec = 0, .tv_nsec = 500'000};
            nanosleep(&nap, nullptr);
        }
    }
}

// By itself, since whoever forks meanwhile leaves the descriptor to a child.
SegmentGate::~SegmentGate() {
    if (entered_) {
        flock(directory_.get(), LOCK_UN);
    }
}

util::UniqueFd hold_segment(const std::string& name) noexcept {
    try {
        util::UniqueFd fd = open_segment(path_of(name), O_RDWR);
        struct flock lock = whole_file(F_WRLCK);
        if (!fd || fcntl(fd.get(), F_SETLK, &lock) != 0) {
            return {};
        }
        struct stat file {};
        if (fstat(fd.get(), &file) == 0 && (file.st_mode & S_ISVTX) != 0) {
            unmark(fd.get(), file);  // the provider has taken over what somebody else left
        }
        return fd;
    } catch (const std::bad_alloc&) {
        return {};
    }
}

void release_segment(int held) noexcept {
    struct flock lock = whole_file(F_UNLCK);
    (void)fcntl(held, F_SETLK, &lock);
}

// A second name, since what has none any more cannot get one; and one to remove in place of the
// first, which is missed by who looks for it meanwhile, and crashes if it is in a greeting.
SegmentKeeper::SegmentKeeper(const std::string& name, int held, bool leaves) noexcept {
    try {
        path_ = path_of(name);
        other_ = fmt::format("{}~{}", path_, getpid());
        struct stat ours {};
        struct stat there {};
        if (fstat(held, &ours) != 0) {
            other_.clear();
            return;
        }
        unlink(other_.c_str());
        const bool another = lstat(path_.c_str(), &there) == 0 && there.st_ino != ours.st_ino;
        const std::string self = fmt::format("/proc/self/fd/{}", held);
        if (another ? link(path_.c_str(), other_.c_str()) == 0
                    : leaves && mark(held, ours) &&
                          linkat(AT_FDCWD, self.c_str(), AT_FDCWD, other_.c_str(),
                                 AT_SYMLINK_FOLLOW) == 0) {
            divert(held, ours.st_size, name, other_.substr(path_.size() - name.size()));
            return;
        }
    } catch (const std::exception&) {
    }
    other_.clear();
}

SegmentKeeper::~SegmentKeeper() {
    if (!other_.empty()) {
        (void)link(other_.c_str(), path_.c_str());  // not where the name is another's by now
        unlink(other_.c_str());
    }
}

SegmentOwner segment_owner(std::string_view of) noexcept {
    try {
        const std::string name(of);
        if (is_ours(name)) {
            return {.state = SegmentOwner::State::alive};
        }
        const std::string path = path_of(name);
        SegmentOwner owner = look_up(path);
        if (owner.state != SegmentOwner::State::alive) {
            const SegmentGate gate(SegmentGate::As::judge);
            owner = gate.entered() ? look_up(path) : SegmentOwner{};
        }
        return owner;
    } catch (const std::bad_alloc&) {
        return {};
    }
}

NameUse use_of(const std::string& name) noexcept {
    try {
        const util::UniqueFd fd = open_segment(path_of(name), O_RDWR);
        struct stat file {};
        if (!fd || fstat(fd.get(), &file) != 0) {
            return {};  // where it is there, the provider cannot open it either, and says why
        }
        const SegmentOwner owner = owner_of(fd.get());
        if (owner.state == SegmentOwner::State::alive) {
            return {.by = NameUse::By::process, .process = owner.process};
        }
        const bool segment =
            is_segment(fd.get(), file.st_size, name) || is_half_made(fd.get(), file.st_size);
        return {.by = segment ? NameUse::By::nobody : NameUse::By::file};
    } catch (const std::bad_alloc&) {
        return {};
    }
}

bool made_up(const std::string& name) noexcept {
    return maker(name) != 0;
}

void remove_segment(const std::string& name) noexcept {
    try {
        struct stat file {};
        if (lstat(path_of(name).c_str(), &file) != 0) {
            return;
        }
        const SegmentGate gate(SegmentGate::As::judge, kLastLook);
        if (gate.entered()) {
            remove_if_dead(name, {}, true);
        }
    } catch (const std::bad_alloc&) {
    }
}

void mourn(const std::string& name) noexcept {
    try {
        Mourned& m = all_mourned();
        const std::lock_guard guard(m.mutex);
        if (m.names.size() >= kMostMourned) {
            m.names.clear();
        }
        m.names.insert(name);
    } catch (const std::bad_alloc&) {
    }
}

void remove_stale_segments(std::chrono::milliseconds patience,
                           std::chrono::milliseconds mourning) noexcept {
    try {
        const SegmentGate gate(SegmentGate::As::judge, patience);
        if (!gate.entered()) {
            return;
        }
        Mourned& m = all_mourned();
        const std::lock_guard guard(m.mutex);
        Mourned::Names left;
        for_each_file([&](std::string_view file) {
            const auto known = m.find(file);
            const pid_t made = maker(file);
            const pid_t process = made != 0 ? made : leftover(file).process;
            const bool own = process == getpid();
            // Another program may use such names without our locks: then its process must be gone,
            // too.
            const bool stale = process > 0 && (own || (kill(process, 0) != 0 && errno == ESRCH));
            if ((known != m.names.end() || stale) &&
                remove_if_dead(file, mourning, made != 0, own) == Found::young &&
                known != m.names.end()) {
                left.insert(*known);
            }
        });
        m.names = std::move(left);
    } catch (const std::bad_alloc&) {
    }
}

}  // namespace na::ofi
