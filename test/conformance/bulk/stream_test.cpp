// SPDX-License-Identifier: BSD-3-Clause
// Large transfers without a pause, in both directions at once: for as many seconds as --rounds
// says.
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "party.hpp"

using namespace test;

namespace {

constexpr hg_size_t kSize = 16 << 20;
constexpr std::size_t kEachWay = 8;  // in flight

// A piece of the origin's memory that is written, read back and compared in turns, and one here.
struct Slot {
    Ended ended;
    hg_bulk_op_t op = HG_BULK_PUSH;
    hg_size_t offset = 0;
    std::uint64_t seed = 0;
    std::unique_ptr<Memory> memory;
};

struct Stream {
    const Node& node;
    const Address& addr;
    const Bulk& remote;

    void start(Slot& slot) const {
        slot.ended = {};
        REQUIRE(HG_Bulk_transfer(node.context(), note_end, &slot.ended, slot.op, addr, remote,
                                 slot.offset, slot.memory->bulk, 0, kSize,
                                 HG_OP_ID_IGNORE) == HG_SUCCESS);
    }
    // What was read back is what was written, and gives way to something else.
    void check(Slot& slot) const {
        void* bytes = slot.memory->parts[0].data();
        REQUIRE(holds(bytes, kSize, slot.seed));
        fill(bytes, kSize, ++slot.seed);
    }
};

}  // namespace

TEST_CASE("large transfers both ways, without a pause", "[.stream]") {
    using Clock = std::chrono::steady_clock;
    const auto length = std::chrono::seconds(support::options().rounds);
    const Shown shown{.sizes = std::vector<hg_size_t>(2 * kEachWay, kSize)};
    Origin origin(shown);
    Node node;
    std::uint64_t there = 0;
    std::uint64_t back = 0;
    Clock::duration took{};
    {
        const Address addr(node, origin.uri());
        const Bulk remote = origin.descriptor(node);
        const Stream stream{node, addr, remote};
        std::vector<Slot> slots(2 * kEachWay);
        support::Random random(shown.seed);
        for (std::size_t i = 0; i < slots.size(); ++i) {
            Slot& slot = slots[i];
            slot.offset = i * kSize;
            slot.seed = random.next();  // the origin's memory is like that
            slot.op = i % 2 == 0 ? HG_BULK_PUSH : HG_BULK_PULL;
            slot.memory = std::make_unique<Memory>(node, std::vector<hg_size_t>{kSize}, slot.seed,
                                                   HG_BULK_READWRITE);
            if (slot.op == HG_BULK_PUSH) {
                fill(slot.memory->parts[0].data(), kSize, ++slot.seed);
            }
        }
        const auto begin = Clock::now();
        for (Slot& slot : slots) {
            stream.start(slot);
        }
        for (std::size_t flying = slots.size(); flying != 0;) {
            Slot* done = nullptr;
            while (done == nullptr) {  // the limit of the case is the one that counts
                node.pump();
                std::this_thread::yield();
                for (Slot& slot : slots) {
                    done = slot.ended.count != 0 ? &slot : done;
                }
            }
            REQUIRE(done->ended.count == 1);
            REQUIRE(done->ended.info.ret == HG_SUCCESS);
            done->ended.count = 0;
            if (done->op == HG_BULK_PULL) {
                ++back;
                stream.check(*done);
                done->op = HG_BULK_PUSH;
                if (Clock::now() - begin >= length) {
                    --flying;
                    continue;
                }
            } else {
                ++there;
                done->op = HG_BULK_PULL;
            }
            stream.start(*done);
        }
        took = Clock::now() - begin;
    }
    node.close();
    CHECK(origin.end() == "");
    const double seconds = std::chrono::duration<double>(took).count();
    fmt::print(
        "{} transfers of 16 MiB there, {} back, all as they should be, in {:.1f} s: {:.0f} MiB/s\n",
        there, back, seconds, static_cast<double>((there + back) * 16) / seconds);
}
