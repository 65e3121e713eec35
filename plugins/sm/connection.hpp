// SPDX-License-Identifier: BSD-3-Clause
// A connection between one context here and one context of a peer: a socket, a shared region, a
// ring in each direction.
//
// Owned by its Context, used under that context's serialisation only. A connection that broke
// (hang-up, nonsense from the peer) is only marked, and taken apart by Context::bury() at the end
// of progress(), so that nothing disappears under the function that noticed.
//
//   post.cpp      messages out: inline, inject
//   stream.cpp    messages out that take several steps: iov, bounce; puts and gets through the
//   ring; acknowledgements receive.cpp   everything that comes in by the ring
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "na/plugin.hpp"
#include "plugins/sm/inject_pool.hpp"
#include "plugins/sm/op_state.hpp"
#include "plugins/sm/permits.hpp"
#include "plugins/sm/rendezvous.hpp"
#include "plugins/sm/ring.hpp"
#include "plugins/sm/shared_memory.hpp"

namespace na::sm {

class Context;
class Peer;

class Connection {
 public:
    enum class State : std::uint8_t {
        open,
        draining,  // the peer hung up: what it had published is still delivered
        closed,    // nothing is read or written any more; waits for bury()
    };

    Connection(Context& context, UniqueFd socket, Credentials process, Mapping region,
               const Geometry& geometry, bool outgoing, std::uint8_t remote_context);
    ~Connection();

    // --- out (post.cpp) ---
    // A message that goes into the ring itself: it is there, or nothing has happened.
    bool inject(Lane lane, std::uint32_t tag, std::span<const std::byte> bytes) noexcept;
    bool inject_lines(Lane lane, std::uint64_t head, std::span<const std::byte> bytes) noexcept;
    plugin::Posted send(Op& op) noexcept;

    // --- out, step by step (stream.cpp) ---
    void enqueue(Op& op) noexcept;  // a large message; a put or get through the ring
    // Does what can be done now; inside progress() only. False: nothing is left to do.
    bool pump() noexcept;
    // Whether pump() could do something now that it could not when it last gave up.
    bool unblocked() noexcept;
    // Takes an operation back that was handed to enqueue(). Answers how it has ended: canceled, or
    // success where the peer was faster. Nothing: it is not one of those.
    std::optional<Status> take_back(Op& op) noexcept;
    // Ends all operations and arrivals of this connection. `complete` false: operations are only
    // forgotten.
    void end_all(Status why, bool complete) noexcept;
    bool has_operations() const noexcept { return !queue_.empty() || slots_used_ != 0; }

    // --- in (receive.cpp) ---
    // Takes up to `budget` messages from the ring; returns how many it took.
    std::size_t receive(unsigned budget) noexcept;
    // The same where rx().ready() is known. `watch`: what says that there is more, if any was
    // taken.
    struct Watch {
        const std::atomic<std::uint32_t>* word;
        std::uint32_t expected;
    };
    std::size_t receive_ready(unsigned budget, Watch& watch) noexcept;
    // What to ask for with each look at Watch::word: where the messages that receive_ready() took
    // were of several lines, the line behind, too. Then the second one comes at the same time as
    // the first, and not after it. Otherwise the same line only: the other would be taken from a
    // producer who has it already. (Behind the last line lies something else, which asking for
    // does not touch.)
    const void* with(const Watch& watch) const noexcept {
        return reinterpret_cast<const std::byte*>(watch.word) + several_ * sizeof(Line);
    }

    // --- notice (notify.cpp) ---
    // After something was published: tells the peer, if it does not look by itself.
    void notify() noexcept {
        if (peer_sleepless_) {
            std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler's order
            if (!tx_.consumer_polls()) [[unlikely]] {
                full_fence();  // mark_ready() relies on bits that the peer has not yet taken
                mark_ready();
            }
            return;
        }
        full_fence();
        if (!tx_.consumer_polls()) [[unlikely]] {
            mark_ready();
        }
        const std::uint32_t sleep = peer_sleep_->load(std::memory_order_relaxed);
        if ((sleep & 1) != 0) [[unlikely]] {
            knock(sleep);
        }
    }
    // Knocks if the peer sleeps.
    void notify_sleeper() noexcept;
    void want_credit(bool want) noexcept { tx_.want_credit(want); }
    bool got_credit() noexcept { return tx_.refresh() || tx_.broken(); }
    // The core had no room for the message at the front of the ring.
    bool stalled() const noexcept { return stalled_; }
    // The ring has something that receive() can take now. Not: what the core has no room for, and a
    // message whose producer stopped half-way; it gives notice when it has gone on.
    bool deliverable() const noexcept {
        return rx_.ready() && !stalled_ && (half_ == 0 || rx_.ready(half_));
    }

