// SPDX-License-Identifier: BSD-3-Clause
// Two endpoints that talk.
#pragma once

#include <cstddef>
#include <cstdint>

#include <catch2/catch.hpp>

#include "conformance/na/common.hpp"

namespace na_test {

// A question, and an answer to who has asked it.
inline void exchange(Endpoint& a, Endpoint& b, std::uint64_t seed) {
    const auto pump = [&] {
        a.pump();
        b.pump();
    };
    Addr to_b(a, b.uri());
    Buffer question(a), asked(b), answer(b), answered(a);
    Op send(a), receive(b), reply(b), await(a);
    const std::size_t most = a.max_message() - a.header();
    for (const std::size_t size : {std::size_t{1}, std::size_t{1000}, most}) {
        INFO("message of " << size);
        REQUIRE(receive.recv_unexpected(asked) == NA_SUCCESS);
        REQUIRE(await.recv_expected(answered, to_b, 2) == NA_SUCCESS);
        REQUIRE(send.send_unexpected(question, fill_message(a, question, size, seed), to_b, 1) ==
                NA_SUCCESS);
        REQUIRE(until([&] { return send.done() && receive.done(); }, pump));
        REQUIRE(send.ret() == NA_SUCCESS);
        REQUIRE(receive.ret() == NA_SUCCESS);
        CHECK(receive.result().size == a.header() + size);
        CHECK(holds(b, asked.data(), receive.result().size, seed));
        CHECK(support::to_string(b, receive.result().source) == a.uri());
        REQUIRE(reply.send_expected(answer, fill_message(b, answer, 100, seed + 1, true),
                                    receive.result().source, 2) == NA_SUCCESS);
        REQUIRE(until([&] { return reply.done() && await.done(); }, pump));
        REQUIRE(reply.ret() == NA_SUCCESS);
        REQUIRE(await.ret() == NA_SUCCESS);
        CHECK(holds(a, answered.data(), await.result().size, seed + 1, true));
        for (Op* op : {&send, &receive, &reply, &await}) {
            op->reset();
        }
    }
}

}  // namespace na_test
