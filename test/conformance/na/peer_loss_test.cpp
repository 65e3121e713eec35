// SPDX-License-Identifier: BSD-3-Clause
// A peer that finalises or is killed: everything that waits for it ends with NA_HOSTUNREACH,
// everybody else goes on.
#include <csignal>
#include <optional>

#include <sys/socket.h>

#include "common.hpp"
#include "na/util/fd.hpp"
#include "na/util/ip.hpp"
#include "support/two_process.hpp"

using namespace na_test;
using support::Link;
using support::Party;

namespace {

// What hangs on a peer when it goes.
struct Waiting {
    Waiting(Endpoint& e, na_addr_t* peer)
        : endpoint(e),
          in(e),
          out(e),
          recv(e),
          recv_unexpected(e),
          memory(1 << 20),
          local(e, memory.data(), memory.size(), NA_MEM_READWRITE) {
        PARTY_REQUIRE(recv.recv_expected(in, peer, 1) == NA_SUCCESS);
        for (unsigned i = 0; i < 1500; ++i) {
            sends.push_back(std::make_unique<Op>(e));
            const std::size_t payload = i % 7 == 0 ? e.max_message() - e.header() : 100;
            PARTY_REQUIRE(sends.back()->send_unexpected(out, e.header() + payload, peer, i) ==
                          NA_SUCCESS);
        }
    }
    bool ended() const {
        return recv.done() &&
               std::all_of(sends.begin(), sends.end(), [](const auto& o) { return o->done(); });
    }
    unsigned unreachable() const {
        unsigned n = 0;
        for (const auto& op : sends) {
            n += op->ret() == NA_HOSTUNREACH ? 1 : 0;
        }
        return n;
    }
    Endpoint& endpoint;
    Buffer in;
    Buffer out;
    Op recv;
    Op recv_unexpected;
    std::vector<std::byte> memory;
    Mem local;
    std::vector<std::unique_ptr<Op>> sends;
};

void check_ended(Waiting& w) {
    CHECK(w.recv.ret() == NA_HOSTUNREACH);
    CHECK(w.unreachable() > 0);
    for (const auto& op : w.sends) {
        CHECK((op->ret() == NA_HOSTUNREACH || op->ret() == NA_SUCCESS));
    }
}

// Others are not harmed: a message there and back.
void check_alive(Endpoint& a, Endpoint& b) {
    Addr to_b(a, b.uri());
    Buffer out(a);
    Buffer in(b);
    Op send(a);
    Op recv(b);
    REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    REQUIRE(send.send_unexpected(out, fill_message(a, out, 40, 3), to_b, 3) == NA_SUCCESS);
    REQUIRE(
        until([&] { return send.done() && recv.done(); }, [&] { a.pump(); }, [&] { b.pump(); }));
    CHECK(recv.ret() == NA_SUCCESS);
    CHECK(holds(b, in.data(), recv.result().size, 3));
}

// Says something, or is about to, and goes.
void visit(const std::string& uri, bool waits) {
    Endpoint hasty;
    Addr to(hasty, uri);
    Buffer out(hasty);
    Op send(hasty);
    PARTY_REQUIRE(send.send_unexpected(out, fill_message(hasty, out, 1, 1), to, 1) == NA_SUCCESS);
    if (waits) {
        settle([&] { hasty.pump(); });
    }
    if (!send.done()) {
        PARTY_REQUIRE(send.cancel() == NA_SUCCESS);
    }
    PARTY_REQUIRE(until([&] { return send.done(); }, [&] { hasty.pump(); }));
}

// What visitors have said may come before.
void check_still_served(Endpoint& e, Endpoint& third) {
    Buffer in(e);
    Op recv(e);
    Addr to_e(third, e.uri());
    Buffer out(third);
    Op send(third);
    REQUIRE(send.send_unexpected(out, fill_message(third, out, 40, 3), to_e, 3) == NA_SUCCESS);
    do {
        recv.reset();
        REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
        REQUIRE(until([&] { return recv.done(); }, [&] { third.pump(); }, [&] { e.pump(); }));
    } while (recv.result().tag != 3);
    REQUIRE(until([&] { return send.done(); }, [&] { third.pump(); }));
}

}  // namespace

