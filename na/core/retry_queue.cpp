// SPDX-License-Identifier: BSD-3-Clause
#include "na/core/retry_queue.hpp"

#include <new>

namespace na::inline impl {

bool RetryQueue::push(Operation& op) noexcept {
    Queue* queue = find(op.address_);
    if (queue == nullptr) {
        try {
            auto fresh = std::make_unique<Queue>();
            queue = fresh.get();
            queue->peer = op.address_;
            queues_.emplace(op.address_, std::move(fresh));
        } catch (const std::bad_alloc&) {
            return false;
        }
        active_.push_back(*queue);
    }
    queue->ops.push_back(op);
    ++count_;
    return true;
}

void RetryQueue::remove(Operation& op) noexcept {
    Queue* queue = find(op.address_);
    Ops::remove(op);
    --count_;
    if (queue->ops.empty()) {
        retire(*queue);
    }
}

Operation* RetryQueue::pop(const Address* peer) noexcept {
    Queue* queue = find(peer);
    if (queue == nullptr) {
        return nullptr;
    }
    Operation* op = queue->ops.pop_front();
    --count_;
    if (queue->ops.empty()) {
        retire(*queue);
    }
    return op;
}

Operation* RetryQueue::pop(const Address* peer, std::uint8_t context) noexcept {
    Queue* queue = find(peer);
    for (Operation* op = queue == nullptr ? nullptr : queue->ops.front(); op != nullptr;
         op = queue->ops.next(*op)) {
        if (op->target_id == context) {
            remove(*op);
            return op;
        }
    }
    return nullptr;
}

Operation* RetryQueue::pop_any() noexcept {
    Queue* queue = active_.front();
    return queue == nullptr ? nullptr : pop(queue->peer);
}

void RetryQueue::retire(Queue& queue) noexcept {
    Queues::remove(queue);
    queues_.erase(queue.peer);
}

}  // namespace na::inline impl
