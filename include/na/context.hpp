// SPDX-License-Identifier: BSD-3-Clause
// Messages, puts and gets: what is posted on a Context ends in exactly one callback.
//
//     na::Context context = domain.open_context().value();
//     na::Operation op(context);
//     context.send_unexpected(op, peer, tag, buffer.holding("hello"), [&](na::Status s) { ended =
//     true; }).value(); context.run_until([&] { return ended; }, std::chrono::seconds(10));
//
// Posts. They never block, and allocate nothing. Success: the callback runs once (a
// MultiOperation's once per message), in trigger(), on the thread that calls that, with no lock
// held. It may post again, the same operation too, and may throw: the exception leaves trigger(),
// and nothing is lost. Not success: no callback runs. Callbacks may capture up to 64 bytes.
//
// Threads. A Context may be used by several threads at a time, unless InitInfo::single_class says
// otherwise; callbacks then run on whichever triggers. One Operation is used by one thread at a
// time; destroying it while another thread triggers is allowed, but then a callback that has begun
// goes on.
//
// Ends. Destroying an Operation cancels it, and its callback does not run any more. Destroying a
// Context cancels what is posted on it, and runs its callbacks with Status::canceled, or with the
// result that won. Contexts, operations, buffers and memory keep the Domain open, in whatever order
// they go.
#pragma once

#include "na/detail/standard.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "na/address.hpp"
#include "na/detail/callback.hpp"
#include "na/detail/ref.hpp"
#include "na/memory.hpp"
#include "na/message.hpp"
#include "na/result.hpp"
#include "na/types.hpp"

namespace na::inline v1 {

class Context;

namespace detail {
struct Single;
struct Multi;
// Both let go of the operation, and cancel it where it is posted.
struct LeaveSingle {
    void operator()(Slot* op) const noexcept;
};
struct LeaveMulti {
    void operator()(Multi* op) const noexcept;
};
}  // namespace detail

// What a post answers: a code, and on demand its cause in words.
class [[nodiscard]] PostResult {
 public:
    PostResult(Status status) noexcept : status_(status) {}  // NOLINT: implicit by design
    // True: the callback will run.
    explicit operator bool() const noexcept { return ok(status_); }
    // busy: the operation is in use, or Context::close() was called; overflow: past the end, or
    // more than a message may have; invalid_arg, permission, hostunreach, ... ; again: only with
    // InitInfo::no_retry.
    Status status() const noexcept { return status_; }
    // Why not. On the thread that posted, before its next post.
    Error error() const;
    // Throws a Failure unless the post succeeded. On the thread that posted, before its next post.
    void value() const {
        if (!ok(status_)) [[unlikely]] {
            fail(error());
        }
    }

 private:
    Status status_;
};

// One operation of a Context: made once, posted any number of times, one at a time.
class Operation {
 public:
    Operation() = default;
    // Throws std::bad_alloc.
    explicit Operation(Context& context);
    Operation(Operation&&) noexcept = default;
    Operation& operator=(Operation&&) noexcept = default;

    // False: none, as after a move.
    explicit operator bool() const noexcept { return op_ != nullptr; }
    // From the post until the callback begins.
    bool in_use() const noexcept {
        return op_ != nullptr &&
               op_->state.load(std::memory_order_acquire) != detail::Slot::State::idle;
    }

 private:
    friend class Context;
    std::unique_ptr<detail::Slot, detail::LeaveSingle> op_;
};

// An operation that receives many unexpected messages into one buffer. Its callback belongs to it
// and is called as callback(na::Status, const na::Message&), with several threads in trigger() also
// several times at once. A message with `last` was the last one of that post; the buffer may be
// posted again when its messages are not needed any more. A post that ends without a message,
// canceled say, ends with an empty one.
class MultiOperation {
 public:
    MultiOperation() = default;
    // Throws std::bad_alloc.
    template <typename F>
    MultiOperation(Context& context, F&& callback)
        : MultiOperation(context, erase(std::forward<F>(callback))) {}
    MultiOperation(MultiOperation&&) noexcept = default;
    MultiOperation& operator=(MultiOperation&&) noexcept = default;

    // False: none, as after a move.
    explicit operator bool() const noexcept { return op_ != nullptr; }
    // From the post until the callback with the last message begins.
    bool in_use() const noexcept;

