// SPDX-License-Identifier: BSD-3-Clause
// Messages of one peer stay in order, whatever their sizes and whenever receives are posted; a full
// receiver loses nothing.
#include "common.hpp"

using namespace na_test;

namespace {

// Posts receives now and then, keeps what came in the order of the callbacks.
class Receiver {
 public:
    Receiver(Endpoint& e, std::size_t window) : endpoint_(e) {
        for (std::size_t i = 0; i < window; ++i) {
            slots_.push_back(std::make_unique<Slot>(e));
            Slot& slot = *slots_.back();
            slot.op.on_result = [this, &slot](Op&, const Result& r) {
                if (r.ret == NA_SUCCESS) {
                    tags.push_back(r.tag);
                    intact = intact && holds(endpoint_, slot.buffer.data(), r.size, r.tag);
                    size_sum += r.size;
                } else {
                    failed = true;
                }
                idle_.push_back(&slot);
            };
            idle_.push_back(&slot);
        }
    }
    // Posts up to `n` receives.
    void post(std::size_t n) {
        for (; n != 0 && !idle_.empty(); --n) {
            Slot* slot = idle_.back();
            idle_.pop_back();
            slot->op.reset();
            if (slot->op.recv_unexpected(slot->buffer) != NA_SUCCESS) {
                failed = true;
            }
        }
    }
    std::vector<na_tag_t> tags;
    std::size_t size_sum = 0;
    bool intact = true;
    bool failed = false;

 private:
    struct Slot {
        explicit Slot(Endpoint& e) : buffer(e), op(e) {}
        Buffer buffer;
        Op op;
    };
    Endpoint& endpoint_;
    std::vector<Slot*> idle_;
    std::vector<std::unique_ptr<Slot>> slots_;  // gone first: what ends then still says so
};

bool in_order(const std::vector<na_tag_t>& tags, std::size_t count) {
    if (tags.size() != count) {
        return false;
    }
    for (std::size_t i = 0; i < count; ++i) {
        if (tags[i] != i) {
            return false;
        }
    }
    return true;
}

}  // namespace

TEST_CASE("a stream of messages of many sizes stays in order", "[ordering]") {
    constexpr unsigned kCount = 1500;
    Pair p;
    support::Random random(options().seed);
    Receiver receiver(p.b, 8);
    std::vector<std::unique_ptr<Op>> ops;
    std::vector<std::unique_ptr<Buffer>> buffers;
    for (int i = 0; i < 16; ++i) {
        ops.push_back(std::make_unique<Op>(p.a));
        buffers.push_back(std::make_unique<Buffer>(p.a));
    }
    unsigned sent = 0;
    const std::size_t most = p.a.max_message() - p.a.header();
    const bool finished = until(
        [&] { return receiver.tags.size() == kCount; },
        [&] {
            for (std::size_t i = 0; i < ops.size() && sent < kCount; ++i) {
                if (sent >= ops.size() && !ops[i]->done()) {
                    continue;
                }
                ops[i]->reset();
                const std::size_t payload =
                    random.below(3) == 0 ? random.below(most + 1) : random.below(100);
                const std::size_t total = fill_message(p.a, *buffers[i], payload, sent);
                REQUIRE(ops[i]->send_unexpected(*buffers[i], total, p.to_b, sent) == NA_SUCCESS);
                ++sent;
            }
            receiver.post(random.below(4));
            p.a.pump();
            if (random.below(3) == 0) {
                p.b.pump();
            }
        });
    CHECK(finished);
    CHECK(in_order(receiver.tags, kCount));
    CHECK(receiver.intact);
    CHECK_FALSE(receiver.failed);
    REQUIRE(until(
        [&] {
            return std::all_of(ops.begin(), ops.end(), [](const auto& o) { return o->done(); });
        },
        [&] { p.pump(); }));
}

