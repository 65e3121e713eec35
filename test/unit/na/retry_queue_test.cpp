// SPDX-License-Identifier: BSD-3-Clause
#include "na/core/retry_queue.hpp"

#include <catch2/catch.hpp>
#include <deque>
#include <map>

#include "core_fixture.hpp"
#include "support/options.hpp"
#include "support/payload.hpp"

using namespace core_test;
using na::Operation;
using na::RetryQueue;

namespace {

// Until `post` answers false: still no room.
template <typename Post>
void offer(RetryQueue& q, Post&& post) {
    q.drain([&](RetryQueue::Waiting& waiting) {
        while (Operation* op = waiting.pop_front()) {
            if (!post(*op)) {
                waiting.push_front(*op);
                return;
            }
        }
    });
}

std::vector<Operation*> drain(RetryQueue& q, std::size_t allow) {
    std::vector<Operation*> out;
    offer(q, [&](Operation& op) {
        if (out.size() == allow) {
            return false;
        }
        out.push_back(&op);
        return true;
    });
    return out;
}

}  // namespace

TEST_CASE("a retry queue is a FIFO per context of a peer", "[retry_queue]") {
    Core core;
    na::AddressRef x = core.address("x");
    na::AddressRef y = core.address("y");
    RetryQueue q;
    TestOp a(core), b(core), c(core), d(core);
    na::OperationProbe::set_address(*a, x.get());
    na::OperationProbe::set_address(*b, y.get());
    na::OperationProbe::set_address(*c, x.get());
    na::OperationProbe::set_address(*d, y.get());
    CHECK(q.empty());
    CHECK_FALSE(q.blocks(x.get(), 0));
    REQUIRE(q.push(*a));
    CHECK(q.blocks(x.get(), 0));
    CHECK_FALSE(q.blocks(x.get(), 1));
    CHECK_FALSE(q.blocks(y.get(), 0));
    CHECK(q.blocks(*c));
    CHECK_FALSE(q.blocks(*d));
    CHECK(q.holds(*x));
    CHECK_FALSE(q.holds(*y));
    REQUIRE(q.push(*b));
    REQUIRE(q.push(*c));
    REQUIRE(q.push(*d));
    CHECK(q.size() == 4);

    // A peer without room does not stop the other.
    std::vector<Operation*> out;
    offer(q, [&](Operation& op) {
        if (op.peer == &x->peer()) {
            return false;
        }
        out.push_back(&op);
        return true;
    });
    CHECK(out == std::vector<Operation*>{&*b, &*d});
    CHECK(q.size() == 2);
    CHECK_FALSE(q.blocks(y.get(), 0));
    // Refused ones stay where they were.
    CHECK(drain(q, 0).empty());
    CHECK(drain(q, 1) == std::vector<Operation*>{&*a});
    q.remove(*c);
    CHECK(q.empty());
    CHECK_FALSE(q.blocks(x.get(), 0));

    REQUIRE(q.push(*c));
    REQUIRE(q.push(*a));
    REQUIRE(q.push(*b));
    CHECK(q.pop(x.get()) == &*c);
    CHECK(q.pop(x.get()) == &*a);
    CHECK(q.pop(x.get()) == nullptr);
    CHECK(q.pop_any() == &*b);
    CHECK(q.pop_any() == nullptr);
    CHECK(q.empty());

    // Of one context of a peer.
    a->target_id = 1;
    c->target_id = 1;
    d->target_id = 1;
    REQUIRE(q.push(*a));
    REQUIRE(q.push(*d));
    na::OperationProbe::set_address(*b, x.get());
    REQUIRE(q.push(*b));
    REQUIRE(q.push(*c));
    CHECK(q.pop(x.get(), 1) == &*a);
    CHECK(q.pop(x.get(), 1) == &*c);
    CHECK(q.pop(x.get(), 1) == nullptr);
    CHECK(q.blocks(x.get(), 0));
    CHECK_FALSE(q.blocks(x.get(), 1));
    CHECK(q.pop(x.get(), 0) == &*b);
    CHECK_FALSE(q.blocks(x.get(), 0));
    CHECK(q.pop(y.get(), 1) == &*d);
    CHECK(q.empty());

    // One without room does not stop the others of its peer; the peer's end takes all of them.
    REQUIRE(q.push(*a));
    REQUIRE(q.push(*b));
    REQUIRE(q.push(*c));
    REQUIRE(q.push(*d));
    out.clear();
    offer(q, [&](Operation& op) {
        if (op.target_id == 1) {
            return false;
        }
        out.push_back(&op);
        return true;
    });
    CHECK(out == std::vector<Operation*>{&*b});
    REQUIRE(q.push(*b));
    CHECK(q.pop(x.get()) == &*b);
    CHECK(q.pop(x.get()) == &*a);
    CHECK(q.pop(x.get()) == &*c);
    CHECK(q.pop(x.get()) == nullptr);
    CHECK_FALSE(q.holds(*x));
    CHECK(q.holds(*y));
    CHECK(q.pop_any() == &*d);
    CHECK(q.empty());

    // Receives from anybody are in order, whatever the operations were used for before.
    na::OperationProbe::set_address(*a, nullptr);
    na::OperationProbe::set_address(*b, nullptr);
    a->target_id = 3;
    b->target_id = 0;
    REQUIRE(q.push(*a));
    CHECK(q.blocks(*b));
    REQUIRE(q.push(*b));
    CHECK(drain(q, 2) == std::vector<Operation*>{&*a, &*b});
}

