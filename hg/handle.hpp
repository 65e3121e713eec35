// SPDX-License-Identifier: BSD-3-Clause
// One RPC, at its origin or at its target.
//
// Life at the origin:  HG_Create -> idle -> claim() -> claimed -> forward() -> in_flight ->
// callback in trigger -> idle ...
//         at the target: posted -> a request arrives -> received -> RPC callback in trigger ->
//         claim_response() ->
//                        answering -> respond() -> answered -> last reference gone -> posted ...
// The stage is atomic: of two threads (or of two calls) that claim a handle one is refused, before
// it touched anything.
//
// References: the user's, one of the library's while an RPC is in flight, a response is on its way,
// or the RPC callback runs, and that of the answer: a target's handle stays until its request is
// answered, whether or not the user still has a reference (he may give his back first, and respond
// later). In `posted` and `free` there are none. They are counted apart, so that a user who gives
// back more than he has does not take the library's. Whoever claims the response owns the answer's.
//
// Threads: one at a time for the user's part, as the C API says, but the references and cancel()
// from any. What is still under way in the transport is counted in parts_: whoever ends the last
// part carries the RPC on, inside a handler by handing the handle to its context's done or work
// queue.
//
// Files: forward.cpp and complete.cpp (origin), receive.cpp, dispatch.cpp, respond.cpp and
// recycle.cpp (target), overload.cpp (target: too many requests),
// overflow.cpp (payloads beyond the eager size, both), loopback.cpp (RPCs to oneself), cancel.cpp.
#pragma once

#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "bulk/transfer.hpp"
#include "hg/address.hpp"
#include "hg/completion.hpp"
#include "hg/handle_parts.hpp"
#include "hg/names.hpp"
#include "hg/overflow_pool.hpp"
#include "hg/port.hpp"
#include "hg/registry.hpp"
#include "na/util/intrusive_list.hpp"
#include "na/util/unshared.hpp"

namespace na::inline impl {
class Posting;
}

namespace hg {

class Context;

class Handle : private Completion {
 public:
    enum class Stage : std::uint8_t {
        free,
        idle,       // origin
        claimed,    // origin: the request is being encoded
        in_flight,  // origin
        posted,     // target: waits for a request
        received,   // target: not answered yet
        answering,  // target: claimed, the response is being encoded
        answered,   // target
        straggler,  // takes the late answer to a canceled RPC
    };

    Handle(Context& context, Kit* kit);
    ~Handle();
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;

    const Info& info() const noexcept { return info_; }
    Context& context() const noexcept { return *info_.context; }
    Stage stage() const noexcept { return stage_.load(std::memory_order_acquire); }
    bool is_target() const noexcept { return target_; }
    // The program has a reference.
    bool held() const noexcept { return (refs_.load(std::memory_order_relaxed) & kUserRefs) != 0; }
    const Registration* registration() const noexcept { return registration_; }
    // For log lines. A target knows the names of what is registered there.
    RpcName name() const noexcept {
        return {info_.id, registration_ == nullptr ? std::string_view{} : registration_->name()};
    }
    bool uses_sm() const noexcept { return port_->rail() == bulk::Rail::sm; }
    std::uint8_t codec_flags() const noexcept { return port_->codec_flags(); }

    void ref_user() noexcept { add_refs(kUserRef); }
    // False: there was no reference left to give (a double free); nothing happened.
    bool unref_user() noexcept;
    // Each structure that the program got holds a reference. A release that no get belongs to must
    // not drop a reference of the program: has_got() tells beforehand.
    // A program that never releases, and uses the handle again and again, gets as much as can be
    // counted; what comes then holds no reference.
    void ref_got() noexcept;
    bool has_got() const noexcept { return (refs_.load(std::memory_order_relaxed) & kGots) != 0; }
    // Programs that decode the raw buffers themselves release the structure as if they had got it.
    void note_raw() const noexcept { raw_of_.store(kRaw | cookie_, std::memory_order_relaxed); }
    // Whether note_raw() was called for this RPC; once.
    bool take_raw() noexcept {
        return raw_of_.exchange(0, std::memory_order_relaxed) == (kRaw | cookie_);
    }
    // Requires: has_got().
    void unref_got() noexcept;
    // The same, but a target that will not answer may give one more than it has: that of the
    // answer.
    bool give_back() noexcept {
        return unref_user() ||
               ((refs_.load(std::memory_order_relaxed) & kAnswerRef) != 0 && give_up_answer());
    }
    // The library's included, and that of the answer: programs that clean up before they give back
    // what they take for the last one may still have to respond.
    std::int32_t refs() const noexcept;

