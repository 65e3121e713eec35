// SPDX-License-Identifier: BSD-3-Clause
#include "support/rest.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include <sys/syscall.h>
#include <unistd.h>

#include "support/until.hpp"

namespace support {
namespace {

// Parties that are threads rest as well; nobody tells them to.
std::atomic<bool> told{false};
std::atomic<bool> resting{false};
static_assert(std::atomic<bool>::is_always_lock_free);

// SIGCONT ends it.
void rest() noexcept {
    told = false;
    raise(SIGSTOP);
}

void hear(int) {
    told = true;
    if (resting) {
        rest();
    }
}

// The third field of /proc/PID/stat; 'X' when the process is gone.
char state_of(pid_t process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string line;
    std::getline(file, line);
    const std::size_t name_end = line.rfind(')');
    return name_end == std::string::npos || name_end + 2 >= line.size() ? 'X' : line[name_end + 2];
}

bool at_rest(pid_t process) {
    const char state = state_of(process);
    return state == 'T' || state == 'Z' || state == 'X';
}

}  // namespace

void rest_when_told() {
    if (lacks(Promise::deaths_at_work) == nullptr) {
        return;
    }
    struct sigaction action {};
    action.sa_handler = hear;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, nullptr);
}

void rest_point() noexcept {
    if (told.load(std::memory_order_relaxed)) {
        rest();
    }
}

Resting::Resting() noexcept {
    resting = true;
    rest_point();  // told just before
}

Resting::~Resting() {
    resting = false;
}

bool bring_to_rest(pid_t process) {
    if (lacks(Promise::deaths_at_work) == nullptr) {
        return false;
    }
    if (at_rest(process)) {
        return true;
    }
    // To the thread that works, not to one of a library's.
    syscall(SYS_tgkill, process, process, SIGUSR1);
    // It may be a child's child, for which waitpid() does not wait.
    Deadline deadline(kDeadline);
    while (!at_rest(process)) {
        if (deadline.passed()) {
            throw std::runtime_error("process " + std::to_string(process) +
                                     " does not come to rest");
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

}  // namespace support