TEST_CASE("what is posted from a retry queue does not wait in it", "[retry_queue]") {
    Core core;
    na::AddressRef x = core.address("x");
    TestOp a(core);
    TestOp b(core);
    na::OperationProbe::set_address(*a, x.get());
    na::OperationProbe::set_address(*b, x.get());
    b->target_id = 1;
    RetryQueue q;
    REQUIRE(q.push(*a));
    offer(q, [&](Operation&) {
        CHECK_FALSE(q.holds(*x));
        return true;
    });
    REQUIRE(q.push(*a));
    REQUIRE(q.push(*b));
    offer(q, [&](Operation& op) {
        CHECK(q.holds(*x) == (&op == &*a));
        return true;
    });
    CHECK(q.empty());
}

TEST_CASE("a retry queue behaves like a map of deques", "[retry_queue]") {
    Core core;
    support::Random random(support::options().seed);
    std::vector<na::AddressRef> peers;
    for (int i = 0; i < 4; ++i) {
        peers.push_back(core.address(std::to_string(i)));
    }
    std::vector<std::unique_ptr<TestOp>> ops;
    for (int i = 0; i < 40; ++i) {
        ops.push_back(std::make_unique<TestOp>(core));
    }
    RetryQueue q;
    using Target = std::pair<const na::plugin::Peer*, std::uint8_t>;
    constexpr std::uint8_t kContexts = 3;
    const auto target = [](const Operation& op) { return Target(op.peer, op.target_id); };
    std::map<Target, std::deque<Operation*>> model;
    std::vector<bool> queued(ops.size());
    const auto index = [&](Operation* op) {
        for (std::size_t i = 0; i < ops.size(); ++i) {
            if (&**ops[i] == op) {
                return i;
            }
        }
        return ops.size();
    };
    for (int step = 0; step < 4000; ++step) {
        const std::size_t i = random.below(ops.size());
        Operation& op = **ops[i];
        if (random.below(10) == 0) {
            const Target stubborn(&peers[random.below(peers.size())]->peer(),
                                  static_cast<std::uint8_t>(random.below(kContexts)));
            offer(q, [&](Operation& o) {
                if (target(o) == stubborn) {
                    return false;
                }
                REQUIRE(model[target(o)].front() == &o);
                model[target(o)].pop_front();
                queued[index(&o)] = false;
                return true;
            });
        } else if (queued[i]) {
            q.remove(op);
            std::erase(model[target(op)], &op);
            queued[i] = false;
        } else {
            na::OperationProbe::set_address(op, peers[random.below(peers.size())].get());
            op.target_id = static_cast<std::uint8_t>(random.below(kContexts));
            REQUIRE(q.push(op));
            model[target(op)].push_back(&op);
            queued[i] = true;
        }
        std::size_t size = 0;
        for (const auto& [peer, list] : model) {
            size += list.size();
        }
        REQUIRE(q.size() == size);
        for (const na::AddressRef& peer : peers) {
            for (std::uint8_t context = 0; context < kContexts; ++context) {
                REQUIRE(q.blocks(peer.get(), context) == !model[{&peer->peer(), context}].empty());
            }
        }
    }
    while (q.pop_any() != nullptr) {
    }
}
