// SPDX-License-Identifier: BSD-3-Clause
// Memory of the C++ API: registered ranges and segments, the library's own, permissions, puts and
// gets, hostile bytes.
#include <array>
#include <numeric>

#include "side.hpp"

using namespace cxx_test;
using na::Access;
using na::Status;

namespace {

// Puts or gets, and waits for the end.
template <typename Post>
Status transfer(Pair& p, Post&& post) {
    Outcome end;
    na::Operation op(p.a.context);
    const na::PostResult posted = post(op, end.on_status());
    if (!posted) {
        return posted.status();
    }
    REQUIRE(p.until([&] { return end.done(); }));
    CHECK(end.calls == 1);
    return end.status;
}

}  // namespace

TEST_CASE("put and get between ranges", "[cxx][memory]") {
    Pair p;
    std::vector<std::uint32_t> theirs(3000);
    std::iota(theirs.begin(), theirs.end(), 1U);
    const auto before = theirs;
    std::array<std::uint32_t, 2000> mine{};
    na::Memory exposed = p.b.domain.register_memory(theirs, Access::read_write).value();
    CHECK(exposed.size() == theirs.size() * sizeof theirs[0]);
    CHECK(exposed.access() == Access::read_write);
    CHECK(exposed.bytes().empty());
    const na::Memory local = p.a.domain.register_memory(mine, Access::read_write).value();
    const na::RemoteMemory remote = p.a.domain.decode_memory(exposed.encode()).value();
    CHECK(remote.size() == exposed.size());
    CHECK(remote.access() == Access::read_write);

    CHECK(ok(transfer(p, [&](na::Operation& op, auto f) {
        return p.a.context.get(op, p.to_b, local.range(0, 4000), remote.at(400), f);
    })));
    CHECK(std::equal(mine.begin(), mine.begin() + 1000, before.begin() + 100));
    CHECK(mine[1000] == 0);

    mine.fill(7);
    CHECK(ok(transfer(p, [&](na::Operation& op, auto f) {
        return p.a.context.put(op, {p.to_b, 0}, local.all(), remote.at(4000), f);
    })));
    CHECK(std::equal(theirs.begin(), theirs.begin() + 1000, before.begin()));
    CHECK(std::all_of(theirs.begin() + 1000, theirs.end(), [](std::uint32_t n) { return n == 7; }));
    CHECK(ok(transfer(p, [&](na::Operation& op, auto f) {
        return p.a.context.put(op, p.to_b, local.range(8000, 0), remote.at(12000), f);
    })));
}

