// SPDX-License-Identifier: BSD-3-Clause
// Several threads start, cancel and complete transfers on one context.
#include <atomic>
#include <thread>

#include <catch2/catch.hpp>

#include "party.hpp"

using namespace test;

namespace {

struct Tally {
    std::atomic<unsigned> good{0};
    std::atomic<unsigned> canceled{0};
    std::atomic<unsigned> other{0};
    unsigned ended() const { return good + canceled + other; }
};

hg_return_t count(const hg_cb_info* info) {
    auto& tally = *static_cast<Tally*>(info->arg);
    ++(info->ret == HG_SUCCESS    ? tally.good
       : info->ret == HG_CANCELED ? tally.canceled
                                  : tally.other);
    return HG_SUCCESS;
}

}  // namespace

TEST_CASE("threads share a context", "[threads]") {
    constexpr hg_size_t kSize = 4 << 20;
    constexpr unsigned kThreads = 3;
    const unsigned rounds = 300 / support::kSlow;
    Origin origin({.sizes = {kSize / 2, kSize / 2}});
    Node node;
    {
        const Address addr(node, origin.uri());
        const Bulk remote = origin.descriptor(node);
        Tally tally;
        std::atomic<unsigned> refused{0};
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < kThreads; ++t) {
            threads.emplace_back([&, t] {
                support::Random random(support::options().seed * 10 + t);
                // Its own memory: what two transfers write at a time is nobody's business to
                // define.
                const Memory local(node, {kSize}, t, HG_BULK_READWRITE);
                for (unsigned i = 0; i < rounds; ++i) {
                    const hg_size_t size = random.below(i % 20 == 0 ? kSize : 20000);
                    hg_op_id_t id = HG_OP_ID_NULL;
                    if (HG_Bulk_transfer(node.context(), count, &tally, HG_BULK_PULL, addr, remote,
                                         random.below(kSize - size), local.bulk,
                                         random.below(kSize - size), size, &id) != HG_SUCCESS) {
                        ++refused;
                    } else if (random.below(4) == 0) {
                        HG_Bulk_cancel(id);
                    }
                    if (random.below(3) == 0) {
                        node.pump();
                    }
                }
                (void)support::until([&] { return tally.ended() + refused == kThreads * rounds; },
                                     [&] { node.pump(); });
            });
        }
        for (auto& t : threads) {
            t.join();
        }
        CHECK(refused == 0);
        CHECK(tally.other == 0);
        CHECK(tally.ended() == kThreads * rounds);
        CHECK(tally.good > 0);
    }
    node.close();
    CHECK(origin.end() == "");
}

TEST_CASE("one thread starts while another sleeps in progress", "[threads]") {
    constexpr hg_size_t kSize = 20 << 20;
    Origin origin({.sizes = {kSize}});
    Node node;
    {
        const Address addr(node, origin.uri());
        const Bulk remote = origin.descriptor(node);
        const Memory local(node, {kSize}, 2, HG_BULK_READWRITE);
        Tally tally;
        std::atomic<bool> stop{false};
        std::atomic<unsigned> slept_through{0};
        std::thread sleeper([&] {
            while (!stop && tally.ended() < 20) {
                // Nothing but transfers can end this sleep.
                if (HG_Progress(node.context(), 15000) == HG_TIMEOUT) {
                    ++slept_through;
                }
                unsigned n = 0;
                while (HG_Trigger(node.context(), 0, 1, &n) == HG_SUCCESS && n != 0) {
                }
            }
        });
        for (unsigned i = 1; i <= 20; ++i) {
            if (HG_Bulk_transfer(node.context(), count, &tally, HG_BULK_PULL, addr, remote, 0,
                                 local.bulk, 0, i % 2 == 0 ? kSize : 100, nullptr) != HG_SUCCESS) {
                break;
            }
            if (!support::until([&] { return tally.ended() == i; },
                                [] { std::this_thread::yield(); })) {
                break;
            }
        }
        stop = true;
        sleeper.join();
        CHECK(tally.good == 20);
        CHECK(slept_through == 0);
        CHECK(hash(local.flat()) == origin.memory_hash(node));
    }
    node.close();
    CHECK(origin.end() == "");
}
