// SPDX-License-Identifier: BSD-3-Clause
// A process that has nothing open and makes children on demand: a process with an open class cannot
// fork the peers that it is to lose, because they would inherit its sockets.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <sys/types.h>

#include "support/two_process.hpp"

namespace crash {

class Nursery {
 public:
    // In the child: what start() was given, and what to call when it may be killed.
    using Body = std::function<void(std::uint64_t number, const std::string& text,
                                    const std::function<void()>& ready)>;

    // To be made before anything is opened.
    explicit Nursery(Body body);
    ~Nursery();
    Nursery(const Nursery&) = delete;
    Nursery& operator=(const Nursery&) = delete;

    pid_t pid() const noexcept { return party_.pid(); }

    // A child that has called ready(). `pump` makes progress meanwhile.
    template <typename Pump>
    pid_t start(std::uint64_t number, const std::string& text, Pump&& pump) {
        begin(number, text);
        return static_cast<pid_t>(std::stol(answer(pump)));
    }
    // The same without waiting: then answer().
    void begin(std::uint64_t number, const std::string& text);
    template <typename Pump>
    std::string answer(Pump&& pump) {
        PARTY_REQUIRE(support::until([this] { return party_.link().readable(); }, pump));
        return party_.link().take_text();
    }
    // SIGKILL, or another signal.
    static void kill(pid_t child, int signal = 9);
    // After kill(): the process is gone when this returns. Before the next start().
    template <typename Pump>
    void reap(Pump&& pump) {
        party_.link().put("reap");
        PARTY_REQUIRE(answer(pump) == "reaped");
    }

 private:
    support::Party party_;
};

}  // namespace crash
