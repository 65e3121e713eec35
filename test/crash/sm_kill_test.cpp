// SPDX-License-Identifier: BSD-3-Clause
// Processes that are killed at every step of their work. The survivor learns of it, every operation
// towards the dead ends, and nothing is left behind.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include <sys/resource.h>
#include <catch2/catch.hpp>

#include "crash/residue.hpp"
#include "crash/sm_victim.hpp"

using namespace crash;

namespace {

// For a while that is different each time, so that the victim dies at any point of what it does.
void poll_for_some_time(Node& node, support::Random& random) {
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::microseconds(random.below(3000));
    while (std::chrono::steady_clock::now() < end) {
        node.poll();
    }
}

bool gone(Node& node, const std::string& uri) {
    return settle(
        [&] {
            return std::any_of(node->lost.begin(), node->lost.end(),
                               [&](const auto& l) { return l.first == uri; });
        },
        node);
}

}  // namespace

TEST_CASE("kill: a client that has connected, at any time") {
    support::Random random(support::options().seed);
    const Places places;
    std::vector<pid_t> dead = {getpid()};
    std::vector<std::unique_ptr<Victim>> victims;
    constexpr std::size_t kVictims = 60 / support::kSlow;
    for (std::size_t i = 0; i < kVictims; ++i) {
        victims.push_back(std::make_unique<Victim>(
            [](Node& node, support::Link& link, const std::string& parent) {
                TestOp op;
                static_cast<void>(node.try_send(op, parent, Lane::unexpected, 1, "hello", 5));
                loiter(node, link);
            }));
    }
    Node server;
    Node friendly;
    REQUIRE(serves(server, friendly));
    server->messages.clear();
    const std::size_t files = open_files();
    std::size_t died = 0;
    for (auto& v : victims) {
        v->start(server.uri());
        poll_for_some_time(server, random);
        dead.push_back(v->pid());
        v->kill();
        REQUIRE(settle([&] { return server->stat("sm_connections") == 1; }, server));
        // Killed before its greeting it was never there; after it, with or without its message.
        REQUIRE(server->lost.size() <= ++died);
        REQUIRE(server->messages.size() <= server->lost.size());
    }
    CHECK(server->complaints.empty());
    // One that was killed between its call and its greeting is noticed at the next look.
    CHECK(settle([&] { return open_files() == files; }, server));
    CHECK(serves(server, friendly));
    CHECK(places.left_behind(dead).empty());
}

TEST_CASE("kill: in the middle of small messages") {
    support::Random random(support::options().seed);
    std::vector<std::unique_ptr<Victim>> victims;
    for (std::size_t i = 0; i < 60 / support::kSlow; ++i) {
        victims.push_back(std::make_unique<Victim>([i](Node& node, support::Link&,
                                                       const std::string& parent) {
            support::Random sizes(i);
            std::vector<std::byte> data = support::payload(4096, 5);
            TestOp op;
            for (std::uint32_t tag = 0;;) {
                const std::size_t size = sizes.below(2) == 0 ? sizes.below(233) : sizes.below(4097);
                if (node.try_send(op, parent, Lane::unexpected, tag, data.data(), size).what ==
                    Posted::What::done) {
                    ++tag;
                } else {
                    node.poll();
                }
            }
        }));
    }
    Node server;
    Node friendly;
    REQUIRE(serves(server, friendly));
    server->messages.clear();
    const std::size_t files = open_files();
    for (auto& v : victims) {
        v->start(server.uri());
        REQUIRE(settle([&] { return !server->messages.empty(); }, server));
        poll_for_some_time(server, random);
        v->kill();
        REQUIRE(gone(server, v->uri()));
        // Every message whole, in order, none missing.
        std::uint32_t wrong = 0;
        for (std::uint32_t i = 0; i < server->messages.size(); ++i) {
            wrong +=
                server->messages[i].tag != i || support::mismatch(server->messages[i].data, 5) >= 0;
        }
        CHECK(wrong == 0);
        server->messages.clear();
    }
    CHECK(server->complaints.empty());
    CHECK(open_files() == files);
    CHECK(serves(server, friendly));
}

