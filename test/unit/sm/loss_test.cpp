// SPDX-License-Identifier: BSD-3-Clause
// The end of one connection of several with the same peer, and of a peer whose name another takes.
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "support/two_process.hpp"
#include "unit/sm/exchange.hpp"
#include "unit/sm/fake_peer.hpp"

using namespace sm_test;
using namespace na::sm;

namespace {

void break_ring(FakePeer& peer) {
    peer.write(Head{static_cast<Kind>(200), 0, 0, 0});
}

// A peer that calls with a name of its choice, from a process of its own.
support::Party::Body named_caller(const std::string& name, std::uint32_t tag) {
    return [=](support::Link& link) {
        const std::string server = link.take_text();
        auto listener = bind_socket(socket_name(name, 0), 8);
        PARTY_REQUIRE(listener);
        FakePeer peer(name);
        peer.connect(server);
        peer.greet();
        peer.write(Head{Kind::inline_message, 0, 0, tag});
        peer.knock();
        link.put("called");
        PARTY_REQUIRE(link.take_text() == "let go");
        listener->reset();  // as if it had died, but for its connection, which a child still holds
        link.put("gone");
        link.take_text();
    };
}

// A name at which a process listens that takes nothing up, and a node that knows it.
struct Unheard {
    explicit Unheard(const char* what)
        : name(what + std::to_string(getpid())),
          uri("sm://" + name),
          listener(bind_socket(socket_name(name, 0), 8)) {
        REQUIRE(listener);
    }
    bool say(Lane lane, std::uint32_t tag, const std::string& text) {
        return a.try_send(op, uri, lane, tag, text.data(), text.size()).what == Posted::What::done;
    }

    const std::string name;
    const std::string uri;
    na::Result<UniqueFd> listener;
    Node a;
    TestOp op;
};

}  // namespace

TEST_CASE("loss: a context of a peer goes, the others stay") {
    Node b(spec(400000, 2));
    b.open(1);
    Node a(spec(400000, 2));
    const auto data = support::payload(400000, 3);
    TestOp ops[4];
    a.send(ops[0], b, Lane::unexpected, 1, "x", 1, 0);
    a.send(ops[1], b, Lane::unexpected, 2, "x", 1, 1);
    REQUIRE(
        settle([&] { return !b.contexts[0]->messages.empty() && !b.contexts[1]->messages.empty(); },
               a, b));
    for (const std::uint8_t k : {std::uint8_t{0}, std::uint8_t{1}}) {
        REQUIRE(a.try_send(ops[2 + k], b.uri(), Lane::unexpected, 3, data.data(), data.size(), k)
                    .what == Posted::What::pending);
    }
    b.contexts.pop_back();
    REQUIRE(settle([&] { return !a->contexts_lost.empty() || !a->lost.empty(); }, a));
    CHECK(a->lost.empty());
    REQUIRE(a->contexts_lost.size() == 1);
    CHECK(a->contexts_lost[0].second == 1);
    CHECK(ops[3].done());
    CHECK(ops[3].how.status == Status::hostunreach);
    CHECK_FALSE(ops[2].done());
    REQUIRE(settle([&] { return ops[2].done(); }, a, b));
    CHECK(ops[2].how.status == Status::success);
    b.contexts.clear();
    REQUIRE(settle([&] { return !a->lost.empty(); }, a));
    CHECK(a->contexts_lost.size() == 1);
}

TEST_CASE("loss: who is refused learns it, however often it posts meanwhile") {
    Node a;
    Node b;
    b.full = true;  // no room for a further peer
    TestOp op;
    for (int i = 0; i < 2000; ++i) {
        (void)a.try_send(op, b.uri(), Lane::unexpected, 1, "hello", 5);
        a.poll();
        b.poll();
    }
    CHECK(b->messages.empty());
    CHECK_FALSE(a->lost.empty());
    // Each connection but the last one has had its end.
    CHECK(a->lost.size() + 1 >= a->stat("sm_connected"));
}

