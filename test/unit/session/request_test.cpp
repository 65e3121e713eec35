// SPDX-License-Identifier: BSD-3-Clause
#include "na/session/request.hpp"

#include <vector>

#include <catch2/catch.hpp>

namespace {

using na::Status;

struct Request : na::session::Request {
    struct Registration {};
    void made(Registration&) noexcept {}
};
using Pool = na::session::RequestPool<Request>;

Request* take(Pool& pool, std::size_t theirs = Pool::kOwn) {
    return pool.take(
        [](std::byte*, std::size_t) -> na::Result<Request::Registration> {
            return Request::Registration{};
        },
        theirs);
}

}  // namespace

TEST_CASE("a pool of fewer requests") {
    Pool pool(16, 8);
    std::vector<Request*> greedy;
    while (Request* r = take(pool, greedy.size())) {
        greedy.push_back(r);
    }
    CHECK(greedy.size() == 8);
    for (std::size_t have = 0; have < Pool::kOwn; ++have) {
        CHECK(take(pool, have) != nullptr);
    }
    CHECK(take(pool, Pool::kOwn) == nullptr);
}

TEST_CASE("a pool that gets no memory says whether anything will come back") {
    Pool pool(16);
    bool refuses = true;
    const auto enrol = [&](std::byte*, std::size_t) -> na::Result<Request::Registration> {
        if (refuses) {
            return na::Error{Status::nomem, "as much as may be locked is"};
        }
        return Request::Registration{};
    };
    CHECK(pool.take(enrol) == nullptr);
    CHECK(pool.barren());
    refuses = false;
    Request* first = pool.take(enrol);
    REQUIRE(first != nullptr);
    refuses = true;
    std::vector<Request*> others;
    while (Request* r = pool.take(enrol)) {
        others.push_back(r);
    }
    CHECK(!pool.barren());
    pool.put_back(*first);
    CHECK(pool.take(enrol) == first);
}

TEST_CASE("who has nothing of a pool gets some, whatever the others have") {
    Pool pool(16);
    std::vector<Request*> greedy;
    while (Request* r = take(pool, greedy.size())) {
        greedy.push_back(r);
    }
    CHECK(greedy.size() == Pool::kMost);
    // Many of those that have little, each up to its own.
    std::vector<Request*> modest;
    for (int peer = 0; peer < 100; ++peer) {
        for (std::size_t have = 0; have < Pool::kOwn; ++have) {
            Request* r = take(pool, have);
            REQUIRE(r != nullptr);
            modest.push_back(r);
        }
        CHECK(take(pool, Pool::kOwn) == nullptr);
    }
    // What they give back is theirs again, not for those that have much.
    for (Request* r : modest) {
        pool.put_back(*r);
    }
    CHECK(take(pool, greedy.size()) == nullptr);
    CHECK(take(pool) == nullptr);
    pool.put_back(*greedy.back());
    greedy.pop_back();
    CHECK(take(pool, greedy.size()) != nullptr);
}