TEST_CASE("kill: in the middle of large messages") {
    support::Random random(support::options().seed);
    for (const bool attach : {true, false}) {
        setenv("NA_SM_CMA", attach ? "1" : "0", 1);
        std::vector<std::unique_ptr<Victim>> victims;
        for (std::size_t i = 0; i < 30 / support::kSlow; ++i) {
            victims.push_back(std::make_unique<Victim>(
                [](Node& node, support::Link&, const std::string& parent) {
                    std::vector<std::byte> data = support::payload(500000, 5);
                    TestOp ops[3];
                    for (auto& op : ops) {
                        op.ended = 1;
                    }
                    for (std::uint32_t tag = 0;;) {
                        for (auto& op : ops) {
                            if (op.done() && node.try_send(op, parent, Lane::expected, tag,
                                                           data.data(), 100000 + tag % 400000)
                                                     .what != Posted::What::again) {
                                ++tag;
                            }
                        }
                        node.poll();
                    }
                },
                spec(500000)));
        }
        Node server(spec(500000));
        Node friendly(spec(500000));
        REQUIRE(serves(server, friendly));
        server->messages.clear();
        const std::size_t files = open_files();
        for (auto& v : victims) {
            v->start(server.uri());
            REQUIRE(settle([&] { return !server->messages.empty(); }, server));
            poll_for_some_time(server, random);
            v->kill();
            REQUIRE(gone(server, v->uri()));
            CHECK(server->landing == 0);
            std::uint32_t tag = 0;
            for (const Message& m : server->messages) {
                if (m.status == Status::success) {
                    CHECK(m.tag == tag++);
                    CHECK(support::mismatch(m.data, 5) < 0);
                } else {
                    CHECK(&m == &server->messages.back());  // the one that was on its way
                }
            }
            server->messages.clear();
        }
        CHECK(open_files() == files);
        CHECK(serves(server, friendly));
    }
    unsetenv("NA_SM_CMA");
}

TEST_CASE("kill: the receiver of large messages") {
    support::Random random(support::options().seed);
    for (const bool attach : {true, false}) {
        setenv("NA_SM_CMA", attach ? "1" : "0", 1);
        std::vector<std::unique_ptr<Victim>> victims;
        for (std::size_t i = 0; i < 30 / support::kSlow; ++i) {
            const bool polls = i % 3 != 0;
            victims.push_back(std::make_unique<Victim>(
                [polls](Node& node, support::Link& link, const std::string&) {
                    while (polls && !link.readable()) {
                        node.poll();
                        node->messages.clear();
                    }
                    loiter(node, link);
                },
                spec(500000)));
        }
        Node sender(spec(500000));
        Node friendly(spec(500000));
        REQUIRE(serves(sender, friendly));
        const auto data = support::payload(500000, 5);
        for (auto& v : victims) {
            const std::string uri = v->start(sender.uri());
            // More than there are slots.
            std::vector<TestOp> ops(100);
            for (auto& op : ops) {
                REQUIRE(
                    sender.try_send(op, uri, Lane::unexpected, 1, data.data(), data.size()).what ==
                    Posted::What::pending);
            }
            poll_for_some_time(sender, random);
            v->kill();
            REQUIRE(settle(
                [&] {
                    return std::all_of(ops.begin(), ops.end(),
                                       [](const TestOp& o) { return o.ended != 0; });
                },
                sender));
            for (const auto& op : ops) {
                CHECK(op.ended == 1);
                CHECK((op.how.status == Status::success || op.how.status == Status::hostunreach));
            }
            CHECK(gone(sender, uri));
            TestOp op;
            CHECK(sender.try_send(op, uri, Lane::unexpected, 1, "x", 1).status ==
                  Status::hostunreach);
        }
        CHECK(serves(sender, friendly));
    }
    unsetenv("NA_SM_CMA");
}

