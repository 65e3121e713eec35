// SPDX-License-Identifier: BSD-3-Clause
// Completions on their way to trigger: a FIFO of intrusive nodes, so that it never fills, never allocates, never loses one.
//
// Producers are lock-free (one exchange); consumers take turns behind a small lock. After Vyukov's intrusive
// multi-producer queue. Invariants:
//  - tail_ is the last node pushed; the chain from head_ reaches it by next, but for a gap while a producer stands between
//    its exchange of tail_ and its store of next. pop() answers null at such a gap: the node is counted, and comes soon.
//  - head_ is a dummy: the stub, or (never) a live node. A popped node is referred to by nobody.
// With `threaded` false everything is plain loads and stores.
#pragma once

#include <atomic>
#include <cstdint>

#include "na/util/lock.hpp"

namespace na::inline impl {

class CompletionQueue {
 public:
    struct Node {
        std::atomic<Node*> next{nullptr};
    };

    explicit CompletionQueue(bool threaded) noexcept : consumer_(threaded), threaded_(threaded) {}
    CompletionQueue(const CompletionQueue&) = delete;
    CompletionQueue& operator=(const CompletionQueue&) = delete;

    void push(Node& node) noexcept {
        add(pushed_, 1);
        link(node);
    }

    // The oldest node, or null: empty, or a push is half done.
    Node* pop() noexcept {
        if (empty()) {
            return nullptr;
        }
        consumer_.lock();
        Node* node = take();
        if (node != nullptr) {
            add(popped_, 1);
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
    void add(std::atomic<std::uint32_t>& counter, std::uint32_t n) noexcept {
        if (threaded_) {
            counter.fetch_add(n, std::memory_order_release);
        } else {
            counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
        }
    }
    void link(Node& node) noexcept {
        node.next.store(nullptr, std::memory_order_relaxed);
        Node* before;
        if (threaded_) {
            // Release publishes the node's content; acquire orders against the consumer that reuses the stub.
            before = tail_.exchange(&node, std::memory_order_acq_rel);
        } else {
            before = tail_.load(std::memory_order_relaxed);
            tail_.store(&node, std::memory_order_relaxed);
        }
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

    std::atomic<Node*> tail_{&stub_};
    std::atomic<std::uint32_t> pushed_{0};
    alignas(64) Node* head_ = &stub_;
    std::atomic<std::uint32_t> popped_{0};
    util::OptionalLock consumer_;
    const bool threaded_;
    Node stub_;
};

}  // namespace na::inline impl
