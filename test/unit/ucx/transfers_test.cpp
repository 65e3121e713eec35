// SPDX-License-Identifier: BSD-3-Clause
// Puts and gets over UCX: who chooses how, and peers that take nothing.
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "conformance/na/common.hpp"

using namespace na_test;

namespace {

constexpr const char* kChoice = "NA_UCX_RMA";

Endpoint::Settings contexts(std::uint8_t n) {
    Endpoint::Settings s;
    s.contexts = n;
    return s;
}

// Opened with that choice; the environment is as before.
std::unique_ptr<Endpoint> chosen(const char* how) {
    const Environment variable(kChoice, how);
    return std::make_unique<Endpoint>();
}

// UCX before 1.13 has none of its own where they are made of messages.
bool native_here() {
    static const bool kHere = [] {
        const Quiet quiet;
        const Environment variable(kChoice, "native");
        na_init_info info = NA_INIT_INFO_INITIALIZER;
        na_class_t* cls = NA_Initialize_opt(options().protocol.c_str(), true, &info);
        return cls != nullptr && NA_Finalize(cls) == NA_SUCCESS;
    }();
    if (!kHere) {
        support::skip("UCX of this machine has no puts and gets of its own over this");
    }
    return kHere;
}

// Of a native descriptor: our key, then UCX's.
bool offers_keys(const std::vector<std::byte>& descriptor) {
    constexpr std::size_t kCore = 16;
    return descriptor.size() > kCore + sizeof(std::uint64_t);
}

void finish(const Op& op, Endpoint& a, Endpoint& b) {
    REQUIRE(until([&] { return op.done(); },
                  [&] {
                      a.pump();
                      b.pump();
                  }));
}

// 1,000 bytes of b's, which a knows by a descriptor that a test may change first.
struct Known {
    Known(Endpoint& a, Endpoint& b)
        : to_b(a, b.uri()),
          local(a, here.data(), here.size(), NA_MEM_READWRITE),
          target(b, there.data(), there.size(), NA_MEM_READWRITE),
          descriptor(target.serialize()) {}
    std::vector<std::byte> there = support::payload(1000, 1);
    std::vector<std::byte> here = std::vector<std::byte>(1000);
    Addr to_b;
    Mem local;
    Mem target;
    std::vector<std::byte> descriptor;
};

void move(Endpoint& a, Endpoint& b, std::vector<na_segment> segments, bool keys) {
    constexpr std::size_t kBytes = 300'000;
    std::vector<std::byte> here(kBytes);
    std::vector<std::byte> there;
    for (const na_segment& s : segments) {
        there.resize(there.size() + s.len);
    }
    REQUIRE(there.size() == kBytes);
    std::size_t at = 0;
    for (na_segment& s : segments) {
        s.base = there.data() + at;
        at += s.len;
    }
    Addr to_b(a, b.uri());
    Mem target(b, segments, NA_MEM_READWRITE);
    const auto descriptor = target.serialize();
    CHECK(offers_keys(descriptor) == keys);
    Mem remote(a, descriptor);
    Mem local(a, here.data(), here.size(), NA_MEM_READWRITE);
    for (unsigned seed = 1; seed < 4; ++seed) {
        support::fill(here, seed);
        Op put(a);
        REQUIRE(put.put(local, 0, remote, 0, kBytes, to_b) == NA_SUCCESS);
        finish(put, a, b);
        REQUIRE(put.ret() == NA_SUCCESS);
        CHECK(support::mismatch(there, seed) == -1);
        support::fill(there, seed + 100);
        Op get(a);
        REQUIRE(get.get(local, 0, remote, 0, kBytes, to_b) == NA_SUCCESS);
        finish(get, a, b);
        REQUIRE(get.ret() == NA_SUCCESS);
        CHECK(support::mismatch(here, seed + 100) == -1);
    }
}

}  // namespace

