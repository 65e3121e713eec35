// SPDX-License-Identifier: BSD-3-Clause
// The runner of every test executable: Catch2 with --protocol, --seed and --limit.
//
// Exit status: 0 all passed, 77 nothing ran (the protocol cannot be opened here, or every case was
// skipped), else the number of failures (a skip where
// CINNABAR_TEST_REQUIRED forbids it counts as one).
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>

#include <linux/capability.h>
#include <sys/syscall.h>
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

// The address of a class, as text; empty: it has none.
std::string address_of(na_class_t* cls) {
    char text[1024] = {};
    std::size_t size = sizeof text;
    na_addr_t* self = nullptr;
    if (NA_Addr_self(cls, &self) == NA_SUCCESS) {
        if (NA_Addr_to_string(cls, text, &size, self) != NA_SUCCESS) {
            text[0] = 0;
        }
        NA_Addr_free(cls, self);
    }
    return text;
}

// In a child: the process of the cases has opened nothing when it forks its parties. Leaves an
// address of the transport in `example`.
bool can_open(const std::string& protocol, std::string& example) {
    int ends[2];
    if (pipe(ends) != 0) {
        return false;
    }
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        na_class_t* cls = NA_Initialize(protocol.c_str(), true);
        if (cls == nullptr) {
            std::fprintf(stderr, "SKIPPED: \"%s\" cannot be opened here: %s\n", protocol.c_str(),
                         NA_Get_last_error());
            _exit(1);
        }
        const std::string text = address_of(cls);
        const bool told = write(ends[1], text.data(), text.size()) >= 0;
        _exit(NA_Finalize(cls) == NA_SUCCESS && told ? 0 : 2);
    }
    close(ends[1]);
    char text[1024];
    for (ssize_t n = 0; (n = read(ends[0], text, sizeof text)) > 0;) {
        example.append(text, static_cast<std::size_t>(n));
    }
    close(ends[0]);
    int status = 0;
    // One that crashed is no reason to skip: the cases will show it.
    return child > 0 && waitpid(child, &status, 0) == child &&
           !(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

// Whether CINNABAR_TEST_REQUIRED, a list with blanks between, says that this machine has the
// transport.
bool required(std::string protocol) {
    if (protocol.starts_with("fault+")) {
        protocol = protocol.substr(6, protocol.find('?') - 6);
    }
    const char* list = std::getenv("CINNABAR_TEST_REQUIRED");
    return list != nullptr &&
           (' ' + std::string(list) + ' ').find(' ' + protocol + ' ') != std::string::npos;
}

// Catch2 3 tells of the case by a pointer, 2 by a copy.
template <typename Info>
const Catch::TestCaseInfo& info_of(const Info& info) {
    if constexpr (std::is_pointer_v<Info>) {
        return *info;
    } else {
        return info;
    }
}

// Whether cases are listed and not run.
template <typename Session>
bool lists(Session& session) {
    if constexpr (requires { session.config().listTests(); }) {
        return session.config().listTests();
    } else {
        return session.configData().listTests;
    }
}

using Listener = Catch::TestEventListenerBase;  // which has a name of its own in 3
class Cases final : public Listener {
 public:
    using Listener::Listener;
    void testCaseStarting(const Catch::TestCaseInfo& info) override {
        Listener::testCaseStarting(info);
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
            std::printf("case \"%s\": --protocol %s --seed %llu\n",
                        info_of(stats.testInfo).name.c_str(), options().protocol.c_str(),
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

// With CAP_SYS_PTRACE sm does not use cross-memory attach. The suites test what users get that are
// not root; test/privileged tests the other.
static void drop_tracing() {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
    if (syscall(SYS_capget, &header, sets) == 0) {
        for (__u32 __user_cap_data_struct::*set :
             {&__user_cap_data_struct::effective, &__user_cap_data_struct::permitted,
              &__user_cap_data_struct::inheritable}) {
            sets[CAP_TO_INDEX(CAP_SYS_PTRACE)].*set &= ~CAP_TO_MASK(CAP_SYS_PTRACE);
        }
        syscall(SYS_capset, &header, sets);
    }
}

int main(int argc, char** argv) {
    drop_tracing();
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
        if (!support::lists(session) && !support::can_open(protocol, options.example)) {
            if (support::required(protocol)) {
                std::fprintf(stderr, "FAILED: CINNABAR_TEST_REQUIRED says that %s must run here\n",
                             protocol.c_str());
                return 1;
            }
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
