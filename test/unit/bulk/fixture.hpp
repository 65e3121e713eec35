// SPDX-License-Identifier: BSD-3-Clause
// Endpoints with all that the bulk layer needs, over the loop transport, in one process.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "bulk/bulk.hpp"
#include "bulk/transfer.hpp"
#include "bulk/wire.hpp"
#include "na/core/class.hpp"
#include "na/core/context.hpp"
#include "support/options.hpp"

namespace test {

using bulk::Access;
using bulk::Bulk;
using bulk::BulkRef;
using bulk::Direction;
using bulk::Engine;
using bulk::Request;
using bulk::Segment;
using bulk::Space;
using bulk::Status;
using bulk::Transfer;
using bulk::TransferId;

template <typename T>
T must(na::Result<T> result) {
    if (!result) {
        throw std::runtime_error(result.error().message);
    }
    return std::move(*result);
}

// An endpoint. Destroyed only when nothing of it is in use, which its members check.
struct Endpoint {
    std::unique_ptr<na::Class> cls;
    std::unique_ptr<na::Class> sm;  // null: one rail. Another loop stands for shared memory.
    std::unique_ptr<na::Context> context;
    std::unique_ptr<na::Context> sm_context;
    std::unique_ptr<Space> space;
    std::unique_ptr<Engine> engine;
    std::atomic<int> wakes{0};

    explicit Endpoint(na::InitInfo info = {}, bool two_rails = false) {
        cls = must(na::Class::open("loop+loop", true, info));
        context = must(na::Context::open(*cls, 0));
        if (two_rails) {
            sm = must(na::Class::open("loop+loop", true, info));
            sm_context = must(na::Context::open(*sm, 0));
        }
        space = std::make_unique<Space>(bulk::Rails{.net = cls.get(), .sm = sm.get()}, this);
        engine = std::make_unique<Engine>(
            *space, bulk::ContextRails{.net = context.get(), .sm = sm_context.get()},
            [](void* self) noexcept { ++static_cast<Endpoint*>(self)->wakes; }, this);
    }
    ~Endpoint() {
        CHECK(engine->idle());
        CHECK(space->live() == 0);
        engine.reset();
        context.reset();
        sm_context.reset();
    }
    void poll() {
        context->poll();
        if (sm_context != nullptr) {
            sm_context->poll();
        }
        engine->progress();
    }
};

// What done() answered, per transfer.
struct Outcomes {
    std::mutex mutex;
    std::vector<std::pair<Transfer*, Status>> ended;

    static void done(Transfer& t, Status s) noexcept {
        auto& self = *static_cast<Outcomes*>(t.owner());
        const std::lock_guard guard(self.mutex);
        self.ended.emplace_back(&t, s);
    }
    std::size_t count() {
        const std::lock_guard guard(mutex);
        return ended.size();
    }
    // The oldest outcome; its transfer is given back.
    Status take() {
        std::unique_lock guard(mutex);
        REQUIRE_FALSE(ended.empty());
        const auto [t, s] = ended.front();
        ended.erase(ended.begin());
        guard.unlock();
        t->engine().release(*t);
        return s;
    }
};

template <typename Predicate>
void until(Endpoint& e, Predicate&& predicate) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!predicate()) {
        e.poll();
        if (std::chrono::steady_clock::now() > deadline) {
            FAIL("nothing happened for 20 s");
        }
    }
}

// `bulk` as another endpoint gets it.
inline BulkRef sent_to(Endpoint& there, const Bulk& bulk, bulk::WireOptions options = {}) {
    std::vector<std::byte> bytes(bulk::encoded_size(bulk, options));
    REQUIRE(must(bulk::encode(bulk, options, bytes)) == bytes.size());
    return must(bulk::decode(*there.space, bytes));
}

// Two endpoints: `origin` shows memory, `target` moves data.
struct Pair {
    Endpoint origin;
    Endpoint target;
    na::AddressRef peer;  // origin, as target knows it
    Outcomes outcomes;

    Pair() { peer = must(target.cls->lookup(origin.cls->self()->uri())); }

    Request request(Direction d, Bulk& remote, std::uint64_t remote_offset, Bulk& local,
                    std::uint64_t local_offset, std::uint64_t size) {
        return {.direction = d,
                .origin = &remote,
                .origin_offset = remote_offset,
                .local = &local,
                .local_offset = local_offset,
                .size = size,
                .peer = {.net = peer.get()},
                .done = &Outcomes::done,
                .owner = &outcomes};
    }
    // From start to end.
    Status move(const Request& r) {
        const Status s = target.engine->start(r);
        if (!na::ok(s)) {
            CHECK(outcomes.count() == 0);
            return s;
        }
        until(target, [this] { return outcomes.count() != 0; });
        CHECK(outcomes.count() == 1);
        return outcomes.take();
    }
};

// Memory in pieces of given sizes, filled from a seed.
struct Buffer {
    std::vector<std::vector<std::byte>> parts;
    std::vector<Segment> segments;
    std::uint64_t size = 0;

    Buffer(const std::vector<std::size_t>& sizes, unsigned seed) {
        std::mt19937 random(seed);
        parts.reserve(sizes.size());
        for (const std::size_t n : sizes) {
            auto& part = parts.emplace_back(n);
            for (std::byte& b : part) {
                b = static_cast<std::byte>(random());
            }
            segments.push_back({n == 0 ? nullptr : part.data(), n});
            size += n;
        }
    }
    std::vector<std::byte> flat() const {
        std::vector<std::byte> all;
        for (const auto& p : parts) {
            all.insert(all.end(), p.begin(), p.end());
        }
        return all;
    }
};

inline unsigned seed() {
    return static_cast<unsigned>(support::options().seed);
}

}  // namespace test