// Somebody took the connection up, and wrote to it: a message that lands ends in progress, not in
// the post that finds the peer gone.
TEST_CASE("loss: nothing that came ends inside a post") {
    Unheard peer("loss-landing-");
    Node& a = peer.a;
    REQUIRE(peer.say(Lane::unexpected, 1, "hello"));
    {
        const UniqueFd socket(accept(peer.listener->get(), nullptr, nullptr));
        REQUIRE(socket);
        Received hello;
        receive_message(socket.get(), hello);
        REQUIRE(hello.fd_count == kHelloFds);
        struct stat file {};
        REQUIRE(fstat(hello.fds[0].get(), &file) == 0);
        auto region =
            map_peer_memory(hello.fds[0].get(), static_cast<std::size_t>(file.st_size), true);
        REQUIRE(region);
        struct {
            Head head;
            Announce announce;
        } large{{Kind::bounce, 0, 5, 9}, {2000}};
        Line& line = region->at<Direction>(0)[1].lines[0];
        std::memcpy(line.payload, &large, sizeof large);
        line.sequence.store(lap(0), std::memory_order_release);
        REQUIRE(settle([&] { return a->landing == 1; }, a));
    }
    (void)peer.say(Lane::unexpected, 2, "hello");
    CHECK(a->landing == 1);
    CHECK(a->messages.empty());
    REQUIRE(settle([&] { return !a->lost.empty(); }, a));
    CHECK(a->lost.front().first == peer.uri);
}

// As of a process that is killed: its listening socket goes last.
TEST_CASE("loss: a connection that nobody took up is replaced, if nothing waits for it") {
    Unheard dying("loss-");
    Node& a = dying.a;
    REQUIRE(dying.say(Lane::expected, 1, "lost"));
    a.poll();
    dying.listener->reset();
    na::plugin::OpenSpec successor = kDefaults;
    successor.host = dying.name;
    Node b(successor);
    SECTION("a message") {
        REQUIRE(dying.say(Lane::unexpected, 2, "hello"));
        REQUIRE(settle([&] { return !b->messages.empty(); }, a, b));
        REQUIRE(b->messages.size() == 1);
        CHECK(b->messages.front().tag == 2);
        CHECK(a->lost.empty());
        CHECK(a->stat("sm_lost") == 0);
        exchange(b, a, {1, 4000}, Lane::expected);
    }
    SECTION("a get") {
        std::vector<std::byte> there(100, std::byte{7});
        std::vector<std::byte> here(100);
        const auto remote = b.region(there.data(), there.size());
        const auto local = a.region(here.data(), here.size());
        const auto theirs = a.decode(*remote, there.size());
        TestOp op;
        REQUIRE(a.transfer(op, OpKind::get, dying.uri, *local, 0, *theirs, 0, 100).what !=
                Posted::What::failed);
        REQUIRE(settle([&] { return op.done(); }, a, b));
        CHECK(op.how.status == Status::success);
        CHECK(here == there);
        CHECK(a->lost.empty());
    }
    SECTION("the core waits for something") {
        a->awaits = true;
        REQUIRE(dying.say(Lane::unexpected, 2, "hello"));
        REQUIRE(settle([&] { return !a->lost.empty(); }, a, b));
        CHECK(a->lost.front().first == dying.uri);
        CHECK(b->messages.empty());
        b->messages.clear();
        exchange(a, b, {1}, Lane::unexpected);
    }
}

TEST_CASE("loss: one of two connections with the same context") {
    Node server;
    FakePeer one, two;
    const auto poll = [&] { server.poll(); };
    one.join(server.uri(), poll);
    two.join(server.uri(), poll);
    const std::string uri = "sm://" + std::string(one.hello.name, one.hello.name_length);
    TestOp op;
    REQUIRE(server.try_send(op, uri, Lane::expected, 1, "x", 1).what == Posted::What::done);
    break_ring(one);
    REQUIRE(settle([&] { return server->stat("sm_connections") == 1; }, server));
    CHECK(server->lost.empty());
    CHECK(server->contexts_lost.empty());
    // What is sent now goes over the other one.
    REQUIRE(server.try_send(op, uri, Lane::expected, 2, "x", 1).what == Posted::What::done);
    CHECK(settle([&] { return two.in().lines[0].sequence.load() == 1; }, server));
    break_ring(two);
    REQUIRE(settle([&] { return server->lost.size() == 1; }, server));
    CHECK(server->contexts_lost.empty());
}

