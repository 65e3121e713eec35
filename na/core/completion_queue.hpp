// SPDX-License-Identifier: BSD-3-Clause
// Completions on their way to trigger: a FIFO of intrusive nodes, so that it never fills, never
// allocates, never loses one.
//
// With `threaded` false it belongs to one thread. Otherwise a lock that costs next to nothing where
// one thread both polls and triggers, as most do with a context of their own; counts may be asked
// for at any time. (Before there was such a lock, it was Vyukov's intrusive queue of several
// producers: three atomic operations for each completion, and a fourth for the consumers' lock.)
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "na/util/biased_lock.hpp"
#include "na/util/unshared.hpp"

namespace na::inline impl {

class CompletionQueue {
 public:
    struct Node {
        Node* next = nullptr;
    };

    explicit CompletionQueue(bool threaded) noexcept : lock_(threaded) {}
    CompletionQueue(const CompletionQueue&) = delete;
    CompletionQueue& operator=(const CompletionQueue&) = delete;

    void push(Node& node) noexcept {
        if (lock_.enabled()) {
            push_shared(node);
            return;
        }
        add(node);
        util::add_unshared(pushed_, 1U);
    }
    // Where `threaded` is false. The oldest node, or null: empty.
    Node* pop_alone() noexcept {
        Node* node = take();
        if (node != nullptr) {
            util::add_unshared(popped_, 1U);
        }
        return node;
    }
    // The oldest node, or null: empty.
    Node* pop() noexcept {
        if (!lock_.enabled()) {
            return pop_alone();
        }
        if (empty()) {
            return nullptr;
        }
        const std::lock_guard guard(lock_);
        Node* node = take();
        if (node != nullptr) {
            count_one(popped_);
        }
        return node;
    }

    std::uint32_t count() const noexcept {
        const std::uint32_t popped = popped_.load(std::memory_order_acquire);
        return pushed_.load(std::memory_order_acquire) - popped;
    }
    bool empty() const noexcept { return count() == 0; }

 private:
    // Not part of those who push: it would take registers of theirs where there are no threads.
    [[gnu::noinline]] void push_shared(Node& node) noexcept {
        const std::lock_guard guard(lock_);
        add(node);
        count_one(pushed_);
    }
    void add(Node& node) noexcept {
        node.next = nullptr;
        if (tail_ == nullptr) {
            head_ = &node;
        } else {
            tail_->next = &node;
        }
        tail_ = &node;
    }
    Node* take() noexcept {
        Node* node = head_;
        if (node != nullptr) {
            head_ = node->next;
            if (head_ == nullptr) {
                tail_ = nullptr;
            }
        }
        return node;
    }
    // Of a counter that nobody else writes now.
    static void count_one(std::atomic<std::uint32_t>& counter) noexcept {
        counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }

    Node* head_ = nullptr;  // null: empty, and so is tail_
    Node* tail_ = nullptr;
    std::atomic<std::uint32_t> pushed_{0};
    std::atomic<std::uint32_t> popped_{0};
    util::BiasedLock lock_;
};

}  // namespace na::inline impl
