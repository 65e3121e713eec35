// SPDX-License-Identifier: BSD-3-Clause
// The runner of every test executable: Catch2 with --protocol, --seed and --limit.
//
// Exit status: 0 all passed, 77 nothing ran (the protocol cannot be opened here, or every case was
// skipped), else the number of failures.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include <atomic>
#include <cstdio>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include "na.h"
#include "support/options.hpp"
#include "support/watchdog.hpp"

namespace support {
namespace {

constexpr int kSkipped = 77;

std::atomic<unsigned> skipped{0};
std::atomic<bool> skipped_now{false};
unsigned cases = 0;

// In a child: the process of the cases has opened nothing when it forks its parties.
bool can_open(const std::string& protocol) {
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        na_class_t* cls = NA_Initialize(protocol.c_str(), true);
        if (cls == nullptr) {
            std::fprintf(stderr, "SKIPPED: \"%s\" cannot be opened here: %s\n", protocol.c_str(),
                         NA_Get_last_error());
        }
        std::fflush(nullptr);
        _exit(cls == nullptr ? 1 : (NA_Finalize(cls) == NA_SUCCESS ? 0 : 2));
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) != 1;
}

class Cases final : public Catch::TestEventListenerBase {
 public:
    using TestEventListenerBase::TestEventListenerBase;
    void testCaseStarting(const Catch::TestCaseInfo& info) override {
        TestEventListenerBase::testCaseStarting(info);
        ++cases;
        skipped_now = false;
        watchdog(options().limit_s, "case \"" + info.name + "\" of " + options().protocol);
    }
    void testCaseEnded(const Catch::TestCaseStats& stats) override {
        watchdog(0, {});
        if (skipped_now) {
            ++skipped;
        }
        if (!stats.totals.delta(Catch::Totals{}).assertions.allOk()) {
            std::printf("case \"%s\": --protocol %s --seed %llu\n", stats.testInfo.name.c_str(),
                        options().protocol.c_str(),
                        static_cast<unsigned long long>(options().seed));
        }
    }
};
CATCH_REGISTER_LISTENER(Cases)

}  // namespace

void skip(const std::string& reason) {
    skipped_now = true;
    std::printf("skipped: %s: %s\n", Catch::getResultCapture().getCurrentTestName().c_str(),
                reason.c_str());
}

}  // namespace support

int main(int argc, char** argv) {
    Catch::Session session;
    support::Options& options = support::options();
    std::string protocol;
    session.cli(
        session.cli() |
        Catch::clara::Opt(protocol,
                          "info string")["--protocol"]("transport under test: [class+]protocol") |
        Catch::clara::Opt(options.seed, "number")["--seed"]("start of every random choice") |
        Catch::clara::Opt(options.limit_s, "seconds")["--limit"]("time that one case may take") |
        Catch::clara::Opt(options.rounds, "number")["--rounds"]("repetitions of crash tests"));
    if (const int error = session.applyCommandLine(argc, argv); error != 0) {
        return error;
    }
    if (!protocol.empty()) {
        options.protocol = protocol;
        if (!session.config().listTests() && !support::can_open(protocol)) {
            return support::kSkipped;
        }
    }
    const int failures = session.run();
    if (failures == 0 && support::cases != 0 && support::skipped == support::cases) {
        std::printf("every case was skipped\n");
        return support::kSkipped;
    }
    return failures;
}
