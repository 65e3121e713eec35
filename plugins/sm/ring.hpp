// SPDX-License-Identifier: BSD-3-Clause
// One direction of a connection: a ring of self-validating lines, with one producer and one
// consumer in two processes.
//
// Invariants:
//  - The line at position p (counted from 0, modulo 2^32) is valid when its sequence equals lap(p).
//  Its payload was stored
//    before (release), and the line is not written again before the consumer has given it back.
//  - consumed <= produced <= consumed + kRingLines, as distances modulo 2^32. The producer checks
//  what it loads against
//    that, once; a consumer that breaks it has forfeited its connection.
//  - Consumer and producer each keep their positions in private memory; what lies in the shared
//  lines is a copy for the
//    other side.
// A message takes whole lines and starts with a Head. Its first line is written last, so that the
// others are valid when the consumer, who watches that one, sees it; a producer that dies in
// between loses its message only. The consumer looks at the others nevertheless: peers may write
// anything, and those of older builds write the first line first.
#pragma once

#include <cstring>

#include "na/util/copy.hpp"
#include "plugins/sm/layout.hpp"

namespace na::sm {

constexpr std::uint32_t lap(std::uint32_t position) noexcept {
    return position / kRingLines + 1;
}

// Orders a store to shared memory before the loads that follow (the flags of the other side).
inline void full_fence() noexcept {
#if defined(__x86_64__)
    // The same as mfence for ordinary memory, at half its price.
    asm volatile("lock; orl $0, (%%rsp)" ::: "memory", "cc");
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

inline void prefetch_for_write(const void* at) noexcept {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" ::"m"(*static_cast<const char*>(at)));  // a no-op where unknown
#else
    __builtin_prefetch(at, 1);
#endif
}

class Producer {
 public:
    // Both sides of a ring start at the same position: 0, but in tests.
    void attach(Direction& direction, std::uint32_t start = 0) noexcept {
        lines_ = direction.lines;
        consumer_ = &direction.consumer;
        mine_ = &direction.producer;
        head_ = consumed_ = start;
    }

    // Whether `lines` can be written now.
    bool room(std::uint32_t lines) noexcept {
        return kRingLines - (head_ - consumed_) >= lines ||
               (refresh() && kRingLines - (head_ - consumed_) >= lines);
    }
    // Whether one line can, as far as is known.
    bool room_seen() const noexcept { return head_ - consumed_ < kRingLines; }
    // Looks what the consumer gave back. False: nothing new, or nonsense (then broken() says so).
    bool refresh() noexcept {
        const std::uint32_t now = consumer_->consumed.load(std::memory_order_acquire);
        if (now == consumed_) {
            return false;
        }
        if (now - consumed_ > head_ - consumed_) [[unlikely]] {
            broken_ = true;
            return false;
        }
        consumed_ = now;
        return true;
    }
    bool broken() const noexcept { return broken_; }

    // A message of one line, whose head is eight bytes.
    void write_line(std::uint64_t head, const void* data, std::size_t bytes) noexcept {
        const std::uint32_t position = head_;
        Line& line = at(position);
        std::memcpy(line.payload, &head, sizeof head);
        util::copy_words(line.payload + sizeof head, data, bytes);
        line.sequence.store(lap(position), std::memory_order_release);
        head_ = position + 1;
        // In the consumer's cache: to be had back before it is needed. The next line was asked for
        // with the message before.
        prefetch_for_write(&at(position + 2));
    }
    // Writes a message of a head and `bytes` of data and publishes it; room() was asked. The first
    // line last: the consumer watches that one, and would otherwise fetch the others while they are
    // being written.
    template <typename HeadType>
    void write(const HeadType& head, const void* data, std::size_t bytes) noexcept {
        static_assert(sizeof(HeadType) <= kLinePayload);
        constexpr std::size_t kFirst = kLinePayload - sizeof(HeadType);
        const std::uint32_t first = head_++;
        for (std::size_t done = kFirst; done < bytes; ++head_) {
            Line& line = at(head_);
            const std::size_t n = bytes - done < kLinePayload ? bytes - done : kLinePayload;
            util::copy_words(line.payload, static_cast<const std::byte*>(data) + done, n, done);
            line.sequence.store(lap(head_), std::memory_order_release);
            done += n;
        }
        Line& line = at(first);
        std::memcpy(line.payload, &head, sizeof head);
        util::copy_words(line.payload + sizeof head, data, bytes < kFirst ? bytes : kFirst);
        line.sequence.store(lap(first), std::memory_order_release);
        // These lines are in the consumer's cache: have them back before they are needed.
        prefetch_for_write(&at(head_));
        prefetch_for_write(&at(head_ + 1));
    }
    // A message of one line.
    template <typename HeadType>
    void write(const HeadType& head) noexcept {
        static_assert(sizeof(HeadType) <= kLinePayload);
        Line& line = at(head_);
        std::memcpy(line.payload, &head, sizeof head);
        line.sequence.store(lap(head_), std::memory_order_release);
        ++head_;
        prefetch_for_write(&at(head_));
    }

    // Position behind the last message, for passed().
    std::uint32_t position() const noexcept { return head_; }
    // Whether the consumer had given back everything before `position` when refresh() last looked.
    bool passed(std::uint32_t position) const noexcept {
        return static_cast<std::int32_t>(consumed_ - position) >= 0;
    }
    bool idle() const noexcept { return head_ == consumed_; }

    bool consumer_polls() const noexcept {
        return consumer_->hot.load(std::memory_order_relaxed) != 0;
    }
    void want_credit(bool want) noexcept {
        mine_->wants_credit.store(want ? 1 : 0, std::memory_order_relaxed);
    }
    std::uint32_t consumed() const noexcept { return consumed_; }

 private:
    Line& at(std::uint32_t position) const noexcept { return lines_[position & (kRingLines - 1)]; }

    Line* lines_ = nullptr;
    std::uint32_t head_ = 0;      // next position to write
    std::uint32_t consumed_ = 0;  // last known
    bool broken_ = false;
    ConsumerLine* consumer_ = nullptr;
    ProducerLine* mine_ = nullptr;
};

class Consumer {
 public:
    void attach(Direction& direction, std::uint32_t start = 0) noexcept {
        lines_ = direction.lines;
        mine_ = &direction.consumer;
        producer_ = &direction.producer;
        published_ = start_ = start;
        move_to(start);
    }
    // Nothing has ever come.
    bool untouched() const noexcept { return tail_ == start_ && !ready(); }

    // Whether the first line of a message is there.
    bool ready() const noexcept {
        return first_->sequence.load(std::memory_order_acquire) == expected_;
    }
    // Whether the others are there as well, as they are unless the producer is an older build, or
    // none of ours.
    bool ready(std::uint32_t lines) const noexcept {
        for (std::uint32_t i = 1; i < lines; ++i) {
            if (!valid(tail_ + i)) {
                return false;
            }
        }
        return true;
    }
    // What poll loops watch: the word, and the value that means ready().
    const std::atomic<std::uint32_t>* word() const noexcept { return &first_->sequence; }
    std::uint32_t expected() const noexcept { return expected_; }
    // Copies the front of the first line: the one load of these bytes.
    template <typename T>
    T front(std::size_t offset = 0) const noexcept {
        T value;
        std::memcpy(&value, first_->payload + offset, sizeof value);
        // What follows must use this copy, not load again.
        asm volatile("" ::: "memory");
        return value;
    }
    // A line of the first message: memory that the producer can write.
    const Line& line(std::uint32_t number) const noexcept { return at(tail_ + number); }
    // Where the first line has its bytes from `offset` on: memory that the producer can write.
    const std::byte* at_front(std::size_t offset) const noexcept {
        return first_->payload + offset;
    }
    // Copies `bytes` of the message from `offset` on; ready(lines) covers them.
    void copy(std::size_t offset, void* out, std::size_t bytes) const noexcept {
        auto* to = static_cast<std::byte*>(out);
        std::uint32_t position = tail_;
        while (bytes != 0) {
            const std::size_t n = bytes < kLinePayload - offset ? bytes : kLinePayload - offset;
            util::copy_small(to, at(position).payload + offset, n);
            to += n;
            bytes -= n;
            offset = 0;
            ++position;
        }
    }

    // Gives lines back, in batches. True: the producer can see it now; it may be waiting for that.
    bool consume(std::uint32_t lines) noexcept {
        move_to(tail_ + lines);
        if (tail_ - published_ < kCreditLines) [[likely]] {
            return false;
        }
        publish();
        return true;
    }
    void publish() noexcept {
        mine_->consumed.store(tail_, std::memory_order_release);
        published_ = tail_;
    }
    bool owes_credit() const noexcept { return tail_ != published_; }
    bool producer_waits() const noexcept {
        return producer_->wants_credit.load(std::memory_order_relaxed) != 0;
    }

    void set_hot(bool hot) noexcept { mine_->hot.store(hot ? 1 : 0, std::memory_order_relaxed); }

 private:
    void move_to(std::uint32_t position) noexcept {
        tail_ = position;
        first_ = &at(position);
        expected_ = lap(position);
    }
    Line& at(std::uint32_t position) const noexcept { return lines_[position & (kRingLines - 1)]; }
    bool valid(std::uint32_t position) const noexcept {
        return at(position).sequence.load(std::memory_order_acquire) == lap(position);
    }

    Line* lines_ = nullptr;
    const Line* first_ = nullptr;  // that of tail_
    std::uint32_t expected_ = 0;   // the sequence number that makes it valid
    std::uint32_t tail_ = 0;       // next position to read
    std::uint32_t start_ = 0;      // the first one
    std::uint32_t published_ = 0;  // what the producer was told
    ConsumerLine* mine_ = nullptr;
    ProducerLine* producer_ = nullptr;
};

}  // namespace na::sm
