// SPDX-License-Identifier: BSD-3-Clause
// Classes whose user promises one thread: libfabric is asked for one without locks, where it has
// that. Everything works as ever.
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "exchange.hpp"

using namespace na_test;

namespace {

Endpoint::Settings of_mode(int mode) {
    setenv("NA_UNLOCKED", "1", 1);  // without it the mode removes no lock
    Endpoint::Settings s;
    s.init.thread_mode = static_cast<std::uint8_t>(mode);
    return s;
}

// Puts and gets, many at a time.
void move(Endpoint& a, Endpoint& b, std::size_t size) {
    constexpr std::size_t kAtOnce = 8;
    INFO("transfers of " << size);
    Addr to_b(a, b.uri());
    std::vector<std::byte> here(kAtOnce * size);
    std::vector<std::byte> there(kAtOnce * size);
    Mem local(a, here.data(), here.size(), NA_MEM_READWRITE);
    Mem target(b, there.data(), there.size(), NA_MEM_READWRITE);
    Mem remote(a, target.serialize());
    std::vector<std::unique_ptr<Op>> ops;
    for (std::size_t i = 0; i < kAtOnce; ++i) {
        ops.push_back(std::make_unique<Op>(a));
    }
    for (const bool put : {true, false}) {
        support::fill(put ? here : there, size + put);
        for (std::size_t i = 0; i < kAtOnce; ++i) {
            REQUIRE((put ? ops[i]->put(local, i * size, remote, i * size, size, to_b)
                         : ops[i]->get(local, i * size, remote, i * size, size, to_b)) ==
                    NA_SUCCESS);
        }
        for (const auto& op : ops) {
            REQUIRE(until([&] { return op->done(); },
                          [&] {
                              a.pump();
                              b.pump();
                          }));
            CHECK(op->ret() == NA_SUCCESS);
            op->reset();
        }
        CHECK((here == there));
    }
}

}  // namespace

TEST_CASE("classes of one thread send, receive, put and get", "[ofi][single]") {
    const int mode = GENERATE(as<int>{}, NA_THREAD_MODE_SINGLE_CLS, NA_THREAD_MODE_SINGLE_CTX,
                              NA_THREAD_MODE_SINGLE);
    INFO("thread_mode " << mode);
    Pair p(of_mode(mode));
    exchange(p.a, p.b, 1);
    exchange(p.b, p.a, 2);
    for (const std::size_t size : {std::size_t{8}, std::size_t{4000}, std::size_t{100'000}}) {
        move(p.a, p.b, size);
        move(p.b, p.a, size);
    }
}

TEST_CASE("a class of one thread and one of many reach each other", "[ofi][single]") {
    Pair p(of_mode(NA_THREAD_MODE_SINGLE), of_mode(0));
    exchange(p.a, p.b, 3);
    exchange(p.b, p.a, 4);
    move(p.a, p.b, 100'000);
    move(p.b, p.a, 100'000);
}

TEST_CASE("a class of one thread reaches itself", "[ofi][single]") {
    Endpoint e(of_mode(NA_THREAD_MODE_SINGLE));
    exchange(e, e, 5);
    move(e, e, 8);
    move(e, e, 100'000);
}
