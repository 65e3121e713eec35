// SPDX-License-Identifier: BSD-3-Clause
// Operations that the plugin could not take for lack of resources: a FIFO per context of a peer, so
// that no message overtakes another, and nobody waits for another's credits, be it another context
// of the same process. Unbounded (the operations are the user's); allocates once per FIFO, which
// there is as long as something waits in it. Guarded by the context's lock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "na/core/op.hpp"
#include "na/util/intrusive_list.hpp"

namespace na::inline impl {

class RetryQueue {
    struct Queue;

 public:
    bool empty() const noexcept { return count_ == 0; }
    std::size_t size() const noexcept { return count_; }

    // Whether a new operation to this context of the peer has to wait behind others.
    bool blocks(const Address* peer, std::uint8_t context) const noexcept {
        return count_ != 0 && queues_.contains(Target{peer, context});
    }
    // The same of an operation whose target is filled in.
    bool blocks(const Operation& op) const noexcept {
        return count_ != 0 && queues_.contains(target_of(op));
    }
    // Whether anything to the peer waits.
    bool holds(const Address& peer) const noexcept {
        for (auto at = queues_.lower_bound(Target{&peer, 0});
             at != queues_.end() && at->first.peer == &peer; ++at) {
            if (!at->second.ops.empty()) {  // it is while drain() posts the last one
                return true;
            }
        }
        return false;
    }
    // False: out of memory, not queued.
    bool push(Operation& op) noexcept;
    void remove(Operation& op) noexcept;

    // A FIFO, while it is drained.
    class Waiting {
     public:
        Operation* front() noexcept { return queue_.ops.front(); }
        Operation* next(Operation& op) noexcept { return queue_.ops.next(op); }
        Operation* pop_front() noexcept {
            Operation* op = queue_.ops.pop_front();
            all_.count_ -= op != nullptr ? 1 : 0;
            return op;
        }
        void push_front(Operation& op) noexcept {
            queue_.ops.push_front(op);
            ++all_.count_;
        }
        // What the transport said last of the first one (Posted::is_full()).
        bool full() const noexcept { return queue_.full; }
        void set_full(bool full) noexcept { queue_.full = full; }

     private:
        friend class RetryQueue;
        Waiting(RetryQueue& all, Queue& queue) noexcept : all_(all), queue_(queue) {}

        RetryQueue& all_;
        Queue& queue_;
    };

    // `look(waiting)` for the FIFO that the operation is, or would be, in; not if there is none.
    template <typename Look>
    void visit(const Operation& op, Look&& look) {
        const auto at = queues_.find(target_of(op));
        if (at != queues_.end()) {
            Waiting waiting(*this, at->second);
            look(waiting);
        }
    }

    // `post(waiting)` for each FIFO. It takes operations off its front, until it has to put one
    // back because there is still no room.
    template <typename Post>
    void drain(Post&& post) {
        for (Queue* queue = active_.front(); queue != nullptr;) {
            Queue* next = active_.next(*queue);
            Waiting waiting(*this, *queue);
            post(waiting);
            if (queue->ops.empty()) {
                retire(*queue);
            }
            queue = next;
        }
    }

    // Takes out all operations of a peer, those of one context oldest first; null when there is
    // none left.
    Operation* pop(const Address* peer) noexcept;
    // The same for what goes to one of its contexts.
    Operation* pop(const Address* peer, std::uint8_t context) noexcept;
    // The same for any peer.
    Operation* pop_any() noexcept;

 private:
    using Ops = util::IntrusiveList<Operation, &Operation::hook_>;
    struct Target {
        const Address* peer = nullptr;
        std::uint8_t context = 0;

        bool operator<(const Target& other) const noexcept {
            return peer != other.peer ? std::less<>()(peer, other.peer) : context < other.context;
        }
    };
    struct Queue {
        Target target;
        Ops ops;
        bool full = false;
        util::ListHook hook;
    };
    using Queues = util::IntrusiveList<Queue, &Queue::hook>;
    using Map = std::map<Target, Queue>;

    // Receives from anybody have no peer, and share one FIFO.
    static Target target_of(const Operation& op) noexcept {
        return {op.address_, op.address_ == nullptr ? std::uint8_t{0} : op.target_id};
    }
    Operation* pop(Map::iterator at) noexcept;
    void retire(Queue& queue) noexcept;

    Map queues_;     // ordered, so that those of one peer lie together
    Queues active_;  // the same in the order in which they came to be
    std::size_t count_ = 0;
};

}  // namespace na::inline impl
