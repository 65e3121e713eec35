// SPDX-License-Identifier: BSD-3-Clause
// What peers can reach of registered memory, and what they cannot.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "plugins/ucx/memory.hpp"
#include "plugins/ucx/wire.hpp"

using namespace na;
using na::ucx::Gate;
using na::ucx::NativePart;
using na::ucx::Region;
using na::ucx::RmaHeader;

namespace {

std::vector<std::byte> bytes_of(const char* text) {
    const auto* at = reinterpret_cast<const std::byte*>(text);
    return {at, at + std::strlen(text)};
}

}  // namespace

TEST_CASE("ranges run over the borders of segments", "[gate]") {
    char a[4] = {'a', 'b', 'c', 'd'};
    char b[1] = {'e'};
    char c[5] = {'f', 'g', 'h', 'i', 'j'};
    const Segment parts[] = {{a, sizeof a}, {b, sizeof b}, {c, sizeof c}};
    Gate gate;
    Region region(parts, Access::read_write);
    gate.add(region);
    std::vector<std::byte> all(10);
    CHECK(gate.read(region.key(), 0, all) == Status::success);
    CHECK(all == bytes_of("abcdefghij"));
    CHECK(gate.write(region.key(), 3, bytes_of("XYZ")) == Status::success);
    CHECK(std::string(a, 4) + b[0] + std::string(c, 5) == "abcXYZghij");
    std::vector<std::byte> one(1);
    CHECK(gate.read(region.key(), 4, one) == Status::success);
    CHECK(one == bytes_of("Y"));
    CHECK(gate.read(region.key(), 9, one) == Status::success);
    CHECK(one == bytes_of("j"));
}

TEST_CASE("keys, ranges and rights are checked", "[gate]") {
    char memory[16] = {};
    const Segment part{memory, sizeof memory};
    Gate gate;
    Region readable({&part, 1}, Access::read);
    Region writable({&part, 1}, Access::write);
    gate.add(readable);
    gate.add(writable);
    CHECK(readable.key() != writable.key());
    std::vector<std::byte> buffer(8);
    CHECK(gate.read(readable.key() + 1, 0, buffer) == Status::fault);
    CHECK(gate.read(0, 0, buffer) == Status::fault);
    CHECK(gate.read(readable.key(), 9, buffer) == Status::fault);
    CHECK(gate.read(readable.key(), UINT64_MAX, buffer) == Status::fault);
    CHECK(gate.read(readable.key(), UINT64_MAX - 7, buffer) == Status::fault);
    std::vector<std::byte> larger(17);
    CHECK(gate.read(readable.key(), 0, larger) == Status::fault);
    CHECK(gate.read(writable.key(), 0, buffer) == Status::permission);
    CHECK(gate.write(readable.key(), 0, buffer) == Status::permission);
    CHECK(gate.read(readable.key(), 8, buffer) == Status::success);
    CHECK(gate.write(writable.key(), 8, buffer) == Status::success);
}

TEST_CASE("memory that was deregistered is out of reach", "[gate]") {
    Gate gate;
    std::vector<std::byte> buffer(64);
    std::uint64_t key = 0;
    std::atomic<bool> stop{false};
    // Peers reach for it all the time.
    std::atomic<std::uint64_t> shown{0};
    std::thread peer([&] {
        std::vector<std::byte> mine(64, std::byte{1});
        while (!stop) {
            const Status s = gate.write(shown, 0, mine);
            if (s != Status::success && s != Status::fault) {
                std::abort();
            }
        }
    });
    for (int i = 0; i < 2000; ++i) {
        const Segment part{buffer.data(), buffer.size()};
        {
            Region region({&part, 1}, Access::write);
            gate.add(region);
            key = region.key();
            shown = key;
        }
        std::fill(buffer.begin(), buffer.end(), std::byte{0});
        CHECK(gate.write(key, 0, buffer) == Status::fault);
        REQUIRE(std::count(buffer.begin(), buffer.end(), std::byte{0}) == 64);
    }
    stop = true;
    peer.join();
}

TEST_CASE("descriptors of memory travel, and malformed ones are refused", "[gate]") {
    char memory[16] = {};
    const Segment part{memory, sizeof memory};
    Gate gate;
    Region region({&part, 1}, Access::read);
    gate.add(region);
    std::vector<std::byte> bytes(region.encode({}));
    region.encode(bytes);
    const auto decoded = Region::decode(bytes, 16);
    REQUIRE(decoded);
    CHECK(static_cast<const Region&>(**decoded).key() == region.key());
    for (std::size_t n = 0; n < bytes.size(); ++n) {
        CHECK_FALSE(Region::decode({bytes.data(), n}, 16));
    }
    bytes.push_back(std::byte{0});
    CHECK_FALSE(Region::decode(bytes, 16));
    CHECK_FALSE(Region::decode(std::vector<std::byte>(8), 16));
}