TEST_CASE("kill: the owner of memory that is being written and read") {
    support::Random random(support::options().seed);
    constexpr std::size_t kSize = 8 << 20;
    for (const char* way : {"attached", "shared", "bounced"}) {
        INFO(way);
        setenv("NA_SM_CMA", way == std::string("bounced") ? "0" : "1", 1);
        const bool shared = way == std::string("shared");
        std::vector<std::unique_ptr<Victim>> victims;
        for (std::size_t i = 0; i < 20 / support::kSlow; ++i) {
            victims.push_back(std::make_unique<Victim>(
                [shared](Node& node, support::Link& link, const std::string&) {
                    std::vector<std::byte> own(shared ? 0 : kSize);
                    auto* memory =
                        shared ? static_cast<std::byte*>(node.domain->allocate(kSize)) : own.data();
                    auto region = node.region(memory, kSize);
                    std::vector<std::byte> bytes(region->encode({}));
                    region->encode(bytes);
                    link.put(bytes);
                    loiter(node, link);
                }));
        }
        Node node;
        Node friendly;
        REQUIRE(serves(node, friendly));
        std::vector<std::byte> mine(kSize);
        auto local = node.region(mine.data(), kSize);
        for (auto& v : victims) {
            const std::string uri = v->start(node.uri());
            auto decoded = node.domain->decode_region(v->link().take(), kSize);
            REQUIRE(decoded);
            std::vector<TestOp> ops(6);
            std::size_t failed = 0;
            for (std::size_t i = 0; i < ops.size(); ++i) {
                const Posted p = node.transfer(ops[i], i % 2 == 0 ? OpKind::put : OpKind::get, uri,
                                               *local, 0, **decoded, 0, kSize);
                failed += p.what == Posted::What::failed;
            }
            REQUIRE(failed == 0);
            poll_for_some_time(node, random);
            v->kill();
            REQUIRE(settle(
                [&] {
                    return std::all_of(ops.begin(), ops.end(),
                                       [](const TestOp& o) { return o.ended != 0; });
                },
                node));
            for (const auto& op : ops) {
                CHECK(op.ended == 1);
                CHECK((op.how.status == Status::success || op.how.status == Status::hostunreach));
            }
            CHECK(gone(node, uri));
        }
        CHECK(serves(node, friendly));
    }
    unsetenv("NA_SM_CMA");
}

TEST_CASE("kill: who writes and reads my memory") {
    support::Random random(support::options().seed);
    constexpr std::size_t kSize = 1 << 20;
    for (const bool attach : {true, false}) {
        setenv("NA_SM_CMA", attach ? "1" : "0", 1);
        std::vector<std::unique_ptr<Victim>> victims;
        for (std::size_t i = 0; i < 20 / support::kSlow; ++i) {
            victims.push_back(std::make_unique<Victim>([](Node& node, support::Link& link,
                                                          const std::string& parent) {
                std::vector<std::byte> own(kSize, std::byte{9});
                auto local = node.region(own.data(), kSize);
                auto remote = node.domain->decode_region(link.take(), kSize);
                TestOp ops[2];
                ops[0].ended = ops[1].ended = 1;
                for (;;) {
                    for (int k = 0; k < 2; ++k) {
                        if (ops[k].done()) {
                            static_cast<void>(node.transfer(ops[k],
                                                            k == 0 ? OpKind::put : OpKind::get,
                                                            parent, *local, 0, **remote, 0, kSize));
                        }
                    }
                    node.poll();
                }
            }));
        }
        Node node;
        Node friendly;
        REQUIRE(serves(node, friendly));
        std::vector<std::byte> mine(kSize + 200);
        auto region = node.region(mine.data() + 100, kSize);
        std::vector<std::byte> bytes(region->encode({}));
        region->encode(bytes);
        for (auto& v : victims) {
            const std::string uri = v->start(node.uri());
            v->link().put(bytes);
            REQUIRE(settle([&] { return mine[100] == std::byte{9} || mine[kSize] == std::byte{9}; },
                           node));
            poll_for_some_time(node, random);
            v->kill();
            REQUIRE(gone(node, uri));
            std::fill_n(mine.begin() + 100, kSize, std::byte{0});
        }
        CHECK(std::count(mine.begin(), mine.end(), std::byte{0}) ==
              static_cast<std::ptrdiff_t>(mine.size()));
        CHECK(node->complaints.empty());
        CHECK(serves(node, friendly));
    }
    unsetenv("NA_SM_CMA");
}

