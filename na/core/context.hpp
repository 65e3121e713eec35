// SPDX-License-Identifier: BSD-3-Clause
// A progress engine: the object behind na_context_t. Posts operations, matches arrivals, retries,
// cancels, and drives the plugin's Context.
//
// Threads: everything may be called from any thread; one lock per context serialises the plugin (no
// lock at all with NA_THREAD_MODE_SINGLE). Handlers of operations (Operation::handler) run under
// that lock; C callbacks run in trigger(), under no lock.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "na/core/address.hpp"
#include "na/core/class.hpp"
#include "na/core/completion_queue.hpp"
#include "na/core/counters.hpp"
#include "na/core/match_queue.hpp"
#include "na/core/memory.hpp"
#include "na/core/op.hpp"
#include "na/core/outbox.hpp"
#include "na/core/progress.hpp"
#include "na/core/retry_queue.hpp"
#include "na/util/biased_lock.hpp"
#include "na/util/gate.hpp"

namespace na::inline impl {

class Context final : public plugin::Sink {
 public:
    static Result<std::unique_ptr<Context>> open(Class& cls, std::uint8_t id);
    ~Context();

    // Why it cannot be closed yet (busy: completions not triggered, operations posted), or success.
    Result<bool> closable();

    Class& cls() const noexcept { return cls_; }
    std::uint8_t id() const noexcept { return id_; }

    // --- posting
    // -------------------------------------------------------------------------------------------------
    // All answer success: the handler runs exactly once (multi-receive: once per message), possibly
    // before the post returns. Anything else: nothing was posted and no handler runs. busy: the
    // operation is in use. `buffer` and its `size` include the headroom; buffers stay valid until
    // completion. Errors: busy, invalid_arg, msgsize/overflow (larger than max_message),
    // hostunreach and what the plugin answers, again (NA_NO_RETRY only).

    Status send(Operation& op, Lane lane, Address& to, std::uint8_t target_id, std::uint32_t tag,
                const void* buffer, std::size_t size,
                plugin::Region* registered = nullptr) noexcept;
    Status recv_unexpected(Operation& op, void* buffer, std::size_t size,
                           plugin::Region* registered = nullptr) noexcept;
    Status recv_multi(Operation& op, void* buffer, std::size_t size,
                      plugin::Region* registered = nullptr) noexcept;
    Status recv_expected(Operation& op, Address& from, std::uint8_t source_id, std::uint32_t tag,
                         void* buffer, std::size_t size,
                         plugin::Region* registered = nullptr) noexcept;
    // Permissions and ranges of both sides are checked here: permission, overflow.
    Status put(Operation& op, Memory& local, std::uint64_t local_offset, Memory& remote,
               std::uint64_t remote_offset, std::uint64_t size, Address& to,
               std::uint8_t target_id) noexcept;
    Status get(Operation& op, Memory& local, std::uint64_t local_offset, Memory& remote,
               std::uint64_t remote_offset, std::uint64_t size, Address& from,
               std::uint8_t source_id) noexcept;

    // Fills `to` at once with what stands `offset` bytes into the peer's memory that `descriptor`
    // (untrusted, what Memory::encode() wrote there) describes, as a get would; `to` does not
    // overlap it. False: nothing has happened, as that cannot be done at once, or not at all, or
    // `to` is larger than kMostAtOnce; a get says why.
    static constexpr std::size_t kMostAtOnce = 1 << 20;
    bool get_at_once(std::span<const std::byte> descriptor, std::uint64_t offset,
                     std::span<std::byte> to, Address& from, std::uint8_t source_id) noexcept;

    // Asks for an end with `canceled`; the handler runs exactly once all the same, with that or
    // with the result that won. An idle operation: nothing happens.
    void cancel(Operation& op) noexcept;
    // Takes a receive back that waits for a message, without a word: its handler is not called.
    // False: it does not wait (any more), messages are on their way into its buffer, or outcomes of
    // a multi-receive that may have `credits` have not come back.
    bool withdraw(Operation& op, std::uint32_t credits) noexcept;

