// SPDX-License-Identifier: BSD-3-Clause
// The time that tests leave out of their deadlines.
#include "support/hindrance.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string>

#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "support/two_process.hpp"
#include "support/until.hpp"
#include "support/watchdog.hpp"

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using support::Deadline;
using support::Hindrance;
using support::Link;
using support::Party;

namespace {

void spin(std::chrono::milliseconds length) {
    const auto end = steady_clock::now() + length;
    while (steady_clock::now() < end) {
    }
}

// This process, and those that it forks, on one processor.
class OneProcessor {
 public:
    OneProcessor() {
        sched_getaffinity(0, sizeof before_, &before_);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        sched_setaffinity(0, sizeof one, &one);
    }
    ~OneProcessor() { sched_setaffinity(0, sizeof before_, &before_); }
    OneProcessor(const OneProcessor&) = delete;
    OneProcessor& operator=(const OneProcessor&) = delete;

 private:
    cpu_set_t before_{};
};

}  // namespace

TEST_CASE("time in which a process waits for a processor is left out", "[support]") {
    if (access("/proc/self/schedstat", R_OK) != 0) {
        support::skip("this kernel does not tell how long threads wait to run");
        return;
    }
    const OneProcessor one;
    Party other(Party::As::process, [](Link& link) {
        for (; !link.readable();) {
            spin(1ms);
        }
    });
    Hindrance hindrance;
    hindrance.start();
    const auto start = steady_clock::now();
    Deadline deadline(400ms);
    bool early = false;
    while (steady_clock::now() < start + 500ms) {  // longer than it would be by the clock
        early = early || deadline.passed();
    }
    // They take turns, so that each has waited for half of it.
    CHECK(hindrance.so_far() > 100ms);
    CHECK(hindrance.so_far() <= steady_clock::now() - start);
    CHECK_FALSE(early);
    // It passes nevertheless, in the end.
    while (!deadline.passed()) {
        spin(1ms);
    }
    CHECK(steady_clock::now() - start > 600ms);
    other.link().put("end");
    CHECK(other.join().empty());
}

TEST_CASE("those of other processes are left out, too", "[support]") {
    if (access("/proc/self/schedstat", R_OK) != 0) {
        support::skip("this kernel does not tell how long threads wait to run");
        return;
    }
    const OneProcessor one;
    const auto busy = [](Link& link) {
        for (; !link.readable();) {
            spin(1ms);
        }
    };
    Party first(Party::As::process, busy);
    Party second(Party::As::process, busy);
    Hindrance hindrance;
    hindrance.start();
    usleep(400'000);  // ours does not wait: it sleeps
    CHECK(hindrance.so_far() > 100ms);
    for (Party* p : {&first, &second}) {
        p->link().put("end");
        CHECK(p->join().empty());
    }
}

TEST_CASE("a watchdog that gives more time is not noticed, and bites in the end", "[support]") {
    if (access("/proc/self/schedstat", R_OK) != 0) {
        support::skip("this kernel does not tell how long threads wait to run");
        return;
    }
    const OneProcessor one;
    const auto start = steady_clock::now();
    Party hangs(Party::As::process, [](Link&) {
        (void)signal(SIGABRT, SIG_DFL);  // not Catch2's
        for (int i = 0; i < 3; ++i) {
            if (fork() == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                for (;;) {
                    spin(1s);
                }
            }
        }
        int never[2];
        PARTY_REQUIRE(pipe(never) == 0);
        (void)close(STDERR_FILENO);
        support::watchdog(2, "a test of it");
        char byte = 0;
        _exit(read(never[0], &byte, 1) == 0 ? 3 : 4);  // it does not return
    });
    const std::string how = hangs.join();
    CHECK(how.find("by signal") != std::string::npos);
    CHECK(how.find(strsignal(SIGABRT)) != std::string::npos);
    // They have waited for three quarters of the time.
    CHECK(steady_clock::now() - start >= 3s);
}