 private:
    friend class Context;
    MultiOperation(Context& context, std::unique_ptr<detail::Calls> callback);
    template <typename F>
    static std::unique_ptr<detail::Calls> erase(F&& callback) {
        if constexpr (detail::OnMessage::called_well<std::decay_t<F>>()) {
            return std::make_unique<detail::CallsOf<std::decay_t<F>>>(std::forward<F>(callback));
        } else {
            return nullptr;
        }
    }
    std::unique_ptr<detail::Multi, detail::LeaveMulti> op_;
};

// One progress engine of a Domain. From Domain::open_context(). A thread per Context shares next to
// nothing with others.
class Context {
 public:
    Context() = default;
    Context(Context&&) noexcept = default;
    // The context that was there before is closed as by the destructor.
    Context& operator=(Context&& other) noexcept;
    // close(10 s). What has not ended by then is logged as an error, and stays as it is until the
    // process ends.
    ~Context();

    // False: none, as after a move or close().
    explicit operator bool() const noexcept { return static_cast<bool>(state_); }
    // What peers name in a Target.
    std::uint8_t id() const noexcept;

    // --- messages ----------------------------------------------------------------------------

    // To whoever receives there. Success: the message has left, and the buffer is free again.
    // callback(na::Status).
    template <typename F>
    PostResult send_unexpected(Operation& op, Target to, std::uint32_t tag, Payload message,
                               F&& callback) {
        return with<detail::OnStatus>(op, std::forward<F>(callback), [&] {
            return post_send(*op.op_, Lane::unexpected, to, tag, message);
        });
    }
    // To a receive that names this tag and us.
    template <typename F>
    PostResult send_expected(Operation& op, Target to, std::uint32_t tag, Payload message,
                             F&& callback) {
        return with<detail::OnStatus>(op, std::forward<F>(callback), [&] {
            return post_send(*op.op_, Lane::expected, to, tag, message);
        });
    }
    // From anybody. callback(na::Status, const na::Message&).
    template <typename F>
    PostResult recv_unexpected(Operation& op, const Buffer& buffer, F&& callback) {
        return with<detail::OnMessage>(op, std::forward<F>(callback),
                                       [&] { return post_recv_unexpected(*op.op_, buffer); });
    }
    // From this peer, with this tag. callback(na::Status, std::span<std::byte> message).
    template <typename F>
    PostResult recv_expected(Operation& op, Target from, std::uint32_t tag, const Buffer& buffer,
                             F&& callback) {
        return with<detail::OnData>(op, std::forward<F>(callback),
                                    [&] { return post_recv_expected(*op.op_, from, tag, buffer); });
    }
    // From anybody, until the buffer has no more room for the largest message (and at least one
    // such room it must have).
    PostResult recv_multi(MultiOperation& op, const Buffer& buffer);

    // --- remote memory -----------------------------------------------------------------------

    // Writes local memory (which must be readable) to the peer's (which must be writable).
    // callback(na::Status). A message that is sent to the peer after that finds the data there.
    template <typename F>
    PostResult put(Operation& op, Target to, LocalRange local, RemotePlace remote, F&& callback) {
        return with<detail::OnStatus>(op, std::forward<F>(callback),
                                      [&] { return post_put(*op.op_, to, local, remote); });
    }
    // Reads the peer's memory (which must be readable) into local memory (which must be writable).
    // callback(na::Status).
    template <typename F>
    PostResult get(Operation& op, Target from, LocalRange local, RemotePlace remote, F&& callback) {
        return with<detail::OnStatus>(op, std::forward<F>(callback),
                                      [&] { return post_get(*op.op_, from, local, remote); });
    }

    // Asks for an end. The callback runs all the same, with Status::canceled or with the result
    // that won. Nothing happens to an operation that is not in use.
    void cancel(Operation& op) noexcept;
    // The same.
    void cancel(MultiOperation& op) noexcept;

    // Sending anything but a Buffer, or all of one without a word, does not compile.
    template <typename M, typename F>
    requires(!std::is_convertible_v<M, Payload>) PostResult
        send_unexpected(Operation&, Target, std::uint32_t, M&&, F&&) {
        return not_a_payload<M>();
    }
    template <typename M, typename F>
    requires(!std::is_convertible_v<M, Payload>) PostResult
        send_expected(Operation&, Target, std::uint32_t, M&&, F&&) {
        return not_a_payload<M>();
    }