    // --- progress
    // ------------------------------------------------------------------------------------------------
    // Polls once; returns the number of events. When another thread is polling: 0 at once. Who
    // stops polling while other threads may sleep on wait_fd() or in wait() calls leave() then.
    std::size_t poll() noexcept {
        if (attention_.load(std::memory_order_relaxed)) [[unlikely]] {
            return poll_with_care();
        }
        const std::size_t events = plugin_->progress();
        // What wants attention without an event gets it in the next poll.
        if (events != 0 && attention_.load(std::memory_order_relaxed)) [[unlikely]] {
            after_poll();
        }
        return events;
    }
    void leave() noexcept;
    // Descriptor to sleep on after arm() said true; -1: cannot sleep (NA_NO_BLOCK, or the plugin
    // cannot).
    int wait_fd() const noexcept { return waiter_.fd(); }
    // For a Waiter above this one.
    const Waiter& waiter() const noexcept { return waiter_; }
    // wait() may sleep, be it without a descriptor.
    bool may_sleep() const noexcept { return !cls_.info().no_block; }
    // True: nothing is ready, and whatever comes will make wait_fd() readable.
    bool arm() noexcept;
    // In the handler of an operation that ended as its peer is gone: whether a message to that
    // peer, posted from this buffer (null: not sent yet), was given to nobody, and may be sent
    // again. Of one after which fewer than 16,384 were sent.
    bool undelivered(const void* message, std::uint32_t tag) const noexcept {
        return plugin_ != nullptr && plugin_->undelivered(message, tag);
    }
    // Polls, spins, sleeps until the completion queue has something: success, or timeout.
    Status wait(unsigned timeout_ms) noexcept;
    // The same, and stop() ends it too; who makes that true calls wake() afterwards.
    template <typename Stop>
    Status wait(unsigned timeout_ms, Stop&& stop) noexcept {
        const Status s = waiter_.drive(
            timeout_ms, [this] { poll(); }, [&] { return !completions_.empty() || stop(); },
            [this] { return arm_plugin(); });
        attend();
        return s;
    }
    // Makes a thread that sleeps in wait() (or on wait_fd) look again. Any thread.
    void wake() noexcept { waiter_.wake(); }
    // wake(), if somebody may be asleep; nothing in single-threaded use.
    void wake_sleepers() noexcept {
        if (lock_.enabled()) {
            waiter_.wake_sleepers();
        }
    }

    // Multi-receive: room for `n` more outcomes, as Operation::add_credits, while the operation is
    // posted: messages may wait for it.
    void add_credits(Operation& op, std::uint32_t n) noexcept {
        if (op.add_credits(n)) {
            wake_sleepers();
        }
    }

    // Expected messages without a posted receive are dropped instead of held: for users who always
    // post first, such as the RPC layer, where they can only be answers to calls that were
    // canceled.
    void drop_unmatched_expected() noexcept;
    // Nothing about receives has to be asked of the transport: it matches none, and has to hear of
    // none.
    bool matches_here() const noexcept { return matched_here_; }
    // Of several unexpected receives the one posted last takes the next message, instead of the
    // first: for users to whom all are the same, so that few of them are in use, and in the caches.
    void take_latest_receive() noexcept;
    // Unexpected messages are handed out by turns of their peers, in polls only, and while not too
    // many wait above: the caller says given() in the handler of a receive, and begun() when it
    // begins with that message. Once, before the first receive. For transports that match
    // unexpected messages themselves it has no effect.
    Turns& take_by_turns() noexcept;

    // Muted: unexpected messages of the peer are held, within a part of the room here, else by the
    // transport, which holds the peer back. They go to no receive of this context until it is muted
    // no more. For peers that do not take what is sent to them. The caller holds the address, and
    // ends what it began. False: too many are.
    bool mute(Address& peer) noexcept;
    void unmute(Address& peer) noexcept;
    // Ends the connections to the peer, as if it had died: what is posted towards it ends with
    // hostunreach in a later poll, and what is held of a muted peer is dropped. The peer may
    // connect anew.
    void disconnect(Address& peer) noexcept;

    // Several small messages in one (na/core/outbox.hpp, na/core/bundle.hpp). Whether the transport
    // can: the core matches on both lanes.
    bool can_bundle() const noexcept { return !cls_.caps().matches[0] && !cls_.caps().matches[1]; }
    // The tag that bundles have; others must not use it, here and at peers, where they are taken
    // apart.
    std::uint32_t bundle_tag() const noexcept { return bundle::tag(cls_.caps().max_tag); }
    // Bundles that come are taken apart from now on; for users to whom the headroom of what they
    // receive does not matter, after drop_unmatched_expected().
    void split_bundles() noexcept;
    // Sends of up to `message` bytes, headroom not counted, may leave with others, as their Company
    // says (Posting::send).
    void gather(std::size_t message) noexcept;
    // Something waits for flush(). A hint; exact for what this thread has sent.
    bool gathered() const noexcept { return outbox_.waiting() != 0; }
    // What waits leaves. Any thread; poll() does it, too.
    void flush() noexcept;