// Two real processes: the one writes and reads without end, the other deregisters its memory in the
// middle of that, and uses it for something else at once.
TEST_CASE("memory that was deregistered is its owner's alone") {
    support::Random random(support::options().seed);
    constexpr std::size_t kSize = 3 << 20;
    constexpr int kRounds = 60 / static_cast<int>(support::kSlow);
    for (const bool shared : {false, true}) {
        INFO((shared ? "shared" : "attached"));
        const bool killed = GENERATE(false, true);
        Victim victim([](Node& node, support::Link& link, const std::string& parent) {
            std::vector<std::byte> own(kSize, std::byte{9});
            auto local = node.region(own.data(), kSize);
            for (;;) {
                auto remote = node.domain->decode_region(link.take(), kSize);
                TestOp ops[2];
                ops[0].ended = ops[1].ended = 1;
                // Until the memory is gone.
                for (bool there = true; there;) {
                    for (int k = 0; k < 2; ++k) {
                        if (!ops[k].done()) {
                            continue;
                        }
                        there &= ops[k].how.status != Status::noentry;
                        ops[k].ended = 0;
                        const Posted p = node.transfer(ops[k], k == 0 ? OpKind::put : OpKind::get,
                                                       parent, *local, 0, **remote, 0, kSize);
                        if (p.what == Posted::What::failed) {
                            there &= p.status != Status::noentry;
                        }
                        ops[k].ended += p.what != Posted::What::pending;
                    }
                    node.poll();
                }
                settle([&] { return ops[0].done() && ops[1].done(); }, node);
                std::fill(own.begin(), own.end(), std::byte{9});
                link.put("gone");
            }
        });
        Node node;
        victim.start(node.uri());
        std::vector<std::byte> plain(shared ? 0 : kSize);
        auto* mine = shared ? static_cast<std::byte*>(node.domain->allocate(kSize)) : plain.data();
        REQUIRE(mine != nullptr);
        for (int round = 0; round < kRounds; ++round) {
            std::memset(mine, 0, kSize);
            auto region = node.region(mine, kSize);
            std::vector<std::byte> bytes(region->encode({}));
            region->encode(bytes);
            victim.link().put(bytes);
            REQUIRE(settle(
                [&] {
                    return static_cast<const volatile std::byte*>(mine)[kSize / 2] == std::byte{9};
                },
                node));
            const bool last = killed && round + 1 == kRounds;
            poll_for_some_time(node, random);
            if (last) {
                victim.kill();
            }
            region.reset();
            std::memset(mine, 0x55, kSize);
            if (!last) {
                REQUIRE(settle([&] { return victim.link().readable(); }, node));
                REQUIRE(victim.link().take_text() == "gone");
            } else {
                REQUIRE(gone(node, victim.uri()));
            }
            REQUIRE(std::count(mine, mine + kSize, std::byte{0x55}) ==
                    static_cast<std::ptrdiff_t>(kSize));
        }
        CHECK(static_cast<na::sm::Domain&>(*node.domain).permits().late() == 0);
        CHECK((node->stat("sm_lost") == (killed ? 1U : 0U)));
        if (shared) {
            node.domain->deallocate(mine, kSize);
        }
        victim.kill();
    }
}

