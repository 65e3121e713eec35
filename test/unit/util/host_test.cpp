// SPDX-License-Identifier: BSD-3-Clause
// Who is taken to be reached by shared memory.
#include <catch2/catch.hpp>

#include <array>
#include <cstdlib>
#include <functional>
#include <string>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "na/util/host.hpp"
#include "support/options.hpp"

using na::util::find_host_id;

namespace {

constexpr std::size_t kLength = 11;

// Of a process that has moved; empty: it may not.
std::string elsewhere(const std::function<bool()>& move,
                      const std::function<std::string()>& find = find_host_id) {
    std::array<int, 2> ends{};
    REQUIRE(pipe(ends.data()) == 0);
    const pid_t mover = fork();
    REQUIRE(mover >= 0);
    if (mover == 0) {
        if (!move()) {
            _exit(1);
        }
        // A new pid namespace is that of the next process.
        const pid_t there = fork();
        if (there == 0) {
            const std::string id = find();
            _exit(write(ends[1], id.data(), id.size()) == static_cast<ssize_t>(id.size()) ? 0 : 1);
        }
        int status = 1;
        waitpid(there, &status, 0);
        _exit(status == 0 ? 0 : 1);
    }
    close(ends[1]);
    std::array<char, 2 * kLength> text{};
    const ssize_t n = read(ends[0], text.data(), text.size());
    close(ends[0]);
    int status = 0;
    REQUIRE(waitpid(mover, &status, 0) == mover);
    return n <= 0 ? std::string() : std::string(text.data(), static_cast<std::size_t>(n));
}

void differs(const char* what, const std::function<bool()>& move) {
    INFO(what);
    const std::string there = elsewhere(move);
    if (there.empty()) {
        support::skip(std::string("no ") + what + " for this user");
        return;
    }
    CHECK(there.size() == kLength);
    CHECK(there != find_host_id());
}

// The same for the number of the namespaces alone.
std::string number_elsewhere(const std::function<bool()>& move) {
    return elsewhere(move, [] { return std::to_string(na::util::find_namespaces()); });
}

}  // namespace

TEST_CASE("who is on this host, as far as shared memory is concerned", "[host]") {
    const std::string here = find_host_id();
    CHECK(here == na::util::host_id());
    CHECK(here.size() == kLength);
    CHECK(
        here.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") ==
        std::string::npos);
    CHECK(elsewhere([] { return true; }) == here);
    differs("other user", [] { return setuid(geteuid() + 1) == 0; });
    differs("pid namespace", [] { return unshare(CLONE_NEWPID) == 0; });
    differs("network namespace", [] { return unshare(CLONE_NEWNET) == 0; });
}

TEST_CASE("the namespaces that names of endpoints are unique in", "[host]") {
    const std::string here = std::to_string(na::util::find_namespaces());
    CHECK(here != "0");
    CHECK(number_elsewhere([] { return true; }) == here);
    for (const int space : {CLONE_NEWPID, CLONE_NEWNET}) {
        const std::string there = number_elsewhere([&] { return unshare(space) == 0; });
        if (there.empty()) {
            support::skip("no new namespaces for this user");
        } else {
            CHECK(there != here);
        }
    }
    const std::string user = number_elsewhere([] { return setuid(geteuid() + 1) == 0; });
    CHECK((user.empty() || user == here));
}

TEST_CASE("users who are let in are on this host", "[host]") {
    REQUIRE(setenv("NA_SM_ALLOW_UIDS", "any", 1) == 0);
    const std::string there = elsewhere([] { return setuid(geteuid() + 1) == 0; });
    if (there.empty()) {
        support::skip("no other user for this one");
    } else {
        CHECK(there == find_host_id());
    }
    unsetenv("NA_SM_ALLOW_UIDS");
}
