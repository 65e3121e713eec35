// SPDX-License-Identifier: BSD-3-Clause
// The largest messages, one byte more, many addresses, the table's limit.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "common.hpp"

using namespace na_test;

TEST_CASE("the largest message works, one byte more is refused", "[limits]") {
    const bool expected = GENERATE(false, true);
    for (const std::size_t asked : {std::size_t{0}, std::size_t{256}, std::size_t{100000}}) {
        Endpoint::Settings settings;
        settings.init.max_unexpected_size = asked;
        settings.init.max_expected_size = asked;
        Pair p(settings);
        const std::size_t most = p.a.max_message(expected);
        INFO("largest message " << most);
        Buffer out(p.a, most + 1);
        Buffer in(p.b, most);
        Op send(p.a);
        Op recv(p.b);
        const auto post = [&](std::size_t size) {
            return expected ? send.send_expected(out, size, p.to_b, 1)
                            : send.send_unexpected(out, size, p.to_b, 1);
        };
        {
            const Quiet quiet;
            CHECK(post(most + 1) == NA_OVERFLOW);
            CHECK(post(std::size_t{1} << 32) == NA_OVERFLOW);
            CHECK(post(~std::size_t{0}) == NA_OVERFLOW);
            CHECK(std::string(NA_Get_last_error()).find(std::to_string(most)) != std::string::npos);
        }
        REQUIRE((expected ? recv.recv_expected(in, p.to_a, 1) : recv.recv_unexpected(in)) ==
                NA_SUCCESS);
        fill_message(p.a, out, most - p.a.header(expected), most, expected);
        REQUIRE(post(most) == NA_SUCCESS);
        REQUIRE(until([&] { return send.done() && recv.done(); }, [&] { p.pump(); }));
        CHECK(send.ret() == NA_SUCCESS);
        CHECK(recv.ret() == NA_SUCCESS);
        CHECK(recv.result().size == most);
        CHECK(holds(p.b, in.data(), most, most, expected));
    }
}

TEST_CASE("sides with different sizes do not harm each other", "[limits]") {
    Endpoint::Settings large;
    large.init.max_unexpected_size = 60000;
    large.init.max_expected_size = 60000;
    Endpoint::Settings small;
    small.init.max_unexpected_size = 2000;
    small.init.max_expected_size = 2000;
    Pair p(large, small);
    Buffer out(p.a);
    Buffer in(p.b, 2000);
    Buffer in_expected(p.b, 2000);
    const std::size_t too_much = fill_message(p.a, out, 50000, 1);
    Op recv(p.b);
    Op recv_expected(p.b);
    REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    REQUIRE(recv_expected.recv_expected(in_expected, p.to_a, 1) == NA_SUCCESS);
    {
        Op send(p.a);
        Op send_expected(p.a);
        const Quiet quiet;
        const na_return_t a = send.send_unexpected(out, too_much, p.to_b, 1);
        const na_return_t b = send_expected.send_expected(out, too_much, p.to_b, 1);
        REQUIRE(until(
            [&] {
                return (a != NA_SUCCESS || send.done()) &&
                       (b != NA_SUCCESS || send_expected.done());
            },
            [&] { p.pump(); }));
        settle([&] { p.pump(); });
    }
    // Dropped or refused: what follows arrives.
    CHECK((!recv.done() || recv.ret() == NA_MSGSIZE));
    recv_expected.cancel();
    REQUIRE(until([&] { return recv_expected.done(); }, [&] { p.pump(); }));
    if (recv.done()) {
        recv.reset();
        REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    }
    Op send(p.a);
    REQUIRE(send.send_unexpected(out, fill_message(p.a, out, 1000, 7), p.to_b, 3) == NA_SUCCESS);
    REQUIRE(until([&] { return send.done() && recv.done(); }, [&] { p.pump(); }));
    CHECK(recv.ret() == NA_SUCCESS);
    CHECK(recv.result().tag == 3);
    CHECK(holds(p.b, in.data(), recv.result().size, 7));
}

TEST_CASE("empty messages arrive", "[limits]") {
    Pair p;
    Buffer in(p.b);
    Buffer out(p.a);
    Op recv(p.b);
    Op send(p.a);
    REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    REQUIRE(send.send_unexpected(out, p.a.header(), p.to_b, 9) == NA_SUCCESS);
    REQUIRE(until([&] { return send.done() && recv.done(); }, [&] { p.pump(); }));
    CHECK(recv.result().size == p.a.header());
    CHECK(recv.result().tag == 9);
    if (p.a.header() == 0) {  // then no buffer is needed at all
        recv.reset();
        send.reset();
        REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
        REQUIRE(NA_Msg_send_unexpected(p.a.cls(), p.a.context(), nullptr, nullptr, nullptr, 0,
                                       nullptr, p.to_b, 0, 4, send.id()) == NA_SUCCESS);
        REQUIRE(until([&] { return recv.done(); }, [&] { p.pump(); }));
        CHECK(recv.result().tag == 4);
        settle([&] { p.pump(); });
    }
}

