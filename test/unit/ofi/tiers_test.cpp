// SPDX-License-Identifier: BSD-3-Clause
// Which way puts and gets take: injected, through a buffer of the transport's own, directly; and in
// how many pieces. The counters of the log say it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "heard.hpp"
#include "modes.hpp"
#include "spies.hpp"
#include "support/options.hpp"
#include "support/payload.hpp"
#include "support/until.hpp"

using na::Status;
using support::until;

namespace {

constexpr std::size_t kBounced = 8192;  // the largest that goes through a buffer
constexpr std::size_t kMost = 200'000;

struct Tiers {
    std::uint64_t inject = 0;
    std::uint64_t bounce = 0;
    std::uint64_t direct = 0;
    bool operator==(const Tiers&) const = default;
    Tiers operator-(const Tiers& before) const {
        return {inject - before.inject, bounce - before.bounce, direct - before.direct};
    }
};

std::ostream& operator<<(std::ostream& out, const Tiers& t) {
    return out << t.inject << " injected, " << t.bounce << " through buffers, " << t.direct
               << " direct";
}

// Of all contexts of this process together. Each has to say its own.
std::uint64_t sum_of(const std::string& log, const std::string& name) {
    const std::string key = ": " + name + " = ";
    std::uint64_t sum = 0;
    std::size_t contexts = 0;
    for (std::size_t at = 0; (at = log.find(key, at)) != std::string::npos; ++contexts) {
        at += key.size();
        sum += std::strtoull(log.c_str() + at, nullptr, 10);
    }
    REQUIRE(contexts == 2);
    return sum;
}

Tiers tiers() {
    const Heard heard("info");
    NA_Diag_dump_counters();
    const std::string log = heard.text();
    return {.inject = sum_of(log, "ofi_rma_inject"),
            .bounce = sum_of(log, "ofi_rma_bounce"),
            .direct = sum_of(log, "ofi_rma_direct")};
}

// Two classes that know each other; one moves data from and to the other.
struct Scene {
    explicit Scene(const std::string& protocol) : a(protocol), b(protocol) {
        move(1, true);  // they have met
    }
    // Puts or gets so much, looks whether it is there, and says which way it went.
    Tiers move(std::size_t size, bool put) {
        INFO((put ? "put of " : "get of ") << size);
        auto& from = put ? here : there;
        auto& to = put ? there : here;
        support::fill(from, ++seed);
        std::fill(to.begin(), to.end(), std::byte{0});
        const Tiers before = tiers();
        bool ended = false;
        Status how = Status::canceled;
        const auto done = [&](Status s) {
            how = s;
            ended = true;
        };
        na::Operation op(a.context);
        (put ? a.context.put(op, peer, local.range(0, size), remote.at(0), done)
             : a.context.get(op, peer, local.range(0, size), remote.at(0), done))
            .value();
        REQUIRE(until([&] { return ended; },
                      [&] {
                          a.pump();
                          b.pump();
                      }));
        CHECK(how == Status::success);
        CHECK(support::mismatch(std::span(to).first(size), seed) == -1);
        CHECK(std::all_of(to.begin() + static_cast<std::ptrdiff_t>(size), to.end(),
                          [](std::byte byte) { return byte == std::byte{0}; }));
        return tiers() - before;
    }

    Side a;
    Side b;
    std::vector<std::byte> here = std::vector<std::byte>(kMost);
    std::vector<std::byte> there = std::vector<std::byte>(kMost);
    na::Memory local = a.domain.register_memory(std::span(here), na::Access::read_write).value();
    na::Memory exposed = b.domain.register_memory(std::span(there), na::Access::read_write).value();
    na::RemoteMemory remote = a.domain.decode_memory(exposed.encode()).value();
    na::Address peer = a.domain.lookup(b.domain.uri()).value();
    std::uint64_t seed = 0;
};

// Empty: not here.
std::string protocol_of_case() {
    std::string protocol = GENERATE(as<std::string>{}, "ofi+tcp", "ofi+sockets", "ofi+shm");
    if (!can_open(protocol)) {
        support::skip(protocol + " cannot be opened here");
        protocol.clear();
    }
    return protocol;
}

}  // namespace

TEST_CASE("small transfers go through buffers, or are injected, larger ones directly",
          "[ofi][tiers]") {
    const std::string protocol = protocol_of_case();
    if (protocol.empty()) {
        return;
    }
    INFO(protocol);
    Scene scene(protocol);
    // What sockets has injected leaves with later progress: it is given none. Nothing is fetched
    // by what is injected.
    const bool injects = protocol != "ofi+sockets";
    for (const std::size_t size : {1, 8}) {
        CHECK(scene.move(size, true) ==
              Tiers{.inject = injects ? 1U : 0U, .bounce = injects ? 0U : 1U});
        CHECK(scene.move(size, false) == Tiers{.bounce = 1});
    }
    for (const std::size_t size : {std::size_t{5000}, kBounced}) {
        CHECK(scene.move(size, true) == Tiers{.bounce = 1});
        CHECK(scene.move(size, false) == Tiers{.bounce = 1});
    }
    for (const std::size_t size : {kBounced + 1, kMost}) {
        CHECK(scene.move(size, true) == Tiers{.direct = 1});
        CHECK(scene.move(size, false) == Tiers{.direct = 1});
    }
    // There is nothing to move.
    CHECK(scene.move(0, true) == Tiers{});
    CHECK(scene.move(0, false) == Tiers{});
}

TEST_CASE("a transfer is split where the provider moves no more at once", "[ofi][tiers]") {
    const std::string protocol = protocol_of_case();
    if (protocol.empty()) {
        return;
    }
    constexpr std::size_t kLimit = 20'000;
    INFO(protocol);
    const modes::Limited limited(kLimit);
    Scene scene(protocol);
    for (const bool put : {true, false}) {
        CHECK(scene.move(kLimit, put) == Tiers{.direct = 1});
        CHECK(scene.move(kLimit + kBounced, put) == Tiers{.bounce = 1, .direct = 1});
        CHECK(scene.move(2 * kLimit + kBounced + 1, put) == Tiers{.direct = 3});
        CHECK(scene.move(kMost, put) == Tiers{.direct = kMost / kLimit});
    }
}
