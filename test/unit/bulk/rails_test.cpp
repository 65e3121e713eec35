// SPDX-License-Identifier: BSD-3-Clause
// Descriptors and transfers of classes that reach their peers over the network and over shared
// memory.
#include "bulk/transfer.hpp"
#include "fixture.hpp"

using namespace test;

namespace {

struct TwoRails {
    Endpoint origin{{}, true};
    Endpoint target{{}, true};
    Endpoint remote_only{{}, false};
    na::AddressRef net = must(target.cls->lookup(origin.cls->self()->uri()));
    na::AddressRef sm = must(target.sm->lookup(origin.sm->self()->uri()));
    Buffer there{{3 << 20, 7}, 1};
    Buffer here{{5, 3 << 20, 2}, 2};
    BulkRef shown = must(Bulk::create(*origin.space, there.segments, Access::read_write));
    BulkRef local = must(Bulk::create(*target.space, here.segments, Access::read_write));
    Outcomes outcomes;

    Status pull(Bulk& remote, bulk::Peers peer) {
        const Status s = target.engine->start({.direction = Direction::pull,
                                               .origin = &remote,
                                               .local = local.get(),
                                               .size = there.size,
                                               .peer = peer,
                                               .done = &Outcomes::done,
                                               .owner = &outcomes});
        if (!na::ok(s)) {
            return s;
        }
        until(target, [this] { return outcomes.count() != 0; });
        return outcomes.take();
    }
    std::uint64_t gets(const Endpoint& e, bool sm_rail) const {
        return (sm_rail ? e.sm_context : e.context)->counters().gets.get();
    }
};

}  // namespace

TEST_CASE("shared memory is preferred where both sides have it", "[rails]") {
    TwoRails t;
    const BulkRef both = sent_to(t.target, *t.shown, {.sm = true});
    CHECK(both->reachable(bulk::Rail::net));
    CHECK(both->reachable(bulk::Rail::sm));
    REQUIRE(t.pull(*both, {.net = t.net.get(), .sm = t.sm.get()}) == Status::success);
    CHECK(t.gets(t.target, true) > 0);
    CHECK(t.gets(t.target, false) == 0);
    CHECK(t.here.flat() == t.there.flat());

    SECTION("the peer's address has no such part") {
        REQUIRE(t.pull(*both, {.net = t.net.get()}) == Status::success);
        CHECK(t.gets(t.target, false) > 0);
    }
    SECTION("the peer is known by shared memory alone") {
        REQUIRE(t.pull(*both, {.sm = t.sm.get()}) == Status::success);
        CHECK(t.gets(t.target, false) == 0);
    }
}

TEST_CASE("the network is used where the descriptor has no shared memory", "[rails]") {
    TwoRails t;
    const BulkRef net = sent_to(t.target, *t.shown);
    CHECK_FALSE(net->reachable(bulk::Rail::sm));
    REQUIRE(t.pull(*net, {.net = t.net.get(), .sm = t.sm.get()}) == Status::success);
    CHECK(t.gets(t.target, true) == 0);
    CHECK(t.gets(t.target, false) > 0);
    CHECK(t.pull(*net, {.sm = t.sm.get()}) == Status::opnotsupported);
}

TEST_CASE("registrations for shared memory are skipped and passed on by those who have none",
          "[rails]") {
    TwoRails t;
    const BulkRef middle = sent_to(t.remote_only, *t.shown, {.sm = true});
    CHECK(middle->reachable(bulk::Rail::net));
    CHECK_FALSE(middle->reachable(bulk::Rail::sm));
    CHECK_FALSE(sent_to(t.target, *middle)->reachable(bulk::Rail::sm));
    const BulkRef back = sent_to(t.target, *middle, {.sm = true});
    CHECK(back->reachable(bulk::Rail::sm));
    REQUIRE(t.pull(*back, {.net = t.net.get(), .sm = t.sm.get()}) == Status::success);
    CHECK(t.here.flat() == t.there.flat());
}

TEST_CASE("an owner's address for this host does not leave it", "[rails]") {
    TwoRails t;
    auto owner = std::make_unique<bulk::Owner>();
    owner->address.assign(3, std::byte{1});
    owner->address_with_sm.assign(5, std::byte{2});
    REQUIRE(t.shown->bind(std::move(owner)));
    CHECK(sent_to(t.target, *t.shown)->owner()->address.size() == 3);
    CHECK(sent_to(t.target, *t.shown, {.sm = true})->owner()->address.size() == 5);
}
