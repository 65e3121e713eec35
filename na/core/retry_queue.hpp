// SPDX-License-Identifier: BSD-3-Clause
// Operations that the plugin could not take for lack of resources: a FIFO per peer, so that no
// message overtakes another and no peer waits for another's credits. Unbounded (the operations are
// the user's), allocates nothing per operation. Guarded by the context's lock.
#pragma once

#include <memory>
#include <unordered_map>

#include "na/core/op.hpp"
#include "na/util/intrusive_list.hpp"

namespace na::inline impl {

class RetryQueue {
 public:
    bool empty() const noexcept { return count_ == 0; }
    std::size_t size() const noexcept { return count_; }

    // Whether a new operation to this peer has to wait behind others.
    bool blocks(const Address* peer) const noexcept { return count_ != 0 && find(peer) != nullptr; }
    // False: out of memory, not queued.
    bool push(Operation& op) noexcept;
    void remove(Operation& op) noexcept;

    // Offers each peer's operations in order to `post(op)` until that answers false (still no
    // room). `post` takes what it answers true for: the operation is out of the queue by then.
    template <typename Post>
    void drain(Post&& post) {
        for (Queue* queue = active_.front(); queue != nullptr;) {
            Queue* next = active_.next(*queue);
            while (Operation* op = queue->ops.pop_front()) {
                --count_;
                if (!post(*op)) {
                    queue->ops.push_front(*op);
                    ++count_;
                    break;
                }
            }
            if (queue->ops.empty()) {
                retire(*queue);
            }
            queue = next;
        }
    }

    // Takes out all operations of a peer, oldest first; null when there is none left.
    Operation* pop(const Address* peer) noexcept;
    // The same for what goes to one of its contexts.
    Operation* pop(const Address* peer, std::uint8_t context) noexcept;
    // The same for any peer.
    Operation* pop_any() noexcept;

 private:
    using Ops = util::IntrusiveList<Operation, &Operation::hook_>;
    struct Queue {
        const Address* peer = nullptr;
        Ops ops;
        util::ListHook hook;
    };
    using Queues = util::IntrusiveList<Queue, &Queue::hook>;

    Queue* find(const Address* peer) const noexcept {
        const auto it = queues_.find(peer);
        return it == queues_.end() ? nullptr : it->second.get();
    }
    void retire(Queue& queue) noexcept;

    std::unordered_map<const Address*, std::unique_ptr<Queue>> queues_;
    Queues active_;
    std::size_t count_ = 0;
};

}  // namespace na::inline impl
