// SPDX-License-Identifier: BSD-3-Clause
// Peers are served by turns: who sends a few requests waits for a bounded number of others, however
// many another peer has sent. Requests served are counted, not time.
#include <catch2/catch.hpp>

#include <memory>
#include <vector>

#include "conformance/hg/setting.hpp"
#include "conformance/hg/side.hpp"
#include "support/options.hpp"
#include "support/until.hpp"

using namespace hgtest;

namespace {

constexpr unsigned kFlood = 6000;
constexpr unsigned kFew = 4;
// Of others, between the moment when a few requests leave and that when they are served: what waits
// for trigger already, and what is served while they are on their way.
constexpr unsigned kBound = kFlood / 3;
constexpr unsigned kRounds = 2000;  // in which what is on its way arrives
constexpr std::uint64_t kMark = 1'000'000;

// How programs drive a context.
enum class Drive { until_empty, one_each, few_each };

void serve(Side& side, Drive drive) {
    (void)HG_Progress(side.context(), 0);
    unsigned n = 0;
    if (drive == Drive::until_empty) {
        do {
            n = 0;
            (void)HG_Trigger(side.context(), 0, 64, &n);
        } while (n != 0);
    } else {
        (void)HG_Trigger(side.context(), 0, drive == Drive::one_each ? 1 : 16, &n);
    }
}

struct Flooded {
    Flooded() {
        // All are connected.
        for (Side* from : {&flooder, &modest}) {
            Call call(*from, from == &flooder ? flood_to : modest_to, from->echo);
            Blob in = blob(1, 10);
            REQUIRE(call.forward(in) == HG_SUCCESS);
            REQUIRE(support::until([&] { return call.done(); },
                                   [&] {
                                       target.pump();
                                       from->pump();
                                   }));
        }
        for (unsigned i = 0; i < kFlood; ++i) {
            calls.push_back(std::make_unique<Call>(flooder, flood_to, flooder.echo));
            Blob in = blob(i, 100);
            REQUIRE(calls.back()->forward(in) == HG_SUCCESS);
        }
    }
    // Everything that has been sent comes; nothing is served.
    void let_arrive() {
        for (unsigned i = 0; i < kRounds; ++i) {
            (void)HG_Progress(target.context(), 0);
            flooder.pump();
            modest.pump();
        }
    }
    void pump(Drive drive) {
        serve(target, drive);
        flooder.pump();
        modest.pump();
    }
    void finish() {
        CHECK(support::until(
            [&] {
                for (const auto& call : calls) {
                    if (!call->done()) {
                        return false;
                    }
                }
                return true;
            },
            [&] { pump(Drive::until_empty); }));
        for (const auto& call : calls) {
            CHECK(call->ret() == HG_SUCCESS);
        }
    }

    Side target;
    Side flooder;
    Side modest;
    Addr flood_to{flooder, target.uri()};
    Addr modest_to{modest, target.uri()};
    std::vector<std::unique_ptr<Call>> calls;
};

}  // namespace

TEST_CASE("a client with few calls beside one with a flood is served by turns") {
    const Setting coalesce("HG_COALESCE", GENERATE("0", "2"));
    const Drive drive = GENERATE(Drive::until_empty, Drive::one_each, Drive::few_each);
    Flooded f;
    f.let_arrive();
    std::vector<std::unique_ptr<Call>> few;
    for (unsigned i = 0; i < kFew; ++i) {
        few.push_back(std::make_unique<Call>(f.modest, f.modest_to, f.modest.echo));
        Blob in = blob(kMark + i, 10);
        REQUIRE(few.back()->forward(in) == HG_SUCCESS);
    }
    f.let_arrive();
    const std::uint64_t before = f.target.served;
    std::uint64_t after = 0;
    std::uint64_t next = kMark;
    std::uint64_t next_of_flood = 0;
    bool in_order = true;
    f.target.on_served = [&](std::uint64_t number) {
        std::uint64_t& expected = number >= kMark ? next : next_of_flood;
        in_order = in_order && (number == expected);
        if (number >= kMark) {
            after = f.target.served;
        }
        ++expected;
    };
    CHECK(support::until(
        [&] {
            for (const auto& call : few) {
                if (!call->done()) {
                    return false;
                }
            }
            return true;
        },
        [&] { f.pump(drive); }));
    INFO("others served meanwhile: " << after - before);
    CHECK(after - before < kBound);
    f.finish();
    CHECK(in_order);
}

TEST_CASE("a flooded context's own calls end by turns with what it serves") {
    const Setting coalesce("HG_COALESCE", GENERATE("0", "2"));
    Flooded f;
    const Addr to_modest(f.target, f.modest.uri());
    f.let_arrive();
    Call own(f.target, to_modest, f.target.echo);
    Blob in = blob(7, 10);
    REQUIRE(own.forward(in) == HG_SUCCESS);
    f.let_arrive();
    const std::uint64_t before = f.target.served;
    CHECK(support::until([&] { return own.done(); }, [&] { f.pump(Drive::until_empty); }));
    CHECK(f.target.served - before < kBound);
    f.finish();
}
