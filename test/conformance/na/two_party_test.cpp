// SPDX-License-Identifier: BSD-3-Clause
// The everyday work between two real processes (two threads where the transport does not leave its
// process).
#include "common.hpp"
#include "support/two_process.hpp"

using namespace na_test;
using support::Link;
using support::Party;

namespace {

Party::As other_party() {
    return one_process_only() ? Party::As::thread : Party::As::process;
}

// Blocks in NA_Progress, as services do.
template <typename Done>
bool drive(Endpoint& e, Done&& done) {
    return until(done, [&] {
        NA_Progress(e.cls(), e.context(), 200);
        NA_Trigger(e.context(), 1000, nullptr);
    });
}

// Answers requests until one with tag 0: payload `tag` comes back as an expected message.
void echo_server(Link& link, bool blocking) {
    Endpoint e;
    Buffer in(e);
    Buffer out(e);
    Op recv(e);
    Op send(e);
    link.put(e.uri());
    const auto finished = [&](auto&& done) {
        return blocking ? drive(e, done) : until(done, [&] { e.pump(); });
    };
    for (na_tag_t tag = 1; tag != 0;) {
        recv.reset();
        send.reset();
        PARTY_REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
        PARTY_REQUIRE(finished([&] { return recv.done(); }));
        PARTY_REQUIRE(recv.ret() == NA_SUCCESS);
        tag = recv.result().tag;
        PARTY_REQUIRE(holds(e, in.data(), recv.result().size, tag));
        const std::size_t total = e.header(true) + recv.result().size - e.header();
        std::memcpy(out.data() + e.header(true), in.data() + e.header(), total - e.header(true));
        PARTY_REQUIRE(send.send_expected(out, total, recv.result().source, tag) == NA_SUCCESS);
        PARTY_REQUIRE(finished([&] { return send.done(); }));
    }
    link.barrier([&] { e.pump(); });
}

}  // namespace

TEST_CASE("requests and answers between two parties", "[two]") {
    const bool blocking = GENERATE(false, true);
    Party server(other_party(), [blocking](Link& link) { echo_server(link, blocking); });
    {
        Endpoint e;
        Addr to_server(e, server.link().take_text());
        Buffer out(e);
        Buffer in(e);
        support::Random random(options().seed);
        // Two sides that spin on one processor are slow.
        const unsigned count = (blocking ? 400 : 50) / support::kSlow;
        for (unsigned i = 0; i <= count; ++i) {
            const na_tag_t tag = i == count ? 0 : i + 1;
            Op send(e);
            Op recv(e);
            const std::size_t most =
                std::min(e.max_message() - e.header(), e.max_message(true) - e.header(true));
            const std::size_t payload = i % 10 == 0 ? random.below(most + 1) : random.below(200);
            REQUIRE(recv.recv_expected(in, to_server, tag) == NA_SUCCESS);
            REQUIRE(send.send_unexpected(out, fill_message(e, out, payload, tag), to_server, tag) ==
                    NA_SUCCESS);
            const auto done = [&] { return send.done() && recv.done(); };
            REQUIRE((blocking ? drive(e, done) : until(done, [&] { e.pump(); })));
            REQUIRE(recv.ret() == NA_SUCCESS);
            REQUIRE(holds(e, in.data(), recv.result().size, tag, true));
        }
        server.link().barrier([&] { e.pump(); });
    }
    CHECK(server.join() == "");
}

TEST_CASE("a stream between two parties stays whole and in order, with a slow receiver",
          "[two][backpressure]") {
    const unsigned count = 5000 / support::kSlow;
    Party sender(other_party(), [count](Link& link) {
        Endpoint e;
        Addr to(e, link.take_text());
        std::vector<std::unique_ptr<Op>> ops;
        std::vector<std::unique_ptr<Buffer>> buffers;
        support::Random random(options().seed + 1);
        for (unsigned i = 0; i < 200; ++i) {
            ops.push_back(std::make_unique<Op>(e));
            buffers.push_back(std::make_unique<Buffer>(e));
        }
        for (unsigned i = 0; i < count; ++i) {
            Op& op = *ops[i % ops.size()];
            Buffer& buffer = *buffers[i % ops.size()];
            if (i >= ops.size()) {
                PARTY_REQUIRE(drive(e, [&] { return op.done(); }));
                PARTY_REQUIRE(op.ret() == NA_SUCCESS);
                op.reset();
            }
            const std::size_t most = e.max_message() - e.header();
            const std::size_t payload =
                random.below(20) == 0 ? random.below(most + 1) : random.below(150);
            PARTY_REQUIRE(op.send_unexpected(buffer, fill_message(e, buffer, payload, i), to, i) ==
                          NA_SUCCESS);
        }
        PARTY_REQUIRE(drive(e, [&] {
            return std::all_of(ops.begin(), ops.end(), [](const auto& o) { return o->done(); });
        }));
        link.barrier([&] { e.pump(); });
    });
    {
        Endpoint e;
        sender.link().put(e.uri());
        Buffer in(e);
        Op recv(e);
        for (unsigned i = 0; i < count; ++i) {
            recv.reset();
            REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
            if (i % 1000 == 500) {
                std::this_thread::sleep_for(
                    std::chrono::milliseconds(10));  // the sender runs ahead
            }
            REQUIRE(drive(e, [&] { return recv.done(); }));
            REQUIRE(recv.result().tag == i);
            REQUIRE(holds(e, in.data(), recv.result().size, i));
        }
        sender.link().barrier([&] { e.pump(); });
    }
    CHECK(sender.join() == "");
}