    // Null address and id 0 keep what is set. busy: in flight; noentry: unknown id; invalid_arg:
    // address of another class.
    na::Status reset(Address* addr, std::uint64_t id);
    void set_target_id(std::uint8_t id) noexcept {
        info_.context_id = id;
        filled_ = Filled::nothing;
    }

    // --- origin
    // --------------------------------------------------------------------------------------------------
    // Takes the handle for one RPC: busy, invalid_arg (no address, no RPC, a target's handle),
    // fault (RPC no longer registered).
    na::Status claim() noexcept;
    void unclaim() noexcept {
        sent_ = 0;
        stage_.store(Stage::idle, std::memory_order_release);
    }
    // Where to put the user's bytes and the encoded arguments of a claimed handle.
    std::span<std::byte> input_space() const noexcept {
        return {kit_->input + port_->input_at(), port_->input_room()};
    }
    // Sends input_space()[0, payload); with `beyond`, only the user's bytes are there (payload of
    // them), and the arguments are the first `beyond_size` bytes of that block, which is the
    // handle's from here on, on success only. On success the callback runs once. On failure it does
    // not, and the handle is idle.
    // `more`: what belongs to it beyond that is fetched by the target's program; opnotsupported to
    // oneself. `timed`: the target notes when it comes, see came().
    na::Status forward(std::size_t payload, const Callback& callback, Block* beyond = nullptr,
                       std::size_t beyond_size = 0, bool more = false, bool timed = false) noexcept;

    // Of a callback that waits for trigger: what forward() was given; null: it is something else.
    static const Callback* forwarded(const Completion& c) noexcept {
        return c.run == &Handle::run_forward ? &static_cast<const Handle&>(c).callback_ : nullptr;
    }

    // The same for a message that has room for all, `structure` bytes of the payload being the
    // structure. In hg/small.hpp.
    na::Status forward_small(std::size_t payload, std::size_t structure,
                             const Callback& callback) noexcept;
    na::Status forward_beside(std::size_t payload, std::size_t structure,
                              const Callback& callback) noexcept;

    // --- target
    // --------------------------------------------------------------------------------------------------
    // The same for the response: busy (responded already), opnotsupported (one-way), invalid_arg
    // (an origin's handle). Whoever has claimed it calls one of the functions below, and has a
    // reference afterwards only where he had one of his own: after the others, the handle may be
    // another request's.
    na::Status claim_response() noexcept;
    // As if it had not been claimed.
    void unclaim_response() noexcept { stage_.store(Stage::received, std::memory_order_release); }
    // It cannot be sent. Who has a reference may try again; if nobody does, the origin gets an
    // error when the last one goes, which may be now.
    void fail_response() noexcept;
    std::span<std::byte> output_space() const noexcept {
        return {kit_->output + port_->output_at(), port_->output_room()};
    }
    // Each ends with fail_response() where it does not succeed, and takes `beyond` in any case.
    na::Status respond(std::size_t payload, const Callback& callback, Block* beyond = nullptr,
                       std::size_t beyond_size = 0, bool more = false) noexcept {
        const na::Status s =
            send_response(na::Status::success, payload, callback, beyond, beyond_size, more);
        if (!ok(s) && beyond != nullptr) [[unlikely]] {
            drop_beyond(*beyond);
        }
        return sent_or_failed(s == na::Status::hostunreach ? answered_in_vain() : s);
    }
    // In hg/small.hpp.
    na::Status respond_small(std::size_t payload, std::size_t structure,
                             const Callback& callback) noexcept;
    na::Status respond_beside(std::size_t payload, std::size_t structure,
                              const Callback& callback) noexcept;
    // A response without results, whose code the origin's callback gets. Of a claimed handle, too.
    na::Status respond_error(na::Status code, const Callback& callback) noexcept {
        const na::Status s = send_response(code, 0, callback, nullptr, 0);
        return sent_or_failed(s == na::Status::hostunreach ? answered_in_vain() : s);
    }

