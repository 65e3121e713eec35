// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ofi/spots.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <unordered_map>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "na/util/fd.hpp"
#include "na/util/immortal.hpp"

namespace na::ofi {
namespace {

struct Spot {
    enum class State {
        theirs,  // mapped by the provider
        ours,    // mapped a second time, by us
        kept,    // nobody's, and nobody else's
        lost,
    };
    void* at = nullptr;
    std::size_t size = 0;
    State state = State::lost;
    bool forgotten = false;  // goes when it is left
    ino_t another = 0;       // kept: the segment of another process that is mapped there
};

struct Table {
    std::mutex mutex;
    std::unordered_map<std::string, Spot> spots;

    void count() const noexcept {
        const auto n = std::count_if(spots.begin(), spots.end(), [](const auto& entry) {
            return entry.second.state == Spot::State::kept;
        });
        kept_spots.store(static_cast<std::size_t>(n), std::memory_order_release);
    }
};

Table& table() noexcept {
    static util::Immortal<Table> t;  // endpoints may close while the process ends
    return t.get();
}

// The mapping of a file that is mapped once.
Spot mapping_of(int file) noexcept {
    struct Close {
        void operator()(std::FILE* f) const noexcept { std::fclose(f); }
    };
    struct stat about {};
    const std::unique_ptr<std::FILE, Close> maps(std::fopen("/proc/self/maps", "re"));
    if (maps == nullptr || fstat(file, &about) != 0) {
        return {};
    }
    char line[512];
    for (bool begins = true; std::fgets(line, sizeof line, maps.get()) != nullptr;) {
        std::uintptr_t from = 0, to = 0;
        std::uint64_t inode = 0;
        unsigned major = 0, minor = 0;
        if (begins &&
            std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %*x %x:%x %" SCNu64, &from, &to,
                        &major, &minor, &inode) == 5 &&
            inode == about.st_ino && makedev(major, minor) == about.st_dev) {
            return {.at = reinterpret_cast<void*>(from),
                    .size = to - from,
                    .state = Spot::State::theirs};
        }
        begins = std::string_view(line).ends_with('\n');
    }
    return {};
}

bool map(const Spot& spot, std::size_t size, int access, int flags, int file) noexcept {
    return mmap(spot.at, size, access, flags | MAP_FIXED, file, 0) == spot.at;
}

constexpr int kNobodys = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

// Whoever has the name now.
void follow(const std::string& name, Spot& spot) {
    const std::string path = "/dev/shm/" + name;
    struct stat file {};
    if (lstat(path.c_str(), &file) != 0 || file.st_ino == spot.another || file.st_size == 0) {
        return;
    }
    const util::UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd || fstat(fd.get(), &file) != 0 || !S_ISREG(file.st_mode) || file.st_size <= 0 ||
        static_cast<std::size_t>(file.st_size) > spot.size) {
        return;
    }
    if (map(spot, static_cast<std::size_t>(file.st_size), PROT_READ | PROT_WRITE, MAP_SHARED,
            fd.get())) {
        spot.another = file.st_ino;
    }
}

// Right after the provider has unmapped it: another thread may have been quicker.
bool keep(const Spot& spot) noexcept {
    void* const got = mmap(spot.at, spot.size, PROT_NONE, kNobodys | MAP_FIXED_NOREPLACE, -1, 0);
    if (got != MAP_FAILED && got != spot.at) {  // a kernel before 4.17
        munmap(got, spot.size);
    }
    return got == spot.at;
}

}  // namespace

std::atomic<std::size_t> kept_spots{0};

void follow_others() noexcept {
    try {
        Table& t = table();
        const std::lock_guard guard(t.mutex);
        for (auto& [name, spot] : t.spots) {
            if (spot.state == Spot::State::kept) {
                follow(name, spot);
            }
        }
    } catch (const std::bad_alloc&) {
    }
}

bool take_spot(const std::string& name, int file) noexcept {
    try {
        const Spot segment = mapping_of(file);
        Table& t = table();
        const std::lock_guard guard(t.mutex);
        const auto [it, first] = t.spots.try_emplace(name, segment);
        Spot& spot = it->second;
        if (first) {
            return true;
        }
        if (spot.state == Spot::State::lost && spot.at != nullptr) {
            if (segment.at == spot.at) {
                spot = segment;
                return true;
            }
            if (keep(spot)) {  // who was there has gone
                spot.state = Spot::State::kept;
            }
        }
        if (spot.state != Spot::State::kept || segment.at == nullptr || segment.size > spot.size ||
            !map(spot, segment.size, PROT_READ | PROT_WRITE, MAP_SHARED, file)) {
            return false;
        }
        spot.state = Spot::State::ours;
        spot.another = 0;
        t.count();
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
}

void leave_spot(const std::string& name) noexcept {
    Table& t = table();
    const std::lock_guard guard(t.mutex);
    const auto it = t.spots.find(name);
    if (it == t.spots.end()) {
        return;
    }
    Spot& spot = it->second;
    if (spot.state == Spot::State::theirs) {
        spot.state = keep(spot) ? Spot::State::kept : Spot::State::lost;
    } else if (spot.state == Spot::State::ours) {
        // Where that fails the former segment stays, until the next one.
        (void)map(spot, spot.size, PROT_NONE, kNobodys, -1);
        spot.state = Spot::State::kept;
    }
    if (spot.forgotten) {
        if (spot.state == Spot::State::kept) {
            munmap(spot.at, spot.size);
        }
        t.spots.erase(it);
    }
    t.count();
}

void forget_spot(const std::string& name) noexcept {
    Table& t = table();
    const std::lock_guard guard(t.mutex);
    const auto it = t.spots.find(name);
    if (it == t.spots.end()) {
        return;
    }
    if (it->second.state == Spot::State::kept) {
        munmap(it->second.at, it->second.size);
    }
    if (it->second.state == Spot::State::kept || it->second.state == Spot::State::lost) {
        t.spots.erase(it);
    } else {
        it->second.forgotten = true;
    }
    t.count();
}

}  // namespace na::ofi