TEST_CASE("transfers between two parties", "[two][rma]") {
    constexpr std::size_t kSize = 3 << 20;
    Party target(other_party(), [](Link& link) {
        Endpoint e;
        std::vector<std::byte> memory = support::payload(kSize, 1);
        Mem whole(e, memory.data(), memory.size(), NA_MEM_READWRITE);
        std::vector<na_segment> segments;
        const std::size_t pieces =
            std::min<std::size_t>(NA_Mem_handle_get_max_segments(e.cls()), 7);
        for (std::size_t i = 0; i < pieces; ++i) {
            segments.push_back({memory.data() + i * 1000, 333});
        }
        Mem pieced(e, segments, NA_MEM_READ_ONLY);
        link.put(e.uri());
        link.put(whole.serialize());
        link.put(pieced.serialize());
        PARTY_REQUIRE(until([&] { return link.readable(); }, [&] { e.pump(); }));
        PARTY_REQUIRE(link.take_text() == "written");
        PARTY_REQUIRE(support::mismatch(memory, 2) == -1);
        link.barrier([&] { e.pump(); });
    });
    {
        Endpoint e;
        Addr to(e, target.link().take_text());
        Mem whole(e, target.link().take());
        Mem pieced(e, target.link().take());
        std::vector<std::byte> memory(kSize);
        Mem local(e, memory.data(), memory.size(), NA_MEM_READWRITE);
        const auto pump = [&] { e.pump(); };
        Op op(e);
        REQUIRE(op.get(local, 0, whole, 0, kSize, to) == NA_SUCCESS);
        REQUIRE(until([&] { return op.done(); }, pump));
        REQUIRE(op.ret() == NA_SUCCESS);
        CHECK(support::mismatch(memory, 1) == -1);

        const std::size_t pieces =
            std::min<std::size_t>(NA_Mem_handle_get_max_segments(e.cls()), 7);
        op.reset();
        REQUIRE(op.get(local, 5, pieced, 0, pieces * 333, to) == NA_SUCCESS);
        REQUIRE(until([&] { return op.done(); }, pump));
        REQUIRE(op.ret() == NA_SUCCESS);
        for (std::size_t i = 0; i < pieces; ++i) {
            CHECK(support::mismatch(memory.data() + 5 + i * 333, 333, 1, i * 1000) == -1);
        }
        // Many at once, of uneven sizes.
        support::fill(memory, 2);
        std::vector<std::unique_ptr<Op>> ops;
        for (std::size_t at = 0; at < kSize;) {
            const std::size_t n = std::min(kSize - at, 1 + at * 7 % 99991);
            ops.push_back(std::make_unique<Op>(e));
            REQUIRE(ops.back()->put(local, at, whole, at, n, to) == NA_SUCCESS);
            at += n;
        }
        REQUIRE(until(
            [&] {
                return std::all_of(ops.begin(), ops.end(), [](const auto& o) { return o->done(); });
            },
            pump));
        for (const auto& o : ops) {
            CHECK(o->ret() == NA_SUCCESS);
        }
        target.link().put("written");
        target.link().barrier(pump);
    }
    CHECK(target.join() == "");
}

TEST_CASE("an address string of one party serves the other", "[two][peer]") {
    Party other(other_party(), [](Link& link) {
        Endpoint e;
        const std::string their = link.take_text();
        Addr to(e, their);
        PARTY_REQUIRE(support::to_string(e, to) == their);
        std::vector<std::byte> bytes(NA_Addr_get_serialize_size(e.cls(), to));
        PARTY_REQUIRE(NA_Addr_serialize(e.cls(), bytes.data(), bytes.size(), to) == NA_SUCCESS);
        link.put(bytes);
        link.barrier([&] { e.pump(); });
    });
    {
        Endpoint e;
        other.link().put(e.uri());
        const std::vector<std::byte> bytes = other.link().take();
        na_addr_t* self = nullptr;
        REQUIRE(NA_Addr_deserialize(e.cls(), &self, bytes.data(), bytes.size(), 0) == NA_SUCCESS);
        CHECK(NA_Addr_is_self(e.cls(), self));
        NA_Addr_free(e.cls(), self);
        other.link().barrier([&] { e.pump(); });
    }
    CHECK(other.join() == "");
}