    // --- both
    // ----------------------------------------------------------------------------------------------------
    // Ends an RPC in flight (a response that waits for its acknowledgement) early. The callback
    // runs once all the same.
    void cancel() noexcept;
    // The same for what cancel() leaves alone, as its peer does not take it: its context closes.
    void give_up() noexcept;

    // Bytes of the structure of the last request (response) that was sent from here.
    std::size_t sent() const noexcept { return sent_; }

    // What was received: the user's bytes and the encoded arguments (results); of larger payloads
    // the user's bytes only, while the structure is in the extra block. Valid until
    // release_input(), until the handle is used again; what the spans are then means nothing.
    struct Payload {
        std::span<std::byte> message;
        std::span<std::byte> beyond;
    };
    // Null: nothing was received, or it was released.
    const Payload* input() const noexcept { return call_.input ? &input_ : nullptr; }
    const Payload* output() const noexcept { return call_.output ? &output_ : nullptr; }
    static std::span<std::byte> extra(const Payload* payload) noexcept {
        return payload != nullptr ? payload->beyond : std::span<std::byte>{};
    }
    // Bytes of the structure.
    static std::size_t size(const Payload* payload, std::size_t user_bytes) noexcept {
        return payload != nullptr ? payload->message.size() - user_bytes + payload->beyond.size()
                                  : 0;
    }
    void release_input() noexcept;
    // When the transport gave the request to this process, where its origin has asked for that;
    // else now.
    std::chrono::steady_clock::time_point came() const noexcept {
        return (call_.flags & wire::kTimed) != 0 ? came_ : std::chrono::steady_clock::now();
    }
    // The program has fetched what the message announced, or failed to. Once per Class::MoreData's
    // acquire; any thread, outside of handlers.
    void more_done(na::Status status) noexcept;

    // User data; released when the handle goes, is reset, or is used for the next request.
    void set_data(void* data, void (*release)(void*)) noexcept;
    void* data() const noexcept { return data_; }
    // What a shell keeps with the handle for as long as the object exists.
    void* shell = nullptr;
    void (*release_shell)(void*) = nullptr;

 private:
    friend class Context;
    friend class HandlePool;
    friend class Loopback;
    friend class Owed;
    friend class Unacked;

    // --- shared state machine
    // ------------------------------------------------------------------------------------
    // References of the program, structures that the program got (each has a reference, too), and
    // references of the library. The former two are added as one 32-bit immediate.
    static constexpr std::uint64_t kUserRef = 1;
    static constexpr std::uint64_t kUserRefs = 0xffffU;
    static constexpr std::uint64_t kGot = 0x10000U;
    static constexpr std::uint64_t kGots = 0x7fff0000U;
    static constexpr std::uint64_t kLibraryRef = std::uint64_t{1} << 31;
    static constexpr std::uint64_t kAnswerRef = std::uint64_t{1} << 63;  // once at most
    void add_refs(std::uint64_t n) noexcept {
        if (threaded_) {
            refs_.fetch_add(n, std::memory_order_relaxed);
        } else {
            na::util::add_unshared(refs_, n);
        }
    }
    // The library's.
    void ref() noexcept { add_refs(kLibraryRef); }
    // False: nobody has the handle.
    bool ref_if_held() noexcept;
    void unref() noexcept;
    bool unref_last_of_program(std::uint64_t n) noexcept;
    bool unref_owed(std::uint64_t n) noexcept;
    // That of the answer, if it is still there, of who has claimed the response.
    void unref_answer() noexcept;
    void unref_answer_last() noexcept;
    na::Status sent_or_failed(na::Status s) noexcept {
        if (ok(s)) [[likely]] {
            unref_answer();
        } else {
            fail_response();
        }
        return s;
    }
    // At the end of what runs the program's code, whether that returns or throws.
    class Unref {
     public:
        explicit Unref(Handle& handle) noexcept : handle_(handle) {}
        ~Unref() { handle_.unref(); }
        Unref(const Unref&) = delete;
        Unref& operator=(const Unref&) = delete;