TEST_CASE("expected messages with one tag stay in order", "[ordering]") {
    constexpr unsigned kCount = 300;
    Pair p;
    support::Random random(options().seed);
    std::vector<std::unique_ptr<Buffer>> in;
    std::vector<std::unique_ptr<Buffer>> out;
    std::vector<std::unique_ptr<Op>> recv;
    std::vector<std::unique_ptr<Op>> send;
    unsigned posted = 0;
    unsigned sent = 0;
    const std::size_t most = p.a.max_message(true) - p.a.header(true);
    REQUIRE(until(
        [&] { return posted == kCount && recv.back()->done() && sent == kCount; },
        [&] {
            for (std::uint64_t n = random.below(5); n != 0 && posted < kCount; --n, ++posted) {
                in.push_back(std::make_unique<Buffer>(p.b));
                recv.push_back(std::make_unique<Op>(p.b));
                REQUIRE(recv.back()->recv_expected(*in.back(), p.to_a, 9) == NA_SUCCESS);
            }
            for (std::uint64_t n = random.below(5); n != 0 && sent < kCount; --n, ++sent) {
                out.push_back(std::make_unique<Buffer>(p.a));
                send.push_back(std::make_unique<Op>(p.a));
                const std::size_t total =
                    fill_message(p.a, *out.back(), random.below(most + 1), sent, true);
                REQUIRE(send.back()->send_expected(*out.back(), total, p.to_b, 9) == NA_SUCCESS);
            }
            p.pump();
        }));
    for (unsigned i = 0; i < kCount; ++i) {
        CHECK(recv[i]->ret() == NA_SUCCESS);
        CHECK(holds(p.b, in[i]->data(), recv[i]->result().size, i, true));
    }
    REQUIRE(until(
        [&] {
            return std::all_of(send.begin(), send.end(), [](const auto& o) { return o->done(); });
        },
        [&] { p.pump(); }));
}

TEST_CASE("a receiver that does nothing loses nothing", "[backpressure]") {
    const unsigned count = 3000 / support::kSlow;
    Pair p;
    Buffer small(p.a);
    std::vector<std::unique_ptr<Buffer>> buffers;
    std::vector<std::unique_ptr<Op>> ops;
    const std::size_t most = p.a.max_message() - p.a.header();
    for (unsigned i = 0; i < count; ++i) {
        ops.push_back(std::make_unique<Op>(p.a));
        const std::size_t payload = i % 50 == 0 ? most : i % 5 == 0 ? 500 : 32;
        buffers.push_back(std::make_unique<Buffer>(p.a, p.a.header() + payload));
        const std::size_t total = fill_message(p.a, *buffers.back(), payload, i);
        REQUIRE(ops.back()->send_unexpected(*buffers.back(), total, p.to_b, i) == NA_SUCCESS);
        if (i % 100 == 0) {
            p.a.pump();
        }
    }
    settle([&] { p.a.pump(); }, 200);
    Receiver receiver(p.b, 64);
    REQUIRE(until([&] { return receiver.tags.size() == count; },
                  [&] {
                      receiver.post(64);
                      p.pump();
                  }));
    CHECK(in_order(receiver.tags, count));
    CHECK(receiver.intact);
    REQUIRE(until(
        [&] {
            return std::all_of(ops.begin(), ops.end(), [](const auto& o) { return o->done(); });
        },
        [&] { p.pump(); }));
    for (const auto& op : ops) {
        CHECK(op->ret() == NA_SUCCESS);
    }
}

