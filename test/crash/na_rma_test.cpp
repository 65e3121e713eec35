// SPDX-License-Identifier: BSD-3-Clause
// A peer is killed in the middle of puts and gets of 64 MiB, in both roles.
#include <catch2/catch.hpp>

#include <array>
#include <memory>

#include <sys/mman.h>

#include "crash/na_scene.hpp"
#include "support/payload.hpp"

namespace {

using namespace crash;
using support::Link;

constexpr std::size_t kBytes = std::size_t{64} << 20;

// Fresh pages, given back at once.
class Pages {
 public:
    Pages()
        : base_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        PARTY_REQUIRE(base_ != MAP_FAILED);
    }
    ~Pages() { munmap(base_, kBytes); }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    std::span<std::byte> bytes() const noexcept { return {static_cast<std::byte*>(base_), kBytes}; }

 private:
    void* base_;
};

void post(NaOp& op, bool put, const MemoryHandle& local, const MemoryHandle& remote,
          na_addr_t* to) {
    const na_return_t ret = put ? op.put(local.get(), remote.get(), kBytes, to)
                                : op.get(local.get(), remote.get(), kBytes, to);
    PARTY_REQUIRE(ret == NA_SUCCESS || ret == NA_HOSTUNREACH);
}

template <typename Case>
void for_all_setups(Case&& run) {
    support::Random random(support::options().seed);
    for (unsigned round = 0; round < support::options().rounds; ++round) {
        for (const bool put : {true, false}) {
            for (const Setup& setup : half_of_setups(round + unsigned{put})) {
                const std::uint64_t turns = random.below(24);
                INFO(to_string(setup) << (put ? ", put" : ", get") << ", round " << round
                                      << ", killed after " << turns << " turns");
                run(setup, put, turns);
            }
        }
    }
}

}  // namespace

TEST_CASE("a peer is killed in the middle of puts and gets of its memory", "[na]") {
    if (!may_die_at_work()) {
        return;
    }
    unsigned interrupted = 0;
    for_all_setups([&](const Setup& setup, bool put, std::uint64_t turns) {
        NaScene scene(setup, {.waiting = setup.waiting}, [](NaSide& side, Link& link, na_addr_t*) {
            const Pages pages;
            const MemoryHandle memory(side, pages.bytes());
            link.put(memory.serialize());
            for (;;) {
                side.turn(100);
            }
        });
        {
            scene.until([&] { return scene.link().readable(); });
            const Pages pages;
            const MemoryHandle local(scene.side(), pages.bytes());
            const MemoryHandle remote(scene.side(), scene.link().take());
            NaOps ops;
            std::uint64_t done = 0;
            for (int i = 0; i < 4; ++i) {
                ops.push_back(std::make_unique<NaOp>(scene.side()));
                // Again and again, so that the end comes in the middle.
                ops.back()->then = [&](NaOp& op) {
                    if (op.ret == NA_SUCCESS) {
                        ++done;
                        post(op, put, local, remote, scene.victim());
                    }
                };
                post(*ops.back(), put, local, remote, scene.victim());
            }
            // At different stages, from the first contact to the traffic of old acquaintances.
            scene.until([&] { return done >= turns % (setup.attach ? 4 : 2); });
            for (std::uint64_t i = 0; i < turns; ++i) {
                scene.turn();
            }
            scene.kill();
            interrupted += all_ended(ops) ? 0 : 1;
            scene.until_noticed([&] { return all_ended(ops); });
            CHECK(count(ops, NA_HOSTUNREACH) == ops.size());
        }
        scene.finish();
    });
    CHECK(interrupted != 0);
}

TEST_CASE("a peer is killed in the middle of its puts and gets of our memory", "[na]") {
    if (!may_die_at_work()) {
        return;
    }
    for_all_setups([&](const Setup& setup, bool put, std::uint64_t turns) {
        NaScene scene(setup, {.waiting = setup.waiting},
                      [=](NaSide& side, Link& link, na_addr_t* survivor) {
                          const Pages pages;
                          const MemoryHandle local(side, pages.bytes());
                          const MemoryHandle remote(side, link.take());
                          NaOps ops;
                          for (int i = 0; i < 2; ++i) {
                              ops.push_back(std::make_unique<NaOp>(side));
                              ops.back()->then = [&](NaOp& op) {
                                  PARTY_REQUIRE(op.ret == NA_SUCCESS);
                                  post(op, put, local, remote, survivor);
                              };
                              post(*ops.back(), put, local, remote, survivor);
                          }
                          side.turn();
                          link.put("begun");
                          for (;;) {
                              side.turn(100);
                          }
                      });
        {
            const Pages pages;
            const MemoryHandle memory(scene.side(), pages.bytes());
            scene.link().put(memory.serialize());
            PARTY_REQUIRE(scene.hear() == "begun");
            for (std::uint64_t i = 0; i < turns; ++i) {
                scene.turn();
            }
            scene.kill();
            // Nothing here waits for it: its end only has to do no harm.
            for (int i = 0; i < 10; ++i) {
                scene.turn();
            }
        }
        scene.finish();
    });
}