TEST_CASE("loss: a name has a new owner, and the old one's socket is still open") {
    const std::string name = "unit-new-owner." + std::to_string(getpid());
    support::Party first(support::Party::As::process, named_caller(name, 1));
    support::Party second(support::Party::As::process, named_caller(name, 2));
    Node server;
    first.link().put(server.uri());
    REQUIRE(settle([&] { return server->messages.size() == 1; }, server));
    CHECK(first.link().take_text() == "called");
    first.link().put("let go");
    CHECK(first.link().take_text() == "gone");
    for (int i = 0; i < 1000; ++i) {
        server.poll();
    }
    CHECK(server->lost.empty());  // nobody can know yet

    SECTION("it calls") {
        second.link().put(server.uri());
        REQUIRE(settle([&] { return server->messages.size() == 2; }, server));
        CHECK(server->messages[1].tag == 2);
        CHECK(server->lost.size() == 1);
        CHECK(settle([&] { return server->stat("sm_connections") == 1; }, server));
        TestOp op;
        CHECK(server.try_send(op, "sm://" + name, Lane::expected, 1, "x", 1).what ==
              Posted::What::done);
        CHECK(second.link().take_text() == "called");
        second.link().put("let go");
        CHECK(second.link().take_text() == "gone");
    }
    SECTION("it is called at another context") {
        // Known as the owner by its context 0.
        support::Party third(support::Party::As::process, [&](support::Link& link) {
            auto a = bind_socket(socket_name(name, 0), 8);
            auto b = bind_socket(socket_name(name, 3), 8);
            PARTY_REQUIRE(a && b);
            link.put("listens");
            link.take_text();
        });
        CHECK(third.link().take_text() == "listens");
        TestOp op;
        const Posted p = server.try_send(op, "sm://" + name, Lane::unexpected, 1, "x", 1, 3);
        CHECK(p.what == Posted::What::failed);
        CHECK(p.status == Status::hostunreach);
        REQUIRE(settle([&] { return server->lost.size() == 1; }, server));
        CHECK(server.try_send(op, "sm://" + name, Lane::unexpected, 1, "x", 1, 3).what ==
              Posted::What::done);
        third.link().put("end");
        CHECK(third.join().empty());
        second.kill(9);
    }
    first.kill(9);
}

TEST_CASE("loss: who listens as a further context of another's name is not believed") {
    const std::string name = "unit-impostor." + std::to_string(getpid());
    support::Party owner(support::Party::As::process, named_caller(name, 1));
    support::Party impostor(support::Party::As::process, [&](support::Link& link) {
        const std::string server = link.take_text();
        auto listener = bind_socket(socket_name(name, 5), 8);
        PARTY_REQUIRE(listener);
        FakePeer peer(name);
        peer.hello.context = 5;
        peer.connect(server);
        peer.greet();
        const Received r = peer.wait([] {});
        Answer answer{};
        PARTY_REQUIRE(r.get(answer) && answer.verdict == Verdict::identity);
        link.put("refused");
        link.take_text();
    });
    Node server;
    owner.link().put(server.uri());
    REQUIRE(settle([&] { return server->messages.size() == 1; }, server));
    impostor.link().put(server.uri());
    REQUIRE(settle([&] { return impostor.link().readable(); }, server));
    CHECK(impostor.link().take_text() == "refused");
    TestOp op;
    CHECK(server.try_send(op, "sm://" + name, Lane::unexpected, 1, "x", 1, 5).status ==
          Status::permission);
    CHECK(server->lost.empty());
    CHECK(server.try_send(op, "sm://" + name, Lane::unexpected, 1, "x", 1).what ==
          Posted::What::done);
    impostor.link().put("end");
    CHECK(impostor.join().empty());
    owner.kill(9);
}