TEST_CASE("a peer that finalises ends what waits for it", "[peer_loss]") {
    Pair p;
    Endpoint third;
    Addr a_to_third(p.a, third.uri());
    Buffer third_in(p.a);
    Op from_third(p.a);
    REQUIRE(from_third.recv_expected(third_in, a_to_third, 1) == NA_SUCCESS);
    // A connection, before anything waits.
    {
        Buffer out(p.a);
        Buffer in(p.b);
        Op send(p.a);
        Op recv(p.b);
        REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
        REQUIRE(send.send_unexpected(out, fill_message(p.a, out, 1, 1), p.to_b, 1) == NA_SUCCESS);
        REQUIRE(until([&] { return send.done() && recv.done(); }, [&] { p.pump(); }));
    }
    Waiting waiting(p.a, p.to_b);
    Op any(p.a);
    Buffer any_in(p.a);
    REQUIRE(any.recv_unexpected(any_in) == NA_SUCCESS);
    settle([&] { p.a.pump(); }, 20);
    p.to_a.reset();
    const std::string uri = p.b.uri();
    p.b.close();
    const auto held = support::hold_port(uri);
    REQUIRE(until([&] { return waiting.ended(); }, [&] { p.a.pump(); }));
    check_ended(waiting);
    CHECK_FALSE(any.done());         // from anybody
    CHECK_FALSE(from_third.done());  // from somebody else
    check_alive(p.a, third);
    // Whoever is gone stays unreachable, and says so at once or in the callback.
    if (!held) {
        return;  // another program is there
    }
    Op late(p.a);
    Buffer out(p.a);
    const na_return_t r = late.send_unexpected(out, p.a.header() + 1, p.to_b, 1);
    if (r == NA_SUCCESS) {
        REQUIRE(until([&] { return late.done(); }, [&] { p.a.pump(); }));
        CHECK(late.ret() == NA_HOSTUNREACH);
    } else {
        CHECK(r == NA_HOSTUNREACH);
    }
}

TEST_CASE("the last answers of a peer come before its end", "[peer_loss]") {
    constexpr unsigned kAnswers = 12;
    Pair p;
    meet(p.a, p.b);
    std::vector<std::unique_ptr<Buffer>> in;
    std::vector<std::unique_ptr<Op>> recvs;
    for (unsigned i = 0; i < kAnswers; ++i) {
        in.push_back(std::make_unique<Buffer>(p.a));
        recvs.push_back(std::make_unique<Op>(p.a));
        REQUIRE(recvs.back()->recv_expected(*in.back(), p.to_b, i) == NA_SUCCESS);
    }
    settle([&] { p.pump(); }, 20);
    {
        Buffer out(p.b);
        std::vector<std::unique_ptr<Op>> sends;
        for (unsigned i = 0; i < kAnswers; ++i) {
            sends.push_back(std::make_unique<Op>(p.b));
            const std::size_t size = fill_message(p.b, out, 40, 1, true);
            REQUIRE(sends.back()->send_expected(out, size, p.to_a, i) == NA_SUCCESS);
        }
        // Nobody looks at the other end, unless the transport needs it to get rid of them.
        unsigned rounds = 0;
        REQUIRE(until(
            [&] {
                return std::all_of(sends.begin(), sends.end(),
                                   [](const auto& op) { return op->done(); });
            },
            [&] {
                p.b.pump();
                if (++rounds > 1000) {
                    p.a.pump();
                }
            }));
    }
    p.to_a.reset();
    p.b.close();
    REQUIRE(until(
        [&] {
            return std::all_of(recvs.begin(), recvs.end(),
                               [](const auto& op) { return op->done(); });
        },
        [&] { p.a.pump(); }));
    for (unsigned i = 0; i < kAnswers; ++i) {
        CAPTURE(i);
        CHECK(recvs[i]->ret() == NA_SUCCESS);
    }
}

TEST_CASE("a peer that greets and finalises while nobody looks", "[peer_loss]") {
    const Quiet quiet;
    Endpoint e;
    Endpoint third;
    for (const bool waits : {false, true}) {
        visit(e.uri(), waits);
        settle([&] { e.pump(); });
    }
    check_still_served(e, third);
}

TEST_CASE("a process that greets and ends while nobody looks", "[peer_loss]") {
    if (one_process_only()) {
        support::skip("the transport does not leave its process");
        return;
    }
    const bool waits = GENERATE(false, true);
    Party child(Party::As::process, [waits](Link& link) { visit(link.take_text(), waits); });
    const Quiet quiet;
    Endpoint e;
    Endpoint third;
    child.link().put(e.uri());
    REQUIRE(child.join() == "");
    settle([&] { e.pump(); });
    check_still_served(e, third);
}

