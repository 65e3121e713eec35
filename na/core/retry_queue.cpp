// SPDX-License-Identifier: BSD-3-Clause
#include "na/core/retry_queue.hpp"

#include <new>

namespace na::inline impl {

bool RetryQueue::push(Operation& op) noexcept {
    const Target target = target_of(op);
    auto at = queues_.find(target);
    if (at == queues_.end()) {
        try {
            at = queues_.try_emplace(target).first;
        } catch (const std::bad_alloc&) {
            return false;
        }
        at->second.target = target;
        active_.push_back(at->second);
    }
    at->second.ops.push_back(op);
    ++count_;
    return true;
}

void RetryQueue::remove(Operation& op) noexcept {
    Queue& queue = queues_.find(target_of(op))->second;
    Ops::remove(op);
    --count_;
    if (queue.ops.empty()) {
        retire(queue);
    }
}

Operation* RetryQueue::pop(Map::iterator at) noexcept {
    Queue& queue = at->second;
    Operation* op = queue.ops.pop_front();
    --count_;
    if (queue.ops.empty()) {
        retire(queue);
    }
    return op;
}

Operation* RetryQueue::pop(const Address* peer) noexcept {
    const auto first = queues_.lower_bound(Target{peer, 0});
    return first == queues_.end() || first->first.peer != peer ? nullptr : pop(first);
}

Operation* RetryQueue::pop(const Address* peer, std::uint8_t context) noexcept {
    const auto found = queues_.find(Target{peer, context});
    return found == queues_.end() ? nullptr : pop(found);
}

Operation* RetryQueue::pop_any() noexcept {
    return queues_.empty() ? nullptr : pop(queues_.begin());
}

void RetryQueue::retire(Queue& queue) noexcept {
    Queues::remove(queue);
    queues_.erase(Target(queue.target));
}

}  // namespace na::inline impl