     private:
        Handle& handle_;
    };
    // False: somebody was faster, and `before` is what there is now.
    bool swap_refs(std::uint64_t& before, std::uint64_t after) noexcept;
    bool swap_stage(Stage from, Stage to) noexcept;
    void start_parts(std::uint8_t n) noexcept { parts_.store(n, std::memory_order_relaxed); }
    void add_part() noexcept;
    // True: it was the last.
    bool end_part() noexcept;
    void note(na::Status status) noexcept;  // keeps the first failure
    void defer(Run what) noexcept;          // to the work queue; inside handlers
    void finish(Run what) noexcept;         // to the done queue; inside handlers
    static Handle& of(Completion& c) noexcept { return static_cast<Handle&>(c); }
    static Handle& of(na::Operation& op) noexcept { return *static_cast<Handle*>(op.owner); }
    na::Address& peer() const noexcept {
        return port_->rail() == bulk::Rail::sm ? *info_.addr->sm() : *info_.addr->net();
    }
    na::Company company() const noexcept;  // of what it sends now, where messages are gathered
    void attach(Kit* kit) noexcept;
    void last_unref() noexcept {
        if (target_) [[likely]] {
            recycle();
        } else {
            last_unref_of_origin();
        }
    }
    void last_unref_of_origin() noexcept;
    // What belongs to one RPC.
    void clear_call() noexcept;
    // The message that was received. (What may be beyond it comes later, and goes with its block.)
    static void take_payload(Payload& payload, bool& there, std::byte* at,
                             std::size_t size) noexcept {
        payload.message = {at, size};
        there = true;
    }
    void drop_payloads() noexcept;
    void drop_data() noexcept;

    // --- origin
    // --------------------------------------------------------------------------------------------------
    na::Status bind(Address* addr, std::uint64_t id);
    na::Status prepare() noexcept;
    na::Status renew_registration() noexcept;
    na::Status post_claimed(std::size_t size) noexcept;
    template <bool kPlain>
    na::Status forward_now(std::size_t payload, std::size_t structure,
                           const Callback& callback) noexcept;
    na::Status respond_now(std::size_t payload, std::size_t structure,
                           const Callback& callback) noexcept;
    // Whether what it sends now leaves at once, as soon as nothing else waits.
    bool leaves_now() const noexcept {
        return port_->injects() && (!port_->gathers() || company() == na::Company::take);
    }
    na::Status post_forward(std::size_t size) noexcept;
    void give_up_claim() noexcept;
    void forward_in_vain() noexcept;
    static void say_in_vain(Completion& c);
    static void send_again(Completion& c);
    // Whether it is to be sent again; with answer_canceled its end looks at what is unusual.
    void lost_undelivered(bool so) noexcept {
        call_.undelivered = so;
        call_.answer_canceled |= so;
    }
    void fill_response(na::Posting& posting) noexcept;
    void count_sent_request() noexcept;
    static void on_request_sent(na::Operation& op, const na::Outcome& o) noexcept;
    static void on_response(na::Operation& op, const na::Outcome& o) noexcept;
    static void take_response(na::Operation& op, std::size_t size, na::Address* source,
                              std::uint32_t tag) noexcept;
    void take_unusual_response(std::span<std::byte> message) noexcept;
    void forward_part_ended() noexcept;
    void forward_ended() noexcept;
    void forward_ended_otherwise() noexcept;
    static void cancel_receive(Completion& c);
    void say_failed(na::Status status) const noexcept;
    void say_unreachable(na::Status status) const noexcept;
    static void run_forward(Completion& c);