TEST_CASE("a process that greets and is killed, which others see first", "[peer_loss][crash]") {
    if (one_process_only()) {
        support::skip("the transport does not leave its process");
        return;
    }
    Party child(Party::As::process, [](Link& link) {
        const std::string late = link.take_text();
        const std::string first = link.take_text();
        Endpoint hasty;
        Addr to_late(hasty, late);
        Addr to_first(hasty, first);
        Buffer out(hasty);
        Op send(hasty);
        Op said(hasty);
        PARTY_REQUIRE(said.send_unexpected(out, hasty.header() + 1, to_late, 1) == NA_SUCCESS);
        PARTY_REQUIRE(send.send_unexpected(out, hasty.header() + 1, to_first, 2) == NA_SUCCESS);
        PARTY_REQUIRE(until([&] { return send.done(); }, [&] { hasty.pump(); }));
        settle([&] { hasty.pump(); });
        link.put("said");
        link.take();  // never comes
    });
    const Quiet quiet;
    Endpoint e;
    Endpoint third;
    {
        Endpoint first;
        Buffer in(first);
        Op recv(first);
        REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
        child.link().put(e.uri());
        child.link().put(first.uri());
        REQUIRE(
            until([&] { return recv.done() && child.link().readable(); }, [&] { first.pump(); }));
        Buffer more(first);
        Op due(first);
        REQUIRE(due.recv_expected(more, recv.result().source, 1) == NA_SUCCESS);
        child.kill(SIGKILL);
        REQUIRE(until([&] { return due.done(); }, [&] { first.pump(); }));
        CHECK(due.ret() == NA_HOSTUNREACH);
    }
    settle([&] { e.pump(); });
    check_still_served(e, third);
}

TEST_CASE("a peer that never was is unreachable", "[peer_loss]") {
    Endpoint e;
    std::string gone;
    std::optional<na::util::UniqueFd> held;
    while (!held) {
        gone = Endpoint().uri();
        held = support::hold_port(gone);
    }
    Addr to_gone(e, gone);
    Buffer buffer(e);
    std::vector<std::byte> memory(100);
    Mem local(e, memory.data(), memory.size(), NA_MEM_READWRITE);
    Mem remote(e, local.serialize());
    for (int i = 0; i < 20; ++i) {
        Op op(e);
        na_return_t r = NA_RETURN_MAX;
        switch (i % 4) {
            case 0:
                r = op.send_unexpected(buffer, e.header() + 10, to_gone, 1);
                break;
            case 1:
                r = op.send_expected(buffer, e.header(true) + 10, to_gone, 1);
                break;
            case 2:
                r = op.put(local, 0, remote, 0, 100, to_gone);
                break;
            case 3:
                r = op.get(local, 0, remote, 0, 100, to_gone);
                break;
            default:
                break;
        }
        if (r == NA_SUCCESS) {
            REQUIRE(until([&] { return op.done(); }, [&] { e.pump(); }));
            r = op.ret();
        }
        CHECK(r == NA_HOSTUNREACH);
    }
}

TEST_CASE("a peer may come back under its name", "[peer_loss]") {
    const std::string name =
        options().protocol + "://" + support::lasting_host("again-" + std::to_string(getpid()));
    Endpoint::Settings named;
    named.info = name;
    std::unique_ptr<Endpoint> server;
    try {
        server = std::make_unique<Endpoint>(named);
    } catch (const std::runtime_error&) {
        support::skip("the transport takes no names");
        return;
    }
    Endpoint client;
    Addr to_server(client, server->uri());
    Buffer out(client);
    for (unsigned i = 0; i < 5; ++i) {
        {
            Buffer in(*server);
            Op recv(*server);
            REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
            // Sends may fail until the client has noticed both the end and the beginning.
            Op send(client);
            bool posted = false;
            const Quiet quiet;
            REQUIRE(until(
                [&] { return recv.done() && posted && send.done(); },
                [&] {
                    if (!recv.done() && (!posted || (send.done() && send.ret() != NA_SUCCESS))) {
                        send.reset();
                        posted = send.send_unexpected(out, fill_message(client, out, 5, i),
                                                      to_server, i) == NA_SUCCESS;
                    }
                    client.pump();
                    server->pump();
                }));
            CHECK(recv.ret() == NA_SUCCESS);
            CHECK(recv.result().tag == i);
        }
        server.reset();
        settle([&] { client.pump(); });
        server = std::make_unique<Endpoint>(named);
    }
}

