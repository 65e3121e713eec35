// SPDX-License-Identifier: BSD-3-Clause
#include "na/core/match_queue.hpp"

#include <catch2/catch.hpp>
#include <deque>
#include <map>

#include <fmt/format.h>

#include "match_fixture.hpp"
#include "support/options.hpp"

using namespace match_test;

TEST_CASE("messages meet receives in either order", "[match_queue]") {
    Fixture f;
    TestOp a(f), b(f), c(f);
    f.post(a);
    f.message(f.x.get(), 1);
    CHECK(got(a, 1));
    f.message(f.y.get(), 2);
    f.message(f.x.get(), 3, 100);
    CHECK(f.queue.held() == 2);
    f.post(b);
    CHECK(got(b, 2));
    f.post(c);
    CHECK(got(c, 3, 100));
    CHECK(f.queue.held() == 0);
    CHECK(f.queue.empty());
}

TEST_CASE("a message does not overtake one that is still being written", "[match_queue]") {
    Fixture f;
    TestOp a(f), b(f);
    Landing* first = f.begin(f.x.get(), 1, 3000);
    f.post(a);  // nothing complete yet
    CHECK(a.outcomes.empty());
    Landing* second = f.begin(f.x.get(), 2);
    REQUIRE(second != nullptr);
    f.finish(first);
    CHECK(got(a, 1, 3000));
    f.post(b);
    CHECK(b.outcomes.empty());
    f.finish(second);
    CHECK(got(b, 2));
}

TEST_CASE("the same on the expected lane", "[match_queue]") {
    Fixture f;
    TestOp a(f), b(f), other(f);
    Landing* first = f.begin(f.x.get(), 7, 3000, Lane::expected);
    f.post_expected(a, f.x.get(), 7);
    f.post_expected(other, f.x.get(), 8);
    Landing* second = f.begin(f.x.get(), 7, 8, Lane::expected);
    f.message(f.x.get(), 8, 8, Lane::expected);  // another tag need not wait
    CHECK(got(other, 8));
    f.finish(first);
    CHECK(got(a, 7, 3000));
    f.finish(second);
    f.post_expected(b, f.x.get(), 7);
    CHECK(got(b, 7));
}

TEST_CASE("a message that fails ends its receive, or vanishes", "[match_queue]") {
    Fixture f;
    TestOp a(f), b(f);
    f.post(a);
    f.finish(f.begin(f.x.get(), 1), Status::hostunreach);
    REQUIRE(a.outcomes.size() == 1);
    CHECK(a.outcomes[0].status == Status::hostunreach);
    CHECK(a.outcomes[0].source == nullptr);
    CHECK(a.outcomes[0].size == 0);
    Landing* held = f.begin(f.x.get(), 2, 100);
    Landing* held_expected = f.begin(f.x.get(), 2, 100, Lane::expected);
    f.message(f.y.get(), 3);
    f.finish(held, Status::io_error);
    f.finish(held_expected, Status::io_error);
    CHECK(f.queue.held() == 1);
    f.post(b);
    CHECK(got(b, 3));
}

TEST_CASE("messages that do not fit", "[match_queue]") {
    Fixture f;
    TestOp a(f), b(f), c(f);
    f.post(a, 10);
    f.message(f.x.get(), 1, 11);
    REQUIRE(a.outcomes.size() == 1);
    CHECK(a.outcomes[0].status == Status::msgsize);
    f.message(f.x.get(), 2, 11);
    f.post(b, 10);
    REQUIRE(b.outcomes.size() == 1);
    CHECK(b.outcomes[0].status == Status::msgsize);
    CHECK(f.counters.truncated.get() == 2);
    // Longer than any may be: dropped, whoever waits.
    f.post(c);
    f.message(f.x.get(), 3, 4097);
    f.message(f.x.get(), 3, 4097, Lane::expected);
    CHECK(c.outcomes.empty());
    CHECK(f.counters.dropped.get() == 2);
    f.message(f.x.get(), 4, 4096);
    CHECK(got(c, 4, 4096));
}

TEST_CASE("held unexpected messages are limited by number and bytes", "[match_queue]") {
    Fixture f(3, 1200);
    f.message(f.x.get(), 1, 10);
    f.message(f.x.get(), 2, 800);
    CHECK(f.begin(f.x.get(), 3, 100) == nullptr);  // bytes: a quarter is kept for others
    f.message(f.x.get(), 3, 90);
    CHECK(f.begin(f.x.get(), 4, 0) == nullptr);  // number
    CHECK(f.counters.refused.get() == 2);
    for (const std::uint32_t tag : {1U, 2U, 3U}) {
        TestOp a(f);
        f.post(a);
        CHECK(a.outcomes[0].tag == tag);
        release(a);
    }
    f.message(f.x.get(), 4, 0);
    TestOp a(f);
    f.post(a);
    CHECK(got(a, 4, 0));
}

