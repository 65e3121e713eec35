// SPDX-License-Identifier: BSD-3-Clause
// Two processes: ordinary service, and either of them killed at every stage.
#include <catch2/catch.hpp>

#include <chrono>
#include <csignal>
#include <memory>

#include "conformance/hg/side.hpp"
#include "support/payload.hpp"
#include "support/two_process.hpp"
#include "support/until.hpp"

using namespace hgtest;
using support::Link;
using support::Party;

namespace {

bool one_process_only() {
    if (support::options().protocol.find("loop") != std::string::npos) {
        support::skip("the transport lives in one process");
        return true;
    }
    return false;
}

// A server that tells its address and serves until the link says so.
void serve(Link& link) {
    Side side;
    link.put(side.uri());
    while (!link.readable()) {
        support::rest_point();
        (void)HG_Progress(side.context(), 10);
        unsigned n = 0;
        while (HG_Trigger(side.context(), 0, 16, &n) == HG_SUCCESS && n != 0) {
        }
    }
}

}  // namespace

TEST_CASE("a client and a server in two processes") {
    if (one_process_only()) {
        return;
    }
    Party server(Party::As::process, serve);
    {
        Side origin;
        const Addr to(origin, server.link().take_text());
        Call call(origin, to, origin.echo);
        for (unsigned i = 0; i < 1000 / support::kSlow; ++i) {
            const std::size_t size = i % 50 == 0 ? 300'000 : i % 3000;
            Blob in = blob(i, size);
            call.reset();
            REQUIRE(call.forward(in) == HG_SUCCESS);
            REQUIRE(support::until([&] { return call.done(); },
                                   [&] { (void)HG_Progress(origin.context(), 100); },
                                   [&] { origin.pump(); }));
            REQUIRE(call.ret() == HG_SUCCESS);
            REQUIRE(is_blob(call.out(), i + 1, size, i));
        }
    }
    server.link().put("stop");
    CHECK(server.join() == "");
}

TEST_CASE("calls to a server that is killed end at once") {
    if (one_process_only()) {
        return;
    }
    Party server(Party::As::process, serve);
    Side origin;
    const std::string uri = server.link().take_text();
    const Addr to(origin, uri);
    std::vector<std::unique_ptr<Call>> calls;
    for (unsigned i = 0; i < 30; ++i) {
        calls.push_back(std::make_unique<Call>(origin, to, origin.hold));
        REQUIRE(calls.back()->forward(i) == HG_SUCCESS);
    }
    Call first(origin, to, origin.empty);
    REQUIRE(first.forward() == HG_SUCCESS);
    REQUIRE(support::until([&] { return first.done(); }, [&] { origin.pump(); }));
    REQUIRE(first.ret() == HG_SUCCESS);
    server.kill(SIGKILL);
    const auto held = support::hold_port(uri);
    unsigned in_vain = 0;  // waits that no event has ended
    for (auto& call : calls) {
        REQUIRE(support::until(
            [&] { return call->done(); },
            [&] { in_vain += HG_Progress(origin.context(), 1000) == HG_TIMEOUT ? 1 : 0; },
            [&] { origin.pump(); }));
        CHECK(call->ret() == HG_HOSTUNREACH);
    }
    CHECK(in_vain < 5 * support::kSlow);
    if (!held) {
        return;  // another program is there
    }
    for (auto& call : calls) {
        // Whether or not the transport knows it by now, it is the callback that is told.
        call->reset();
        REQUIRE(call->forward(1) == HG_SUCCESS);
        REQUIRE(support::until([&] { return call->done(); }, [&] { origin.pump(); }));
        CHECK(call->ret() == HG_HOSTUNREACH);
    }
    // Which can say who it was.
    std::string said;
    std::uint64_t number = 1;
    calls[0]->reset();
    REQUIRE(HG_Forward(
                calls[0]->handle(),
                [](const hg_cb_info* info) -> hg_return_t {
                    *static_cast<std::string*>(info->arg) = HG_Get_last_error();
                    return HG_SUCCESS;
                },
                &said, &number) == HG_SUCCESS);
    REQUIRE(support::until([&] { return !said.empty(); }, [&] { origin.pump(); }));
    CHECK(said.find(uri) != std::string::npos);
}

