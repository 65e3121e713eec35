// SPDX-License-Identifier: BSD-3-Clause
#include "na/core/completion_queue.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "support/options.hpp"

using na::CompletionQueue;

namespace {

struct Item : CompletionQueue::Node {
    unsigned producer = 0;
    unsigned number = 0;
};

}  // namespace

TEST_CASE("a completion queue is a FIFO", "[completion_queue]") {
    const bool threaded = GENERATE(false, true);
    CompletionQueue q(threaded);
    CHECK(q.empty());
    CHECK(q.pop() == nullptr);
    std::vector<Item> items(100);
    for (unsigned round = 0; round < 3; ++round) {
        // Different fills, so that the dummy node is met in every place.
        for (unsigned fill = 1; fill <= 10; ++fill) {
            for (unsigned i = 0; i < fill; ++i) {
                q.push(items[i]);
            }
            CHECK(q.count() == fill);
            for (unsigned i = 0; i < fill / 2; ++i) {
                CHECK(q.pop() == &items[i]);
            }
            for (unsigned i = fill; i < fill + 5; ++i) {
                q.push(items[i]);
            }
            for (unsigned i = fill / 2; i < fill + 5; ++i) {
                CHECK(q.pop() == &items[i]);
            }
            CHECK(q.pop() == nullptr);
            CHECK(q.empty());
        }
    }
}

TEST_CASE("a popped node may be pushed again at once", "[completion_queue]") {
    CompletionQueue q(true);
    Item a;
    Item b;
    for (int i = 0; i < 1000; ++i) {
        q.push(a);
        CHECK(q.pop() == &a);
        q.push(b);
        q.push(a);
        CHECK(q.pop() == &b);
        q.push(b);
        CHECK(q.pop() == &a);
        CHECK(q.pop() == &b);
    }
}

TEST_CASE("no completion is lost, doubled or reordered between threads",
          "[completion_queue][threads]") {
    constexpr unsigned kProducers = 3;
    constexpr unsigned kConsumers = 2;
    const unsigned per_producer = 20000 / support::kSlow;
    CompletionQueue q(true);
    std::vector<std::vector<Item>> items;
    for (unsigned p = 0; p < kProducers; ++p) {
        items.emplace_back(per_producer);
        for (unsigned i = 0; i < per_producer; ++i) {
            items[p][i].producer = p;
            items[p][i].number = i;
        }
    }
    std::atomic<unsigned> popped{0};
    std::vector<std::vector<std::pair<unsigned, unsigned>>> seen(kConsumers);
    std::vector<std::thread> threads;
    for (unsigned p = 0; p < kProducers; ++p) {
        threads.emplace_back([&, p] {
            for (Item& item : items[p]) {
                q.push(item);
            }
        });
    }
    for (unsigned c = 0; c < kConsumers; ++c) {
        threads.emplace_back([&, c] {
            while (popped < kProducers * per_producer) {
                if (auto* item = static_cast<Item*>(q.pop())) {
                    seen[c].emplace_back(item->producer, item->number);
                    ++popped;
                } else {
                    std::this_thread::yield();
                }
            }
        });
    }
    for (std::thread& t : threads) {
        t.join();
    }
    CHECK(q.empty());
    std::vector<std::vector<bool>> once(kProducers, std::vector<bool>(per_producer));
    for (const auto& list : seen) {
        std::vector<unsigned> last(kProducers);
        for (const auto& [producer, number] : list) {
            REQUIRE_FALSE(once[producer][number]);
            once[producer][number] = true;
            // What one consumer sees of one producer is in order.
            REQUIRE(number + 1 > last[producer]);
            last[producer] = number + 1;
        }
    }
    CHECK(popped == kProducers * per_producer);
}

TEST_CASE("nodes go round between threads", "[completion_queue][threads]") {
    // Two queues, each the other's source: nodes are reused while producers may still stand in the
    // gap.
    CompletionQueue a(true);
    CompletionQueue b(true);
    std::vector<Item> items(8);
    for (Item& item : items) {
        a.push(item);
    }
    const unsigned rounds = 40000 / support::kSlow;
    std::vector<std::thread> threads;
    std::atomic<unsigned> moved{0};
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            CompletionQueue& from = t % 2 == 0 ? a : b;
            CompletionQueue& to = t % 2 == 0 ? b : a;
            while (moved < rounds) {
                if (CompletionQueue::Node* node = from.pop()) {
                    to.push(*node);
                    ++moved;
                } else {
                    std::this_thread::yield();
                }
            }
        });
    }
    for (std::thread& t : threads) {
        t.join();
    }
    CHECK(a.count() + b.count() == items.size());
    unsigned left = 0;
    while (a.pop() != nullptr || b.pop() != nullptr) {
        ++left;
    }
    CHECK(left == items.size());
}