TEST_CASE("of held expected messages the oldest go", "[match_queue]") {
    Fixture f(3, 1'000'000);
    for (std::uint32_t tag = 0; tag < 10; ++tag) {
        f.message(f.x.get(), tag, 8, Lane::expected);
    }
    CHECK(f.queue.held() == 3);
    CHECK(f.counters.dropped.get() == 7);
    TestOp newest(f), oldest(f), gone(f);
    f.post_expected(newest, f.x.get(), 9);
    CHECK(got(newest, 9));
    f.post_expected(oldest, f.x.get(), 7);
    CHECK(got(oldest, 7));
    f.post_expected(gone, f.x.get(), 6);
    CHECK(gone.outcomes.empty());
    f.queue.cancel(*gone);
}

TEST_CASE("an expected message that is dropped while it is written", "[match_queue]") {
    Fixture f(2, 1'000'000);
    Landing* slow = f.begin(f.x.get(), 1, 100, Lane::expected);
    f.message(f.x.get(), 2, 8, Lane::expected);
    f.message(f.x.get(), 3, 8, Lane::expected);  // the slow one has to go
    CHECK(f.queue.held() == 2);
    f.finish(slow);
    CHECK(f.queue.held() == 2);
    TestOp a(f);
    f.post_expected(a, f.x.get(), 1);
    CHECK(a.outcomes.empty());
    f.queue.cancel(*a);
}

TEST_CASE("expected messages may be refused altogether", "[match_queue]") {
    Fixture f;
    f.queue.hold_expected(false);
    f.message(f.x.get(), 1, 8, Lane::expected);
    CHECK(f.queue.held() == 0);
    CHECK(f.counters.dropped.get() == 1);
    TestOp a(f);
    f.post_expected(a, f.x.get(), 1);
    f.message(f.x.get(), 1, 8, Lane::expected);
    CHECK(got(a, 1));
}

TEST_CASE("a refused hold does not cost messages that have a receive", "[match_queue]") {
    Fixture f;
    f.queue.hold_expected(false);
    TestOp a(f), b(f), canceled(f), late(f);
    f.post_expected(a, f.x.get(), 1);
    f.post_expected(b, f.x.get(), 1);
    Landing* first = f.queue.arrive(Lane::expected, *f.x, 1, 3000, false);
    Landing* second = f.begin(f.x.get(), 1, 8, Lane::expected);  // behind one that is being written
    f.finish(first);
    f.finish(second);
    CHECK(got(a, 1, 3000));
    CHECK(got(b, 1));
    CHECK(f.counters.dropped.get() == 0);
    // Whose receive has gone meanwhile is dropped, not kept.
    f.post_expected(canceled, f.x.get(), 2);
    Landing* orphan = f.queue.arrive(Lane::expected, *f.x, 2, 100, false);
    f.queue.cancel(*canceled);
    f.finish(orphan);
    CHECK(f.queue.held() == 0);
    CHECK(f.counters.dropped.get() == 1);
    f.post_expected(late, f.x.get(), 2);
    CHECK(late.outcomes.empty());
    f.queue.cancel(*late);
}

TEST_CASE("many expected receives are found", "[match_queue]") {
    Fixture f;
    std::vector<std::unique_ptr<TestOp>> ops;
    constexpr std::uint32_t kCount = 3000;  // several times the buckets at first
    for (std::uint32_t i = 0; i < kCount; ++i) {
        ops.push_back(std::make_unique<TestOp>(f));
        f.post_expected(*ops.back(), i % 2 == 0 ? f.x.get() : f.y.get(), i / 2 * 64, 8);
    }
    for (std::uint32_t i = kCount; i-- > 0;) {
        f.message(i % 2 == 0 ? f.x.get() : f.y.get(), i / 2 * 64, 8, Lane::expected);
    }
    for (std::uint32_t i = 0; i < kCount; ++i) {
        REQUIRE(got(*ops[i], i / 2 * 64));
    }
    CHECK(f.queue.empty());
}