TEST_CASE("what a receiver holds back is limited, and nothing is lost beyond", "[backpressure]") {
    const Environment limit("NA_UNEXPECTED_LIMIT", "10");
    const Environment bytes("NA_UNEXPECTED_BYTES", "20000");
    Pair p;
    constexpr unsigned kCount = 900;
    std::vector<std::unique_ptr<Buffer>> buffers;
    std::vector<std::unique_ptr<Op>> ops;
    for (unsigned i = 0; i < kCount; ++i) {
        ops.push_back(std::make_unique<Op>(p.a));
        buffers.push_back(std::make_unique<Buffer>(p.a, p.a.header() + 40 + i));
        const std::size_t total = fill_message(p.a, *buffers.back(), 40 + i, i);
        REQUIRE(ops.back()->send_unexpected(*buffers.back(), total, p.to_b, i) == NA_SUCCESS);
    }
    settle([&] { p.pump(); }, 300);
    // A full hold on one lane leaves the other alone.
    Buffer expected_out(p.a);
    Buffer expected_in(p.b);
    Op recv_expected(p.b);
    Receiver receiver(p.b, 3);
    REQUIRE(recv_expected.recv_expected(expected_in, p.to_a, 1) == NA_SUCCESS);
    Op send_expected(p.a);
    REQUIRE(send_expected.send_expected(expected_out, fill_message(p.a, expected_out, 9, 9, true),
                                        p.to_b, 1) == NA_SUCCESS);
    REQUIRE(until(
        [&] {
            return receiver.tags.size() == kCount && recv_expected.done() && send_expected.done();
        },
        [&] {
            receiver.post(3);
            p.pump();
        }));
    CHECK(in_order(receiver.tags, kCount));
    CHECK(receiver.intact);
    CHECK(recv_expected.ret() == NA_SUCCESS);
    REQUIRE(until(
        [&] {
            return std::all_of(ops.begin(), ops.end(), [](const auto& o) { return o->done(); });
        },
        [&] { p.pump(); }));
}

TEST_CASE("with NA_NO_RETRY a full peer answers NA_AGAIN", "[backpressure]") {
    Endpoint::Settings no_retry;
    no_retry.init.progress_mode = NA_NO_RETRY;
    Pair p(no_retry, Endpoint::Settings{});
    meet(p.a, p.b);
    Buffer out(p.a);
    fill_message(p.a, out, 600, 0);
    std::vector<std::unique_ptr<Op>> ops;
    unsigned again = 0;
    unsigned accepted = 0;
    // A decorator may answer NA_AGAIN for no reason: a full peer does so many times in a row.
    for (unsigned row = 0; row < 30 && accepted < 50000;) {
        ops.push_back(std::make_unique<Op>(p.a));
        const na_return_t r =
            ops.back()->send_unexpected(out, p.a.header() + 600, p.to_b, accepted);
        if (r == NA_AGAIN) {
            ops.pop_back();
            ++again;
            ++row;
            continue;
        }
        REQUIRE(r == NA_SUCCESS);
        ++accepted;
        row = 0;
        fill_message(p.a, out, 600, 0);
    }
    CHECK(again >= 30);
    CHECK(accepted > 0);
    CHECK(accepted < 50000);
    std::vector<na_tag_t> tags;
    Buffer in(p.b);
    Op recv(p.b);
    recv.on_result = [&](Op& op, const Result& r) {
        tags.push_back(r.tag);
        if (tags.size() != accepted) {
            REQUIRE(op.recv_unexpected(in) == NA_SUCCESS);
        }
    };
    REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    REQUIRE(until([&] { return tags.size() == accepted; }, [&] { p.pump(); }));
    CHECK(in_order(tags, accepted));
    REQUIRE(until(
        [&] {
            return std::all_of(ops.begin(), ops.end(), [](const auto& o) { return o->done(); });
        },
        [&] { p.pump(); }));
    // And there is room again.
    Op last(p.a);
    REQUIRE(
        until([&] { return last.send_unexpected(out, p.a.header() + 1, p.to_b, 0) == NA_SUCCESS; },
              [&] { p.pump(); }));
    REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    accepted += 1;
    REQUIRE(until([&] { return last.done() && tags.size() == accepted; }, [&] { p.pump(); }));
}