    // --- state that Context manages
    // -----------------------------------------------------------------------------------
    Context& context;
    State state = State::open;  // set by become()
    const bool outgoing;
    bool holds_source = false;   // a reference from Sink::source()
    bool answered = false;       // we have the peer's pages
    bool in_work = false;        // in Context::work_
    bool is_starved = false;     // in Context::starved_
    bool is_refused = false;     // in Context::refused_
    bool is_unanswered = false;  // in Context::unanswered_
    bool silent = false;         // its end is no loss of the peer
    bool sent_unexpected = false;
    std::uint8_t cooled = 0;  // in Context::cooled_, for so many looks
    bool parted = false;      // the peer has dropped us: see Context::on_bye()
    const std::uint8_t remote_context;
    std::int8_t hot_index = -1;
    std::uint32_t drained = 0;  // messages taken since the hang-up
    std::uint32_t number = 0;   // index in Context::slots_
    Peer* peer = nullptr;       // null: dropped here, waits for the peer to let go
    std::string name;           // of the peer, where `peer` is null
    Status why = Status::hostunreach;
    const UniqueFd socket;
    const Credentials process;

    Consumer& rx() noexcept { return rx_; }
    // We can read and write the peer's memory.
    bool attached() const noexcept { return attach_ == Attach::yes; }
    bool attach_known() const noexcept { return attach_ != Attach::unknown; }
    void set_attach(bool works, const Nonce& nonce) noexcept;
    // Made to a class that does not listen, by somebody whom it has not called: he may reach its
    // memory, and answer, but not call. One of his calls ends the connection.
    void leave_uncalled() noexcept {
        uncalled_ = true;
        line_max_[static_cast<std::size_t>(Lane::unexpected)] = -1;
    }
    // The peer can read ours.
    Attach peer_attach() const noexcept;
    // The peer's pages arrived, with what they say about it.
    void set_peer_pages(Mapping status, Mapping ready, Mapping permits, std::uint32_t bit) noexcept;
    // For one access to the peer's memory. Requires: `answered`.
    PermitUse use_permit() noexcept { return {permits_page_.at<const PermitEntry>(0), out_, in_}; }
    void become(State next) noexcept;
    void set_peer_limits(const std::uint64_t (&max_message)[kLanes]) noexcept;

    // Whether the process that greeted still runs the program that greeted, as of a millisecond
    // ago. Requires: attached().
    bool peer_is_same() noexcept;
    // The peer has let go of the socket, or never took it up. A system call.
    bool hung_up() const noexcept;
    // No sign that the peer ever had it: nothing to read in the socket (an acceptance, a refusal),
    // nor anything in our ring, now or before. A system call.
    bool untouched() const noexcept;

    // --- memory of the peer's allocator (rma_shared.cpp) ---
    struct Mapped {
        enum class State : std::uint8_t { requested, mapped, refused } state = State::requested;
        Mapping memory;
        std::uint64_t used = 0;
    };
    std::unordered_map<std::uint64_t, Mapped> mapped[2];  // [writable], by allocation
    std::vector<std::uint64_t> granted;  // allocations of ours that the peer mapped
    std::uint32_t asked = 0;             // requests of ours that are not answered yet
    std::vector<MapMessage> unsent;      // requests of the peer whose answers found no room
    bool bye_unsent = false;             // nor did the goodbye
    bool full = false;                   // the socket is watched for room, too

 private:
    enum class Step : std::uint8_t { taken, later, bad };
    enum class Blocked : std::uint8_t { no, credit, attach, slot };
    enum class Use : std::uint8_t { none, iov, put, get, message, discard };
    // An operation of ours that waits for the peer.
    struct Slot {
        Use use = Use::none;
        Op* op = nullptr;  // null: taken back, the peer's answer is still to come
        std::uint64_t left = 0;
    };
    // An operation of the peer that takes several steps here.
    struct Served {
        Use use = Use::none;
        Status status = Status::success;
        plugin::Arrival* arrival = nullptr;
        std::uint64_t done = 0;
        std::uint64_t left = 0;
        std::uint64_t key = 0;
        std::uint64_t offset = 0;
    };

