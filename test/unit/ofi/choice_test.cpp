// SPDX-License-Identifier: BSD-3-Clause
// Which of libfabric's providers a protocol is, and what happens where it has none.
//
// libfabric reads its environment once. So this process asks it for nothing: each case is a process
// of its own, with the providers that it says.
#include <linux/capability.h>
#include <rdma/fabric.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "heard.hpp"
#include "na/domain.hpp"
#include "na/util/fd.hpp"
#include "na/util/ip.hpp"
#include "support/options.hpp"
#include "support/two_process.hpp"

namespace {

// A child's, with this list of providers for libfabric; null: all that it has.
struct Answers {
    std::vector<std::string> texts;
    std::string failure;
};
Answers with_providers(const char* list, std::size_t count,
                       const std::function<void(support::Link&)>& ask) {
    support::Party party(support::Party::As::process, [&](support::Link& link) {
        if (list != nullptr) {
            PARTY_REQUIRE(setenv("FI_PROVIDER", list, 1) == 0);
        }
        ask(link);
    });
    Answers answers;
    for (std::size_t i = 0; i < count; ++i) {
        answers.texts.push_back(party.link().take_text());
    }
    answers.failure = party.join();
    return answers;
}

bool says(const std::string& text, const std::string& what) {
    return text.find(what) != std::string::npos;
}

// The protocols of class ofi that libfabric has a provider for.
void tell_protocols(support::Link& link) {
    na_protocol_info* rows = nullptr;
    PARTY_REQUIRE(NA_Get_protocol_info(nullptr, &rows) == NA_SUCCESS);
    std::string all = ",";
    for (const na_protocol_info* row = rows; row != nullptr; row = row->next) {
        const std::string name = std::string(row->protocol_name) + ",";
        if (std::string(row->class_name) == "ofi" && !says(all, "," + name)) {  // a row a device
            all += name;
        }
    }
    NA_Free_protocol_info(rows);
    link.put(all);
}

// Code, cause, cause of the C interface, and what it logs.
void tell_refusal(support::Link& link, const std::string& info,
                  na_addr_format format = NA_ADDR_UNSPEC) {
    const Heard heard("error");
    na::InitInfo wanted;
    wanted.address_format = static_cast<na::AddressFormat>(format);
    const auto domain = na::Domain::listen(info, wanted);
    PARTY_REQUIRE(!domain);
    link.put(std::to_string(static_cast<int>(domain.status())));
    link.put(domain.error().message);
    Heard::clear();
    na_init_info init = NA_INIT_INFO_INITIALIZER;
    init.addr_format = format;
    PARTY_REQUIRE(NA_Initialize_opt2(info.c_str(), true, NA_VERSION(5, 0), &init) == nullptr);
    link.put(NA_Get_last_error());
    link.put(heard.text());
}

// Without what lets root have any port.
void become_ordinary() {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
    PARTY_REQUIRE(syscall(SYS_capget, &header, data) == 0);
    data[0].effective &= ~(1U << CAP_NET_BIND_SERVICE);
    PARTY_REQUIRE(syscall(SYS_capset, &header, data) == 0);
}

bool may_have_port(std::uint16_t port) {
    sockaddr_storage name;
    const socklen_t size = na::util::IpAddress::parse("127.0.0.1")->fill(name, port);
    const na::util::UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), size) == 0 || errno != EACCES;
}

// A /dev/shm of this process alone, of one MiB. False: nobody may do that here.
bool shrink_shared_memory() {
    return (unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
           mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           mount("none", "/dev/shm", "tmpfs", 0, "size=1m") == 0;
}

// The providers that stand for a protocol, as libfabric calls them.
struct Row {
    const char* protocol;
    const char* provider;
};
constexpr Row kAll[] = {
    {"tcp", "tcp;ofi_rxm"},
    {"tcp;ofi_rxm", "tcp;ofi_rxm"},
    {"sockets", "sockets"},
    {"shm", "shm"},
    {"verbs", "verbs;ofi_rxm"},
    {"opx", "opx"},
    {"cxi", "cxi"},
    {"gni", "gni"},
    {"psm2", "psm2"},
};

void check_refusal(const Row& row, const Answers& is, const std::string& there,
                   const std::string& place = {}) {
    const std::string info = std::string("ofi+") + row.protocol;
    INFO(info);
    REQUIRE(is.failure.empty());
    REQUIRE(is.texts.size() == 4);
    CHECK(is.texts[0] == std::to_string(static_cast<int>(na::Status::protonosupport)));
    for (std::size_t i = 1; i < is.texts.size(); ++i) {
        const std::string& text = is.texts[i];
        INFO(text);
        CHECK(says(text, info + ": libfabric "));
        const std::size_t tried = text.find("(tried ");
        const std::size_t available = text.find("; available: ");
        REQUIRE(tried != std::string::npos);
        REQUIRE(available != std::string::npos);
        CHECK(says(text.substr(tried, available - tried), row.provider));
        const std::string instead = text.substr(available);
        for (const Row& other : kAll) {
            INFO(other.protocol);
            // A name may begin another one.
            const std::string name = std::string("ofi+") + other.protocol;
            bool named = false;
            for (std::size_t at = 0; (at = instead.find(name, at)) != std::string::npos; ++at) {
                const std::size_t end = at + name.size();
                named = named || end == instead.size() ||
                        std::string(", \n").find(instead[end]) != std::string::npos;
            }
            CHECK(named == says(there, std::string(",") + other.protocol + ","));
        }
    }
    CHECK(says(is.texts[3], "[error]"));
    CHECK(says(is.texts[3], "cannot open \"" + info + place + "\""));
}

bool class_is_here() {
    const Answers is = with_providers(nullptr, 1, tell_protocols);
    REQUIRE(is.failure.empty());
    if (is.texts[0] == ",") {
        support::skip("libfabric has no provider here");
        return false;
    }
    return true;
}

// Where tcp has reliable datagrams of its own.
std::string provider_of_tcp() {
    const std::uint32_t v = fi_version();
    return FI_MAJOR(v) > 1 || FI_MINOR(v) >= 18 ? "tcp" : "tcp;ofi_rxm";
}

std::string output_of(const std::string& command) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
    REQUIRE(pipe != nullptr);
    std::string all;
    std::array<char, 4096> some{};
    for (std::size_t n = 0; (n = std::fread(some.data(), 1, some.size(), pipe.get())) != 0;) {
        all.append(some.data(), n);
    }
    return all;
}

}  // namespace