TEST_CASE("descriptors with keys of UCX travel, and malformed ones are refused", "[gate]") {
    char memory[16] = {};
    const Segment segments[] = {{memory, 10}, {memory + 10, 6}};
    Gate gate;
    Region region(segments, Access::read);
    gate.add(region);
    std::vector<NativePart> parts;
    parts.push_back({.address = 1000, .length = 10, .start = 0, .key = bytes_of("one key")});
    parts.push_back({.address = 77, .length = 6, .start = 10, .key = bytes_of("another key")});
    region.offer(parts, nullptr);
    std::vector<std::byte> bytes(region.encode({}));
    CHECK(region.encode(bytes) == bytes.size());
    const auto decoded = Region::decode(bytes, 16);
    REQUIRE(decoded);
    const auto& remote = static_cast<const Region&>(**decoded);
    CHECK(remote.key() == region.key());
    CHECK(remote.host());
    REQUIRE(remote.native().size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
        CHECK(remote.native()[i].address == parts[i].address);
        CHECK(remote.native()[i].length == parts[i].length);
        CHECK(remote.native()[i].start == parts[i].start);
        CHECK(remote.native()[i].key == parts[i].key);
    }
    // Without them it is what a side has that knows of none.
    for (std::size_t n = 0; n < bytes.size(); ++n) {
        CHECK(static_cast<bool>(Region::decode({bytes.data(), n}, 16)) ==
              (n == sizeof region.key()));
    }
    CHECK_FALSE(Region::decode(bytes, 15));
    CHECK_FALSE(Region::decode(bytes, 17));
    const auto refused = [&](std::size_t at, unsigned value) {
        auto wrong = bytes;
        wrong[at] = static_cast<std::byte>(value);
        return !Region::decode(wrong, 16);
    };
    CHECK(refused(8, 2));      // the form
    CHECK(refused(9, 4));      // an unknown kind of memory
    CHECK(refused(10, 0));     // no parts
    CHECK(refused(10, 1));     // fewer
    CHECK(refused(10, 3));     // more
    CHECK(refused(11, 1));     // too many
    CHECK(refused(20, 0));     // a part of no length
    CHECK(refused(27, 0xff));  // one beyond the end
    CHECK(refused(28, 0));     // an empty key
    CHECK(refused(29, 0xff));  // one that is too long
    auto wrong = bytes;
    std::fill_n(wrong.begin() + 12, 8, std::byte{0xff});  // an address whose end is nowhere
    CHECK_FALSE(Region::decode(wrong, 16));
    wrong = bytes;
    wrong.push_back(std::byte{0});
    CHECK_FALSE(Region::decode(wrong, 16));
}

TEST_CASE("the gate leaves alone what is on a device", "[gate]") {
    char memory[16] = {};
    const Segment part{memory, sizeof memory};
    Gate gate;
    Region region({&part, 1}, Access::read_write, MemoryKind::cuda);
    gate.add(region);
    std::vector<std::byte> buffer(8);
    CHECK(gate.read(region.key(), 0, buffer) == Status::permission);
    CHECK(gate.write(region.key(), 0, buffer) == Status::permission);
}

TEST_CASE("headers of transfers are checked", "[gate]") {
    const RmaHeader sent{.cookie = 1,
                         .sequence = 2,
                         .key = 3,
                         .offset = 4,
                         .length = 5,
                         .kind = RmaHeader::Kind::get,
                         .target = 6,
                         .status = 7};
    std::vector<std::byte> bytes(RmaHeader::kSize);
    sent.write(bytes.data());
    RmaHeader h;
    REQUIRE(h.read(bytes));
    CHECK((h.cookie == 1 && h.sequence == 2 && h.key == 3 && h.offset == 4 && h.length == 5 &&
           h.kind == RmaHeader::Kind::get && h.target == 6 && h.status == 7));
    CHECK_FALSE(h.read({bytes.data(), bytes.size() - 1}));
    auto wrong = bytes;
    wrong[36] = std::byte{2};  // the version
    CHECK_FALSE(h.read(wrong));
    wrong = bytes;
    wrong[37] = std::byte{3};  // the kind
    CHECK_FALSE(h.read(wrong));
    wrong = bytes;
    wrong[47] = std::byte{1};  // reserved
    CHECK_FALSE(h.read(wrong));
}