TEST_CASE("each side chooses for itself how puts and gets move", "[native]") {
    if (!native_here()) {
        return;
    }
    for (const char* ours : {"messages", "native"}) {
        for (const char* theirs : {"messages", "native"}) {
            INFO(ours << " here, " << theirs << " there");
            const auto a = chosen(ours);
            const auto b = chosen(theirs);
            const bool keys = std::string(theirs) == "native";
            move(*a, *b, {{nullptr, 300'000}}, keys);
            move(*a, *b, {{nullptr, 1}, {nullptr, 299'998}, {nullptr, 1}}, keys);
        }
    }
}

TEST_CASE("memory in very many pieces goes by messages", "[native]") {
    if (!native_here()) {
        return;
    }
    const auto a = chosen("native");
    const auto b = chosen("native");
    move(*a, *b, std::vector<na_segment>(16, {nullptr, 300'000 / 16}), true);
    move(*a, *b, std::vector<na_segment>(20, {nullptr, 300'000 / 20}), false);
}

TEST_CASE("more keys than are kept come and go", "[native]") {
    if (!native_here()) {
        return;
    }
    const auto a = chosen("native");
    const auto b = chosen("native");
    Addr to_b(*a, b->uri());
    constexpr std::size_t kRegions = 150;
    std::vector<std::byte> there = support::payload(kRegions * 100, 1);
    std::vector<std::byte> here(there.size());
    Mem local(*a, here.data(), here.size(), NA_MEM_READWRITE);
    std::vector<std::unique_ptr<Mem>> targets;
    std::vector<std::unique_ptr<Mem>> remotes;
    for (std::size_t i = 0; i < kRegions; ++i) {
        targets.push_back(std::make_unique<Mem>(*b, there.data() + i * 100, 100, NA_MEM_READWRITE));
        remotes.push_back(std::make_unique<Mem>(*a, targets.back()->serialize()));
    }
    for (int round = 0; round < 3; ++round) {
        std::fill(here.begin(), here.end(), std::byte{0});
        std::vector<std::unique_ptr<Op>> ops;
        for (std::size_t i = 0; i < kRegions; ++i) {
            ops.push_back(std::make_unique<Op>(*a));
            REQUIRE(ops.back()->get(local, i * 100, *remotes[i], 0, 100, to_b) == NA_SUCCESS);
        }
        REQUIRE(until(
            [&] {
                return std::all_of(ops.begin(), ops.end(), [](const auto& o) { return o->done(); });
            },
            [&] {
                a->pump();
                b->pump();
            }));
        CHECK((here == there));
    }
}

// UCX that was not told that there are devices makes the target's processor copy to and from such
// memory, which ends the target.
TEST_CASE("memory of a peer's device is not touched by who does not move such memory", "[native]") {
    if (!native_here()) {
        return;
    }
    const auto a = chosen("native");
    const auto b = chosen("native");
    Known k(*a, *b);
    auto& [there, here, to_b, local, target, descriptor] = k;
    const std::vector<std::byte> before = there;
    constexpr std::size_t kKindAt = 16 + 8 + 1;
    REQUIRE(descriptor.size() > kKindAt);
    descriptor[kKindAt] = std::byte{NA_MEM_TYPE_CUDA};
    Mem remote(*a, descriptor);
    for (const bool put : {true, false}) {
        INFO((put ? "put" : "get"));
        Op op(*a);
        const na_return_t posted =
            put ? op.put(local, 0, remote, 0, 1000, to_b) : op.get(local, 0, remote, 0, 1000, to_b);
        if (posted == NA_SUCCESS) {
            finish(op, *a, *b);
            CHECK(op.ret() == NA_OPNOTSUPPORTED);
        } else {
            CHECK(posted == NA_OPNOTSUPPORTED);
        }
    }
    CHECK((there == before));
    CHECK((here == std::vector<std::byte>(1000)));
}

TEST_CASE("keys that UCX cannot read are left alone: the target's checks decide", "[native]") {
    if (!native_here()) {
        return;
    }
    const auto a = chosen("native");
    const auto b = chosen("native");
    Known k(*a, *b);
    auto& [there, here, to_b, local, target, descriptor] = k;
    // A key of one byte, the least that is taken: what UCX reads behind it are zeros.
    constexpr std::size_t kSizeAt = 16 + 8 + 4 + 16;
    REQUIRE(descriptor.size() > kSizeAt + 3);
    descriptor.resize(kSizeAt + 3);
    descriptor[kSizeAt] = std::byte{1};
    descriptor[kSizeAt + 1] = descriptor[kSizeAt + 2] = std::byte{0};
    descriptor[4] = static_cast<std::byte>(descriptor.size() - 16);
    Mem remote(*a, descriptor);
    Op get(*a);
    REQUIRE(get.get(local, 0, remote, 0, 1000, to_b) == NA_SUCCESS);
    finish(get, *a, *b);
    CHECK(get.ret() == NA_SUCCESS);
    CHECK((here == there));
}

TEST_CASE("unknown choices are refused", "[native]") {
    const Quiet quiet;
    na_init_info info = NA_INIT_INFO_INITIALIZER;
    const Environment variable(kChoice, "hardware");
    CHECK(NA_Initialize_opt(options().protocol.c_str(), true, &info) == nullptr);
}

// Stopped ones: contexts that nobody progresses. What is asked of them stays asked.
TEST_CASE("peers that take nothing keep nobody from the others", "[stopped]") {
    for (const char* how : {"messages", "native"}) {
        INFO(how);
        if (std::string(how) == "native" && !native_here()) {
            continue;
        }
        const Environment variable(kChoice, how);
        constexpr std::uint8_t kStopped = 40;
        constexpr std::size_t kBytes = std::size_t{2} << 20;
        Endpoint a;
        Endpoint b(contexts(kStopped + 1));
        Addr to_b(a, b.uri());
        std::vector<std::byte> there = support::payload(kBytes, 1);
        Mem target(b, there.data(), there.size(), NA_MEM_READWRITE);
        Mem remote(a, target.serialize());
        std::vector<std::vector<std::byte>> here(kStopped + 1, std::vector<std::byte>(kBytes));
        std::vector<std::unique_ptr<Mem>> locals;
        std::vector<std::unique_ptr<Op>> ops;
        for (std::size_t i = 0; i <= kStopped; ++i) {
            locals.push_back(std::make_unique<Mem>(a, here[i].data(), kBytes, NA_MEM_READWRITE));
            ops.push_back(std::make_unique<Op>(a));
            REQUIRE(ops[i]->get(*locals[i], 0, remote, 0, 1, to_b, static_cast<std::uint8_t>(i)) ==
                    NA_SUCCESS);
        }
        const auto all_done = [&] {
            return std::all_of(ops.begin(), ops.end(), [](const auto& o) { return o->done(); });
        };
        const auto pump_all = [&] {
            a.pump();
            b.pump();
        };
        REQUIRE(until(all_done, pump_all));
        for (std::size_t i = 1; i <= kStopped; ++i) {
            ops[i]->reset();
            REQUIRE(ops[i]->get(*locals[i], 0, remote, 0, kBytes, to_b,
                                static_cast<std::uint8_t>(i)) == NA_SUCCESS);
        }
        const auto pump_one = [&] {
            a.pump();
            NA_Poll(b.cls(), b.context(0), nullptr);
            NA_Trigger(b.context(0), 1000, nullptr);
        };
        settle(pump_one);
        ops[0]->reset();
        REQUIRE(ops[0]->get(*locals[0], 0, remote, 0, kBytes, to_b) == NA_SUCCESS);
        CHECK(until([&] { return ops[0]->done(); }, pump_one));
        CHECK(ops[0]->ret() == NA_SUCCESS);
        CHECK((here[0] == there));
        REQUIRE(until(all_done, pump_all));
        for (const auto& buffer : here) {
            CHECK((buffer == there));
        }
    }
}
