// SPDX-License-Identifier: BSD-3-Clause
// Messages and the end of a peer: it closes, is dropped, or drops us.
#include "unit/sm/exchange.hpp"

using namespace sm_test;

TEST_CASE("message: the end of a peer ends everything that waits for it, and it can come back") {
    const auto data = support::payload(1000000, 3);
    for (const bool attach : {true, false}) {
        std::unique_ptr<NoAttach> off(attach ? nullptr : new NoAttach);
        auto named = spec(1000000);
        named.host = "unit-comes-back." + std::to_string(getpid());
        auto b = std::make_unique<Node>(named);
        Node a(spec(1000000));
        Node c(spec(1000000));
        exchange(a, *b, {1}, Lane::unexpected);
        exchange(c, *b, {1}, Lane::unexpected);
        exchange(a, c, {1}, Lane::unexpected);
        // b's last words count.
        TestOp last;
        REQUIRE(b->try_send(last, a.uri(), Lane::unexpected, 77, "bye", 3).what ==
                Posted::What::done);
        TestOp ops[70];
        for (auto& op : ops) {
            REQUIRE(a.try_send(op, b->uri(), Lane::unexpected, 1, data.data(), 1000000).what ==
                    Posted::What::pending);
        }
        a.poll();
        b.reset();
        REQUIRE(settle(
            [&] {
                return std::all_of(std::begin(ops), std::end(ops),
                                   [](const TestOp& o) { return o.done(); });
            },
            a));
        for (const auto& op : ops) {
            CHECK(op.how.status == Status::hostunreach);
        }
        REQUIRE(a->messages.size() == 1);
        CHECK(a->messages[0].tag == 77);
        a->messages.clear();
        REQUIRE(a->lost.size() == 1);
        CHECK(a->lost[0].first == "sm://" + named.host);
        CHECK(a->lost[0].second == Status::hostunreach);
        exchange(a, c, {1, 100000}, Lane::unexpected);
        // Nobody there now; then somebody is.
        CHECK(a.try_send(ops[0], "sm://" + named.host, Lane::unexpected, 1, "x", 1).status ==
              Status::hostunreach);
        b = std::make_unique<Node>(named);
        exchange(a, *b, {1, 1000000}, Lane::unexpected);
        exchange(*b, a, {1, 400000}, Lane::unexpected);
    }
}

TEST_CASE("message: dropping a peer") {
    Node a;
    auto b = std::make_unique<Node>();
    exchange(a, *b, {1, 2}, Lane::unexpected);
    SECTION("what it had got is delivered, and it is not taken for dead") {
        TestOp op;
        REQUIRE(a.try_send(op, b->uri(), Lane::unexpected, 5, "x", 1).what == Posted::What::done);
        a.drop(b->uri());
        REQUIRE(
            settle([&] { return (*b)->messages.size() == 1 && (*b)->stat("sm_connections") == 0; },
                   a, *b));
        CHECK((*b)->lost.empty());
        CHECK(settle([&] { return a->stat("sm_connections") == 0; }, a, *b));
        (*b)->messages.clear();
        exchange(a, *b, {1, 2, 4096}, Lane::unexpected);
    }
    SECTION("what it says is still heard") {
        TestOp op;
        REQUIRE(b->try_send(op, a.uri(), Lane::unexpected, 5, "x", 1).what == Posted::What::done);
        a.drop(b->uri());
        REQUIRE(settle([&] { return a->messages.size() == 1; }, a, *b));
        CHECK(a->messages[0].source == b->uri());
        a->messages.clear();
        exchange(a, *b, {1, 2, 4096}, Lane::unexpected);
        exchange(*b, a, {1, 2, 4096}, Lane::unexpected);
        CHECK(a->lost.empty());
        CHECK((*b)->lost.empty());
    }
    SECTION("and it can die meanwhile") {
        a.drop(b->uri());
        b.reset();
        REQUIRE(settle([&] { return a->stat("sm_connections") == 0; }, a));
        CHECK(a->lost.empty());
    }
    SECTION("again and again") {
        for (int i = 0; i < 50; ++i) {
            a.drop(b->uri());
            exchange(a, *b, {1, 4096, 3}, Lane::unexpected);
        }
        REQUIRE(settle([&] { return (*b)->stat("sm_connections") == 1; }, a, *b));
        CHECK((*b)->lost.empty());
    }
}

TEST_CASE("message: a peer that has dropped us is there as long as we hold it") {
    auto mute = spec(50000);
    mute.listen = false;
    Node client(mute);  // nobody can call it
    Node server(spec(50000));
    std::vector<std::byte> memory(8 << 20);
    support::fill(memory.data(), memory.size(), 5);
    std::vector<std::byte> copy(memory.size());
    auto theirs = client.region(memory.data(), memory.size());
    auto here = server.region(copy.data(), copy.size());
    auto remote = server.decode(*theirs, memory.size());
    TestOp op, pull;
    client.send(op, server, Lane::unexpected, 1, "pull", 4);
    REQUIRE(settle([&] { return server->messages.size() == 1; }, server, client));
    server.peer(client.uri());  // as the user does who got the message
    const bool running = GENERATE(true, false);
    if (running) {
        REQUIRE(server.transfer(pull, OpKind::get, client.uri(), *here, 0, *remote, 0, copy.size())
                    .what == Posted::What::pending);
    }
    client.drop(server.uri());
    for (int i = 0; i < 3000 && !running; ++i) {
        client.poll();
        server.poll();
    }
    if (!running) {
        REQUIRE(server.transfer(pull, OpKind::get, client.uri(), *here, 0, *remote, 0, copy.size())
                    .what != Posted::What::failed);
    }
    REQUIRE(settle([&] { return pull.done(); }, client, server));
    CHECK(pull.how.status == Status::success);
    CHECK(copy == memory);
    SECTION("then it goes, without loss") {
        server.drop(client.uri());
        REQUIRE(settle(
            [&] {
                return server->stat("sm_connections") == 0 && client->stat("sm_connections") == 0;
            },
            client, server));
        CHECK(server->lost.empty());
        CHECK(client->lost.empty());
    }
    SECTION("it hears an answer, and comes back, again and again") {
        server.send(op, client, Lane::expected, 2, "pulled", 6);
        REQUIRE(settle([&] { return client->messages.size() == 1; }, client, server));
        client->messages.clear();
        for (int i = 0; i < 20; ++i) {
            client.send(op, server, Lane::unexpected, 1, "again", 5);
            REQUIRE(settle([&] { return server->messages.size() == 2u + static_cast<unsigned>(i); },
                           server, client));
            client.drop(server.uri());
            for (int k = 0; k < 300; ++k) {
                client.poll();
                server.poll();
            }
        }
        CHECK(server->lost.empty());
        CHECK(server->stat("sm_refused") == 0);
    }
}
