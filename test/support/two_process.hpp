// SPDX-License-Identifier: BSD-3-Clause
// Two parties of a test: this process and another one, or (for transports inside one process) this
// thread and another.
//
// The other party runs a function with its end of a Link, over which both exchange small messages
// and meet at barriers. It reports failures by PARTY_REQUIRE (never by Catch2's macros, which
// belong to the process that runs the cases); join() answers them. Make a Party before anything is
// opened and before any thread runs: a forked child of a process with threads or open classes is no
// test of two processes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/types.h>

#include "support/until.hpp"

namespace support {

// One end of a pair of message pipes. One thread.
class Link {
 public:
    explicit Link(int fd) noexcept : fd_(fd) {}
    ~Link();
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;

    // A message of up to 64 KiB. Throws when the other party is gone.
    void put(std::span<const std::byte> bytes);
    void put(std::string_view text) { put(std::as_bytes(std::span(text))); }
    // The next message. Throws when the other party is gone or the deadline has passed.
    std::vector<std::byte> take();
    std::string take_text();
    // There is a message (or the other party is gone). For until(): progress goes on while waiting.
    bool readable() const;
    // Both parties come here; neither leaves before. `pump` makes progress meanwhile.
    template <typename... Pump>
    void barrier(Pump&&... pump) {
        put("barrier");
        if (!until([this] { return readable(); }, pump...)) {
            throw std::runtime_error("barrier: the other party did not come");
        }
        if (const std::string text = take_text(); text != "barrier") {
            throw std::runtime_error("barrier: got \"" + text + "\" instead");
        }
    }
    // Gives the descriptor up, so that the other end sees the end of the pipe.
    void close() noexcept;

 private:
    int fd_;
};

// The other party.
class Party {
 public:
    enum class As { process, thread };
    using Body = std::function<void(Link&)>;

    // Starts `body`. As::process forks: `body` runs in the child, which then exits.
    Party(As as, Body body);
    // Joins, or kills a process that has not been joined.
    ~Party();
    Party(const Party&) = delete;
    Party& operator=(const Party&) = delete;

    Link& link() noexcept { return link_; }
    bool is_process() const noexcept { return pid_ > 0; }
    pid_t pid() const noexcept { return pid_; }

    // Waits for the end of the party. Empty: it ended well. Else what failed, or how the process
    // ended.
    std::string join();
    // SIGKILL and the like; processes only. Waits until the process is gone for SIGKILL. SIGKILL
    // and SIGSTOP come when the process is at rest, where they have to (rest.hpp).
    void kill(int signal);

 private:
    struct Ends {
        int here;
        int there;
    };
    Party(As as, Body body, Ends ends);
    static Ends make_ends();

    Link link_;
    pid_t pid_ = -1;
    std::thread thread_;
    std::string failure_;  // thread: written before its end
    bool joined_ = false;
};

[[noreturn]] void party_failed(const char* file, int line, const std::string& what);

}  // namespace support

// For both parties: throws what failed and where.
#define PARTY_REQUIRE(condition)                                     \
    do {                                                             \
        if (!(condition)) {                                          \
            ::support::party_failed(__FILE__, __LINE__, #condition); \
        }                                                            \
    } while (0)