TEST_CASE("answers to those who are gone end in their callbacks") {
    if (one_process_only()) {
        return;
    }
    if (const char* why = support::lacks(support::Promise::deaths_at_work)) {
        support::skip(why);
        return;
    }
    constexpr unsigned kCalls = 6;
    Party client(Party::As::process, [](Link& link) {
        const std::string uri = link.take_text();
        Side origin;
        const Addr to(origin, uri);
        std::vector<std::unique_ptr<Call>> calls;
        for (unsigned i = 0; i < kCalls; ++i) {
            calls.push_back(std::make_unique<Call>(origin, to, origin.hold));
            PARTY_REQUIRE(calls.back()->forward(i) == HG_SUCCESS);
        }
        while (!link.readable()) {  // never is
            origin.pump();
        }
    });
    Side server;
    client.link().put(server.uri());
    REQUIRE(support::until([&] { return server.held().size() == kCalls; }, [&] { server.pump(); }));
    client.kill(SIGKILL);
    unsigned ended = 0;
    const hg_cb_t on_end = [](const hg_cb_info* info) -> hg_return_t {
        // What left before the death was noticed is lost without a word, on some transports.
        CHECK((info->ret == HG_SUCCESS || info->ret == HG_HOSTUNREACH));
        ++*static_cast<unsigned*>(info->arg);
        return HG_SUCCESS;
    };
    for (unsigned i = 0; i < kCalls; ++i) {
        const hg_handle_t h = server.held()[i];
        Blob out = blob(1, i % 2 == 0 ? 10 : 100'000);
        if (i % 3 == 2) {
            CHECK(HG_Respond_error(h, on_end, &ended, HG_NOMEM) == HG_SUCCESS);
        } else {
            CHECK(HG_Respond(h, on_end, &ended, &out) == HG_SUCCESS);
        }
        CHECK(HG_Respond(h, on_end, &ended, &out) == HG_BUSY);
        CHECK(HG_Destroy(h) == HG_SUCCESS);
        REQUIRE(support::until([&] { return ended == i + 1; }, [&] { server.pump(); }));
    }
    server.held().clear();
}

TEST_CASE("a server is killed at any moment of large calls") {
    if (one_process_only()) {
        return;
    }
    support::Random random(support::options().seed);
    for (unsigned round = 0; round < 12 / support::kSlow; ++round) {
        Party server(Party::As::process, serve);
        Side origin;
        const Addr to(origin, server.link().take_text());
        std::vector<std::unique_ptr<Call>> calls;
        for (unsigned i = 0; i < 8; ++i) {
            calls.push_back(
                std::make_unique<Call>(origin, to, i % 3 == 2 ? origin.note : origin.echo));
            Blob in = blob(i, 1'000'000);
            REQUIRE(calls.back()->forward(in) == HG_SUCCESS);
        }
        for (std::uint64_t n = random.below(2000); n != 0; --n) {
            origin.pump();
        }
        server.kill(SIGKILL);
        for (auto& call : calls) {
            REQUIRE(support::until([&] { return call->done(); }, [&] { origin.pump(); }));
            CHECK((call->ret() == HG_SUCCESS || call->ret() == HG_HOSTUNREACH));
        }
    }
}

TEST_CASE("a server goes on when clients are killed at any moment") {
    if (one_process_only()) {
        return;
    }
    if (const char* why = support::lacks(support::Promise::deaths_at_work)) {
        support::skip(why);
        return;
    }
    constexpr std::size_t kLargest = 120'000 / support::kSlow;
    support::Random random(support::options().seed);
    std::vector<std::unique_ptr<Party>> clients;
    for (unsigned i = 0; i < 4; ++i) {
        clients.push_back(std::make_unique<Party>(Party::As::process, [i](Link& link) {
            const std::string uri = link.take_text();
            Side origin;
            const Addr to(origin, uri);
            // Calls of all sizes without end, a dozen at a time.
            std::vector<std::unique_ptr<Call>> calls;
            for (unsigned k = 0; k < 12; ++k) {
                calls.push_back(std::make_unique<Call>(origin, to,
                                                       k % 4 == 0   ? origin.hold
                                                       : k % 4 == 1 ? origin.note
                                                                    : origin.echo));
                calls.back()->decode_output = false;
                calls.back()->on_done = [](Call& c) {
                    c.reset();
                    Blob next = blob(1, kLargest);
                    (void)c.forward(next);
                };
                if (k % 4 == 0) {
                    (void)calls.back()->forward(i);
                } else {
                    Blob in = blob(k, k * kLargest / 12);
                    (void)calls.back()->forward(in);
                }
            }
            link.put("going");
            while (!link.readable()) {
                origin.pump();
            }
        }));
    }
    Side server;
    std::size_t kept = 3;
    const auto pump = [&] {
        server.pump();
        // Whom it still has to answer may be dead by now.
        if (server.held().size() > kept) {
            for (const hg_handle_t h : server.held()) {
                Blob out = blob(1, kLargest);
                CHECK(HG_Respond(h, nullptr, nullptr, &out) == HG_SUCCESS);
                HG_Destroy(h);
            }
            server.held().clear();
        }
    };
    for (auto& client : clients) {
        client->link().put(server.uri());
    }
    for (auto& client : clients) {
        REQUIRE(support::until([&] { return client->link().readable(); }, pump));
    }
    for (auto& client : clients) {
        for (std::uint64_t n = random.below(300); n != 0; --n) {
            pump();
        }
        client->kill(SIGKILL);
    }
    kept = 0;  // some may come yet: they were on their way
    REQUIRE(support::until([&] { return server.counters().rpc_req_recv_active_count == 0; }, pump));
    Side origin;
    const Addr to(origin, server.uri());
    Call call(origin, to, origin.echo);
    Blob in = blob(1, 90'000);
    REQUIRE(call.forward(in) == HG_SUCCESS);
    REQUIRE(support::until([&] { return call.done(); }, pump, [&] { origin.pump(); }));
    CHECK(call.ret() == HG_SUCCESS);
    call.reset();
    Blob small = blob(1, 50);
    REQUIRE(call.forward(small) == HG_SUCCESS);
    REQUIRE(support::until([&] { return call.done(); }, pump, [&] { origin.pump(); }));
    CHECK(call.ret() == HG_SUCCESS);
}
