// SPDX-License-Identifier: BSD-3-Clause
#include "crash/residue.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <malloc.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "crash/waiting.hpp"
#include "support/options.hpp"

namespace crash {
namespace {

namespace fs = std::filesystem;

// `word` as a whole: 12 is in "12-0" and not in "112".
bool has_word(const std::string& text, const std::string& word) {
    const auto inside = [&](std::size_t i) {
        return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i])) != 0;
    };
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
        if (!inside(at + word.size()) && (at == 0 || !inside(at - 1))) {
            return true;
        }
    }
    return false;
}

// Of the name of a file, "<process>-<number>" as endpoints call theirs: the number may be as large
// as another process's.
bool names_process(const std::string& path, pid_t process) {
    const std::string name = path.substr(path.rfind('/') + 1);
    const std::size_t dash = name.find('-');
    const bool endpoint =
        dash != std::string::npos && name.find_first_not_of("0123456789-") == std::string::npos;
    return has_word(endpoint ? name.substr(0, dash) : name, std::to_string(process));
}

constexpr const char* kPlaces[] = {"/dev/shm", "/tmp", "/var/tmp", "/dev/hugepages"};

bool temporary(const std::string& path) {
    return std::any_of(std::begin(kPlaces), std::end(kPlaces), [&](const std::string& place) {
        return path.compare(0, place.size() + 1, place + "/") == 0;
    });
}

}  // namespace

std::chrono::milliseconds own_time() noexcept {
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return std::chrono::milliseconds(slept_ms.load(std::memory_order_relaxed) +
                                     std::uint64_t{1000} * static_cast<std::uint64_t>(used.tv_sec) +
                                     static_cast<std::uint64_t>(used.tv_nsec / 1'000'000));
}

std::size_t count_descriptors() {
    std::error_code error;
    const auto all = fs::directory_iterator("/proc/self/fd", error);
    return error ? SIZE_MAX : static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

bool descriptors_are_back(std::size_t before) {
    const std::size_t now = count_descriptors();
    const char* why = support::lacks(support::Promise::all_given_back);
    if (why != nullptr && now > before && now <= before + 2) {
        std::printf("%zu descriptors are left: %s\n", now - before, why);
        return true;
    }
    return now == before;
}

namespace {

std::string address_of(const sockaddr_storage& address, socklen_t size) {
    char host[NI_MAXHOST];
    char port[NI_MAXSERV];
    return getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, port,
                       sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) == 0
               ? std::string(host) + ":" + port
               : std::string("-");
}

// Of a socket: both ends, and TCP's state. Of anything else: nothing.
std::string ends_of(int fd) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
        return {};
    }
    std::string text = "  " + address_of(address, size);
    size = sizeof address;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
        text += " - " + address_of(address, size);
    }
    tcp_info info{};
    size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0) {
        text += ", state " + std::to_string(info.tcpi_state);
    }
    return text;
}

}  // namespace

std::string list_descriptors() {
    std::string list;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
        std::error_code gone;  // that of the directory itself
        const std::string number = entry.path().filename().string();
        list += number + " -> " + fs::read_symlink(entry, gone).string() +
                ends_of(std::stoi(number)) + "\n";
    }
    return list;
}

Memory memory_used() {
    const struct mallinfo2 info = mallinfo2();
    std::size_t mappings = 0;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        ++mappings;
    }
    return {info.uordblks + info.hblkhd, mappings};
}

std::vector<std::string> named_files(pid_t process) {
    std::set<std::string> found;
    const auto add = [&](const std::string& path) {
        // One that has lost its name already (the thread sanitizer has such) leaves nothing behind.
        if (temporary(path) && !path.ends_with(" (deleted)")) {
            found.insert(path);
        }
    };
    const fs::path proc = "/proc/" + std::to_string(process);
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(proc / "fd", error)) {
        std::error_code gone;
        add(fs::read_symlink(entry, gone).string());
    }
    // The program itself may have been built there.
    const std::string program = fs::read_symlink(proc / "exe", error).parent_path().parent_path();
    std::ifstream maps(proc / "maps");
    for (std::string line; std::getline(maps, line);) {
        const std::size_t at = line.find('/');
        if (at != std::string::npos && line.find(" r-xp ") == std::string::npos &&
            line.find(".so") == std::string::npos &&
            (program.empty() || line.compare(at, program.size(), program) != 0)) {
            add(line.substr(at));
        }
    }
    // Logs: the runner's output is a file when someone redirects it.
    for (const int fd : {0, 1, 2}) {
        found.erase(fs::read_symlink("/proc/self/fd/" + std::to_string(fd), error).string());
    }
    return {found.begin(), found.end()};
}

bool endpoints_are_files() {
    return support::options().protocol.find("ofi+shm") != std::string::npos;
}

// "<process>-<number>", as endpoints call themselves: a number alone may be one of another process.
std::vector<std::string> abstract_sockets(pid_t process) {
    std::vector<std::string> found = abstract_sockets(std::to_string(process));
    const std::string own = fmt::format("/{}-", process);
    std::erase_if(found,
                  [&](const std::string& name) { return name.find(own) == std::string::npos; });
    return found;
}

std::vector<std::string> abstract_sockets(const std::string& word) {
    std::vector<std::string> found;
    std::ifstream in("/proc/net/unix");
    for (std::string line; std::getline(in, line);) {
        const std::size_t at = line.find('@');
        if (at != std::string::npos && has_word(line.substr(at), word)) {
            found.push_back(line.substr(at));
        }
    }
    return found;
}

namespace {

std::set<std::string> list_places() {
    std::set<std::string> entries;
    for (const char* place : kPlaces) {
        std::error_code error;
        for (const auto& entry : fs::directory_iterator(place, error)) {
            entries.insert(entry.path().string());
        }
    }
    return entries;
}

// Somebody has found it and its process dead: it goes when whom that process may have greeted has
// had the time to look (plugins/ofi/segments.hpp).
bool found_dead(const std::string& path) {
    struct stat file {};
    return endpoints_are_files() && lstat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode) &&
           (file.st_mode & S_ISVTX) != 0;
}

}  // namespace

Places::Places() : entries_(list_places()) {}

std::vector<std::string> Places::left_behind(const std::vector<pid_t>& processes) const {
    std::vector<std::string> left;
    for (const std::string& entry : list_places()) {
        const bool ours = entry.find("na_sm") != std::string::npos ||
                          entry.find("na+sm") != std::string::npos ||
                          std::any_of(processes.begin(), processes.end(),
                                      [&](pid_t p) { return names_process(entry, p); });
        if (ours && entries_.count(entry) == 0 && !found_dead(entry)) {
            left.push_back(entry);
        }
    }
    return left;
}

Environment::Environment(const char* name, const char* value) : name_(name) {
    const char* now = std::getenv(name);
    was_set_ = now != nullptr;
    before_ = was_set_ ? now : "";
    setenv(name, value, 1);
}

Environment::~Environment() {
    if (was_set_) {
        setenv(name_, before_.c_str(), 1);
    } else {
        unsetenv(name_);
    }
}

}  // namespace crash
