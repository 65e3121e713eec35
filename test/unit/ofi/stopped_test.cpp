// SPDX-License-Identifier: BSD-3-Clause
// Peers that take nothing keep nobody from the others.
//
// Stopped ones: classes that nobody progresses. What is asked of them stays asked. What waits for
// them is with us, or with the provider: both have room for all peers together.
#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "conformance/na/common.hpp"

using namespace na_test;

namespace {

using Ops = std::vector<std::unique_ptr<Op>>;

bool all_done(const Ops& ops) {
    return std::all_of(ops.begin(), ops.end(), [](const auto& o) { return o->done(); });
}

// One that asks, one that answers, and others that stand.
struct Scene {
    static constexpr std::size_t kStopped = 4;
    static constexpr std::size_t kBytes = 4096;

    struct Target {
        explicit Target(Endpoint& a) : to(a, side.uri()), remote(a, memory.serialize()) {}
        Endpoint side;
        std::vector<std::byte> bytes = support::payload(kBytes, 1);
        Mem memory{side, bytes.data(), bytes.size(), NA_MEM_READWRITE};
        Addr to;
        Mem remote;
    };

    Scene() {
        for (std::size_t i = 0; i < kStopped; ++i) {
            stopped.push_back(std::make_unique<Target>(a));
        }
        Ops ops;
        ops.push_back(get(1, awake));
        for (const auto& s : stopped) {
            ops.push_back(get(1, *s));
        }
        REQUIRE(until([&] { return all_done(ops); }, [&] { pump_all(); }));
    }
    void pump() {
        a.pump();
        awake.side.pump();
    }
    void pump_all() {
        pump();
        for (const auto& s : stopped) {
            s->side.pump();
        }
    }
    std::unique_ptr<Op> get(std::size_t bytes, Target& from) {
        auto op = std::make_unique<Op>(a);
        REQUIRE(op->get(local, 0, from.remote, 0, bytes, from.to) == NA_SUCCESS);
        return op;
    }
    // It still answers what is asked of it, and takes what is sent.
    void require_one_is_there() {
        settle([&] { pump(); });
        std::fill(here.begin(), here.end(), std::byte{0});
        const auto large = get(kBytes, awake);
        REQUIRE(until([&] { return large->done(); }, [&] { pump(); }));
        CHECK(large->ret() == NA_SUCCESS);
        CHECK((here == awake.bytes));
        Buffer in(awake.side);
        Buffer out(a);
        Op recv(awake.side);
        Op send(a);
        REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
        const std::size_t size = fill_message(a, out, a.max_message() - a.header(), 3);
        REQUIRE(send.send_unexpected(out, size, awake.to, 1) == NA_SUCCESS);
        REQUIRE(until([&] { return send.done() && recv.done(); }, [&] { pump(); }));
        CHECK(recv.ret() == NA_SUCCESS);
        CHECK(holds(awake.side, in.data(), size, 3));
    }

    Endpoint a;
    std::vector<std::byte> here = std::vector<std::byte>(kBytes);
    Mem local{a, here.data(), here.size(), NA_MEM_READWRITE};
    Target awake{a};
    std::vector<std::unique_ptr<Target>> stopped;
};

}  // namespace

TEST_CASE("gets from peers that are stopped") {
    // Small ones have a buffer, large ones go to where they belong.
    const std::size_t bytes = GENERATE(std::size_t{64}, Scene::kBytes);
    INFO(bytes);
    Scene scene;
    Ops ops;
    for (int i = 0; i < 300; ++i) {
        for (const auto& s : scene.stopped) {
            ops.push_back(scene.get(bytes, *s));
        }
    }
    scene.require_one_is_there();
    REQUIRE(until([&] { return all_done(ops); }, [&] { scene.pump_all(); }));
}

TEST_CASE("messages to peers that are stopped") {
    Scene scene;
    Endpoint& a = scene.a;
    Buffer out(a);
    const std::size_t most = std::min(a.max_message(), a.max_message(true));
    const std::size_t size = fill_message(a, out, most - a.header(), 2);
    Ops ops;
    for (int i = 0; i < 600; ++i) {
        for (const auto& s : scene.stopped) {
            ops.push_back(std::make_unique<Op>(a));
            REQUIRE((i % 2 == 0 ? ops.back()->send_unexpected(out, size, s->to, 2)
                                : ops.back()->send_expected(out, size, s->to, 2)) == NA_SUCCESS);
        }
    }
    scene.require_one_is_there();
}