    // For users of the C API: completions whose callbacks trigger() runs. Other users of the core
    // need not use it.
    CompletionQueue& completions() noexcept { return completions_; }

    // Counts the threads in NA_Progress, NA_Poll* or NA_Trigger.
    util::Gate& gate() noexcept { return gate_; }

    const Counters& counters() const noexcept { return counters_; }
    std::vector<plugin::Stat> stats();  // core and plugin counters by name

    // Sink
    void complete(Op& op, const plugin::Completion& how) override;
    plugin::Arrival* arrive(Lane lane, plugin::Peer& source, std::uint32_t tag,
                            std::size_t size) override;
    plugin::Arrival* arrive_in_parts(Lane lane, plugin::Peer& source, std::uint32_t tag,
                                     std::size_t size) override;
    void finish(plugin::Arrival* arrival, Status status) override;
    bool deliver(Lane lane, plugin::Peer& source, std::uint32_t tag,
                 std::span<const std::byte> bytes) override;
    bool deliver_two(Lane lane, plugin::Peer& source, std::uint32_t tag,
                     std::span<const std::byte> first, std::span<const std::byte> rest) override;
    plugin::Peer* source(std::span<const std::byte> identity) override;
    void release(plugin::Peer& peer) override;
    void peer_lost(plugin::Peer& peer, Status why) override;
    void context_lost(plugin::Peer& peer, std::uint8_t context, Status why) override;
    bool awaited(plugin::Peer& peer) override;
    void dropped(const char* what) override;

 private:
    friend class Class;
    friend class Posting;
    friend class Outbox;
    Context(Class& cls, std::uint8_t id);

    Status check_message(const Operation& op, Lane lane, const void* buffer,
                         std::size_t size) const noexcept;
    Status post_transfer(Operation& op, OpKind kind, Memory& local, std::uint64_t local_offset,
                         Memory& remote, std::uint64_t remote_offset, std::uint64_t size,
                         Address& peer, std::uint8_t target_id) noexcept;
    Status post(Operation& op, Address& peer, Counter& counter) noexcept;
    bool queue(Operation& op) noexcept;
    enum class Hold : bool { none, address };
    Status not_gone(Operation& op, plugin::Posted answer, Hold hold) noexcept;
    Status receive_expected(Operation& op) noexcept;
    Status receive_unexpected(Operation& op) noexcept;
    Status post_receive(Operation& op) noexcept;
    plugin::Posted to_plugin(Operation& op) noexcept;
    void end(Operation& op, const Outcome& outcome) noexcept;
    void unposted(Operation& op, bool referenced) noexcept;
    // Bytes that are copied without a call.
    static constexpr std::size_t kShort = 64;
    template <typename Copy>
    bool deliver_now(Lane lane, plugin::Peer& peer, std::uint32_t tag, std::size_t size,
                     Copy&& copy) noexcept;
    bool deliver_long(Lane lane, plugin::Peer& peer, std::uint32_t tag,
                      std::span<const std::byte> bytes) noexcept;
    void unawait(Operation& op) noexcept;
    void retry() noexcept;
    void retry(RetryQueue::Waiting& waiting) noexcept;
    std::size_t poll_with_care() noexcept;
    void after_poll() noexcept;
    bool arm_plugin() noexcept;
    bool needs_attention() const noexcept;
    void attend() noexcept { attention_.store(true, std::memory_order_relaxed); }
    void drop(plugin::Peer& peer) noexcept;  // with the lock held
    static void end_matched(void* context, Operation& op, const Outcome& outcome) noexcept;

    Class& cls_;
    const std::uint8_t id_;
    const bool no_retry_;
    // Messages shorter than that may need no operation: the second, while none waits for company.
    const std::size_t inject_limit_;
    std::size_t inject_below_;
    const bool matched_here_;  // both lanes, and the plugin does not want to know of receives
    // A poll has to do more than to call the plugin: always where threads share the class, else
    // when something waits for a poll (needs_attention()), said by whoever made it so.
    std::atomic<bool> attention_{true};
    util::BiasedLock lock_;
    std::unique_ptr<plugin::Context> plugin_;
    MatchQueue match_;
    RetryQueue retry_;
    Outbox outbox_;
    Counters counters_;
    std::uint32_t posted_ = 0;  // operations with the plugin
    CompletionQueue completions_;
    util::Gate gate_;
    Waiter waiter_;
};

}  // namespace na::inline impl