TEST_CASE("held messages survive growth", "[match_queue]") {
    Fixture f(10000, 100'000'000);
    for (std::uint32_t i = 0; i < 100; ++i) {
        f.message(f.x.get(), 5000 + i, 8, Lane::expected);
    }
    std::vector<std::unique_ptr<TestOp>> ops;
    for (std::uint32_t i = 0; i < 2000; ++i) {
        ops.push_back(std::make_unique<TestOp>(f));
        f.post_expected(*ops.back(), f.y.get(), i, 8);
    }
    for (std::uint32_t i = 0; i < 100; ++i) {
        TestOp a(f);
        f.post_expected(a, f.x.get(), 5000 + i);
        CHECK(got(a, 5000 + i));
    }
    for (const auto& op : ops) {
        f.queue.cancel(**op);
    }
}

TEST_CASE("a lost peer ends its receives only", "[match_queue]") {
    Fixture f;
    TestOp from_x(f), from_y(f), any(f), written(f);
    CHECK_FALSE(f.queue.awaits(*f.x));
    f.post_expected(from_x, f.x.get(), 1);
    CHECK(f.queue.awaits(*f.x));
    CHECK_FALSE(f.queue.awaits(*f.y));
    f.post_expected(from_y, f.y.get(), 1);
    f.post_expected(written, f.x.get(), 2);
    f.post(any);
    Landing* landing = f.begin(f.x.get(), 2, 8, Lane::expected);
    f.queue.fail_peer(*f.x, Status::hostunreach);
    CHECK_FALSE(f.queue.awaits(*f.x));
    CHECK(f.queue.awaits(*f.y));
    REQUIRE(from_x.outcomes.size() == 1);
    CHECK(from_x.outcomes[0].status == Status::hostunreach);
    CHECK(from_y.outcomes.empty());
    CHECK(any.outcomes.empty());
    CHECK(written.outcomes.empty());  // the plugin ends that
    CHECK_FALSE(f.queue.empty());
    f.finish(landing, Status::hostunreach);
    CHECK(written.outcomes.size() == 1);
    f.queue.cancel(*from_y);
    f.queue.cancel(*any);
    CHECK(f.queue.empty());
}

TEST_CASE("a lost context ends the receives that name it only", "[match_queue]") {
    Fixture f;
    TestOp first(f), second(f), other(f);
    second->target_id = 1;
    other->target_id = 1;
    f.post_expected(first, f.x.get(), 1);
    f.post_expected(second, f.x.get(), 1);
    f.post_expected(other, f.y.get(), 1);
    f.queue.fail_peer(*f.x, Status::hostunreach, 1);
    REQUIRE(second.outcomes.size() == 1);
    CHECK(second.outcomes[0].status == Status::hostunreach);
    CHECK(first.outcomes.empty());
    CHECK(other.outcomes.empty());
    f.queue.fail_peer(*f.x, Status::hostunreach);
    CHECK(first.outcomes.size() == 1);
    f.queue.cancel(*other);
    CHECK(f.queue.empty());
}

TEST_CASE("a multi-receive takes messages until its buffer or its credits end", "[match_queue]") {
    Fixture f;
    TestOp m(f, true);
    m->add_credits(3);
    f.post_multi(m, 3 * 4096);
    f.message(f.x.get(), 1, 100);
    f.message(f.y.get(), 2, 101);
    f.message(f.x.get(), 3, 0);
    CHECK(m.outcomes.size() == 3);
    CHECK(m->credits() == 0);
    // No credit: held, in order, also when credits come back in between.
    f.message(f.x.get(), 4, 10);
    CHECK(f.queue.held() == 1);
    CHECK_FALSE(f.queue.deliverable());
    CHECK(m->add_credits(1));
    CHECK(f.queue.deliverable());
    f.message(f.x.get(), 5, 10);
    CHECK(m.outcomes.size() == 4);
    CHECK(m.outcomes.back().tag == 4);
    CHECK_FALSE(m->add_credits(10) == false);
    f.queue.deliver_held();
    CHECK(m.outcomes.size() == 5);
    CHECK(m.outcomes.back().tag == 5);
    CHECK_FALSE(m.outcomes.back().last);
    for (const Outcome& o : m.outcomes) {
        CHECK(support::mismatch(o.data, o.size, o.tag) == -1);
        CHECK(reinterpret_cast<std::uintptr_t>(o.data) % 16 ==
              reinterpret_cast<std::uintptr_t>(m->buffer) % 16);
    }
    // Room for a message of the largest size is what counts.
    f.message(f.x.get(), 6, 4096);
    CHECK_FALSE(m.outcomes.back().last);
    f.message(f.x.get(), 7, 4000);
    CHECK(m.outcomes.back().last);
    CHECK(m->idle());
    CHECK(f.queue.empty());
    release(m);
}

