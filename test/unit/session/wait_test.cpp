// SPDX-License-Identifier: BSD-3-Clause
// Sleep, descriptors of links, and the probe of a port.
#include <cerrno>
#include <chrono>

#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include "na/util/fd.hpp"
#include "na/util/spell.hpp"
#include "unit/session/net.hpp"

using namespace session_test;

namespace {

bool readable(int fd, int ms) {
    pollfd p{.fd = fd, .events = POLLIN, .revents = 0};
    return ::poll(&p, 1, ms) == 1;
}

struct Pipe {
    Pipe() {
        int ends[2];
        REQUIRE(::pipe(ends) == 0);
        out.reset(ends[0]);
        in.reset(ends[1]);
    }
    void write() { REQUIRE(::write(in.get(), "x", 1) == 1); }
    void read() {
        char c = 0;
        REQUIRE(::read(out.get(), &c, 1) == 1);
    }
    na::util::UniqueFd out, in;
};

struct Watch final : na::session::Watcher {
    explicit Watch(Pipe& p) : pipe(p) {}
    void ready(std::uint32_t events) override {
        CHECK((events & EPOLLIN) != 0);
        ++calls;
        pipe.read();
    }
    Pipe& pipe;
    int calls = 0;
};

// A port of this machine where somebody listens, until it is closed; or nobody, and nobody else
// gets it.
struct Port {
    explicit Port(bool listens = true) : fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof at;
        REQUIRE(bind(fd.get(), reinterpret_cast<sockaddr*>(&at), size) == 0);
        REQUIRE((!listens || listen(fd.get(), 4) == 0));
        REQUIRE(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
        number = ntohs(at.sin_port);
    }
    // None: nobody is waiting there.
    na::util::UniqueFd accept() {
        pollfd p{.fd = fd.get(), .events = POLLIN, .revents = 0};
        return na::util::UniqueFd(
            ::poll(&p, 1, 0) == 1 ? accept4(fd.get(), nullptr, nullptr, SOCK_CLOEXEC) : -1);
    }
    // Who is there takes connections, so that there is room for further ones.
    void take() {
        while (accept()) {
        }
    }
    // Connections are not taken any more, and not refused.
    void fill() {
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_port = htons(number);
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        for (;;) {
            na::util::UniqueFd s(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
            (void)connect(s.get(), reinterpret_cast<sockaddr*>(&at), sizeof at);
            pollfd p{.fd = s.get(), .events = POLLOUT, .revents = 0};
            const bool taken = ::poll(&p, 1, 20) == 1;
            waiting.push_back(std::move(s));
            if (!taken) {
                return;
            }
        }
    }
    na::util::UniqueFd fd;
    std::uint16_t number = 0;
    std::vector<na::util::UniqueFd> waiting;
};

}  // namespace

TEST_CASE("nothing to do: no descriptor fires") {
    Net net;
    Node n(net, 1000);
    n.progress();
    REQUIRE(n->arm());
    CHECK_FALSE(readable(n->wait_fd(), 50));
    // A message in the library is for poll() first.
    n->inbox.emplace_back(Bytes{});
    CHECK_FALSE(n->arm());
}

TEST_CASE("while an answer is awaited the sleep is short") {
    Net net;
    Node a(net, 1000), b(net, 2000);
    a->loses = [](const Header&) { return true; };
    TestOp op;
    CHECK(a.post(op, b, "x").what == Posted::What::again);
    const unsigned hello = a->sent[static_cast<std::size_t>(Kind::hello)];
    CHECK(hello == 1);
    // By sleeping alone, as the core does it.
    REQUIRE(support::until([&] { return a->sent[static_cast<std::size_t>(Kind::hello)] >= 3; },
                           [&] {
                               if (a->arm()) {
                                   CHECK(readable(a->wait_fd(), 10'000));
                               }
                               a.progress();
                           }));
}

TEST_CASE("who does not want any more sleeps well") {
    Net net;
    Node a(net, 1000), b(net, 2000);
    b.room = false;
    TestOp op;
    for (std::size_t i = 0; i < a.local.window; ++i) {
        REQUIRE(a.send(op, b, "x"));
    }
    // No credit; then it is canceled, which concerns the core alone.
    CHECK(a.post(op, b, "x").what == Posted::What::again);
    REQUIRE(settle(
        [&] {
            while (!a->arm()) {
                a.progress();
            }
            return !readable(a->wait_fd(), 500);
        },
        a));
}

TEST_CASE("never sleeping: there is nothing to wait on") {
    Net net;
    na::InitInfo info;
    info.no_block = true;
    Node n(net, 1000, 0, info);
    CHECK(n->wait_fd() == -1);
    CHECK(n->side_fd() == -1);
    CHECK_FALSE(n->arm());
    Pipe pipe;
    Watch watch(pipe);
    REQUIRE(n->watch_fd(pipe.out.get(), EPOLLIN, watch));
    pipe.write();
    CHECK(settle([&] { return watch.calls == 1; }, n));
    n->unwatch_fd(pipe.out.get());
}

TEST_CASE("descriptors of links end the sleep, and are looked at") {
    Net net;
    Node n(net, 1000);
    Pipe one, two;
    Watch first(one), second(two);
    REQUIRE(n->watch_fd(one.out.get(), EPOLLIN, first));
    REQUIRE(n->watch_fd(two.out.get(), EPOLLIN, second));
    n.progress();
    REQUIRE(n->arm());
    CHECK_FALSE(readable(n->wait_fd(), 20));
    two.write();
    CHECK(readable(n->wait_fd(), 10'000));
    n.progress();  // at once: it is what woke us
    CHECK(first.calls == 0);
    CHECK(second.calls == 1);
    REQUIRE(n->arm());
    CHECK_FALSE(readable(n->wait_fd(), 20));
    // Without a sleep, too.
    n.progress();
    one.write();
    CHECK(settle([&] { return first.calls == 1; }, n));
    n->unwatch_fd(one.out.get());
    one.write();
    REQUIRE(n->arm());
    CHECK_FALSE(readable(n->wait_fd(), 20));
    n->unwatch_fd(two.out.get());
}

TEST_CASE("the library's descriptor is the one to wait on, ours beside it") {
    Net net;
    Pipe library;
    Node n(net, 1000, 0, {}, {.library_fd = library.out.get()});
    CHECK(n->wait_fd() == library.out.get());
    CHECK(n->side_fd() >= 0);
    CHECK(n->side_fd() != n->wait_fd());
}

TEST_CASE("a port that refuses connections ends the wait for its owner") {
    Net net;
    Node n(net, 1000, 0, {}, {.port_is_tcp = true});
    n->refuses = true;  // the library tries to connect, and says nothing
    Port port;
    const std::string identity = address_of(port.number, "127.0.0.1").identity();
    TestOp op;
    op.op.peer = &n.peer(identity);
    op.buffer.resize(Header::kSize);
    op.op.buffer = op.buffer.data();
    op.op.length = op.buffer.size();
    CHECK(n->send(op.op).what == Posted::What::again);
    // Somebody is there: that may last.
    REQUIRE(settle([&] { return n->stat("session_probes") >= 1; }, n));
    CHECK_FALSE(support::until_for(
        std::chrono::milliseconds(200), [&] { return !n.lost.empty(); }, [&] { n.progress(); },
        [&] { port.take(); }));
    port.fd.reset();
    REQUIRE(settle([&] { return !n.lost.empty(); }, n));
    CHECK(n->stat("session_probes") >= 2);
}

TEST_CASE("what a peer said last comes before the news that nobody is at its port") {
    Net net;
    const Port port(false);
    Node a(net, 1000, 0, {}, {.port_is_tcp = true});
    Node b(net, port.number, 0, {}, {}, "127.0.0.1");
    REQUIRE(meet(a, b));
    TestOp waits;
    a.await(waits, b);
    a->loses = [](const Header&) { return true; };
    const na::session::Link& link = *a->links().begin()->second;
    REQUIRE(settle([&] { return !a.lost.empty() || link.vacant.on(); }, a));
    CHECK(a.lost.empty());
    REQUIRE(meet(b, a));  // what it said last
    CHECK(a.lost.empty());
    REQUIRE(settle([&] { return !a.lost.empty(); }, a));
}

TEST_CASE("who is busy for long finds one connection of each who waits", "[patient]") {
    Net net;
    Port port;
    Node a(net, 1000, 0, {}, {.port_is_tcp = true});
    Node b(net, port.number, 0, {}, {}, "127.0.0.1");
    REQUIRE(meet(a, b));
    TestOp waits;
    a.await(waits, b);
    const bool dies = GENERATE(false, true);
    CAPTURE(dies);
    a->loses = [](const Header&) { return true; };
    REQUIRE(settle([&] { return a->stat("session_checks") >= 12; }, a));  // each 300 ms
    CHECK(a.lost.empty());
    CHECK(a->stat("session_probes") == 1);
    if (dies) {
        port.fd.reset();
        REQUIRE(settle([&] { return !a.lost.empty(); }, a));
        CHECK(a->stat("session_probes") >= 2);
        return;
    }
    const na::util::UniqueFd one = port.accept();
    CHECK(one);
    CHECK_FALSE(port.accept());
    CHECK_FALSE(readable(one.get(), 0));
    a->loses = nullptr;
    REQUIRE(settle([&] { return readable(one.get(), 0); }, a, b));  // its end: it has been heard
    CHECK(a.lost.empty());
    // The next silence is a new one.
    a->loses = [](const Header&) { return true; };
    port.fd.reset();
    const std::uint64_t checks = a->stat("session_checks");
    REQUIRE(settle([&] { return !a.lost.empty(); }, a));
    CHECK(a->stat("session_checks") < checks + 10);
}

// As libfabric's rxm does, which forgets at its end who has said nothing.
TEST_CASE("a peer that has taken a probe up and closes its port is not waited for", "[patient]") {
    Net net;
    Port port;
    Node a(net, 1000, 0, {}, {.port_is_tcp = true});
    Node b(net, port.number, 0, {}, {}, "127.0.0.1");
    REQUIRE(meet(a, b));
    TestOp waits;
    a.await(waits, b);
    a->loses = [](const Header&) { return true; };
    na::util::UniqueFd taken;
    REQUIRE(settle([&] { return static_cast<bool>(taken = port.accept()); }, a));
    port.fd.reset();
    REQUIRE(settle([&] { return !a.lost.empty(); }, a));
}

TEST_CASE("a peer that dies as soon as it was found to be there is missed at once") {
    Net net;
    Node n(net, 1000, 0, {}, {.port_is_tcp = true});
    n->refuses = true;
    Port port;
    const std::string identity = address_of(port.number, "127.0.0.1").identity();
    TestOp op;
    op.op.peer = &n.peer(identity);
    op.buffer.resize(Header::kSize);
    op.op.buffer = op.buffer.data();
    op.op.length = op.buffer.size();
    CHECK(n->send(op.op).what == Posted::What::again);
    const auto link = [&]() -> const na::session::Link& { return *n->links().begin()->second; };
    // It took the connection that asks for it, and died before that was seen, or after.
    const bool seen = GENERATE(false, true);
    CAPTURE(seen);
    REQUIRE(settle([&] { return seen ? link().probe_holds : static_cast<bool>(link().probe); }, n));
    CHECK(link().probe_holds == seen);
    port.fd.reset();
    bool hurried = false;
    REQUIRE(settle(
        [&] {
            hurried = hurried || (!n->links().empty() && link().hurried);
            return !n.lost.empty();
        },
        n));
    CHECK(hurried);
    CHECK(n->stat("session_probes") == 2);
}

TEST_CASE("a process that did not run has not waited") {
    na::util::Spell spell(std::int64_t{25});
    CHECK_FALSE(spell.lasts(1000, 100));  // the first look begins it
    for (std::int64_t now = 2000; now < 5000; now += 1000) {
        CHECK_FALSE(spell.lasts(now, 100));
    }
    CHECK(spell.lasts(5000, 100));
    spell.end();
    CHECK_FALSE(spell.on());
    CHECK_FALSE(spell.lasts(6000, 100));
    spell.begin(6000);
    for (std::int64_t now = 6010; now < 6100; now += 10) {
        CHECK_FALSE(spell.lasts(now, 100));
    }
    CHECK(spell.lasts(6100, 100));
}

// What a connection to a broadcast address ends with: ENETUNREACH.
constexpr const char* kNoWay = "127.255.255.255";

TEST_CASE("a network that is disturbed does not end a session", "[patient]") {
    Net net;
    Node a(net, 1000, 0, {}, {.port_is_tcp = true});
    Node b(net, 2000, 0, {}, {}, kNoWay);
    REQUIRE(meet(a, b));
    TestOp waits;
    a.await(waits, b);
    a->loses = [](const Header&) { return true; };
    REQUIRE(settle([&] { return a->stat("session_probes") >= 3; }, a));
    CHECK(a.lost.empty());
    // It is over, and the session as it was.
    a->loses = nullptr;
    REQUIRE(meet(a, b));
    const std::uint64_t heard = a->stat("session_received");
    TestOp op;
    REQUIRE(b.send(op, a, "z"));
    REQUIRE(settle([&] { return a->stat("session_received") > heard; }, a, b));
    CHECK(a->stat("session_begun") == 1);
    // It is not over.
    a->loses = [](const Header&) { return true; };
    const auto since = std::chrono::steady_clock::now();
    REQUIRE(settle([&] { return !a.lost.empty(); }, a));
    CHECK(std::chrono::steady_clock::now() - since >= std::chrono::seconds(10));
}

TEST_CASE("who talks first to a peer that there is no way to hears it at once") {
    Net net;
    Node n(net, 1000, 0, {}, {.port_is_tcp = true});
    n->refuses = true;
    const std::string identity = address_of(2000, kNoWay).identity();
    TestOp op;
    op.op.peer = &n.peer(identity);
    op.buffer.resize(Header::kSize);
    op.op.buffer = op.buffer.data();
    op.op.length = op.buffer.size();
    CHECK(n->send(op.op).what == Posted::What::again);
    REQUIRE(settle([&] { return !n.lost.empty(); }, n));
    CHECK(n->stat("session_probes") == 1);
}

TEST_CASE("a probe without an answer counts for nothing once the peer has been heard",
          "[patient]") {
    Net net;
    Port port;
    port.fill();
    Node a(net, 1000, 0, {}, {.port_is_tcp = true});
    Node b(net, port.number, 0, {}, {}, "127.0.0.1");
    TestOp op;
    REQUIRE(a.send(op, b, "x"));
    TestOp waits;
    a.await(waits, b);
    a->loses = [](const Header&) { return true; };
    REQUIRE(settle([&] { return a->stat("session_probes") == 1; }, a, b));
    a->loses = nullptr;
    REQUIRE(a.send(op, b, "y"));
    const std::uint64_t heard = a->stat("session_received");
    REQUIRE(b.send(op, a, "z"));
    REQUIRE(settle([&] { return a->stat("session_received") > heard; }, a, b));
    // The next silence has a probe of its own, with all the time that one has.
    a->loses = [](const Header&) { return true; };
    REQUIRE(settle([&] { return a->stat("session_probes") == 2; }, a));
    CHECK(a.lost.empty());
}