TEST_CASE("a class holds ten thousand addresses, and finds the last as fast as the first",
          "[limits][peer]") {
    using Clock = std::chrono::steady_clock;
    constexpr std::size_t kPeers = 10000;
    constexpr std::size_t kPart = 1000;
    Pair p;
    const std::string self = p.a.uri();
    const Quiet quiet;
    // Others of the same kind: the digits that an address ends with are a port, or part of a name.
    const std::string stem = self.substr(0, self.find_last_not_of("0123456789") + 1);
    std::vector<Addr> all;
    std::vector<std::string> texts;
    double first = 0;
    double last = 0;
    for (std::size_t number = 10000; all.size() < kPeers; ++number) {
        const std::string text = stem + std::to_string(number);
        if (text == self || text == p.b.uri()) {
            continue;
        }
        const auto begin = Clock::now();
        na_addr_t* addr = nullptr;
        const na_return_t r = NA_Addr_lookup(p.a.cls(), text.c_str(), &addr);
        const double took = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
        if (r != NA_SUCCESS && all.empty()) {
            support::skip("addresses of this transport cannot be made up");
            return;
        }
        REQUIRE(r == NA_SUCCESS);
        first += all.size() < kPart ? took : 0;
        last += all.size() >= kPeers - kPart ? took : 0;
        all.emplace_back(p.a, addr);
        texts.push_back(text);
    }
    // For who reads the log: machines are too different for a bound.
    std::printf("a lookup of one of the first %zu took %.2f us, of the last %.2f us\n", kPart,
                first / kPart, last / kPart);

    // All are different, and each is found again.
    std::vector<na_addr_t*> objects;
    for (std::size_t i = 0; i < all.size(); ++i) {
        objects.push_back(all[i].get());
        Addr again(p.a, texts[i]);
        REQUIRE(again.get() == all[i].get());
        REQUIRE_FALSE(NA_Addr_cmp(p.a.cls(), all[i], p.to_b));
    }
    std::sort(objects.begin(), objects.end());
    CHECK(std::adjacent_find(objects.begin(), objects.end()) == objects.end());
    CHECK(support::to_string(p.a, all[kPeers / 2]) == texts[kPeers / 2]);

    // The one that exists is reached among them, both ways.
    const auto exchange = [&] {
        Buffer out(p.a);
        Buffer in(p.b);
        Op recv(p.b);
        Op send(p.a);
        REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
        REQUIRE(send.send_unexpected(out, fill_message(p.a, out, 64, 3), p.to_b, 3) == NA_SUCCESS);
        REQUIRE(until([&] { return send.done() && recv.done(); }, [&] { p.pump(); }));
        CHECK(send.ret() == NA_SUCCESS);
        REQUIRE(recv.ret() == NA_SUCCESS);
        CHECK(holds(p.b, in.data(), recv.result().size, 3));
    };
    exchange();
    // Most are given up; those that stay are found, and the peer reached.
    all.erase(all.begin() + kPart, all.end());
    settle([&] { p.pump(); });
    for (std::size_t i = 0; i < all.size(); ++i) {
        Addr again(p.a, texts[i]);
        REQUIRE(again.get() == all[i].get());
    }
    exchange();
}

TEST_CASE("the address table has a limit, and room again afterwards", "[limits][peer]") {
    const Environment limit("NA_MAX_ADDRESSES", "8");
    Endpoint e;
    const Quiet quiet;
    // With and without progress in between, which is when freed ones usually go.
    for (const bool progress : {true, false, false, true}) {
        std::vector<Addr> all;
        na_return_t r = NA_SUCCESS;
        for (int i = 0; i < 20 && r == NA_SUCCESS; ++i) {
            na_addr_t* addr = nullptr;
            r = NA_Addr_lookup(e.cls(), (e.uri() + std::to_string(i)).c_str(), &addr);
            if (r == NA_SUCCESS) {
                all.emplace_back(e, addr);
            } else if (i == 0) {
                support::skip("addresses of this transport cannot be made up");
                return;
            }
        }
        CHECK(r == NA_NOMEM);
        CHECK(all.size() == 7);  // and oneself
        all.clear();
        if (progress) {
            e.pump();
        }
    }
}

TEST_CASE("strangers beyond the address limit are refused without harm", "[limits][peer]") {
    std::unique_ptr<Endpoint> server;
    {
        const Environment limit("NA_MAX_ADDRESSES", "3");
        server = std::make_unique<Endpoint>();
    }
    const Quiet quiet;
    Buffer in(*server);
    Op recv(*server);
    std::vector<Addr> sources;
    unsigned received = 0;
    recv.on_result = [&](Op& op, const Result& r) {
        if (r.ret == NA_SUCCESS) {
            ++received;
            na_addr_t* kept = nullptr;
            NA_Addr_dup(server->cls(), r.source, &kept);
            sources.emplace_back(*server, kept);
            op.recv_unexpected(in);
        }
    };
    REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    std::vector<std::unique_ptr<Endpoint>> clients;
    for (unsigned i = 0; i < 5; ++i) {
        clients.push_back(std::make_unique<Endpoint>());
        Endpoint& c = *clients.back();
        Addr to_server(c, server->uri());
        Buffer out(c);
        Op send(c);
        REQUIRE(send.send_unexpected(out, fill_message(c, out, 30, 1), to_server, i) == NA_SUCCESS);
        // A refused one may stay unanswered: it is canceled then.
        const bool has_room = i < 2;
        (void)support::until_for(
            has_room ? support::kDeadline : std::chrono::milliseconds(100),
            [&] { return send.done() && received == i + 1; },
            [&] {
                c.pump();
                server->pump();
            });
    }
    CHECK(received == 2);
    // Those that are known go on.
    Endpoint& first = *clients.front();
    Addr to_server(first, server->uri());
    Buffer out(first);
    Op send(first);
    REQUIRE(send.send_unexpected(out, fill_message(first, out, 30, 1), to_server, 1) == NA_SUCCESS);
    CHECK(until([&] { return send.done() && received == 3; },
                [&] {
                    first.pump();
                    server->pump();
                }));
}
