// SPDX-License-Identifier: BSD-3-Clause
#include "support/watchdog.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <unistd.h>

#include "support/hindrance.hpp"

namespace support {
namespace {

// Written between alarm(0) and alarm(n) only, read by the handler.
char text[256];
std::size_t text_size = 0;
Hindrance hindrance;
unsigned limit = 0;
unsigned given = 0;  // seconds for hindrance, so far

void expired(int) {
    const int before = errno;  // of whoever is interrupted
    const auto hindered = static_cast<unsigned>(
        std::chrono::duration_cast<std::chrono::seconds>(hindrance.so_far()).count());
    if (const unsigned more = std::min(hindered, limit); more > given) {
        alarm(more - std::exchange(given, more));
        errno = before;
        return;
    }
    static constexpr char kHead[] = "\nWATCHDOG: time is over in ";
    [[maybe_unused]] ssize_t n = write(STDERR_FILENO, kHead, sizeof kHead - 1);
    n = write(STDERR_FILENO, text, text_size);
    n = write(STDERR_FILENO, "\n", 1);
    std::abort();
}

}  // namespace

void watchdog(unsigned seconds, std::string_view what) {
    alarm(0);
    if (seconds == 0) {
        return;
    }
    text_size = std::min(what.size(), std::size_t{200});
    std::memcpy(text, what.data(), text_size);
    struct sigaction action {};
    action.sa_handler = expired;
    action.sa_flags = SA_RESTART;  // it may return
    sigaction(SIGALRM, &action, nullptr);
    limit = seconds;
    given = 0;
    hindrance.start();
    alarm(seconds);
}

}  // namespace support