    // --- target
    // --------------------------------------------------------------------------------------------------
    bool post_request() noexcept;  // waits for a request; false: there is no memory, and it is back
                                   // in the pool
    // What a request has of others, and gives back under the transport's lock.
    struct Uses {
        Registration* registration = nullptr;
        na::Address* source = nullptr;
    };
    void give_back(const Uses& last, na::Posting& posting) noexcept;
    bool post_now(const Uses& last) noexcept;
    void not_posted(na::Status why) noexcept;
    void answer_abandoned() noexcept;
    void end_with(na::Status code) noexcept;
    static void on_request(na::Operation& op, const na::Outcome& o) noexcept;
    static void take_message(na::Operation& op, std::size_t size, na::Address* source,
                             std::uint32_t tag) noexcept;
    void take_request(std::span<std::byte> message, const wire::Request& request) noexcept;
    void take_unusual_request(std::span<std::byte> message) noexcept;
    void note_header(const wire::Request& request) noexcept;
    void no_request(na::Status status) noexcept;
    void refuse_overload() noexcept;
    void arrived() noexcept;
    void arrived_whole() noexcept;
    void hand_on() noexcept;
    // The program is expected to answer. A peer's word that it wants no answer is not enough for
    // the opposite: see parts::Odd::mute.
    std::uint64_t answer_ref() const noexcept {
        return one_way_ || registration_->one_way() ? 0 : kAnswerRef;
    }
    bool may_take_rest() noexcept;
    void take_rest() noexcept;
    static void hand_to_mute(Completion& c);
    void take_over(Handle& other) noexcept;
    bool give_up_answer() noexcept;
    void owe() noexcept;
    bool end_owed(const char* why = nullptr) noexcept;
    void responded_late() noexcept;
    void expect_none() noexcept;
    void drop_beyond(Block& block) noexcept;
    void reject_later(na::Status code) noexcept;
    static void reject(Completion& c);
    void say_rejected(na::Status code) noexcept;
    static void repost(Completion& c);
    static void retire(Completion& c);
    static void dispatch(Completion& c);
    static void dispatch_due(Completion& c);
    bool look_again() noexcept;
    void handler_failed(na::Status s) noexcept;
    void recycle() noexcept;
    bool let_go(bool looped) noexcept;
    na::Status send_response(na::Status code, std::size_t payload, const Callback& callback,
                             Block* beyond, std::size_t beyond_size, bool more = false) noexcept;
    na::Status send_large_response(std::size_t payload, Block* beyond) noexcept;
    static void on_response_sent(na::Operation& op, const na::Outcome& o) noexcept;
    static void on_large_response_sent(na::Operation& op, const na::Outcome& o) noexcept;
    static void cancel_ack(Completion& c);
    void give_up_response() noexcept;
    static void on_ack(na::Operation& op, const na::Outcome& o) noexcept;
    void answered_at_once() noexcept;
    na::Status answered_in_vain() noexcept;
    void respond_part_ended() noexcept;
    static void respond_ended(Completion& c);
    // Target: from here to there the handle counts in the share of its peer. Any lock, or none.
    void wait_for_peer(std::uint64_t landing) noexcept;
    void peer_waited_for(std::uint64_t landing) noexcept;
    static void run_respond(Completion& c);

    // --- payloads beyond the eager size
    // --------------------------------------------------------------------------
    na::Status write_overflow(std::span<std::byte> room, std::size_t user_bytes, Block& beyond,
                              std::size_t size, std::size_t& payload) noexcept;
    na::Status take_descriptor(const wire::Overflow& overflow) noexcept;
    na::Status start_pull(std::span<std::byte> payload, std::size_t user_bytes, Block*& block,
                          Run then) noexcept;
    static void on_pulled(bulk::Transfer& transfer, na::Status status) noexcept;
    na::Status end_pull(Payload& payload, std::size_t user_bytes, const Block& block) noexcept;
    static void pull_input(Completion& c);
    static void input_pulled(Completion& c);
    static void pull_output(Completion& c);
    static void output_pulled(Completion& c);
    void acknowledge() noexcept;
    na::Status send_ack(na::Status code, na::Operation::Handler handler) noexcept;
    static void on_ack_sent(na::Operation& op, const na::Outcome& o) noexcept;
    static void repeat_ack(Completion& c);

    // --- messages whose receiver fetches more
    // ----------------------------------------------------------------------------
    bool may_take_more() noexcept;
    void more_arrived() noexcept;
    static void acquire_input(Completion& c);
    static void acquire_output(Completion& c);
    void acquire_more(bool input);
    void release_more() noexcept;

