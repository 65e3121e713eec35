// SPDX-License-Identifier: BSD-3-Clause
// A pair of sides whose target gives the handles of requests back before it responds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include <catch2/catch.hpp>

#include "conformance/hg/side.hpp"
#include "hg/context.hpp"
#include "support/until.hpp"

namespace hgtest {

// Of the handler below: no longer the program's, but for their answers.
inline std::vector<hg_handle_t> owed;
inline std::vector<std::uint64_t> numbers;

inline hg_return_t on_owe(hg_handle_t h) {
    Blob in;
    const hg_return_t ret = HG_Get_input(h, &in);
    if (ret == HG_SUCCESS) {
        HG_Free_input(h, &in);
    }
    owed.push_back(h);
    numbers.push_back(in.number);
    HG_Destroy(h);
    return ret;
}

struct Owing : Pair {
    Owing() : Owing(Side::Settings{}) {}
    explicit Owing(const Side::Settings& target) : Pair(Side::Settings{}, target) {
        owed.clear();
        numbers.clear();
        if (HG_Register(b.cls(), b.echo, proc_blob, proc_blob, on_owe) != HG_SUCCESS) {
            throw std::runtime_error("HG_Register");
        }
    }
    std::size_t active() { return core().counters().requests_active; }
    hg::Context& core() { return *reinterpret_cast<hg::Context*>(b.context()); }
    bool await(std::size_t n) {
        return support::until([&] { return owed.size() >= n; }, [&] { pump(); });
    }
    // One late response, from which the target knows that there are such.
    void learn() {
        Call call(a, to_b, a.echo);
        Blob in = blob(1, 10);
        REQUIRE(call.forward(in) == HG_SUCCESS);
        REQUIRE(await(1));
        REQUIRE(HG_Respond(owed[0], nullptr, nullptr, &in) == HG_SUCCESS);
        REQUIRE(wait(call) == HG_SUCCESS);
        owed.clear();
        numbers.clear();
    }
    // So many calls of the echo that are owed their answers, in the order of `owed`.
    std::vector<std::unique_ptr<Call>> call(std::size_t n, std::size_t size = 10) {
        constexpr std::size_t kAtOnce = 128;
        const std::size_t before = owed.size();
        std::vector<std::unique_ptr<Call>> calls;
        for (std::size_t i = 0; i < n; ++i) {
            calls.push_back(std::make_unique<Call>(a, to_b, a.echo));
            Blob in = blob(i, size);
            REQUIRE(calls.back()->forward(in) == HG_SUCCESS);
            if (i % 16 == 0) {
                pump();
            }
            // What waits for room comes together, and the target refuses what is too much at once.
            REQUIRE(support::until([&] { return owed.size() + kAtOnce > before + i; },
                                   [&] { pump(); }));
        }
        REQUIRE(await(n));
        return calls;
    }
    bool all_over() {
        return support::until([&] { return active() == 0; }, [&] { pump(); });
    }
    void rounds() {
        for (int i = 0; i < 50; ++i) {
            pump();
        }
    }
};

// One-way calls from somebody who says so himself, to an RPC that is answered.
struct Sly {
    explicit Sly(Side& target) : to(side, target.uri()), call(side, to, side.echo) {
        if (HG_Registered_disable_response(side.cls(), side.echo, 1) != HG_SUCCESS) {
            throw std::runtime_error("HG_Registered_disable_response");
        }
        call.decode_output = false;
    }
    // One call, until the target has run it.
    void run(Owing& pair, std::uint64_t number, std::size_t size = 10) {
        const std::size_t before = owed.size();
        Blob in = blob(number, size);
        REQUIRE(call.forward(in) == HG_SUCCESS);
        REQUIRE(support::until([&] { return call.done() && owed.size() > before; },
                               [&] {
                                   side.pump();
                                   pair.pump();
                               }));
        CHECK(call.ret() == HG_SUCCESS);
        call.reset();
    }
    Side side;
    Addr to;
    Call call;
};

}  // namespace hgtest
