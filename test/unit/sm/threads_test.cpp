// SPDX-License-Identifier: BSD-3-Clause
// What may run concurrently: contexts of one domain, and everything that a domain offers. For the
// thread sanitizer.
#include <atomic>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "unit/sm/node.hpp"

using namespace sm_test;

namespace {

// A context driven by one thread. The nodes' tables of peers are not for threads: peers are made
// beforehand.
class Party final : public na::plugin::Sink {
 public:
    Party(Node& node, std::uint8_t id) {
        auto made = node.domain->open_context(id, *this);
        if (!made) {
            throw std::runtime_error(made.error().message);
        }
        plugin = std::move(*made);
    }
    void complete(Op& op, const na::plugin::Completion& how) override {
        auto& t = static_cast<TestOp&>(op);
        t.how = how;
        ++t.ended;
    }
    na::plugin::Arrival* arrive(Lane, na::plugin::Peer&, std::uint32_t tag,
                                std::size_t size) override {
        wrong += tag != received || size > sizeof buffer;
        arrival.data = buffer;
        arrived = size;
        return &arrival;
    }
    void finish(na::plugin::Arrival*, Status status) override {
        wrong += status != Status::success || support::mismatch(buffer, arrived, received) >= 0;
        ++received;
    }
    na::plugin::Peer* source(std::span<const std::byte>) override { return peer; }
    void release(na::plugin::Peer&) override {}
    void peer_lost(na::plugin::Peer&, Status) override {}
    void context_lost(na::plugin::Peer&, std::uint8_t, Status) override {}
    void dropped(const char*) override { ++wrong; }

    std::unique_ptr<na::plugin::Context> plugin;
    na::plugin::Peer* peer = nullptr;
    na::plugin::Arrival arrival;
    std::size_t arrived = 0;
    std::uint32_t received = 0;
    std::uint32_t wrong = 0;
    std::byte buffer[40000];
};

}  // namespace

TEST_CASE("threads: a context each, while memory comes and goes") {
    constexpr int kContexts = 3;
    constexpr std::uint32_t kMessages = 3000 / support::kSlow;
    Node a(spec(40000, kContexts + 1));
    Node b(spec(40000, kContexts + 1));
    na::plugin::Peer& b_of_a = a.peer(b.uri());
    na::plugin::Peer& a_of_b = b.peer(a.uri());
    std::vector<std::unique_ptr<Party>> parties;
    for (std::uint8_t i = 1; i <= kContexts; ++i) {
        parties.push_back(std::make_unique<Party>(a, i));
        parties.back()->peer = &b_of_a;
        parties.push_back(std::make_unique<Party>(b, i));
        parties.back()->peer = &a_of_b;
    }
    std::atomic<int> running{2 * kContexts};
    std::atomic<bool> stop{false};
    std::atomic<int> failures{0};
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < parties.size(); ++t) {
        threads.emplace_back([&, t] {
            Party& me = *parties[t];
            std::vector<std::byte> data(40000);
            TestOp op;
            op.ended = 1;
            std::uint32_t sent = 0;
            support::Random random(t);
            bool said = false;
            while (running.load() != 0) {
                if (sent < kMessages && op.ended != 0) {
                    const std::size_t size =
                        random.below(10) == 0 ? random.below(40000) : random.below(500);
                    support::fill(data.data(), size, sent);
                    op.kind = OpKind::send_unexpected;
                    op.target_id = static_cast<std::uint8_t>(1 + t / 2);
                    op.tag = sent;
                    op.buffer = data.data();
                    op.length = size;
                    op.peer = me.peer;
                    op.ended = 0;
                    switch (me.plugin->send(op).what) {
                        case Posted::What::done:
                            op.ended = 1;
                            [[fallthrough]];
                        case Posted::What::pending:
                            ++sent;
                            break;
                        case Posted::What::again:
                            op.ended = 1;
                            break;
                        case Posted::What::failed:
                            ++failures;
                            op.ended = 1;
                            sent = kMessages;
                            break;
                    }
                }
                me.plugin->progress();
                if (!said && sent == kMessages && op.ended != 0 && me.received == kMessages) {
                    said = true;
                    --running;
                }
                if (random.below(50) == 0) {
                    std::this_thread::yield();
                }
            }
        });
    }
    // Meanwhile the domain is used from elsewhere.
    threads.emplace_back([&] {
        while (!stop.load()) {
            void* memory = a.domain->allocate(8192);
            const na::Segment segment{memory, 8192};
            auto region = a.domain->register_memory({&segment, 1}, Access::read_write,
                                                    na::MemoryKind::host, 0);
            std::vector<std::byte> bytes((*region)->encode({}));
            (*region)->encode(bytes);
            failures += !b.domain->decode_region(bytes, 8192);
            failures += !b.domain->connect(a.uri());
            region->reset();
            a.domain->deallocate(memory, 8192);
            std::this_thread::yield();
        }
    });
    const auto deadline = std::chrono::steady_clock::now() + support::kDeadline;
    while (running.load() > 0 && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const bool finished = running.load() == 0;
    running = 0;
    stop = true;
    for (auto& t : threads) {
        t.join();
    }
    CHECK(finished);
    CHECK(failures == 0);
    for (const auto& p : parties) {
        CHECK(p->wrong == 0);
        CHECK(p->received == kMessages);
    }
    parties.clear();
}