TEST_CASE("a provider that is not installed is refused, with what there is", "[ofi][choice]") {
    if (!class_is_here()) {
        return;
    }
    const Answers here = with_providers(nullptr, 1, tell_protocols);
    REQUIRE(here.failure.empty());
    bool any = false;
    for (const Row& row : kAll) {
        if (says(here.texts[0], std::string(",") + row.protocol + ",")) {
            continue;
        }
        any = true;
        // Whose devices are not here has usually no provider either, which is what to say.
        for (const std::string place : {"", "://mlx5_0/ib0:0", "://no-such-device"}) {
            check_refusal(row,
                          with_providers(nullptr, 4,
                                         [&](support::Link& link) {
                                             tell_refusal(
                                                 link, std::string("ofi+") + row.protocol + place);
                                         }),
                          here.texts[0], place);
        }
    }
    if (!any) {
        support::skip("this machine has every provider");
    }
}

// As where the packages of the others are not there.
TEST_CASE("a provider that libfabric leaves out is refused, with those that are left",
          "[ofi][choice]") {
    if (!class_is_here()) {
        return;
    }
    constexpr const char* kLeft = "sockets";
    const Answers here = with_providers(kLeft, 1, tell_protocols);
    REQUIRE(here.failure.empty());
    if (here.texts[0] != ",sockets,") {
        support::skip("libfabric has not sockets alone here, but " + here.texts[0]);
        return;
    }
    for (const Row& row : kAll) {
        if (std::string(row.protocol) != kLeft) {
            check_refusal(row,
                          with_providers(kLeft, 4,
                                         [&](support::Link& link) {
                                             tell_refusal(link, std::string("ofi+") + row.protocol);
                                         }),
                          here.texts[0]);
        }
    }
}

TEST_CASE("a provider without IP addresses is refused where addr_format asks for them",
          "[ofi][choice]") {
    if (!class_is_here()) {
        return;
    }
    const Answers here = with_providers(nullptr, 1, tell_protocols);
    REQUIRE(here.failure.empty());
    if (!says(here.texts[0], ",shm,")) {
        support::skip("libfabric has no shm here");
        return;
    }
    for (const bool v6 : {false, true}) {
        const Answers is = with_providers(nullptr, 4, [v6](support::Link& link) {
            for (const na_addr_format any : {NA_ADDR_UNSPEC, NA_ADDR_NATIVE}) {
                na::InitInfo wanted;
                wanted.address_format = static_cast<na::AddressFormat>(any);
                PARTY_REQUIRE(bool(na::Domain::listen("ofi+shm", wanted)));
            }
            tell_refusal(link, "ofi+shm", v6 ? NA_ADDR_IPV6 : NA_ADDR_IPV4);
        });
        REQUIRE(is.failure.empty());
        CHECK(is.texts[0] == std::to_string(static_cast<int>(na::Status::opnotsupported)));
        for (std::size_t i = 1; i < is.texts.size(); ++i) {
            CHECK(says(is.texts[i], v6 ? "asks for IPv6" : "asks for IPv4"));
            CHECK(says(is.texts[i], "addr_format"));
            CHECK(says(is.texts[i], "ofi+tcp"));
        }
    }
}

