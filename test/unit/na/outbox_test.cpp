// SPDX-License-Identifier: BSD-3-Clause
// Sends that wait for company: what leaves with what, in which order, and how each of them ends.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <map>

#include "core_fixture.hpp"
#include "na/core/context.hpp"
#include "na/core/posting.hpp"
#include "support/payload.hpp"
#include "support/until.hpp"

using namespace core_test;
using na::Address;
using na::Company;
using na::Context;
using na::Lane;
using na::Operation;
using na::Outcome;
using na::Status;
using Sent = na::Posting::Sent;

namespace {

void store(Operation& op, const Outcome& outcome) noexcept {
    TestOp::of(op).outcomes.push_back(outcome);
}

std::unique_ptr<na::Class> open(const na::InitInfo& info) {
    auto cls = na::Class::open("loop+loop", true, info);
    if (!cls) {
        throw std::runtime_error(cls.error().message);
    }
    return std::move(*cls);
}

std::unique_ptr<Context> open(na::Class& cls) {
    auto context = Context::open(cls, 0);
    if (!context) {
        throw std::runtime_error(context.error().message);
    }
    return std::move(*context);
}

// A sends to B, whose receives are posted.
struct Ends : Core {
    explicit Ends(std::size_t limit = 1024, const na::InitInfo& info = {})
        : receiver(open(info)),
          a(open(*cls)),
          b(open(*receiver)),
          to(*cls->lookup(receiver->self()->uri())) {
        a->gather(limit);
        b->split_bundles();
        b->drop_unmatched_expected();
    }
    ~Ends() {
        for (TestOp& op : receives) {
            b->cancel(*op);
            for (Outcome& o : op.outcomes) {
                if (o.source != nullptr) {
                    o.source->unref();
                }
            }
        }
    }
    void receive(unsigned n) {
        for (unsigned i = 0; i < n; ++i) {
            TestOp& op = receives.emplace_back(*this);
            op->handler = store;
            buffers.emplace_back(4096);
            REQUIRE(b->recv_unexpected(*op, buffers.back().data(), 4096) == Status::success);
        }
    }
    Sent post(TestOp& op, Address& peer, Lane lane, std::uint32_t tag, void* buffer,
              std::size_t size, Company company) {
        Status status = Status::success;
        na::Posting posting(*a);
        return posting.send(*op, lane,
                            {.peer = peer,
                             .context_id = 0,
                             .tag = tag,
                             .buffer = buffer,
                             .size = size,
                             .registered = nullptr},
                            status, company);
    }
    TestOp& send(std::uint32_t tag, std::size_t size, Company company,
                 Lane lane = Lane::unexpected) {
        TestOp& op = sends.emplace_back(*this);
        op->handler = store;
        buffers.push_back(support::payload(size, tag));
        const Sent sent = post(op, *to, lane, tag, buffers.back().data(), size, company);
        REQUIRE(sent != Sent::failed);
        if (sent == Sent::gone) {
            op.outcomes.push_back({.status = Status::success, .size = size});
        }
        return op;
    }
    void pump() {
        for (int i = 0; i < 4; ++i) {
            a->poll();
            b->poll();
        }
    }
    // What B has got since, in its order.
    std::vector<std::uint32_t> tags() {
        pump();
        std::vector<std::uint32_t> list;
        for (; got < receives.size() && !receives[got].outcomes.empty(); ++got) {
            const Outcome& o = receives[got].outcomes.at(0);
            CHECK(o.status == Status::success);
            CHECK(support::mismatch({static_cast<const std::byte*>(receives[got]->buffer), o.size},
                                    o.tag) == -1);
            list.push_back(o.tag);
        }
        return list;
    }
    // So many, however long that takes.
    std::vector<std::uint32_t> tags(std::size_t n) {
        std::vector<std::uint32_t> seen;
        REQUIRE(support::until([&] { return seen.size() >= n; },
                               [&] {
                                   const auto more = tags();
                                   seen.insert(seen.end(), more.begin(), more.end());
                               }));
        return seen;
    }
    std::uint64_t bundles() const { return a->counters().bundles_sent.get(); }

