// SPDX-License-Identifier: BSD-3-Clause
// Put and get: sizes, offsets, segments on both sides, many at a time.
#include "common.hpp"

using namespace na_test;

namespace {

// Memory in pieces: `segments` of random lengths with gaps between them, and what lies between must
// not change.
struct Pieces {
    Pieces(std::size_t total, std::size_t segments, support::Random& random) {
        std::vector<std::size_t> lengths(segments, 1);
        for (std::size_t left = total - segments; left != 0;) {
            const std::size_t n =
                std::min<std::size_t>(left, 1 + random.below(total / segments + 1));
            lengths[random.below(segments)] += n;
            left -= n;
        }
        storage.assign(total + (segments + 1) * kGap, std::byte{0xcc});
        std::size_t at = kGap;
        for (const std::size_t n : lengths) {
            list.push_back({storage.data() + at, n});
            at += n + kGap;
        }
    }
    std::vector<std::byte> flat() const {
        std::vector<std::byte> bytes;
        for (const na_segment& s : list) {
            const auto* base = static_cast<const std::byte*>(s.base);
            bytes.insert(bytes.end(), base, base + s.len);
        }
        return bytes;
    }
    void fill(std::uint64_t seed) {
        std::size_t position = 0;
        for (const na_segment& s : list) {
            for (std::size_t i = 0; i < s.len; ++i) {
                static_cast<std::byte*>(s.base)[i] = support::payload_byte(seed, position++);
            }
        }
    }
    bool gaps_intact() const {
        const std::byte* at = storage.data();
        for (std::size_t i = 0; i <= list.size(); ++i) {
            const std::byte* end = i < list.size() ? static_cast<const std::byte*>(list[i].base)
                                                   : storage.data() + storage.size();
            if (std::any_of(at, end, [](std::byte b) { return b != std::byte{0xcc}; })) {
                return false;
            }
            if (i < list.size()) {
                at = end + list[i].len;
            }
        }
        return true;
    }
    static constexpr std::size_t kGap = 16;
    std::vector<std::byte> storage;
    std::vector<na_segment> list;
};

}  // namespace

TEST_CASE("transfers of all sizes move what they should", "[rma]") {
    Pair p;
    const std::size_t most = (std::size_t{16} << 20) / (faulty() ? 4 : 1);
    std::vector<std::byte> here(most + 64);
    std::vector<std::byte> there(most + 64);
    Mem local(p.a, here.data(), here.size(), NA_MEM_READWRITE);
    Mem target(p.b, there.data(), there.size(), NA_MEM_READWRITE);
    Mem remote(p.a, target.serialize());
    Op op(p.a);
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{64}, std::size_t{4095},
          std::size_t{4096}, std::size_t{65537}, std::size_t{1} << 20, most}) {
        for (const bool put : {true, false}) {
            INFO((put ? "put " : "get ") << size);
            std::vector<std::byte>& from = put ? here : there;
            std::vector<std::byte>& to = put ? there : here;
            const std::size_t from_offset = size % 13;
            const std::size_t to_offset = 5 + size % 17;
            support::fill(from.data(), size + 64, size + put);
            std::memset(to.data(), 0xcc, size + 64);
            const na_return_t posted =
                put ? op.put(local, from_offset, remote, to_offset, size, p.to_b)
                    : op.get(local, to_offset, remote, from_offset, size, p.to_b);
            REQUIRE(posted == NA_SUCCESS);
            REQUIRE(until([&] { return op.done(); }, [&] { p.pump(); }));
            REQUIRE(op.ret() == NA_SUCCESS);
            CHECK(op.result().type == (put ? NA_CB_PUT : NA_CB_GET));
            CHECK(std::memcmp(to.data() + to_offset, from.data() + from_offset, size) == 0);
            CHECK(to[to_offset - 1] == std::byte{0xcc});
            CHECK(to[to_offset + size] == std::byte{0xcc});
            op.reset();
        }
    }
}

