// SPDX-License-Identifier: BSD-3-Clause
// Completions on their way to trigger: a FIFO of intrusive nodes, so that it never fills, never
// allocates, never loses one.
//
// Producers are lock-free (one exchange); consumers take turns behind a small lock. After Vyukov's
// intrusive multi-producer queue. Invariants:
//  - tail_ is the last node pushed; the chain from head_ reaches it by next, but for a gap while a
//  producer stands between
//    its exchange of tail_ and its store of next. pop() answers null at such a gap: the node is
//    counted, and comes soon.
//  - head_ is a dummy: the stub, or (never) a live node. A popped node is referred to by nobody.
//  - popped_ is written by whoever has the consumers' lock only.
// With `threaded` false it is a plain list, without the stub: head_ and tail_ are its ends, null
// when it is empty.
#pragma once

#include <atomic>
#include <cstdint>

#include "na/util/lock.hpp"
#include "na/util/unshared.hpp"

namespace na::inline impl {

class CompletionQueue {
 public:
    struct Node {
        std::atomic<Node*> next{nullptr};
    };

    explicit CompletionQueue(bool threaded) noexcept
        : tail_(threaded ? &stub_ : nullptr),
          head_(threaded ? &stub_ : nullptr),
          consumer_(threaded),
          threaded_(threaded) {}
    CompletionQueue(const CompletionQueue&) = delete;
    CompletionQueue& operator=(const CompletionQueue&) = delete;

    void push(Node& node) noexcept {
        if (threaded_) {
            pushed_.fetch_add(1, std::memory_order_release);
            link(node);
            return;
        }
        node.next.store(nullptr, std::memory_order_relaxed);
        Node* last = tail_.load(std::memory_order_relaxed);
        tail_.store(&node, std::memory_order_relaxed);
        if (last == nullptr) {
            head_ = &node;
        } else {
            last->next.store(&node, std::memory_order_relaxed);
        }
        util::add_unshared(pushed_, 1U);
    }

    // Where `threaded` is false. The oldest node, or null: empty.
    Node* pop_alone() noexcept {
        Node* node = head_;
        if (node != nullptr) {
            head_ = node->next.load(std::memory_order_relaxed);
            if (head_ == nullptr) {
                tail_.store(nullptr, std::memory_order_relaxed);
            }
            util::add_unshared(popped_, 1U);
        }
        return node;
    }
    // The oldest node, or null: empty, or a push is half done.
    Node* pop() noexcept {
        if (!threaded_) {
            return pop_alone();
        }
        if (empty()) {
            return nullptr;
        }
        consumer_.lock();
        Node* node = take();
        if (node != nullptr) {
            count_one(popped_);
        }
        consumer_.unlock();
        return node;
    }

    std::uint32_t count() const noexcept {
        const std::uint32_t popped = popped_.load(std::memory_order_acquire);
        return pushed_.load(std::memory_order_acquire) - popped;
    }
    bool empty() const noexcept { return count() == 0; }

 private:
    // Of a counter that nobody else writes now.
    static void count_one(std::atomic<std::uint32_t>& counter) noexcept {
        counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    void link(Node& node) noexcept {
        node.next.store(nullptr, std::memory_order_relaxed);
        // Release publishes the node's content; acquire orders against the consumer that reuses the
        // stub.
        Node* before = tail_.exchange(&node, std::memory_order_acq_rel);
        before->next.store(&node, std::memory_order_release);
    }
    Node* take() noexcept {
        Node* head = head_;
        Node* next = head->next.load(std::memory_order_acquire);
        if (head == &stub_) {
            if (next == nullptr) {
                return nullptr;
            }
            head_ = head = next;
            next = head->next.load(std::memory_order_acquire);
        }
        if (next != nullptr) {
            head_ = next;
            return head;
        }
        if (tail_.load(std::memory_order_acquire) != head) {
            return nullptr;  // a producer stands in the gap behind head
        }
        link(stub_);  // head is the last: put the stub behind it so that it can leave
        next = head->next.load(std::memory_order_acquire);
        if (next != nullptr) {
            head_ = next;
            return head;
        }
        return nullptr;
    }

    std::atomic<Node*> tail_;
    std::atomic<std::uint32_t> pushed_{0};
    alignas(64) Node* head_;
    std::atomic<std::uint32_t> popped_{0};
    util::OptionalLock consumer_;
    const bool threaded_;
    Node stub_;
};

}  // namespace na::inline impl