TEST_CASE("a port that the system keeps is refused with the place, the cause and the remedy",
          "[ofi][choice]") {
    if (!class_is_here()) {
        return;
    }
    const Answers here = with_providers(nullptr, 1, tell_protocols);
    REQUIRE(here.failure.empty());
    for (const std::string protocol : {"tcp", "tcp;ofi_rxm", "sockets"}) {
        if (!says(here.texts[0], "," + protocol + ",")) {
            support::skip("libfabric has no " + protocol + " here");
            continue;
        }
        for (const std::string ports : {"80", "70-90"}) {
            const std::string info = "ofi+" + protocol + "://127.0.0.1:" + ports;
            INFO(info);
            const Answers is = with_providers(nullptr, 4, [&](support::Link& link) {
                become_ordinary();
                if (may_have_port(80) || may_have_port(70)) {
                    for (int i = 0; i < 4; ++i) {
                        link.put("skip");
                    }
                    return;
                }
                tell_refusal(link, info);
            });
            REQUIRE(is.failure.empty());
            if (is.texts[0] == "skip") {
                support::skip("anybody may listen at port 70 or 80 here");
                return;
            }
            CHECK(is.texts[0] == std::to_string(static_cast<int>(na::Status::permission)));
            for (std::size_t i = 1; i < is.texts.size(); ++i) {
                INFO(is.texts[i]);
                CHECK(says(is.texts[i], ports == "80" ? "127.0.0.1:80: " : "127.0.0.1:70: "));
                CHECK(says(is.texts[i], "ports below "));
                CHECK(says(is.texts[i], "net.ipv4.ip_unprivileged_port_start"));
            }
        }
    }
}

TEST_CASE("a /dev/shm that is too small is named, with the remedy", "[ofi][choice]") {
    if (!class_is_here()) {
        return;
    }
    const Answers here = with_providers(nullptr, 1, tell_protocols);
    REQUIRE(here.failure.empty());
    const std::uint32_t v = fi_version();
    if (!says(here.texts[0], ",shm,") || FI_MAJOR(v) != 1) {
        support::skip("libfabric has no shm here, or one of which it is not known what it takes");
        return;
    }
    const Answers is = with_providers(nullptr, 4, [](support::Link& link) {
        if (shrink_shared_memory()) {
            tell_refusal(link, "ofi+shm");
            return;
        }
        for (int i = 0; i < 4; ++i) {
            link.put("skip");
        }
    });
    REQUIRE(is.failure.empty());
    if (is.texts[0] == "skip") {
        support::skip("nobody may mount here");
        return;
    }
    CHECK(is.texts[0] == std::to_string(static_cast<int>(na::Status::nomem)));
    for (std::size_t i = 1; i < is.texts.size(); ++i) {
        INFO(is.texts[i]);
        CHECK(says(is.texts[i], "ofi+shm: /dev/shm has "));
        CHECK(says(is.texts[i], " MiB free of 1, "));
        CHECK(says(is.texts[i], "remount,size="));
        CHECK_FALSE(says(is.texts[i], "has no provider"));
    }
}

TEST_CASE("the log says which provider tcp is", "[ofi][choice]") {
    const Answers is = with_providers(nullptr, 2, [](support::Link& link) {
        const Heard heard("info");
        const auto domain = na::Domain::listen("ofi+tcp://127.0.0.1:0");
        link.put(domain ? domain->uri() : "skip: " + domain.error().message);
        link.put(heard.text() + "the end");
    });
    REQUIRE(is.failure.empty());
    if (is.texts[0].starts_with("skip")) {
        support::skip(is.texts[0]);
        return;
    }
    const std::string& uri = is.texts[0];
    const std::string& log = is.texts[1];
    INFO(log);
    CHECK(says(log, "->cls [info]"));
    CHECK(says(log, "ofi+tcp is provider " + provider_of_tcp() + " on "));
    // Without the class, which the outlet's reader knows.
    CHECK(says(log, ", at " + uri.substr(uri.find('+') + 1)));
}

TEST_CASE("hg_info says which provider tcp is", "[ofi][choice]") {
    const char* program = std::getenv("CINNABAR_TEST_HG_INFO");
    if (program == nullptr) {
        support::skip("hg_info was not built");
        return;
    }
    const std::string quoted = "'" + std::string(program) + "'";
    if (!says(output_of(quoted + " -s -c ofi 2>&1"), "ofi,tcp,")) {
        support::skip("libfabric has no provider for tcp here");
        return;
    }
    const std::uint32_t v = fi_version();
    const std::string library =
        "libfabric " + std::to_string(FI_MAJOR(v)) + "." + std::to_string(FI_MINOR(v));
    for (const char* format : {" -v ofi", " -s -j -v ofi", " -v"}) {
        const std::string told = output_of(quoted + format);
        INFO(told);
        CHECK(says(told, library + ", tcp is provider " + provider_of_tcp()));
    }
    // Without tcp there is none to name.
    const std::string without = output_of("FI_PROVIDER=sockets " + quoted + " -s -j -v ofi");
    INFO(without);
    CHECK(says(without, library));
    CHECK_FALSE(says(without, "tcp is provider"));
}