TEST_CASE("parts of a multi-receive end in any order, the last one says so", "[match_queue]") {
    Fixture f;
    TestOp m(f, true);
    m->add_credits(10);
    f.post_multi(m, 2 * 4096);
    Landing* a = f.begin(f.x.get(), 1, 4096);
    Landing* b = f.begin(f.y.get(), 2, 4096);
    Landing* beyond = f.begin(f.x.get(), 3, 8);  // the buffer is used up already
    f.finish(b);
    REQUIRE(m.outcomes.size() == 1);
    CHECK_FALSE(m.outcomes[0].last);
    CHECK_FALSE(f.queue.empty());
    f.finish(a);
    REQUIRE(m.outcomes.size() == 2);
    CHECK(m.outcomes[1].last);
    CHECK(f.queue.empty());
    release(m);
    f.finish(beyond);
    TestOp rest(f);
    f.post(rest);
    CHECK(got(rest, 3));
}

TEST_CASE("canceling a multi-receive waits for what is being written", "[match_queue]") {
    Fixture f;
    TestOp m(f, true);
    m->add_credits(10);
    f.post_multi(m, 3 * 4096);
    Landing* a = f.begin(f.x.get(), 1, 100);
    Landing* b = f.begin(f.y.get(), 2, 100);
    f.queue.cancel(*m);
    CHECK(m.outcomes.empty());
    f.finish(b);
    REQUIRE(m.outcomes.size() == 1);
    CHECK_FALSE(m.outcomes[0].last);
    f.finish(a, Status::hostunreach);
    REQUIRE(m.outcomes.size() == 2);
    CHECK(m.outcomes[1].last);
    CHECK(m.outcomes[1].status == Status::hostunreach);
    CHECK(f.queue.empty());
    release(m);
    f.post_multi(m, 4096);
    f.queue.cancel(*m);
    REQUIRE(m.outcomes.size() == 1);
    CHECK(m.outcomes[0].status == Status::canceled);
}

TEST_CASE("a message that comes in parts keeps no receive busy", "[match_queue]") {
    Fixture f;
    TestOp any(f);
    TestOp expected(f);
    f.post(any);
    f.post_expected(expected, f.x.get(), 7);
    Landing* first = f.queue.arrive(Lane::unexpected, *f.x, 1, 100, false);
    Landing* answer = f.queue.arrive(Lane::expected, *f.x, 7, 100, false);
    REQUIRE(first != nullptr);
    REQUIRE(answer != nullptr);
    CHECK(any->state() == Operation::State::matching);
    CHECK(expected->state() == Operation::State::matching);
    // Another peer goes first, the aborted message ends nobody's receive, and a canceled receive
    // ends at once.
    f.message(f.y.get(), 2, 50);
    CHECK(got(any, 2, 50));
    f.post(any);
    f.finish(first, Status::canceled);
    CHECK(any.outcomes.empty());
    f.queue.cancel(*expected);
    REQUIRE(expected.outcomes.size() == 1);
    CHECK(expected.outcomes[0].status == Status::canceled);
    f.finish(answer);
    // One that is completed is delivered like any other.
    Landing* whole = f.queue.arrive(Lane::unexpected, *f.x, 3, 100, false);
    REQUIRE(whole != nullptr);
    f.finish(whole);
    CHECK(got(any, 3, 100));
}