    // --- cancel
    // --------------------------------------------------------------------------------------------------
    bool replace_receive() noexcept;
    void stand_in_for(Handle& canceled) noexcept;
    void step_back(Handle& canceled) noexcept;
    static void leave_straggler(Completion& c);
    bool post_straggler(Handle& canceled) noexcept;
    static void on_straggler(na::Operation& op, const na::Outcome& o) noexcept;
    static void acknowledge_straggler(Completion& c);
    static void on_straggler_acknowledged(na::Operation& op, const na::Outcome& o) noexcept;
    static void straggler_ended(Completion& c);

    Info info_;
    Port* port_ = nullptr;
    Kit* kit_ = nullptr;
    na::Address* peer_ = nullptr;  // as peer(), where forward_small() or respond_small() is next
    Registration* registration_ = nullptr;  // one use held
    Registration* last_ = nullptr;          // target: of the last request; none is held

    const bool threaded_;
    std::atomic<std::uint64_t> refs_{0};  // kUserRef and kLibraryRef for each
    std::atomic<Stage> stage_{Stage::free};
    std::atomic<std::uint8_t> parts_{0};
    std::atomic<bool> cancel_asked_{false};
    // Of a response beyond its message, at the origin: whether its acknowledgement is on its way.
    enum class Ack : std::uint8_t { none, sent, given_up };
    std::atomic<Ack> ack_{Ack::none};
    // What kit_->recv is filled in for, and needs but a tag.
    enum class Filled : std::uint8_t { nothing, response, request };
    Filled filled_ = Filled::nothing;
    // A program may respond to what was ended just now.
    Flag target_;
    Flag one_way_;
    parts::Odd odd_;
    bool is_odd() const noexcept { return std::bit_cast<std::uint32_t>(odd_) != 0; }
    bool to_self_ = false;         // origin: the address is this process's
    bool user_data_kept_ = false;  // data_ was set when the handle was created
    bool more_acquired_ = false;   // the program was asked to fetch more
    bool ack_awaited_ = false;     // target: the response is acknowledged by the origin
    bool dispatch_due_ = false;  // target: once the payload of the one-way request is acknowledged
    std::atomic<bool> was_owed_{false};  // may be in Context::owed_
    std::atomic<bool> kept_{false};      // counted in Port: HandlePool::note_kept()
    // To oneself, not over the transport. Who cancels late may look when it is another RPC's
    // already.
    std::atomic<bool> looped_{false};
    alignas(8) parts::Call call_;
    bool straggler_lost_ = false;  // it ended without an answer
    std::size_t sent_ = 0;
    std::atomic<na::Status> status_{na::Status::success};  // the first failure
    std::uint32_t tag_ = 0;
    std::uint32_t cookie_ = 0;
    static constexpr std::uint64_t kRaw = std::uint64_t{1} << 32;
    mutable std::atomic<std::uint64_t> raw_of_{0};  // kRaw and the cookie; 0: never
    std::chrono::steady_clock::time_point came_{};  // target, with wire::kTimed
    Callback callback_;

    Payload input_;
    Payload output_;
    Block* input_block_ = nullptr;
    Block* output_block_ = nullptr;

    Address source_;  // target: of the request
    // looped_: the other end, and that which shows it (Loopback::expose()), guarded by the
    // context's loopback lock. Origin: the target's reference of the program is given back with its
    // own.
    Handle* partner_ = nullptr;
    std::atomic<Handle*> twin_{nullptr};  // of an origin's others look, too
    bool holds_twin_ = false;

    // A pull on its way.
    std::atomic<bulk::TransferId> transfer_id_{0};
    bulk::Transfer* transfer_ = nullptr;
    bulk::BulkRef remote_;
    Run pulled_ = nullptr;
    na::Status pull_status_ = na::Status::success;
    std::size_t pull_size_ = 0;
    std::uint32_t pull_checksum_ = 0;

    void* data_ = nullptr;
    void (*release_data_)(void*) = nullptr;
    Handle* next_ = nullptr;  // in the context's free list
    na::util::ListHook owed_hook_;
    na::util::ListHook unacked_hook_;
    std::size_t unacked_bytes_ = 0;
};

}  // namespace hg

#include "hg/handle_state.hpp"
