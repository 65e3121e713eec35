// SPDX-License-Identifier: BSD-3-Clause
// Receives with a place of their own: MatchQueue::post_direct(), post_latest().
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "match_fixture.hpp"
#include "support/options.hpp"

using namespace match_test;

namespace {

struct Direct : Fixture {
    using Fixture::Fixture;
    // As the contexts do it: true if it got a place of its own.
    bool post_direct(TestOp& op, Address* from, std::uint32_t tag) {
        fill_expected(op, from, tag);
        const bool own = queue.post_direct(*op);
        if (!own) {
            queue.post_expected(*op);
        }
        return own;
    }
    bool post_latest(TestOp& op) {
        fill(op);
        const bool own = queue.post_latest(*op);
        if (!own) {
            queue.post_unexpected(*op);
        }
        return own;
    }
    // A whole message, by the short way where that works.
    void send_expected(Address* from, std::uint32_t tag) {
        Operation* op = queue.take_direct(*from, tag, 8);
        op = op != nullptr ? op : queue.take_expected(*from, tag, 8);
        if (op == nullptr) {
            message(from, tag, 8, Lane::expected);
            return;
        }
        support::fill(op->buffer, 8, tag);
        end(*op, nullptr, tag);
    }
    bool send_unexpected(Address* from, std::uint32_t tag) {
        if (Operation* op = queue.take_unexpected(8)) {
            support::fill(op->buffer, 8, tag);
            from->ref();
            end(*op, from, tag);
            return true;
        }
        Landing* landing = begin(from, tag);
        if (landing != nullptr) {
            finish(landing);
        }
        return landing != nullptr;
    }

 private:
    static void end(Operation& op, Address* source, std::uint32_t tag) {
        ended(nullptr, op,
              Outcome{.status = Status::success,
                      .size = 8,
                      .source = source,
                      .tag = tag,
                      .data = op.buffer});
    }
};

}  // namespace

TEST_CASE("a receive with a place of its own gets its message, and no other", "[match_queue]") {
    Direct f;
    TestOp a(f), b(f);
    REQUIRE(f.post_direct(a, f.x.get(), 7));
    CHECK_FALSE(f.queue.empty());
    CHECK(f.queue.take_direct(*f.y, 7, 8) == nullptr);
    CHECK(f.queue.take_direct(*f.x, 8, 8) == nullptr);
    CHECK(f.queue.take_direct(*f.x, 7, 4097) == nullptr);
    CHECK(f.queue.take_expected(*f.x, 7, 8) == nullptr);  // which knows the lists only
    CHECK(f.queue.take_direct(*f.x, 7, 8) == &*a);
    CHECK(f.queue.empty());
    na::OperationProbe::set_state(*a, Operation::State::idle);
    // The long way finds it as well.
    REQUIRE(f.post_direct(a, f.x.get(), 9));
    REQUIRE(f.post_direct(b, f.x.get(), 10));
    f.message(f.x.get(), 9, 4000, Lane::expected);
    CHECK(got(a, 9, 4000));
    Landing* written = f.begin(f.x.get(), 10, 100, Lane::expected);
    f.finish(written);
    CHECK(got(b, 10, 100));
    CHECK(f.queue.empty());
}

TEST_CASE("one that comes for the same place waits in the list, behind it", "[match_queue]") {
    Direct f;
    TestOp a(f), b(f), c(f);
    CHECK(f.post_direct(a, f.x.get(), 7));
    CHECK_FALSE(f.post_direct(b, f.x.get(), 7));
    f.send_expected(f.x.get(), 7);
    CHECK(got(a, 7));
    // The place is free, but b was there before.
    CHECK_FALSE(f.post_direct(c, f.x.get(), 7));
    f.send_expected(f.x.get(), 7);
    CHECK(got(b, 7));
    f.send_expected(f.x.get(), 7);
    CHECK(got(c, 7));
    CHECK(f.post_direct(a, f.x.get(), 7));
    CHECK_FALSE(f.post_direct(b, f.x.get(), 7));
    f.message(f.x.get(), 7, 8, Lane::expected);  // the long way keeps that order
    CHECK(got(a, 7));
    f.message(f.x.get(), 7, 8, Lane::expected);
    CHECK(got(b, 7));
    CHECK(f.queue.empty());
}

TEST_CASE("none gets a place of its own before a message that is held", "[match_queue]") {
    Direct f;
    TestOp a(f), b(f), c(f), d(f);
    f.queue.latest_first(true);
    f.message(f.x.get(), 7, 8, Lane::expected);
    CHECK_FALSE(f.post_direct(a, f.x.get(), 7));
    CHECK(got(a, 7));
    Landing* written = f.begin(f.x.get(), 7, 8, Lane::expected);
    CHECK_FALSE(f.post_direct(a, f.x.get(), 7));
    f.finish(written);
    CHECK(got(a, 7));
    REQUIRE(f.post_direct(b, f.x.get(), 7));
    written = f.begin(f.x.get(), 9, 8, Lane::expected);  // something else is being written
    CHECK(f.queue.take_direct(*f.x, 7, 8) == nullptr);
    f.send_expected(f.x.get(), 7);
    CHECK(got(b, 7));
    f.finish(written);
    f.message(f.x.get(), 1);
    CHECK_FALSE(f.post_latest(c));
    CHECK(got(c, 1));
    REQUIRE(f.post_latest(d));
    f.send_unexpected(f.x.get(), 2);
    CHECK(got(d, 2));
}

