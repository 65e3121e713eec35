// SPDX-License-Identifier: BSD-3-Clause
#include "processes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <new>
#include <random>

#include "clock.hpp"

namespace perf {
namespace {

std::string reason() {
    return std::strerror(errno);
}

std::string own_folder() {
    char path[4096];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
    if (n <= 0 || n >= static_cast<ssize_t>(sizeof path)) {
        throw Failure("cannot find out where this program is: " + reason());
    }
    const std::string whole(path, static_cast<std::size_t>(n));
    return whole.substr(0, whole.rfind('/'));
}

std::string how_it_ended(int status) {
    return WIFSIGNALED(status) ? fmt::format("was ended by signal {} ({})", WTERMSIG(status),
                                             strsignal(WTERMSIG(status)))
                               : fmt::format("ended with status {}", WEXITSTATUS(status));
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        if (end > at) {
            lines.push_back(text.substr(at, end - at));
        }
        at = end + 1;
    }
    return lines;
}

}  // namespace

bool try_pin(const std::vector<int>& cpus, std::size_t index) noexcept {
    if (cpus.empty()) {
        return true;
    }
    const int cpu = cpus[index % cpus.size()];
    cpu_set_t set;
    CPU_ZERO(&set);
    if (cpu >= 0 && cpu < CPU_SETSIZE) {
        CPU_SET(static_cast<std::size_t>(cpu), &set);
    }
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

void pin(const std::vector<int>& cpus, std::size_t index) {
    if (!try_pin(cpus, index)) {
        throw Failure(fmt::format("cannot run on processor {}: {} (nproc says how many there are)",
                                  cpus[index % cpus.size()], reason()));
    }
}

void check_cpus(const std::vector<int>& cpus) {
    cpu_set_t before;
    if (sched_getaffinity(0, sizeof before, &before) != 0) {
        throw Failure("cannot tell which processors may be used: " + reason());
    }
    for (std::size_t i = 0; i < cpus.size(); ++i) {
        pin(cpus, i);
    }
    sched_setaffinity(0, sizeof before, &before);
}

std::uint64_t random_id() {
    std::random_device device;
    return std::uint64_t{device()} << 32 | device();
}

namespace {

// Where a file may be put in the place of what is there; nothing: a device, a pipe, or a link that
// leads nowhere, which are written to as they are.
std::string replaceable(const std::string& path) {
    struct stat what;
    if (lstat(path.c_str(), &what) != 0 || S_ISREG(what.st_mode)) {
        return path;
    }
    if (!S_ISLNK(what.st_mode) || stat(path.c_str(), &what) != 0 || !S_ISREG(what.st_mode)) {
        return {};
    }
    // A link stays one.
    const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr),
                                                           &std::free);
    return real ? real.get() : std::string();
}

void write_lines(const std::string& path, const std::vector<std::string>& lines) {
    std::ofstream file(path);
    for (const std::string& line : lines) {
        file << line << "\n";
    }
    if (!file.flush()) {
        throw Failure(fmt::format("cannot write {}: {}", path, reason()));
    }
}

}  // namespace

void write_hostfile(const std::string& path, const std::vector<std::string>& addresses) {
    const std::string place = replaceable(path);
    if (place.empty()) {
        write_lines(path, addresses);
        return;
    }
    const std::string part = fmt::format("{}.{}", place, getpid());
    write_lines(part, addresses);
    if (std::rename(part.c_str(), place.c_str()) != 0) {
        const std::string why = reason();
        unlink(part.c_str());
        throw Failure(fmt::format("cannot write {}: {}", path, why));
    }
}

std::vector<std::string> read_hostfile(const std::string& path) {
    std::ifstream file(path);
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::vector<std::string> addresses = lines_of(text);
    if (addresses.empty()) {
        throw Failure(fmt::format(
            "no addresses in {}: start the server first, with the same -f, or use --launch", path));
    }
    return addresses;
}

Server::~Server() {
    if (pid_ > 0) {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
}

std::vector<std::string> Server::launch(const std::string& program,
                                        std::vector<std::string> arguments) {
    const std::string path = own_folder() + "/" + program;
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) {
        throw Failure("cannot make a pipe: " + reason());
    }
    arguments.insert(arguments.begin(), path);
    arguments.insert(arguments.end(), {"-f", "", "--announce-fd", std::to_string(fds[1])});
    std::vector<char*> argv;
    for (std::string& argument : arguments) {
        argv.push_back(argument.data());
    }
    argv.push_back(nullptr);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
        // It must not outlive a client that is killed.
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
        fcntl(fds[1], F_SETFD, 0);
        execv(path.c_str(), argv.data());
        fmt::print(stderr, "cannot start {}: {}\n", path, reason());
        _exit(127);
    }
    close(fds[1]);
    std::string text;
    char buffer[4096];
    for (ssize_t n = 0;
         (n = read(fds[0], buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR);) {
        text.append(buffer, n > 0 ? static_cast<std::size_t>(n) : 0);
    }
    close(fds[0]);
    std::vector<std::string> addresses = lines_of(text);
    if (addresses.empty()) {
        int status = 0;
        const pid_t pid = pid_;
        pid_ = -1;
        waitpid(pid, &status, 0);
        throw Failure(fmt::format("the server announced no address and {}", how_it_ended(status)));
    }
    return addresses;
}

void Server::await() {
    const std::uint64_t deadline = now_ns() + 30'000'000'000ULL;
    int status = 0;
    pid_t ended = 0;
    while ((ended = waitpid(pid_, &status, WNOHANG)) == 0) {
        if (now_ns() > deadline) {
            throw Failure("the server did not end within 30 s of being told to; it is killed");
        }
        usleep(1000);
    }
    pid_ = -1;
    if (ended > 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
        throw Failure("the server " + how_it_ended(status));
    }
}

struct Team::Shared {
    pthread_barrier_t barrier;
    Result results[1];  // as many as there are members
};

Team::Team(unsigned size) : size_(size), bytes_(sizeof(Shared) + size * sizeof(Result)) {
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        throw Failure("no memory for results: " + reason());
    }
    shared_ = ::new (memory) Shared{};
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared_->barrier, &attributes, size);
    pthread_barrierattr_destroy(&attributes);
}

Team::~Team() {
    munmap(shared_, bytes_);
}

Result& Team::result(unsigned member) noexcept {
    return shared_->results[member];
}

void Team::meet() {
    pthread_barrier_wait(&shared_->barrier);
}

int Team::run(const std::function<int(unsigned)>& member) {
    if (size_ == 1) {
        return member(0);
    }
    std::vector<pid_t> pids;
    const pid_t parent = getpid();
    for (unsigned i = 0; i < size_; ++i) {
        const pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            const int rc = getppid() == parent ? member(i) : 1;
            std::fflush(nullptr);
            _exit(rc);
        }
        pids.push_back(pid);
    }
    int rc = 0;
    for (std::size_t left = pids.size(); left > 0;) {
        // One by one: the server is a child as well, and whoever awaits it wants its status.
        bool any = false;
        for (pid_t& pid : pids) {
            int status = 0;
            if (pid < 0 || waitpid(pid, &status, WNOHANG) == 0) {
                continue;
            }
            pid = -1;
            --left;
            any = true;
            if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
                continue;
            }
            if (rc == 0) {
                fmt::print(stderr, "a client {}\n", how_it_ended(status));
            }
            rc = 1;
            for (const pid_t other : pids) {
                if (other > 0) {
                    kill(other, SIGKILL);  // they would wait for it for ever
                }
            }
        }
        if (!any) {
            usleep(20'000);
        }
    }
    return rc;
}

}  // namespace perf