TEST_CASE("one full peer does not hold up another", "[backpressure]") {
    Pair p;
    Endpoint c;
    Addr a_to_c(p.a, c.uri());
    Buffer out(p.a);
    const std::size_t total = fill_message(p.a, out, 600, 1);
    std::vector<std::unique_ptr<Op>> ops;
    for (unsigned i = 0; i < 2000; ++i) {
        ops.push_back(std::make_unique<Op>(p.a));
        REQUIRE(ops.back()->send_unexpected(out, total, p.to_b, i) == NA_SUCCESS);
    }
    settle([&] { p.a.pump(); });
    Buffer in(c);
    Op recv(c);
    Op send(p.a);
    REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    REQUIRE(send.send_unexpected(out, total, a_to_c, 77) == NA_SUCCESS);
    REQUIRE(
        until([&] { return recv.done() && send.done(); }, [&] { p.a.pump(); }, [&] { c.pump(); }));
    CHECK(recv.result().tag == 77);
    Receiver receiver(p.b, 32);
    REQUIRE(until([&] { return receiver.tags.size() == 2000; },
                  [&] {
                      receiver.post(32);
                      p.pump();
                  }));
    CHECK(in_order(receiver.tags, 2000));
    REQUIRE(until(
        [&] {
            return std::all_of(ops.begin(), ops.end(), [](const auto& o) { return o->done(); });
        },
        [&] { p.pump(); }));
}

TEST_CASE("one full context of a peer does not hold up another", "[backpressure][contexts]") {
    constexpr unsigned kCount = 2000;
    Endpoint::Settings two;
    two.contexts = 2;
    Pair p(Endpoint::Settings{}, two);
    Buffer out(p.a);
    const std::size_t total = fill_message(p.a, out, 600, 1);
    std::vector<std::unique_ptr<Op>> ops;
    for (na_tag_t i = 0; i < kCount; ++i) {
        ops.push_back(std::make_unique<Op>(p.a));
        REQUIRE(ops.back()->send_unexpected(out, total, p.to_b, i, 1) == NA_SUCCESS);
    }
    // Nobody makes progress on the second context of b.
    const auto pump = [&] {
        p.a.pump();
        p.b.pump(0);
    };
    settle(pump);
    Buffer in(p.b);
    Op recv(p.b);
    Op send(p.a);
    REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    REQUIRE(send.send_unexpected(out, total, p.to_b, 77) == NA_SUCCESS);
    REQUIRE(until([&] { return recv.done() && send.done(); }, pump));
    CHECK(recv.result().tag == 77);
    CHECK_FALSE(ops.back()->done());
    // Nothing of what waited is lost, or has been overtaken.
    std::vector<na_tag_t> tags;
    Op other(p.b, NA_OP_SINGLE, 1);
    other.on_result = [&](Op& op, const Result& r) {
        tags.push_back(r.tag);
        if (tags.size() != kCount) {
            REQUIRE(op.recv_unexpected(in) == NA_SUCCESS);
        }
    };
    REQUIRE(other.recv_unexpected(in) == NA_SUCCESS);
    REQUIRE(until([&] { return tags.size() == kCount; }, [&] { p.pump(); }));
    CHECK(in_order(tags, kCount));
    REQUIRE(until(
        [&] {
            return std::all_of(ops.begin(), ops.end(), [](const auto& o) { return o->done(); });
        },
        [&] { p.pump(); }));
}

TEST_CASE("early expected messages beyond the limit cost the oldest, not the newest",
          "[backpressure][expected]") {
    const Environment limit("NA_UNEXPECTED_LIMIT", "16");
    Pair p;
    std::vector<std::unique_ptr<Op>> ops;
    Buffer out(p.a);
    const std::size_t total = fill_message(p.a, out, 20, 1, true);
    for (na_tag_t tag = 0; tag < 100; ++tag) {
        ops.push_back(std::make_unique<Op>(p.a));
        REQUIRE(ops.back()->send_expected(out, total, p.to_b, tag) == NA_SUCCESS);
    }
    REQUIRE(until(
        [&] {
            return std::all_of(ops.begin(), ops.end(), [](const auto& o) { return o->done(); });
        },
        [&] { p.pump(); }));
    settle([&] { p.pump(); });
    Buffer in(p.b);
    Op newest(p.b);
    REQUIRE(newest.recv_expected(in, p.to_a, 99) == NA_SUCCESS);
    REQUIRE(until([&] { return newest.done(); }, [&] { p.pump(); }));
    CHECK(newest.ret() == NA_SUCCESS);
    Op oldest(p.b);
    REQUIRE(oldest.recv_expected(in, p.to_a, 0) == NA_SUCCESS);
    settle([&] { p.pump(); });
    CHECK_FALSE(oldest.done());
}