    // --- progress ----------------------------------------------------------------------------

    // Makes progress until there is something for trigger(), wake() is called, or the time is over
    // (Status::timeout): polls, spins a little, sleeps. 0: polls once.
    Status progress(std::chrono::milliseconds timeout = {}) noexcept;
    // Runs the callbacks of what has ended, at most so many; returns how many ran.
    std::size_t trigger(std::size_t most = SIZE_MAX);
    // How many wait for trigger().
    std::size_t ready() const noexcept;
    // Progress and callbacks until done() is true; false: the time was over. Where done() is made
    // true by another thread, that calls wake() afterwards.
    template <typename Done>
    bool run_until(Done&& done, std::chrono::milliseconds limit) {
        static_assert(std::is_invocable_r_v<bool, Done&>,
                      "na: run_until wants something to call that answers bool");
        const auto deadline = std::chrono::steady_clock::now() + limit;
        for (;;) {
            trigger();
            const std::uint64_t seen = wakes();
            if (done()) {
                return true;
            }
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(
                deadline - std::chrono::steady_clock::now());
            if (left.count() <= 0) {
                return false;
            }
            wait(left, seen);
        }
    }
    // Ends progress() in one thread, now or when it is called next, and makes run_until() look
    // again in all. Any thread.
    void wake() noexcept;

    // For event loops: a descriptor that polls readable when progress() has something to do, after
    // arm() said true; false: call progress() and trigger() first. -1: none (InitInfo::no_block, or
    // the transport has none).
    int wait_fd() const noexcept;
    // True: wait_fd() will be readable when there is something to do.
    bool arm() noexcept;

    // Cancels what is posted, and makes progress and runs callbacks until all has ended. timeout:
    // not all has ended by then (a transfer with a peer that is stopped, say); the context stays,
    // nothing can be posted, and close() may be called again. busy: called from a callback of this
    // context.
    Result<void> close(std::chrono::milliseconds limit);

 private:
    friend class Domain;
    friend class Operation;
    friend class MultiOperation;

    // Whether the operation can be posted here now.
    Status claim(Operation& op) noexcept;
    // The post failed: the operation is free again.
    void unclaim(detail::Slot& op) noexcept;
    Status post_send(detail::Slot& op, Lane lane, const Target& to, std::uint32_t tag,
                     const Payload& message) noexcept;
    Status post_recv_unexpected(detail::Slot& op, const Buffer& buffer) noexcept;
    Status post_recv_expected(detail::Slot& op, const Target& from, std::uint32_t tag,
                              const Buffer& buffer) noexcept;
    template <auto kMove>
    Status transfer(detail::Slot& op, const Target& target, const LocalRange& local,
                    const RemotePlace& remote, const char* what) noexcept;
    Status post_put(detail::Slot& op, const Target& to, const LocalRange& local,
                    const RemotePlace& remote) noexcept;
    Status post_get(detail::Slot& op, const Target& from, const LocalRange& local,
                    const RemotePlace& remote) noexcept;
    std::uint64_t wakes() const noexcept;
    // Until there is something for trigger(), or wake() was called since wakes() said `seen`.
    void wait(std::chrono::milliseconds timeout, std::uint64_t seen) noexcept;

    template <typename Adapter, typename F, typename Post>
    PostResult with(Operation& op, F&& callback, Post&& post) {
        if constexpr (Adapter::template accepts<std::decay_t<F>>()) {
            if (const Status s = claim(op); !ok(s)) [[unlikely]] {
                return s;
            }
            detail::Slot& slot = *op.op_;
            detail::store_callback<F, Adapter>(slot, std::forward<F>(callback));
            const Status s = post();
            if (!ok(s)) [[unlikely]] {
                slot.drop(slot);
                unclaim(slot);
            }
            return s;
        } else {
            return Status::invalid_arg;
        }
    }
    template <typename M>
    static PostResult not_a_payload() {
        constexpr bool buffer = std::is_same_v<std::remove_cvref_t<M>, Buffer>;
        static_assert(!buffer,
                      "na: say how much of the buffer is the message: buffer.first(bytes)");
        static_assert(
            buffer,
            "na: messages are sent from a Buffer, which has room for the transport's header: "
            "buffer.holding(bytes)");
        return Status::invalid_arg;
    }

    detail::Ref<detail::ContextState> state_;
};

}  // namespace na::inline v1