TEST_CASE("memory of the library's", "[cxx][memory]") {
    Pair p;
    na::Memory theirs = p.b.domain.allocate(300'000).value();
    na::Memory mine = p.a.domain.allocate(300'000).value();
    REQUIRE(theirs.bytes().size() == 300'000);
    CHECK(std::all_of(theirs.bytes().begin(), theirs.bytes().end(),
                      [](std::byte b) { return b == std::byte{0}; }));
    support::fill(mine.bytes(), 11);
    const na::RemoteMemory remote = p.a.domain.decode_memory(theirs.encode()).value();
    CHECK(ok(transfer(p, [&](na::Operation& op, auto f) {
        return p.a.context.put(op, p.to_b, mine.all(), remote.at(0), f);
    })));
    CHECK(support::mismatch(theirs.bytes(), 11) == -1);
    CHECK(p.a.domain.allocate(0).status() == Status::invalid_arg);
    const auto huge = p.a.domain.allocate(SIZE_MAX / 2);
    CHECK_FALSE(huge);
}

TEST_CASE("segments are one range", "[cxx][memory]") {
    Pair p;
    if (p.b.domain.max_segments() < 3) {
        support::skip("one segment at most");
        return;
    }
    std::vector<std::byte> one(100), two(1), three(5000);
    const na::Segment segments[] = {
        {one.data(), one.size()}, {two.data(), two.size()}, {three.data(), three.size()}};
    na::Memory exposed = p.b.domain.register_segments(segments, Access::write).value();
    CHECK(exposed.size() == 5101);
    const auto data = support::payload(3000, 5);
    const na::Memory local = p.a.domain.register_memory(data).value();
    CHECK(local.access() == Access::read);
    const na::RemoteMemory remote = p.a.domain.decode_memory(exposed.encode()).value();
    CHECK(ok(transfer(p, [&](na::Operation& op, auto f) {
        return p.a.context.put(op, p.to_b, local.all(), remote.at(50), f);
    })));
    CHECK(std::equal(data.begin(), data.begin() + 50, one.begin() + 50));
    CHECK(data[50] == two[0]);
    CHECK(std::equal(data.begin() + 51, data.end(), three.begin()));
}

TEST_CASE("what memory does not allow", "[cxx][memory]") {
    const Quiet quiet;
    Pair p;
    std::vector<std::byte> theirs(100), mine(100);
    na::Memory readable = p.b.domain.register_memory(theirs).value();
    na::Memory writable = p.b.domain.register_memory(theirs, Access::write).value();
    const na::Memory source = p.a.domain.register_memory(mine).value();
    const na::Memory sink = p.a.domain.register_memory(mine, Access::write).value();
    const na::RemoteMemory to_read = p.a.domain.decode_memory(readable.encode()).value();
    const na::RemoteMemory to_write = p.a.domain.decode_memory(writable.encode()).value();
    auto& context = p.a.context;
    na::Operation op(context);
    const auto f = [](Status) { FAIL("a callback"); };
    const auto refused = [](na::PostResult r, Status status, const std::string& words) {
        CHECK(r.status() == status);
        CHECK_THAT(r.error().message, Catch::Contains(words));
    };
    refused(context.put(op, p.to_b, source.all(), to_read.at(0), f), Status::permission, "writing");
    refused(context.put(op, p.to_b, sink.all(), to_write.at(0), f), Status::permission, "reading");
    refused(context.get(op, p.to_b, sink.all(), to_write.at(0), f), Status::permission, "reading");
    refused(context.put(op, p.to_b, source.range(1, 100), to_write.at(0), f), Status::overflow,
            "past the end");
    refused(context.put(op, p.to_b, source.all(), to_write.at(1), f), Status::overflow,
            "past the end");
    refused(context.put(op, p.to_b, source.range(UINT64_MAX, 2), to_write.at(0), f),
            Status::overflow, "past the end");
    refused(context.put(op, p.to_b, readable.all(), to_write.at(0), f), Status::invalid_arg,
            "another Domain");
    na::Memory moved = std::move(readable);
    refused(context.put(op, p.to_b, readable.all(), to_write.at(0), f), Status::invalid_arg,
            "moved");  // NOLINT
    CHECK_FALSE(op.in_use());

    CHECK(p.a.domain.register_memory(std::span<std::byte>()).status() == Status::invalid_arg);
    CHECK(p.a.domain.register_memory(mine, Access::none).status() == Status::invalid_arg);
    CHECK(p.a.domain.register_segments({}, Access::read).status() == Status::invalid_arg);
    const std::vector<na::Segment> many(p.a.domain.max_segments() + 1, {mine.data(), 1});
    const auto too_many = p.a.domain.register_segments(many, Access::read);
    CHECK(too_many.status() == Status::invalid_arg);
    CHECK_THAT(too_many.error().message,
               Catch::Contains(std::to_string(p.a.domain.max_segments())));
}

TEST_CASE("descriptions of memory and of peers may come from anybody", "[cxx][memory]") {
    const Quiet quiet;
    Pair p;
    std::vector<std::byte> theirs(100);
    na::Memory exposed = p.b.domain.register_memory(theirs, Access::read_write).value();
    const auto memory = exposed.encode();
    const auto address = p.to_b.encode();
    for (std::size_t size = 0; size < memory.size(); ++size) {
        CHECK_FALSE(p.a.domain.decode_memory(std::span(memory).first(size)));
    }
    for (std::size_t size = 0; size < address.size(); ++size) {
        CHECK_FALSE(p.a.domain.decode_address(std::span(address).first(size)));
    }
    support::Random random(options().seed);
    for (int i = 0; i < 1000; ++i) {
        auto bytes = i % 2 == 0 ? memory : address;
        bytes[random.below(bytes.size())] ^= static_cast<std::byte>(1 + random.below(255));
        // Whatever it answers: it answers.
        (void)p.a.domain.decode_memory(bytes).status();
        (void)p.a.domain.decode_address(bytes).status();
    }
    CHECK(p.a.domain.decode_address(address).value() == p.to_b);
}
