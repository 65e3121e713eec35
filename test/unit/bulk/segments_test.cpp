// SPDX-License-Identifier: BSD-3-Clause
#include "bulk/segments.hpp"

#include "fixture.hpp"

TEST_CASE("a cursor walks over segments and skips empty ones", "[segments]") {
    char a[3] = {'a', 'b', 'c'};
    char b[2] = {'d', 'e'};
    const na::Segment list[] = {{nullptr, 0}, {a, 3}, {nullptr, 0},
                                {nullptr, 0}, {b, 2}, {nullptr, 0}};

    bulk::SegmentCursor cursor(list, 1);
    CHECK(cursor.peek(100).base == a + 1);
    CHECK(cursor.peek(100).length == 2);
    CHECK(cursor.peek(1).length == 1);
    cursor.advance(1);
    CHECK(cursor.peek(100).base == a + 2);
    cursor.advance(1);
    CHECK(cursor.peek(100).base == b);
    CHECK(cursor.peek(100).length == 2);
    cursor.advance(2);
    CHECK(cursor.peek(100).length == 0);

    CHECK(bulk::SegmentCursor(list, 3).peek(9).base == b);
    CHECK(bulk::SegmentCursor(list, 5).peek(9).length == 0);
}

TEST_CASE("copy across any boundaries", "[segments]") {
    std::mt19937 random(test::seed());
    for (int round = 0; round < 500; ++round) {
        const auto sizes = [&] {
            std::vector<std::size_t> s(1 + random() % 8);
            for (auto& n : s) {
                n = random() % 4 == 0 ? 0 : random() % 40;
            }
            return s;
        };
        test::Buffer from(sizes(), static_cast<unsigned>(random()));
        test::Buffer to(sizes(), static_cast<unsigned>(random()));
        const std::uint64_t most = std::min(from.size, to.size);
        const std::uint64_t size = most == 0 ? 0 : random() % (most + 1);
        const std::uint64_t at_from = random() % (from.size - size + 1);
        const std::uint64_t at_to = random() % (to.size - size + 1);
        auto expected = to.flat();
        const auto source = from.flat();
        std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(at_from), size,
                    expected.begin() + static_cast<std::ptrdiff_t>(at_to));
        bulk::copy(to.segments, at_to, from.segments, at_from, size);
        REQUIRE(to.flat() == expected);
        REQUIRE(from.flat() == source);
    }
}
