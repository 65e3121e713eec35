// SPDX-License-Identifier: BSD-3-Clause
// Many peers, peers of other users, and no open files left.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <catch2/catch.hpp>

#include "crash/sm_victim.hpp"
#include "na/util/log.hpp"
#include "support/until.hpp"

using namespace crash;

namespace {

rlimit file_limit() {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit;
}

}  // namespace

TEST_CASE("peers: a thousand") {
    rlimit limit = file_limit();
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 16384);
    setrlimit(RLIMIT_NOFILE, &limit);
    constexpr std::size_t kProcesses = 4;
    const std::size_t each = limit.rlim_cur >= 4096 ? 250 : 100;
    std::vector<std::unique_ptr<Victim>> clients;
    for (std::size_t i = 0; i < kProcesses; ++i) {
        clients.push_back(std::make_unique<Victim>(
            [each](Node& first, support::Link& link, const std::string& server) {
                std::vector<std::unique_ptr<Node>> nodes;
                for (std::size_t n = 0; n < each; ++n) {
                    nodes.push_back(std::make_unique<Node>());
                }
                first.contexts.clear();
                for (std::uint32_t round = 0; round < 3; ++round) {
                    TestOp op;
                    for (auto& n : nodes) {
                        const bool sent = settle(
                            [&] {
                                const Posted p =
                                    n->try_send(op, server, Lane::unexpected, round, "question", 8);
                                PARTY_REQUIRE(p.what != Posted::What::failed);
                                return p.what == Posted::What::done;
                            },
                            *n);
                        PARTY_REQUIRE(sent);
                    }
                    for (auto& n : nodes) {
                        PARTY_REQUIRE(settle([&] { return (*n)->messages.size() == 1; }, *n));
                        PARTY_REQUIRE((*n)->messages[0].tag == round);
                        (*n)->messages.clear();
                    }
                }
                link.put("done");
                while (!link.readable()) {
                }
            }));
    }
    Node server;
    server.poll();
    const std::size_t files = open_files();
    for (auto& c : clients) {
        c->start(server.uri());
    }
    std::size_t answered = 0;
    REQUIRE(settle(
        [&] {
            while (!server->messages.empty()) {
                const Message& m = server->messages.front();
                TestOp op;
                op.kind = OpKind::send_expected;
                op.tag = m.tag;
                op.buffer = const_cast<char*>("answer");
                op.length = 6;
                op.peer = m.peer;
                REQUIRE(server->plugin->send(op).what == Posted::What::done);
                server->messages.pop_front();
                ++answered;
            }
            return answered == 3 * kProcesses * each;
        },
        server));
    CHECK(server->stat("sm_connections") == kProcesses * each);
    CHECK(server->lost.empty());
    // One file for a peer.
    CHECK(open_files() <= files + kProcesses * each);
    for (auto& c : clients) {
        CHECK(c->link().take_text() == "done");
        c->kill();
    }
    CHECK(settle([&] { return server->lost.size() == kProcesses * each; }, server));
    CHECK(server->stat("sm_connections") == 0);
    CHECK(open_files() == files);
}

TEST_CASE("peers: no open files left") {
    // The limit is the whole process's: in a child.
    Victim v([](Node& node, support::Link& link, const std::string& parent) {
        rlimit limit = file_limit();
        std::vector<int> used;
        limit.rlim_cur = 100;
        setrlimit(RLIMIT_NOFILE, &limit);
        for (int fd = 0; (fd = open("/dev/null", O_RDONLY)) >= 0;) {
            used.push_back(fd);
        }
        TestOp op;
        // Calling: refused with a reason.
        PARTY_REQUIRE(node.try_send(op, parent, Lane::unexpected, 1, "x", 1).what ==
                      Posted::What::failed);
        PARTY_REQUIRE(op.posted.status == Status::nomem);
        // Being called: the caller is told, we go on.
        link.put("call");
        while (!link.readable()) {
            node.poll();
        }
        link.take_text();
        PARTY_REQUIRE(node->stat("sm_refused") != 0);
        PARTY_REQUIRE(node->stat("sm_connections") == 0);
        for (const int fd : used) {
            close(fd);
        }
        PARTY_REQUIRE(node.try_send(op, parent, Lane::unexpected, 1, "x", 1).what ==
                      Posted::What::done);
        link.put("again");
        PARTY_REQUIRE(settle([&] { return node->messages.size() == 1; }, node));
        link.put("came");
        while (!link.readable()) {
            node.poll();
        }
    });
    Node node;
    const std::string uri = v.start(node.uri());
    CHECK(v.link().take_text() == "call");
    TestOp op;
    if (node.try_send(op, uri, Lane::unexpected, 1, "x", 1).what == Posted::What::done) {
        REQUIRE(settle([&] { return node->lost.size() == 1; }, node));
        CHECK(node->lost[0].second == Status::busy);
    } else {
        REQUIRE(op.posted.status == Status::busy);  // it was faster than our greeting
    }
    CHECK(na::log::last_error().find("no descriptor left") != std::string::npos);
    v.link().put("go on");
    CHECK(v.link().take_text() == "again");
    REQUIRE(settle([&] { return node->messages.size() == 1; }, node));
    REQUIRE(node.try_send(op, uri, Lane::unexpected, 1, "x", 1).what == Posted::What::done);
    REQUIRE(settle([&] { return v.link().readable(); }, node));
    CHECK(v.link().take_text() == "came");
    v.link().put("end");
    CHECK(v.join().empty());
}

