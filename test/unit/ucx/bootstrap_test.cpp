// SPDX-License-Identifier: BSD-3-Clause
// How contexts find each other, and what strangers do to that.
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "plugins/ucx/bootstrap.hpp"
#include "support/child.hpp"
#include "support/options.hpp"
#include "support/until.hpp"

using namespace na;
using namespace na::ucx;

namespace {

util::IpAddress loopback() {
    return *util::IpAddress::parse("127.0.0.1");
}

std::string at(std::uint16_t port) {
    sockaddr_storage storage{};
    const socklen_t size = loopback().fill(storage, port);
    return {reinterpret_cast<const char*>(&storage), size};
}

// A port that says what it is told to.
struct Impostor {
    BootstrapPort port;
    std::string says;
    util::UniqueFd who;

    explicit Impostor(std::string text) : says(std::move(text)) {
        auto made = listen_at(loopback(), 0);
        REQUIRE(made);
        port = std::move(*made);
    }
    // Answers, and hangs up or not.
    void answer(bool hang_up) {
        pollfd set{port.fd.get(), POLLIN, 0};
        REQUIRE(support::uninterrupted([&] { return poll(&set, 1, 10000); }) == 1);
        who.reset(accept(port.fd.get(), nullptr, nullptr));
        REQUIRE(who);
        REQUIRE(send(who.get(), says.data(), says.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(says.size()));
        if (hang_up) {
            who.reset();
        }
    }
};

Dial::State finish(Dial& dial) {
    CHECK(support::until([&] { return dial.go_on() != Dial::State::waiting; }, [] {}));
    return dial.state();
}

std::string frame(std::uint32_t size, const std::string& address, std::uint32_t far = 0,
                  std::uint64_t network = 0) {
    std::byte head[Frame::kSize];
    Frame{.far_size = far, .size = size, .process = 1, .machine = 2, .reach = network}.write(head);
    return std::string(reinterpret_cast<const char*>(head), sizeof head) + address;
}

struct Porter final : Door::Porter {
    Frame::Refusal refusal = Frame::Refusal::none;
    Frame::Refusal admit() noexcept override { return refusal; }
};

}  // namespace

TEST_CASE("a door tells its address to everybody", "[bootstrap]") {
    auto port = listen_at(loopback(), 0);
    REQUIRE(port);
    const std::uint16_t number = port->port;
    CHECK(number != 0);
    CHECK(listen_at(loopback(), number).status() == Status::addrinuse);
    const std::string address(500, 'x');
    Porter porter;
    Door door(std::move(*port), porter);
    door.tell({.all = address, .far = "far"});
    for (int i = 0; i < 3; ++i) {
        Dial dial(at(number));
        CHECK(support::until([&] { return dial.go_on() != Dial::State::waiting; },
                             [&] { door.ready(0); }));
        REQUIRE(dial.state() == Dial::State::done);
        CHECK(dial.frame().size == address.size());
        CHECK(dial.frame().far_size == 3);
        CHECK(dial.frame().reach == this_reach());
        CHECK(dial.frame().process == static_cast<std::uint32_t>(getpid()));
        CHECK(dial.frame().machine == this_machine());
        CHECK(std::memcmp(dial.address(), address.data(), address.size()) == 0);
    }
    CHECK(door.answered() == 3);
}

TEST_CASE("a port that the system keeps is refused with the remedy", "[bootstrap]") {
    constexpr std::uint16_t kPort = 80;
    enum Answer { remedy, none, anybody, root };
    const int is = support::in_child([] {
        if (geteuid() == 0 && setuid(65534) != 0) {
            return root;
        }
        const auto made = listen_at(loopback(), kPort);
        if (made || made.status() == Status::addrinuse) {
            return anybody;
        }
        const std::string& text = made.error().message;
        return text.find("127.0.0.1 port 80: ") != std::string::npos &&
                       text.find("net.ipv4.ip_unprivileged_port_start") != std::string::npos
                   ? remedy
                   : none;
    });
    if (is == anybody || is == root) {
        support::skip(is == root ? "root stays root here" : "anybody may have port 80 here");
        return;
    }
    CHECK(is == remedy);
}

TEST_CASE("a newcomer that is not admitted learns why", "[bootstrap]") {
    auto port = listen_at(loopback(), 0);
    REQUIRE(port);
    const std::uint16_t number = port->port;
    Porter porter;
    Door door(std::move(*port), porter);
    door.tell({.all = "here", .far = {}});
    const auto call = [&] {
        Dial dial(at(number));
        CHECK(support::until([&] { return dial.go_on() != Dial::State::waiting; },
                             [&] { door.ready(0); }));
        return dial.state();
    };
    porter.refusal = Frame::Refusal::full;
    CHECK(call() == Dial::State::full);
    CHECK(door.refused() == 1);
    porter.refusal = Frame::Refusal::none;
    CHECK(call() == Dial::State::done);
}

TEST_CASE("strangers at the door are no burden", "[bootstrap]") {
    auto port = listen_at(loopback(), 0);
    REQUIRE(port);
    const std::string to = at(port->port);
    Porter porter;
    Door door(std::move(*port), porter);
    door.tell({.all = "here", .far = {}});
    const auto* address = reinterpret_cast<const sockaddr*>(to.data());
    const auto size = static_cast<socklen_t>(to.size());
    const std::string garbage = "GET / HTTP/1.1\r\n\r\n" + std::string(100000, '\xff');
    for (int i = 0; i < 200; ++i) {
        util::UniqueFd who(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
        REQUIRE((connect(who.get(), address, size) == 0 || errno == EINPROGRESS));
        if (i % 3 == 0) {
            (void)!send(who.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        }
        if (i % 3 == 1) {
            continue;  // gone before it is looked at
        }
        door.ready(0);
    }
    Dial dial(to);
    CHECK(support::until([&] { return dial.go_on() != Dial::State::waiting; },
                         [&] { door.ready(0); }));
    CHECK(dial.state() == Dial::State::done);
}

TEST_CASE("nobody at the address", "[bootstrap]") {
    std::uint16_t number = 0;
    {
        auto port = listen_at(loopback(), 0);
        REQUIRE(port);
        number = port->port;
    }
    Dial dial(at(number));
    CHECK(finish(dial) == Dial::State::gone);
    CHECK(dial.error() != 0);
}

TEST_CASE("who answers otherwise is not one of us", "[bootstrap]") {
    const std::string good = frame(4, "addr");
    struct Case {
        std::string says;
        bool hang_up;
        Dial::State expected;
    };
    const Case cases[] = {
        {good, false, Dial::State::done},
        {good, true, Dial::State::done},
        {good + "and more", false, Dial::State::done},
        {"", true, Dial::State::gone},
        {"HTTP/1.1 400 Bad Request\r\n\r\n", false, Dial::State::wrong},
        {std::string(1000, '\0'), false, Dial::State::wrong},
        {good.substr(0, 10), true, Dial::State::wrong},
        {good.substr(0, good.size() - 1), true, Dial::State::wrong},
        {frame(0, ""), false, Dial::State::wrong},
        {frame(Frame::kMaxAddress + 1, "x"), false, Dial::State::wrong},
        {frame(UINT32_MAX, "x"), false, Dial::State::wrong},
        {frame(1, "x", UINT32_MAX), false, Dial::State::wrong},
        {frame(1, "x", Frame::kMaxAddress), false, Dial::State::wrong},
        {frame(Frame::kMaxAddress, std::string(Frame::kMaxAddress, 'x')), false, Dial::State::done},
    };
    for (const Case& c : cases) {
        Impostor impostor(c.says);
        Dial dial(at(impostor.port.port));
        impostor.answer(c.hang_up);
        CHECK(finish(dial) == c.expected);
    }
}

TEST_CASE("one who says little is waited for", "[bootstrap]") {
    Impostor impostor(frame(4, "addr").substr(0, 12));
    Dial dial(at(impostor.port.port));
    impostor.answer(false);
    for (int i = 0; i < 100; ++i) {
        CHECK(dial.go_on() == Dial::State::waiting);
    }
    const std::string rest = frame(4, "addr").substr(12);
    REQUIRE(send(impostor.who.get(), rest.data(), rest.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(rest.size()));
    CHECK(finish(dial) == Dial::State::done);
}

TEST_CASE("who cannot attach shared memory is out of reach", "[bootstrap]") {
    const std::uint64_t here = this_reach();
    REQUIRE(here != 0);
    CHECK(this_reach() == here);
    // In a child: 0: out of reach, 1: in reach, 77: the step is not allowed here.
    const auto status_after = [&](bool (*step)()) {
        const pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            _exit(!step() ? 77 : this_reach() == here ? 1 : 0);
        }
        int status = -1;
        REQUIRE(waitpid(child, &status, 0) == child);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    };
    CHECK(status_after([] { return true; }) == 1);
    for (const int status : {status_after([] { return setuid(geteuid() + 1) == 0; }),
                             status_after([] { return unshare(CLONE_NEWIPC) == 0; }),
                             status_after([] { return unshare(CLONE_NEWNET) == 0; }),
                             status_after([] { return unshare(CLONE_NEWUSER) == 0; })}) {
        CHECK((status == 0 || status == 77));
    }
}

TEST_CASE("the address that counts is the one for the network", "[bootstrap]") {
    const std::uint64_t here = this_reach();
    REQUIRE(here != 0);
    struct Case {
        std::uint32_t far;
        std::uint64_t network;
        Dial::State expected;
        std::string address;
    };
    const Case cases[] = {
        {3, here, Dial::State::done, "addr"},    {3, 0, Dial::State::done, "addr"},  // not known
        {3, here + 1, Dial::State::done, "far"}, {0, here, Dial::State::done, "addr"},
        {0, here + 1, Dial::State::apart, ""},
    };
    for (const Case& c : cases) {
        Impostor impostor(
            frame(4, (c.far != 0 ? "far" : "") + std::string("addr"), c.far, c.network));
        Dial dial(at(impostor.port.port));
        impostor.answer(false);
        REQUIRE(finish(dial) == c.expected);
        const auto* address = reinterpret_cast<const char*>(dial.address());
        CHECK(std::string(address, 8) == c.address + std::string(8 - c.address.size(), '\0'));
    }
}

TEST_CASE("an address may be as long as it may be", "[bootstrap]") {
    auto port = listen_at(loopback(), 0);
    REQUIRE(port);
    const std::uint16_t number = port->port;
    const std::string address(Frame::kMaxAddress / 2, 'x');
    Porter porter;
    Door door(std::move(*port), porter);
    door.tell({.all = address, .far = address});
    for (int i = 0; i < 100; ++i) {
        Dial dial(at(number));
        CHECK(support::until([&] { return dial.go_on() != Dial::State::waiting; },
                             [&] { door.ready(0); }));
        REQUIRE(dial.state() == Dial::State::done);
    }
    CHECK(door.answered() == 100);
}