TEST_CASE("kill: a server, and another takes its name") {
    const std::string name = "crash-server." + std::to_string(getpid());
    auto named = kDefaults;
    named.host = name;
    const auto serve = [](Node& node, support::Link& link, const std::string&) {
        while (!link.readable()) {
            node.poll();
            while (!node->messages.empty()) {
                TestOp op;
                static_cast<void>(node.try_send(op, node->messages[0].source, Lane::expected,
                                                node->messages[0].tag, "ok", 2));
                node->messages.pop_front();
            }
        }
    };
    std::vector<std::unique_ptr<Victim>> servers;
    for (int i = 0; i < 6; ++i) {
        servers.push_back(std::make_unique<Victim>(serve, named));
    }
    Node clients[3];
    for (auto& server : servers) {
        const std::string uri = server->start(clients[0].uri());
        CHECK(uri == "sm://" + name);
        for (int i = 0; i < 3; ++i) {
            TestOp op;
            REQUIRE(clients[i].try_send(op, uri, Lane::unexpected, 5, "x", 1).what ==
                    Posted::What::done);
            REQUIRE(settle([&] { return clients[i]->messages.size() == 1; }, clients[i]));
            clients[i]->messages.clear();
        }
        server->kill();
        for (auto& client : clients) {
            REQUIRE(settle([&] { return client->lost.size() == 1; }, client));
            client->lost.clear();
            TestOp op;
            CHECK(client.try_send(op, uri, Lane::unexpected, 5, "x", 1).status ==
                  Status::hostunreach);
        }
    }
}

TEST_CASE("kill: a peer that only stopped is waited for") {
    Victim v([](Node& node, support::Link& link, const std::string&) {
        std::size_t got = 0;
        while (got < 5000) {
            node.poll();
            got += node->messages.size();
            node->messages.clear();
        }
        link.put("all");
    });
    Node node;
    const std::string uri = v.start(node.uri());
    TestOp op;
    REQUIRE(node.try_send(op, uri, Lane::unexpected, 0, "x", 1).what == Posted::What::done);
    v.kill(SIGSTOP);
    std::size_t sent = 1;
    while (node.try_send(op, uri, Lane::unexpected, 0, "x", 1).what == Posted::What::done) {
        ++sent;
    }
    CHECK(op.posted.what == Posted::What::again);
    for (int i = 0; i < 1000; ++i) {
        node.poll();
    }
    CHECK(node->lost.empty());
    v.kill(SIGCONT);
    REQUIRE(settle(
        [&] {
            sent += node.try_send(op, uri, Lane::unexpected, 0, "x", 1).what == Posted::What::done;
            return sent == 5000;
        },
        node));
    CHECK(v.link().take_text() == "all");
    CHECK(v.join().empty());
}

TEST_CASE("kill: many clients leave no descriptor, no file and no memory behind") {
    const Places places;
    std::vector<pid_t> dead = {getpid()};
    std::vector<std::unique_ptr<Victim>> victims;
    constexpr int kVictims = 200 / support::kSlow;
    for (int i = 0; i < kVictims; ++i) {
        victims.push_back(std::make_unique<Victim>(
            [](Node& node, support::Link& link, const std::string& parent) {
                TestOp op;
                static_cast<void>(node.try_send(op, parent, Lane::unexpected, 1, "hello", 5));
                loiter(node, link);
            }));
    }
    Node server;
    server.poll();
    const std::size_t files = open_files();
    std::size_t died = 0;
    for (auto& v : victims) {
        v->start(server.uri());
        REQUIRE(settle([&] { return server->messages.size() == died + 1; }, server));
        dead.push_back(v->pid());
        CHECK(named_files(v->pid()).empty());
        if (++died % 20 != 0) {
            v->kill();  // the rest at once
        }
    }
    for (auto& v : victims) {
        v->kill();
    }
    CHECK(settle([&] { return server->lost.size() == kVictims; }, server));
    CHECK(server->stat("sm_connections") == 0);
    CHECK(open_files() == files);
    CHECK(places.left_behind(dead).empty());
}