    std::unique_ptr<na::Class> receiver;
    std::unique_ptr<Context> a;
    std::unique_ptr<Context> b;
    na::AddressRef to;
    std::deque<std::vector<std::byte>> buffers;
    std::deque<TestOp> receives;
    std::deque<TestOp> sends;
    std::size_t got = 0;
};

using Tags = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("sends that await company leave in one message", "[outbox]") {
    Ends e;
    e.receive(10);
    for (std::uint32_t tag = 1; tag <= 5; ++tag) {
        CHECK(e.send(tag, 10 * tag, Company::await).outcomes.empty());
    }
    CHECK(e.a->gathered());
    e.b->poll();
    CHECK(e.receives[0].outcomes.empty());
    e.a->flush();
    CHECK(!e.a->gathered());
    CHECK(e.tags() == Tags{1, 2, 3, 4, 5});
    for (TestOp& op : e.sends) {
        REQUIRE(op.outcomes.size() == 1);
        CHECK(op.outcomes[0].status == Status::success);
    }
    CHECK(e.bundles() == 1);
    CHECK(e.a->counters().bundled_sent.get() == 5);
    CHECK(e.b->counters().bundles_received.get() == 1);
    CHECK(e.b->counters().bundled_received.get() == 5);
}

TEST_CASE("what nobody has joined leaves as it is", "[outbox]") {
    Ends e;
    e.receive(4);
    e.send(1, 10, Company::await);
    e.a->flush();
    CHECK(e.tags() == Tags{1});
    e.send(2, 10, Company::take);
    CHECK(!e.a->gathered());
    CHECK(e.tags() == Tags{2});
    e.send(3, 10, Company::await);
    e.a->poll();  // progress flushes
    CHECK(!e.a->gathered());
    CHECK(e.tags() == Tags{3});
    CHECK(e.bundles() == 0);
}

TEST_CASE("a send that does not wait takes those along that do", "[outbox]") {
    Ends e;
    e.receive(10);
    e.send(1, 10, Company::await);
    e.send(2, 10, Company::await);
    e.send(3, 10, Company::take);
    CHECK(!e.a->gathered());
    CHECK(e.tags() == Tags{1, 2, 3});
    CHECK(e.bundles() == 1);
    // One without company, and one that is too large, come after them.
    e.send(4, 10, Company::await);
    e.send(5, 10, Company::none);
    e.send(6, 10, Company::await);
    e.send(7, 2000, Company::await);
    CHECK(!e.a->gathered());
    CHECK(e.tags() == Tags{4, 5, 6, 7});
    CHECK(e.bundles() == 1);
}

TEST_CASE("a bundle that is full leaves", "[outbox]") {
    Ends e;
    e.receive(40);
    Tags all;
    for (std::uint32_t tag = 1; tag <= 33; ++tag) {
        e.send(tag, 500, Company::await);
        all.push_back(tag);
    }
    CHECK(e.a->gathered());
    CHECK(e.bundles() == 4);  // of eight each
    e.a->flush();
    CHECK(e.tags() == all);
    CHECK(e.bundles() == 4);
}

TEST_CASE("destinations and lanes are kept apart", "[outbox]") {
    Ends e;
    e.receive(10);
    TestOp answer(e), other(e);
    std::vector<std::byte> room(8192);
    answer->handler = other->handler = store;
    const na::AddressRef from = std::move(*e.receiver->lookup(e.cls->self()->uri()));
    for (TestOp* op : {&answer, &other}) {
        REQUIRE(e.b->recv_expected(**op, *from, 0, op == &answer ? 7 : 8,
                                   room.data() + (op == &answer ? 0 : 4096),
                                   4096) == Status::success);
    }
    e.send(1, 10, Company::await);
    e.send(7, 20, Company::await, Lane::expected);
    e.send(2, 10, Company::await);
    e.send(8, 20, Company::await, Lane::expected);
    CHECK(e.bundles() == 0);
    e.a->flush();
    CHECK(e.bundles() == 2);
    CHECK(e.tags() == Tags{1, 2});
    REQUIRE(answer.outcomes.size() == 1);
    REQUIRE(other.outcomes.size() == 1);
    CHECK(support::mismatch(std::span(room).first(20), 7) == -1);
    CHECK(support::mismatch(std::span(room).subspan(4096, 20), 8) == -1);
    // More than there is room for: the rest does not wait.
    std::deque<na::AddressRef> many;
    std::deque<TestOp> ops;
    std::byte byte{1};
    for (int i = 0; i < 40; ++i) {
        many.push_back(e.address("elsewhere" + std::to_string(i)));
        TestOp& op = ops.emplace_back(e);
        op->handler = store;
        const Sent sent = e.post(op, *many.back(), Lane::unexpected, 1, &byte, 1, Company::await);
        CHECK(sent == (i < 16 ? Sent::pending : Sent::failed));
    }
    e.a->flush();
    for (int i = 0; i < 16; ++i) {
        REQUIRE(ops[i].outcomes.size() == 1);
        CHECK(ops[i].outcomes[0].status == Status::hostunreach);
    }
}

TEST_CASE("a send that waits can be canceled, and is not sent", "[outbox]") {
    Ends e;
    e.receive(10);
    for (std::uint32_t tag = 1; tag <= 4; ++tag) {
        e.send(tag, 10, Company::await);
    }
    for (const std::size_t i : {1U, 3U}) {
        e.a->cancel(*e.sends[i]);
        REQUIRE(e.sends[i].outcomes.size() == 1);
        CHECK(e.sends[i].outcomes[0].status == Status::canceled);
        CHECK(e.sends[i]->idle());
    }
    e.a->flush();
    CHECK(e.tags() == Tags{1, 3});
    CHECK(e.bundles() == 1);
    e.send(5, 10, Company::await);
    e.a->cancel(*e.sends.back());
    CHECK(!e.a->gathered());
    e.a->flush();
    CHECK(e.tags().empty());
    CHECK(e.a->closable());
}

TEST_CASE("a bundle that the transport still has ends its parts", "[outbox]") {
    Ends e;
    e.receive(10);
    for (std::uint32_t tag = 1; tag <= 4; ++tag) {
        e.send(tag, 1000, Company::await);
    }
    e.a->flush();
    CHECK(e.bundles() == 1);
    for (TestOp& op : e.sends) {
        CHECK(op.outcomes.empty());
        CHECK(!op->idle());
    }
    CHECK(e.a->closable().status() == Status::busy);
    // It has left: it ends at once, and truthfully.
    e.a->cancel(*e.sends[2]);
    REQUIRE(e.sends[2].outcomes.size() == 1);
    CHECK(e.sends[2].outcomes[0].status == Status::success);
    CHECK(e.tags() == Tags{1, 2, 3, 4});
    for (TestOp& op : e.sends) {
        REQUIRE(op.outcomes.size() == 1);
        CHECK(op.outcomes[0].status == Status::success);
    }
    CHECK(e.a->closable());
}

TEST_CASE("what the transport has no room for keeps its order", "[outbox]") {
    Ends e;
    e.receive(700);
    Tags all;
    for (std::uint32_t tag = 1; tag <= 600; ++tag) {
        e.send(tag, 10, tag % 7 == 0 ? Company::none : Company::await);
        all.push_back(tag);
        if (tag % 2 == 0) {
            e.a->flush();
        }
    }
    e.a->flush();
    CHECK(e.a->counters().retries.get() != 0);
    Tags seen;
    for (int i = 0; i < 1000 && seen.size() < all.size(); ++i) {
        const Tags more = e.tags();
        seen.insert(seen.end(), more.begin(), more.end());
    }
    CHECK(seen == all);
    for (TestOp& op : e.sends) {
        CHECK(op.outcomes.size() == 1);
    }
}

TEST_CASE("a context with sends that wait is not closed", "[outbox]") {
    Ends e;
    e.receive(1);
    e.send(1, 10, Company::await);
    CHECK(e.a->closable().status() == Status::busy);
    e.a->flush();
    e.pump();
    CHECK(e.a->closable());
}

TEST_CASE("a peer that goes ends what waits for it", "[outbox]") {
    Ends e;
    e.send(1, 10, Company::await);
    e.send(2, 10, Company::await);
    e.b.reset();
    e.receiver.reset();
    e.a->poll();
    e.a->poll();
    for (TestOp& op : e.sends) {
        REQUIRE(op.outcomes.size() == 1);
        CHECK(op.outcomes[0].status == Status::hostunreach);
    }
    CHECK(!e.a->gathered());
    CHECK(e.a->closable());
}

// --- what waits for the transport

TEST_CASE("what waits for room leaves together", "[outbox]") {
    Ends e;
    e.receive(700);
    Tags all;
    for (std::uint32_t tag = 1; tag <= 600; ++tag) {
        e.send(tag, tag % 50 == 0 ? 2000 : 10, Company::take);
        all.push_back(tag);
    }
    CHECK(e.bundles() == 0);
    const std::uint64_t waited = e.a->counters().retries.get();
    REQUIRE(waited > 300);
    const Tags seen = e.tags(all.size());
    CHECK(seen == all);
    for (TestOp& op : e.sends) {
        REQUIRE(op.outcomes.size() == 1);
        CHECK(op.outcomes[0].status == Status::success);
        CHECK(op.outcomes[0].size == op->length);
    }
    // Between those that are too large for that.
    CHECK(e.bundles() >= 6);
    CHECK(e.a->counters().bundled_sent.get() > waited / 2);
    CHECK(e.b->counters().bundled_received.get() == e.a->counters().bundled_sent.get());
    CHECK(e.a->closable());
}

TEST_CASE("what waits for room stays apart where nobody gathers, or is to have no company",
          "[outbox]") {
    const bool gathers = GENERATE(false, true);
    Ends e(gathers ? 1024 : 0);
    e.receive(400);
    for (std::uint32_t tag = 1; tag <= 350; ++tag) {
        e.send(tag, 10, gathers ? Company::none : Company::take);
    }
    CHECK(e.tags(350).size() == 350);
    CHECK(e.bundles() == 0);
}

TEST_CASE("what waits for room in company is canceled truthfully", "[outbox]") {
    Ends e;
    e.receive(700);
    for (std::uint32_t tag = 1; tag <= 600; ++tag) {
        e.send(tag, 30, Company::take);
    }
    // The transport says that there is no room, and the first ones become one message.
    e.a->poll();
    e.a->poll();
    TestOp& joined = e.sends[300];
    TestOp& apart = e.sends[599];
    REQUIRE(joined.outcomes.empty());
    REQUIRE(apart.outcomes.empty());
    e.a->cancel(*joined);
    e.a->cancel(*apart);
    for (TestOp* op : {&joined, &apart}) {
        REQUIRE(op->outcomes.size() == 1);
        CHECK(op->outcomes[0].status == Status::canceled);
    }
    Tags expected;
    for (std::uint32_t tag = 1; tag < 600; ++tag) {
        if (tag != 301) {
            expected.push_back(tag);
        }
    }
    const Tags seen = e.tags(expected.size());
    CHECK(seen == expected);
    CHECK(e.tags().empty());
    CHECK(e.a->closable());
}

TEST_CASE("nothing is left of what waits for room when all of it is canceled", "[outbox]") {
    Ends e;
    for (std::uint32_t tag = 1; tag <= 600; ++tag) {
        e.send(tag, 30, Company::take);
    }
    e.a->poll();
    e.a->poll();
    unsigned canceled = 0;
    for (TestOp& op : e.sends) {
        e.a->cancel(*op);
        REQUIRE(op.outcomes.size() == 1);
        canceled += op.outcomes[0].status == Status::canceled ? 1 : 0;
    }
    CHECK(canceled > 300);
    CHECK(e.a->closable());
    // Nor of the peer: only who has looked it up knows it.
    e.to = na::AddressRef();
    e.a.reset();
    CHECK(e.cls->closable());
}

TEST_CASE("what waits for room ends with its peer", "[outbox]") {
    Ends e;
    for (std::uint32_t tag = 1; tag <= 600; ++tag) {
        e.send(tag, 10, Company::take);
    }
    e.a->poll();
    e.a->poll();
    e.b.reset();
    e.receiver.reset();
    e.a->poll();
    e.a->poll();
    unsigned lost = 0;
    for (TestOp& op : e.sends) {
        REQUIRE(op.outcomes.size() == 1);
        lost += op.outcomes[0].status == Status::hostunreach ? 1 : 0;
    }
    CHECK(lost > 300);
    CHECK(e.a->closable());
}

TEST_CASE("what waits for room is parted for a peer that takes less", "[outbox]") {
    na::InitInfo info;
    info.max_unexpected = info.max_expected = 200;
    Ends e(1024, info);
    for (int i = 0; i < 700; ++i) {
        TestOp& op = e.receives.emplace_back(e);
        op->handler = store;
        e.buffers.emplace_back(200);
        REQUIRE(e.b->recv_unexpected(*op, e.buffers.back().data(), 200) == Status::success);
    }
    Tags all;
    for (std::uint32_t tag = 1; tag <= 600; ++tag) {
        const bool too_large = tag == 400;
        e.send(tag, too_large ? 300 : 20, Company::take);
        if (!too_large) {
            all.push_back(tag);
        }
    }
    const Tags seen = e.tags(all.size());
    CHECK(seen == all);
    CHECK(e.bundles() > 10);
    for (TestOp& op : e.sends) {
        REQUIRE(op.outcomes.size() == 1);
        CHECK(op.outcomes[0].status == (op->tag == 400 ? Status::msgsize : Status::success));
    }
    CHECK(e.a->closable());
}