// Sleeps as a user would, for a while; answers how often that was cut short.
int restless(Node& node, int rounds) {
    int cut = 0;
    for (int i = 0; i < rounds; ++i) {
        node.poll();
        pollfd fd{.fd = node->plugin->wait_fd(), .events = POLLIN, .revents = 0};
        cut +=
            !node->plugin->arm() || support::uninterrupted([&] { return ::poll(&fd, 1, 5); }) != 0;
    }
    return cut;
}

TEST_CASE("peers: no file left even for the refusal, and nobody burns the processor") {
    Victim v([](Node& node, support::Link& link, const std::string&) {
        rlimit limit = file_limit();
        limit.rlim_cur = 100;
        setrlimit(RLIMIT_NOFILE, &limit);
        const int first = open("/dev/null", O_RDONLY);
        while (open("/dev/null", O_RDONLY) >= 0) {
        }
        node.poll();
        // As if another thread had got the spare one at the worst moment.
        limit.rlim_cur = 5;
        setrlimit(RLIMIT_NOFILE, &limit);
        link.put("call");
        link.take_text();
        const int cut = restless(node, 100);
        PARTY_REQUIRE(cut < 70);
        limit.rlim_cur = 200;
        setrlimit(RLIMIT_NOFILE, &limit);
        close(first);
        link.put("again");
        PARTY_REQUIRE(settle([&] { return !node->messages.empty(); }, node));
        link.put("came");
        link.take_text();
    });
    Node node;
    const std::string uri = v.start(node.uri());
    CHECK(v.link().take_text() == "call");
    std::vector<na::sm::UniqueFd> waiting;
    for (int i = 0; i < 40; ++i) {
        waiting.push_back(
            std::move(na::sm::connect_socket(na::sm::socket_name(uri.substr(5), 0)).socket));
    }
    v.link().put("go on");
    CHECK(v.link().take_text() == "again");
    TestOp op;
    const bool came = settle(
        [&] {
            static_cast<void>(node.try_send(op, uri, Lane::unexpected, 1, "x", 1));
            return v.link().readable();
        },
        node);
    REQUIRE(came);
    CHECK(v.link().take_text() == "came");
    v.link().put("end");
    CHECK(v.join().empty());
}

TEST_CASE("peers: too many descriptors on their way for the answer") {
    if (geteuid() != 0) {
        support::skip("changing users needs root");
        return;
    }
    constexpr uid_t kOther = 65533;
    const auto become_other = [] {
        PARTY_REQUIRE(setresgid(kOther, kOther, kOther) == 0 &&
                      setresuid(kOther, kOther, kOther) == 0);
    };
    support::Party server(support::Party::As::process, [&](support::Link& link) {
        become_other();
        Node node(spec(100000));
        link.put(node.uri());
        link.take_text();
        rlimit limit = file_limit();
        limit.rlim_cur = 64;
        PARTY_REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        int pair[2];
        PARTY_REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
        const std::vector<int> many(3, pair[0]);
        int error = 0;
        for (int i = 0; i < 100 && error == 0; ++i) {
            error = na::sm::send_message(pair[0], "x", 1, many);
        }
        PARTY_REQUIRE(error == ETOOMANYREFS);
        link.put("full");
        PARTY_REQUIRE(settle([&] { return node->messages.size() == 2; }, node));
        PARTY_REQUIRE(node->stat("sm_connections") == 1);
        PARTY_REQUIRE(restless(node, 100) < 70);
        PARTY_REQUIRE(node->stat("sm_connections") == 1);
        link.put("came");
        link.take_text();
        close(pair[0]);
        close(pair[1]);
        while (!link.readable()) {
            node.poll();
        }
    });
    support::Party client(support::Party::As::process, [&](support::Link& link) {
        become_other();
        const std::string uri = link.take_text();
        Node node(spec(100000));
        const auto data = support::payload(100000, 1);
        TestOp ops[2];
        PARTY_REQUIRE(node.try_send(ops[0], uri, Lane::unexpected, 1, "x", 1).what ==
                      Posted::What::done);
        PARTY_REQUIRE(
            node.try_send(ops[1], uri, Lane::unexpected, 2, data.data(), data.size()).what ==
            Posted::What::pending);
        PARTY_REQUIRE(settle([&] { return ops[1].done(); }, node));
        PARTY_REQUIRE(ops[1].how.status == Status::success);
        PARTY_REQUIRE(node->lost.empty());
        link.put("sent");
        link.take_text();
        // Who has no answer knocks with every message, since it does not know who sleeps.
        const bool answered = settle(
            [&] {
                const auto before = node->stat("sm_knocks");
                return node.try_send(ops[0], uri, Lane::unexpected, 1, "x", 1).what ==
                           Posted::What::done &&
                       node->stat("sm_knocks") == before;
            },
            node);
        PARTY_REQUIRE(answered);
        PARTY_REQUIRE(node->lost.empty());
        link.put("answered");
        link.take_text();
    });
    const std::string uri = server.link().take_text();
    server.link().put("fill");
    CHECK(server.link().take_text() == "full");
    client.link().put(uri);
    CHECK(client.link().take_text() == "sent");
    CHECK(server.link().take_text() == "came");
    server.link().put("make room");
    client.link().put("go on");
    CHECK(client.link().take_text() == "answered");
    client.link().put("end");
    CHECK(client.join().empty());
    server.link().put("end");
    CHECK(server.join().empty());
}