TEST_CASE("memory of a class that does not listen is reached by whom it has not called", "[rma]") {
    Endpoint::Settings settings;
    settings.listen = false;
    Endpoint client(settings);
    Endpoint server;
    Addr to_client(server, client.uri());
    for (const std::size_t size : {std::size_t{8}, std::size_t{100'000}}) {
        std::vector<std::byte> here(size), there(size);
        Mem local(server, here.data(), size, NA_MEM_READWRITE);
        Mem target(client, there.data(), size, NA_MEM_READWRITE);
        Mem remote(server, target.serialize());
        Op op(server);
        for (const bool put : {true, false}) {
            support::fill(put ? here : there, size + put);
            REQUIRE((put ? op.put(local, 0, remote, 0, size, to_client)
                         : op.get(local, 0, remote, 0, size, to_client)) == NA_SUCCESS);
            REQUIRE(until([&] { return op.done(); },
                          [&] {
                              client.pump();
                              server.pump();
                          }));
            CHECK(op.ret() == NA_SUCCESS);
            CHECK((here == there));
            op.reset();
        }
    }
}

TEST_CASE("transfers cross segment boundaries on both sides", "[rma]") {
    Pair p;
    support::Random random(options().seed);
    const std::size_t most = NA_Mem_handle_get_max_segments(p.a.cls());
    for (int round = 0; round < 40; ++round) {
        const std::size_t total = 500 + random.below(20000);
        Pieces here(total, 1 + random.below(std::min<std::size_t>(most, 20)), random);
        Pieces there(total, 1 + random.below(std::min<std::size_t>(most, 20)), random);
        Mem local(p.a, here.list, NA_MEM_READWRITE);
        Mem target(p.b, there.list, NA_MEM_READWRITE);
        Mem remote(p.a, target.serialize());
        Op op(p.a);
        for (int i = 0; i < 6; ++i) {
            here.fill(random.next());
            there.fill(random.next());
            std::vector<std::byte> here_then = here.flat();
            std::vector<std::byte> there_then = there.flat();
            const std::size_t size = random.below(total + 1);
            const std::size_t at_here = random.below(total - size + 1);
            const std::size_t at_there = random.below(total - size + 1);
            const bool put = i % 2 == 0;
            REQUIRE((put ? op.put(local, at_here, remote, at_there, size, p.to_b)
                         : op.get(local, at_here, remote, at_there, size, p.to_b)) == NA_SUCCESS);
            REQUIRE(until([&] { return op.done(); }, [&] { p.pump(); }));
            REQUIRE(op.ret() == NA_SUCCESS);
            op.reset();
            if (put) {
                std::memcpy(there_then.data() + at_there, here_then.data() + at_here, size);
            } else {
                std::memcpy(here_then.data() + at_here, there_then.data() + at_there, size);
            }
            CHECK(here.flat() == here_then);
            CHECK(there.flat() == there_then);
            CHECK(here.gaps_intact());
            CHECK(there.gaps_intact());
        }
    }
}

TEST_CASE("the largest number of segments works", "[rma]") {
    Pair p;
    support::Random random(options().seed);
    const std::size_t most = NA_Mem_handle_get_max_segments(p.a.cls());
    Pieces here(most * 10, most, random);
    Pieces there(most * 10, most, random);
    Mem local(p.a, here.list, NA_MEM_READWRITE);
    Mem target(p.b, there.list, NA_MEM_READWRITE);
    Mem remote(p.a, target.serialize());
    here.fill(1);
    Op op(p.a);
    REQUIRE(op.put(local, 0, remote, 0, most * 10, p.to_b) == NA_SUCCESS);
    REQUIRE(until([&] { return op.done(); }, [&] { p.pump(); }));
    CHECK(op.ret() == NA_SUCCESS);
    CHECK(there.flat() == here.flat());
    CHECK(there.gaps_intact());
}

TEST_CASE("many transfers may be under way", "[rma]") {
    Pair p;
    constexpr std::size_t kCount = 200;
    constexpr std::size_t kSize = 3000;
    std::vector<std::byte> here(kCount * kSize);
    std::vector<std::byte> there = support::payload(kCount * kSize, 5);
    Mem local(p.a, here.data(), here.size(), NA_MEM_READWRITE);
    Mem target(p.b, there.data(), there.size(), NA_MEM_READWRITE);
    Mem remote(p.a, target.serialize());
    std::vector<std::unique_ptr<Op>> ops;
    for (std::size_t i = 0; i < kCount; ++i) {
        ops.push_back(std::make_unique<Op>(p.a));
        REQUIRE(ops.back()->get(local, i * kSize, remote, i * kSize, kSize, p.to_b) == NA_SUCCESS);
    }
    REQUIRE(until(
        [&] {
            return std::all_of(ops.begin(), ops.end(), [](const auto& o) { return o->done(); });
        },
        [&] { p.pump(); }));
    for (const auto& op : ops) {
        CHECK(op->ret() == NA_SUCCESS);
    }
    CHECK(here == there);
}

TEST_CASE("memory that is gone at the target ends the transfer with an error", "[rma]") {
    Pair p;
    std::vector<std::byte> here(100);
    auto there = std::make_unique<std::vector<std::byte>>(100);
    auto target = std::make_unique<Mem>(p.b, there->data(), there->size(), NA_MEM_READWRITE);
    Mem local(p.a, here.data(), here.size(), NA_MEM_READWRITE);
    Mem remote(p.a, target->serialize());
    target.reset();
    // The memory itself still exists: a transport may or may not notice, but the operation ends.
    Op op(p.a);
    const Quiet quiet;
    if (op.get(local, 0, remote, 0, 100, p.to_b) == NA_SUCCESS) {
        REQUIRE(until([&] { return op.done(); }, [&] { p.pump(); }));
    }
}

TEST_CASE("a message sent after a put sees its data", "[rma]") {
    Pair p;
    std::vector<std::byte> here(10000);
    std::vector<std::byte> there(10000);
    Mem local(p.a, here.data(), here.size(), NA_MEM_READWRITE);
    Mem target(p.b, there.data(), there.size(), NA_MEM_READWRITE);
    Mem remote(p.a, target.serialize());
    Buffer out(p.a);
    Buffer in(p.b);
    for (unsigned i = 0; i < 50; ++i) {
        support::fill(here, i);
        Op put(p.a);
        Op send(p.a);
        Op recv(p.b);
        REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
        REQUIRE(put.put(local, 0, remote, 0, here.size(), p.to_b) == NA_SUCCESS);
        REQUIRE(until([&] { return put.done(); }, [&] { p.pump(); }));
        REQUIRE(send.send_unexpected(out, fill_message(p.a, out, 8, i), p.to_b, i) == NA_SUCCESS);
        REQUIRE(until([&] { return recv.done() && send.done(); }, [&] { p.pump(); }));
        CHECK(support::mismatch(there, i) == -1);
    }
}