TEST_CASE("random arrivals, receives and cancels keep every peer's order", "[match_queue]") {
    // The model: per peer the tags sent and not yet received, in order. Each receive that ends well
    // gets the next one of its source.
    support::Random random(support::options().seed);
    Fixture f(50, 100'000);
    std::vector<na::AddressRef> peers;
    for (int i = 0; i < 3; ++i) {
        peers.push_back(f.address(fmt::format("p{}", i)));
    }
    struct Sender {
        std::uint32_t next = 0;
        std::deque<std::pair<Landing*, std::uint32_t>> writing;
        std::deque<std::uint32_t> expected;  // tags that receives must see, in order
    };
    std::map<Address*, Sender> senders;
    std::vector<std::unique_ptr<TestOp>> ops;
    for (int i = 0; i < 20; ++i) {
        ops.push_back(std::make_unique<TestOp>(f, i % 4 == 0));
        if (i % 4 == 0) {
            (*ops.back())->add_credits(2);
        }
    }
    std::uint64_t received = 0;
    in_order.clear();
    for (int step = 0; step < 30000; ++step) {
        Address* peer = peers[random.below(peers.size())].get();
        Sender& s = senders[peer];
        switch (random.below(4)) {
            case 0:
                if (Landing* l = f.begin(peer, s.next, random.below(2) == 0 ? 4000 : 8)) {
                    s.writing.emplace_back(l, s.next++);
                }
                break;
            case 1:
                if (!s.writing.empty()) {  // in order per peer, as the contract says
                    const auto [l, tag] = s.writing.front();
                    s.writing.pop_front();
                    const bool ok = random.below(10) != 0;
                    if (ok) {
                        s.expected.push_back(tag);
                    }
                    f.finish(l, ok ? Status::success : Status::io_error);
                }
                break;
            case 2: {
                TestOp& op = *ops[random.below(ops.size())];
                if (op->idle()) {
                    const bool multi = op->credits() != 0 && &op == ops[0].get();
                    if (multi) {
                        f.post_multi(op, 10000);
                    } else {
                        f.post(op);
                    }
                }
                break;
            }
            default: {
                TestOp& op = *ops[random.below(ops.size())];
                if (op->state() == Operation::State::matching && random.below(4) == 0) {
                    f.queue.cancel(*op);
                }
                break;
            }
        }
        // One step may end several receives.
        for (const Outcome& o : in_order) {
            if (o.status != Status::success) {
                continue;
            }
            Sender& from = senders[o.source];
            REQUIRE_FALSE(from.expected.empty());
            REQUIRE(o.tag == from.expected.front());
            REQUIRE(support::mismatch(o.data, o.size, o.tag) == -1);
            from.expected.pop_front();
            ++received;
        }
        in_order.clear();
        for (const auto& op : ops) {
            release(*op);
            if ((*op)->kind == OpKind::multi_recv_unexpected) {
                for (const Outcome& o : op->outcomes) {
                    if (o.status != Status::canceled) {
                        (*op)->add_credits(1);
                    }
                }
            }
            op->outcomes.clear();
        }
        if (f.queue.backlog()) {
            f.queue.deliver_held();
        }
    }
    CHECK(received > 1000);
    for (auto& [peer, s] : senders) {
        for (const auto& [l, tag] : s.writing) {
            f.finish(l, Status::canceled);
        }
    }
    for (const auto& op : ops) {
        if ((*op)->state() == Operation::State::matching) {
            f.queue.cancel(**op);
        }
        release(*op);
    }
    CHECK(f.queue.empty());
}

TEST_CASE("a message that is there finds its receive at once", "[match_queue]") {
    Fixture f;
    TestOp a(f), b(f), small(f), multi(f, true);
    CHECK(f.queue.take_unexpected(8) == nullptr);
    f.post(a);
    f.post(b);
    CHECK(f.queue.take_unexpected(8) == &*a);
    CHECK(f.queue.take_unexpected(5000) == nullptr);  // longer than messages may be
    CHECK(f.queue.take_unexpected(8) == &*b);
    CHECK(f.queue.empty());
    f.post(small, 16);
    CHECK(f.queue.take_unexpected(17) == nullptr);  // arrive() counts what is cut off
    CHECK(f.queue.take_unexpected(16) == &*small);
    multi->add_credits(1);
    f.post_multi(multi, 8192);
    CHECK(f.queue.take_unexpected(8) == nullptr);
    f.queue.cancel(*multi);
    CHECK(f.queue.empty());
}

TEST_CASE("it does not pass what came before it", "[match_queue]") {
    Fixture f;
    TestOp a(f), b(f), e(f), g(f);
    Landing* first = f.begin(f.x.get(), 1);
    f.post(a);
    f.post(b);
    CHECK(f.queue.take_unexpected(8) == nullptr);  // the first is still being written
    f.finish(first);
    CHECK(got(a, 1));
    CHECK(f.queue.take_unexpected(8) == &*b);
    Landing* early = f.begin(f.x.get(), 7, 8, Lane::expected);
    f.post_expected(e, f.x.get(), 7);
    f.post_expected(g, f.x.get(), 7);
    CHECK(f.queue.take_expected(*f.x, 7, 8) == nullptr);
    f.finish(early);
    CHECK(got(e, 7));
    CHECK(f.queue.take_expected(*f.y, 7, 8) == nullptr);
    CHECK(f.queue.take_expected(*f.x, 8, 8) == nullptr);
    CHECK(f.queue.take_expected(*f.x, 7, 4097) == nullptr);
    CHECK(f.queue.take_expected(*f.x, 7, 8) == &*g);
    CHECK(f.queue.empty());
}

TEST_CASE("the latest receive first, where that is wanted", "[match_queue]") {
    Fixture f;
    TestOp a(f), b(f), c(f);
    f.queue.latest_first(true);
    f.post(a);
    f.post(b);
    f.message(f.x.get(), 1);
    CHECK(got(b, 1));
    f.post(c);
    f.message(f.x.get(), 2);
    CHECK(got(c, 2));
    f.message(f.x.get(), 3);
    CHECK(got(a, 3));
}