    plugin::Posted starve() noexcept;
    plugin::Posted send_large(Op& op) noexcept;
    bool advance(Op& op) noexcept;
    bool stream(Op& op) noexcept;
    bool serve_gets() noexcept;
    bool flush_acks() noexcept;
    bool room() noexcept;  // for one line; notes what blocks
    bool buffer() noexcept;
    int take_slot(Use use, Op* op, std::uint64_t left) noexcept;
    void free_slot(unsigned slot) noexcept;
    void leave_queue(Op& op) noexcept;
    bool offer(Op& op) noexcept;
    void acknowledge(unsigned slot, Status status) noexcept;
    void complete(Op& op, Status status) noexcept;
    void mark_ready() noexcept;
    void knock(std::uint32_t sleep) noexcept;
    void gave_back() noexcept;
    void give_back(std::uint32_t lines) noexcept {
        if (rx_.consume(lines)) [[unlikely]] {
            gave_back();
        }
    }
    void give_back_buffer() noexcept;
    bool adopt(Lane lane) noexcept;

    Step take(const Head& head) noexcept;
    bool takes(std::uint8_t lane) noexcept;
    bool take_other() noexcept;
    void change_busy(std::size_t lane, std::uint32_t by) noexcept;
    void limit_inject() noexcept;
    Step take_inline(const Head& head) noexcept;
    void finish_receiving(Step step, bool used_up) noexcept;
    Step take_inject(const Head& head) noexcept;
    Step take_iov(const Head& head) noexcept;
    Step take_bounce(const Head& head) noexcept;
    Step take_data(const Head& head) noexcept;
    Step take_ack(const Head& head) noexcept;
    Step take_put(const Head& head) noexcept;
    Step take_get(const Head& head) noexcept;
    Step take_reply(const Head& head) noexcept;
    Step take_abort(const Head& head) noexcept;
    Served* served(unsigned slot) noexcept;
    bool get_buffer(std::uint32_t& length, const std::byte*& at) const noexcept;

    Consumer rx_;
    const std::byte* rx_pool_;
    Producer tx_;
    InjectPool pool_;
    const Geometry geometry_;
    std::size_t peer_max_[kLanes];
    // Shorter messages are injected, unless the ring is full; 0: none. And: those that come in one
    // line are not longer.
    std::size_t inject_below_[kLanes];
    std::int64_t line_max_[kLanes];             // -1: none
    std::uint32_t lane_busy_[kLanes] = {0, 0};  // messages in queue_: later ones must not overtake
    bool uncalled_ = false;
    const char* bad_ = nullptr;        // what take() found wrong
    std::uint32_t buffers_taken_ = 0;  // since credit was last given for them
    bool stalled_ = false;
    std::uint32_t several_ = 0;  // 1: receive_ready() took a message of several lines
    std::uint32_t half_ = 0;     // lines of the message at the front, where not all have come

    const std::atomic<std::uint32_t>* peer_sleep_;
    bool peer_sleepless_ = false;  // StatusPage::sleepless
    std::atomic<std::uint32_t> unanswered_sleep_{1};
    std::uint32_t rung_ = 0;  // the sleep for which we have knocked already
    ReadyMap* peer_ready_ = nullptr;
    std::uint32_t peer_bit_ = 0;

    Attach attach_ = Attach::unknown;
    Direction& out_;
    Direction& in_;
    Nonce nonce_{};  // of the peer
    std::int64_t seen_alive_ = 0;

    OpList queue_;
    Blocked blocked_ = Blocked::no;
    std::uint32_t pieces_ = 0;  // buffers that pump() may still fill in this call
    std::uint64_t slots_free_ = ~std::uint64_t{0};
    std::uint32_t slots_used_ = 0;
    Slot slots_[kSlots];
    std::unique_ptr<Served[]> served_;  // made when the peer first needs it
    std::uint64_t acks_owed_ = 0;       // by slot; what to say is in served_
    std::uint64_t aborts_owed_ = 0;
    std::uint64_t gets_served_ = 0;

    Mapping region_;
    Mapping status_page_;
    Mapping ready_page_;
    Mapping permits_page_;
    PermitUser& user_;  // what the peer says of its use of our permits
};

}  // namespace na::sm