TEST_CASE("peers: of another user") {
    if (geteuid() != 0) {
        support::skip("changing users needs root");
        return;
    }
    constexpr uid_t kOther = 65534;
    const auto become_other = [] {
        PARTY_REQUIRE(setresgid(kOther, kOther, kOther) == 0 &&
                      setresuid(kOther, kOther, kOther) == 0);
    };
    const bool here = GENERATE(false, true);   // this side allows them
    const bool there = GENERATE(false, true);  // that side does
    support::Party party(support::Party::As::process, [&](support::Link& link) {
        become_other();
        unsetenv("NA_SM_ALLOW_UIDS");
        if (there) {
            setenv("NA_SM_ALLOW_UIDS", "17,0", 1);
        }
        const std::string parent = link.take_text();
        Node node(spec(100000));
        link.put(node.uri());
        const auto data = support::payload(100000, 1);
        TestOp ops[2];
        const Posted p = node.try_send(ops[0], parent, Lane::unexpected, 1, data.data(), 100);
        if (!there) {
            PARTY_REQUIRE(p.what == Posted::What::failed && p.status == Status::permission);
        } else if (!here) {
            // Refused before the greeting was sent, or after.
            PARTY_REQUIRE(p.what == Posted::What::failed
                              ? p.status == Status::permission
                              : settle([&] { return node->lost.size() == 1; }, node) &&
                                    node->lost[0].second == Status::permission);
            PARTY_REQUIRE(na::log::last_error().find("NA_SM_ALLOW_UIDS") != std::string::npos);
        } else {
            PARTY_REQUIRE(
                node.try_send(ops[1], parent, Lane::unexpected, 2, data.data(), 100000).what ==
                Posted::What::pending);
            PARTY_REQUIRE(
                settle([&] { return ops[1].done() && node->messages.size() == 1; }, node));
            PARTY_REQUIRE(node->messages[0].data == data);
        }
        link.put("done");
        while (!link.readable()) {
            node.poll();
        }
    });
    unsetenv("NA_SM_ALLOW_UIDS");
    if (here) {
        setenv("NA_SM_ALLOW_UIDS", "65534", 1);
    }
    Node node(spec(100000));
    unsetenv("NA_SM_ALLOW_UIDS");
    party.link().put(node.uri());
    const std::string uri = party.link().take_text();
    const auto data = support::payload(100000, 1);
    TestOp op;
    if (here && there) {
        REQUIRE(settle([&] { return node->messages.size() == 2; }, node));
        REQUIRE(node.try_send(op, uri, Lane::expected, 1, data.data(), 100000).what ==
                Posted::What::pending);
        REQUIRE(settle([&] { return op.done(); }, node));
        CHECK(op.how.status == Status::success);
    } else if (!here) {
        const Posted p = node.try_send(op, uri, Lane::unexpected, 1, "x", 1);
        CHECK(p.what == Posted::What::failed);
        CHECK(p.status == Status::permission);
    }
    REQUIRE(settle([&] { return party.link().readable(); }, node));
    CHECK(party.link().take_text() == "done");
    if (there && !here) {
        CHECK(node->complaints.size() == 1);
        CHECK(node->messages.empty());
    }
    party.link().put("end");
    CHECK(party.join().empty());
}