TEST_CASE("the latest receive has a place of its own", "[match_queue]") {
    Direct f;
    TestOp a(f), b(f), c(f);
    CHECK_FALSE(f.post_latest(a));  // where the first one is wanted first
    f.send_unexpected(f.x.get(), 1);
    CHECK(got(a, 1));
    f.queue.latest_first(true);
    CHECK(f.post_latest(a));
    CHECK_FALSE(f.queue.empty());
    CHECK_FALSE(f.post_latest(b));
    CHECK(f.queue.take_unexpected(4097) == nullptr);
    Landing* written = f.begin(f.y.get(), 2, 3000);  // the long way
    f.finish(written);
    f.send_unexpected(f.y.get(), 3);
    CHECK((a.outcomes.size() == 1 && b.outcomes.size() == 1));
    release(a);
    release(b);
    CHECK(f.queue.empty());
    CHECK(f.post_latest(c));
    f.queue.cancel(*c);
    REQUIRE(c.outcomes.size() == 1);
    CHECK(c.outcomes[0].status == Status::canceled);
    CHECK(f.queue.empty());
}

TEST_CASE("what has a place of its own ends with its peer, or when canceled", "[match_queue]") {
    Direct f;
    TestOp a(f), b(f), c(f), d(f);
    REQUIRE(f.post_direct(a, f.x.get(), 1));
    // Places follow from where addresses lie in memory, too: two may be the same.
    std::uint32_t tag = 2;
    while (!f.post_direct(b, f.y.get(), tag)) {
        f.queue.cancel(*b);
        b.outcomes.clear();
        REQUIRE(++tag < 100);
    }
    CHECK(f.queue.awaits(*f.x));
    f.queue.fail_peer(*f.x, Status::hostunreach);
    REQUIRE(a.outcomes.size() == 1);
    CHECK(a.outcomes[0].status == Status::hostunreach);
    CHECK(b.outcomes.empty());
    CHECK_FALSE(f.queue.awaits(*f.x));
    CHECK(f.queue.awaits(*f.y));
    f.send_expected(f.y.get(), tag);
    CHECK(got(b, tag));
    REQUIRE(f.post_direct(c, f.x.get(), 1));
    f.queue.cancel(*c);
    REQUIRE(c.outcomes.size() == 1);
    CHECK(c.outcomes[0].status == Status::canceled);
    CHECK(f.queue.take_direct(*f.x, 1, 8) == nullptr);
    CHECK(f.queue.empty());
    // Its place is free again.
    CHECK(f.post_direct(d, f.x.get(), 1));
    f.queue.cancel(*d);
}

TEST_CASE("random: receives by either way get each message once and in order", "[match_queue]") {
    // The model: per peer and tag the oldest receive gets the message.
    support::Random random(support::options().seed);
    Direct f(50, 100'000);
    std::vector<na::AddressRef> peers;
    for (const char* name : {"p", "q", "r"}) {
        peers.push_back(f.address(name));
    }
    struct Key {
        std::deque<TestOp*> receives;
    };
    std::map<std::pair<Address*, std::uint32_t>, Key> keys;
    std::vector<std::unique_ptr<TestOp>> ops;
    for (int i = 0; i < 5; ++i) {  // few, so that the lists are often empty
        ops.push_back(std::make_unique<TestOp>(f));
    }
    std::uint64_t own = 0;
    std::uint64_t met = 0;
    for (int step = 0; step < 40000; ++step) {
        Address* peer = peers[random.below(peers.size())].get();
        // Some of these share a place.
        const auto tag = static_cast<std::uint32_t>(random.below(4) + 0x10001 * random.below(2));
        Key& key = keys[{peer, tag}];
        TestOp& op = *ops[random.below(ops.size())];
        switch (random.below(8)) {
            case 0:
            case 1:
            case 2:
                if (op->idle()) {
                    own += f.post_direct(op, peer, tag) ? 1 : 0;
                    key.receives.push_back(&op);
                }
                break;
            case 3:
                if (op->idle()) {
                    f.post_expected(op, peer, tag);
                    key.receives.push_back(&op);
                }
                break;
            case 4:
            case 5:
            case 6:
                if (!key.receives.empty()) {  // what has no receive is another case's
                    TestOp* first = key.receives.front();
                    if (random.below(4) == 0) {
                        f.message(peer, tag, 8, Lane::expected);
                    } else {
                        f.send_expected(peer, tag);
                    }
                    REQUIRE(got(*first, tag));
                    first->outcomes.clear();
                    key.receives.pop_front();
                    ++met;
                }
                break;
            default:
                if (random.below(50) == 0) {
                    f.queue.fail_peer(*peer, Status::hostunreach);
                    for (auto& [at, k] : keys) {
                        while (at.first == peer && !k.receives.empty()) {
                            TestOp& gone = *k.receives.front();
                            REQUIRE(gone.outcomes.size() == 1);
                            REQUIRE(gone.outcomes[0].status == Status::hostunreach);
                            gone.outcomes.clear();
                            k.receives.pop_front();
                        }
                    }
                } else if (!key.receives.empty() && random.below(4) == 0) {
                    const std::size_t which = random.below(key.receives.size());
                    TestOp& gone = *key.receives[which];
                    f.queue.cancel(*gone);
                    REQUIRE(gone.outcomes.size() == 1);
                    REQUIRE(gone.outcomes[0].status == Status::canceled);
                    gone.outcomes.clear();
                    key.receives.erase(key.receives.begin() + static_cast<std::ptrdiff_t>(which));
                }
                break;
        }
        for (const auto& each : ops) {
            REQUIRE(each->outcomes.empty());  // nobody else's
        }
    }
    CHECK(met > 1000);
    CHECK(own > 100);
    for (auto& [at, key] : keys) {
        for (TestOp* op : key.receives) {
            f.queue.cancel(**op);
        }
    }
    CHECK(f.queue.empty());
}