TEST_CASE("a peer that is killed ends what waits for it", "[peer_loss][crash]") {
    if (one_process_only()) {
        support::skip("the transport does not leave its process");
        return;
    }
    const bool blocking = GENERATE(false, true);
    // Memory that the child exposes, a connection in both directions, no progress there any more.
    Party child(Party::As::process, [](Link& link) {
        Endpoint e;
        std::vector<std::byte> memory(1 << 20);
        Mem exposed(e, memory.data(), memory.size(), NA_MEM_READWRITE);
        Buffer in(e);
        Op recv(e);
        PARTY_REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
        link.put(e.uri());
        link.put(exposed.serialize());
        PARTY_REQUIRE(until([&] { return recv.done(); }, [&] { e.pump(); }));
        Buffer out(e);
        Op send(e);
        PARTY_REQUIRE(send.send_expected(out, e.header(true) + 8, recv.result().source, 99) ==
                      NA_SUCCESS);
        PARTY_REQUIRE(until([&] { return send.done(); }, [&] { e.pump(); }));
        link.put("ready");
        link.take();  // never comes
    });
    Endpoint e;
    Endpoint third;
    Addr to_child(e, child.link().take_text());
    Mem remote(e, child.link().take());
    {
        Buffer out(e);
        Buffer in(e);
        Op send(e);
        Op recv(e);
        REQUIRE(recv.recv_expected(in, to_child, 99) == NA_SUCCESS);
        REQUIRE(send.send_unexpected(out, fill_message(e, out, 8, 1), to_child, 1) == NA_SUCCESS);
        REQUIRE(until([&] { return send.done() && recv.done() && child.link().readable(); },
                      [&] { e.pump(); }));
        REQUIRE(child.link().take_text() == "ready");
    }
    Waiting waiting(e, to_child);
    settle([&] { e.pump(); }, 20);
    child.kill(SIGKILL);
    REQUIRE(until([&] { return waiting.ended(); },
                  [&] {
                      if (blocking) {
                          NA_Progress(e.cls(), e.context(), 60'000);  // the death has to wake it
                          NA_Trigger(e.context(), 10000, nullptr);
                      } else {
                          e.pump();
                      }
                  }));
    check_ended(waiting);
    Op get(e);
    const na_return_t r = get.get(waiting.local, 0, remote, 0, 1 << 20, to_child);
    if (r == NA_SUCCESS) {
        REQUIRE(until([&] { return get.done(); }, [&] { e.pump(); }));
        CHECK(get.ret() == NA_HOSTUNREACH);
    } else {
        CHECK(r == NA_HOSTUNREACH);
    }
    check_alive(e, third);
}

TEST_CASE("peers killed one after another leave nothing behind", "[peer_loss][crash]") {
    if (one_process_only()) {
        support::skip("the transport does not leave its process");
        return;
    }
    constexpr unsigned kClients = 8;
    // All parties first: forks come before anything is opened.
    std::vector<std::unique_ptr<Party>> clients;
    for (unsigned i = 0; i < kClients; ++i) {
        clients.push_back(std::make_unique<Party>(Party::As::process, [i](Link& link) {
            std::string server = link.take_text();
            while (server == "later") {
                server = link.take_text();
            }
            Endpoint e;
            Addr to_server(e, server);
            Buffer out(e);
            Op send(e);
            PARTY_REQUIRE(send.send_unexpected(out, e.header() + 10, to_server, i) == NA_SUCCESS);
            PARTY_REQUIRE(until([&] { return send.done(); }, [&] { e.pump(); }));
            link.put("sent");
            link.take();  // never comes
        }));
    }
    Endpoint server;
    Buffer in(server);
    for (unsigned i = 0; i < kClients; ++i) {
        Op recv(server);
        REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
        clients[i]->link().put(server.uri());
        // Each waits as long for its turn as for anything else, and not for all turns together.
        for (unsigned other = i + 1; other < kClients; ++other) {
            clients[other]->link().put("later");
        }
        REQUIRE(until([&] { return recv.done() && clients[i]->link().readable(); },
                      [&] { server.pump(); }));
        CHECK(recv.result().tag == i);
        // An answer is due when the client dies.
        Op answer(server);
        Buffer answer_in(server);
        REQUIRE(answer.recv_expected(answer_in, recv.result().source, 1) == NA_SUCCESS);
        clients[i]->kill(SIGKILL);
        REQUIRE(until([&] { return answer.done(); }, [&] { server.pump(); }));
        CHECK(answer.ret() == NA_HOSTUNREACH);
    }
}
