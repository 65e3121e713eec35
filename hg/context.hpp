// SPDX-License-Identifier: BSD-3-Clause
// A progress engine of a class, the object behind hg_context_t: polls the transports, runs what
// their completions call for, and keeps the user's callbacks until trigger().
//
// Handlers of NA operations run under the NA context's lock and may neither post nor call the user:
// they push their object to done (a user callback is due) or to work (something is to be posted or
// released), which progress runs after each poll, under no lock.
//
// Threads: progress and trigger from any number of threads; open, close and destruction from one,
// with nobody inside.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "bulk/transfer.hpp"
#include "hg/class.hpp"
#include "hg/completion.hpp"
#include "hg/handle_pool.hpp"
#include "hg/overflow_pool.hpp"
#include "hg/owed.hpp"
#include "hg/pass.hpp"
#include "hg/port.hpp"
#include "hg/unacked.hpp"
#include "na/core/context.hpp"
#include "na/core/progress.hpp"
#include "na/util/gate.hpp"
#include "na/util/ran.hpp"

namespace hg {

class Context {
 public:
    // A listening class's context accepts requests at once, or with accept(). Errors: invalid_arg
    // (id too large), busy (id taken), nomem, and what the transport answers.
    enum class Requests : bool { later, at_once };
    static na::Result<std::unique_ptr<Context>> open(Class& cls, std::uint8_t id,
                                                     Requests requests = Requests::at_once);
    // close() has succeeded.
    ~Context();
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    // Accepts requests from now on. opnotsupported: the class does not listen; nomem: no receive
    // could be posted.
    na::Status accept() noexcept;
    // Stops accepting requests. timeout: the transport did not give all receives back in time.
    na::Status unpost() noexcept;
    // Gets ready for destruction: stops accepting requests, cancels RPCs and transfers that are in
    // flight, and gives them a bounded time to end. busy: handles of the user, requests that are
    // not answered, or callbacks that were not triggered yet, remain; the context can be
    // progressed, triggered and closed again.
    na::Result<bool> close(bool patient = true);
    // For who ends a context that other threads may be in: refuses progress and trigger from now
    // on. busy: a thread is in one of them, perhaps this one, in a callback; those that sleep there
    // return soon. Not asked where threads do not share the class.
    na::Result<bool> begin_end();
    void give_end_up() noexcept { gate_.reopen(); }
    // Before the destructor: those who were refused have left.
    void finish_end() noexcept { gate_.drain(); }
    // Cancels RPCs and transfers in flight, and answers, with `code`, every request that the
    // program has not answered yet: whoever is about to finds it answered. Any thread.
    void end_all(na::Status code) noexcept;

    Class& cls() const noexcept { return cls_; }
    std::uint8_t id() const noexcept { return id_; }
    bool threaded() const noexcept { return threaded_; }

    na::Context& net() const noexcept { return net_->na(); }
    na::Context* sm() const noexcept {
        return sm_ == nullptr ? nullptr : &sm_->na();
    }  // null: no auto_sm
    bulk::Engine& bulk() const noexcept { return *bulk_; }
    OverflowPool& overflow() noexcept { return overflow_; }
    // Instead of the class's, for handles that are made from now on.
    void set_handle_create(const Class::HandleCreate& create) noexcept {
        handles_->set_create(create);
    }

    // A user callback is due: trigger() will call completion.run. Any thread, inside handlers too.
    void complete(Completion& completion) noexcept {
        done_.push(completion);
        announce();
    }
    // progress will call work.run soon, after a poll, under no lock. Any thread, inside handlers
    // too.
    void defer(Completion& work) noexcept {
        push_work(work);
        announce();
    }

    // A handle of an origin, with one reference and in stage idle. Null address and id 0: set
    // later. Errors: invalid_arg (address of another class), noentry (unknown id). Throws
    // std::bad_alloc.
    na::Result<Handle*> create_handle(Address* addr, std::uint64_t id);

    // --- progress
    // ------------------------------------------------------------------------------------------------
    // success: trigger() has something; timeout
    na::Status progress(unsigned timeout_ms) noexcept {
        if (timeout_ms != 0) {
            return progress_slowly(timeout_ms);
        }
        return poll_once() != 0 ? na::Status::success : na::Status::timeout;
    }
    // The same, but also as soon as over() is true; whoever makes it so calls wake() afterwards.
    template <typename Over>
    na::Status progress_until(unsigned timeout_ms, Over&& over) noexcept {
        return waiter_.drive(
            timeout_ms, [this] { poll(); }, [&] { return !done_.empty() || over(); },
            [this] { return arm(); });
    }
    // Whoever sleeps looks again.
    void wake() noexcept { waiter_.wake_sleepers(); }
    // One round; answers how many callbacks are due. Who stops polling while other threads may
    // sleep in progress() or on wait_fd() calls leave() then.
    [[gnu::always_inline]] std::uint32_t poll() noexcept {
        if (attention_) [[unlikely]] {
            return poll_with_care();
        }
        return poll_only();
    }
    // The same for who stops polling.
    [[gnu::always_inline]] std::uint32_t poll_once() noexcept {
        if (attention_) [[unlikely]] {
            return poll_inside();
        }
        return poll_only();  // without threads there is nobody to leave it to
    }
    void leave() noexcept {
        if (threaded_) [[unlikely]] {
            waiter_.leave([this] { return arm(); });
        }
    }
    bool ready() noexcept;  // true: do not sleep on wait_fd(); otherwise it is armed
    int wait_fd() const noexcept { return waiter_.fd(); }
    // Runs up to max_count callbacks, waiting for the first; answers success, or timeout (none
    // ran). `count` also counts a callback that throws, and is right then, too.
    na::Status trigger(unsigned timeout_ms, unsigned max_count, unsigned& count) {
        // Without threads nobody could add anything while this one waits.
        if (alone_) [[likely]] {
            na::util::Ran ran(&count);
            while (ran.number < max_count) {
                auto* due = static_cast<Completion*>(done_.pop_alone());
                if (due == nullptr) {
                    break;
                }
                ++ran.number;
                due->run(*due);
            }
            return ran.number == 0 && max_count != 0 ? na::Status::timeout : na::Status::success;
        }
        return trigger_otherwise(timeout_ms, max_count, count);
    }
    std::uint32_t callbacks_due() const noexcept { return done_.count(); }
    // For who runs callbacks elsewhere than in trigger(): the next one, to be run exactly once by
    // its run(); null: none.
    Completion* take_callback() noexcept;
    // Small messages may leave together, on a transport at least.
    bool gathers() const noexcept { return gathers_; }
    // However long they wait for that.
    bool patient() const noexcept { return patient_; }
    Patience& patience() noexcept { return patience_; }
    // Those that wait for others leave. Outside of handlers.
    void flush() noexcept;
    // Sleep on `fd` too, in progress() and on wait_fd(), for somebody who looks at it between
    // polls. opnotsupported: this context does not sleep.
    na::Status wait_also(int fd) {
        return waiter_.fd() < 0 ? na::Status::opnotsupported : waiter_.add(fd);
    }

    Counters::Values counters() noexcept;
    // How many handles there are, in use or not: diagnostics.
    std::size_t handles() noexcept { return handles_->size(); }
    std::int32_t note_kept(const Port& port) noexcept { return handles_->note_kept(port); }

    Class::UserData user;  // the shell's business; released at destruction

 private:
    friend class Handle;
    friend class HandlePool;
    friend class Loopback;

    Context(Class& cls, std::uint8_t id);

    // As complete() and defer() for handlers: whoever polls or posts calls settle() afterwards.
    void push_done(Completion& completion) noexcept { done_.push(completion); }
    void push_work(Completion& work) noexcept {
        work_.push(work);
        attend();
    }
    void settle() noexcept {
        if (threaded_ && (!done_.empty() || !work_.empty())) {
            announce();
        }
    }
    void await_callback(unsigned timeout_ms, std::uint32_t asked);
    void announce() noexcept;  // somebody who sleeps has to look
    // The next poll, or the one that is under way, looks at everything. With threads they always
    // do.
    void attend() noexcept {
        if (!threaded_) {
            attention_ = true;
        }
    }
    na::Status progress_slowly(unsigned timeout_ms) noexcept;
    std::uint32_t poll_with_care() noexcept;
    std::uint32_t poll_inside() noexcept;
    [[gnu::always_inline]] std::uint32_t poll_only() noexcept {
        // What was queued without an event is for the next poll.
        if (only_->poll() != 0 && attention_) [[unlikely]] {
            return work_off();
        }
        return done_.count();
    }
    std::uint32_t work_off() noexcept;
    na::Status trigger_otherwise(unsigned timeout_ms, unsigned max_count, unsigned& count);
    na::Status trigger_inside(unsigned max_count, unsigned& count);
    na::Status trigger_gathering(unsigned max_count, unsigned& count);
    na::Status trigger_together(unsigned max_count, unsigned& count);
    bool run_work() noexcept;
    bool arm() noexcept;
    bool nothing_under_way() noexcept;
    bool end_forgotten() noexcept;

    Port& port_for(const Address& address) const noexcept {
        return sm_ != nullptr && address.sm() != nullptr ? *sm_ : *net_;
    }
    na::Status open_waiter();
    bool post_requests(Port& port) noexcept;
    void refuse() noexcept;
    void request_taken(Port& port) noexcept {  // inside handlers
        if (port.request_taken() <= kPostLow) [[unlikely]] {
            post_more(port);
        }
    }
    void post_more(Port& port) noexcept;
    static constexpr std::int32_t kPostLow = 4;
    struct Grow : Completion {
        Port* port = nullptr;
        std::atomic<bool> pending{false};
    };

    Class& cls_;
    const std::uint8_t id_;
    const bool threaded_;
    // A poll has to look at more than one transport: always where threads share the class, or there
    // are two transports; else after somebody may have slept, and when something was queued here or
    // in bulk_. Written by the one thread only, where it is not always true.
    bool attention_ = true;
    bool entered_ = false;
    na::CompletionQueue done_;
    na::CompletionQueue work_;
    na::Waiter waiter_;
    OverflowPool overflow_;
    Unacked unacked_;
    Owed owed_;
    na::Context* only_ = nullptr;  // that of net_
    std::unique_ptr<Port> net_;
    std::unique_ptr<Port> sm_;
    std::unique_ptr<bulk::Engine> bulk_;
    std::unique_ptr<HandlePool> handles_;
    Grow grow_[bulk::kRails];
    std::atomic<bool> accepting_{false};
    bool gathers_ = false;
    bool alone_ = false;  // callbacks run one after the other: no threads, and nothing gathers
    const bool patient_;
    Patience patience_;
    std::atomic<std::uint32_t> malformed_{0};  // answers to malformed requests on their way
    std::atomic<std::uint32_t> stragglers_{0};
    std::atomic<std::uint64_t> unanswered_{0};  // see Counters::Values
    std::atomic<std::uint64_t> given_up_{0};
    std::atomic<std::uint64_t> unserved_{0};  // refused: nothing here serves their RPC

    na::util::OptionalLock loop_lock_;  // guards Handle::partner_ and loop_counters_
    Counters loop_counters_;

    // Counts the threads in progress or trigger, where threads share the class.
    na::util::Gate gate_;
    std::atomic<std::uint32_t> trigger_waiters_{0};
    std::mutex trigger_mutex_;
    std::condition_variable trigger_signal_;
};

// --- of the handle: what needs its context

inline void Handle::defer(Run what) noexcept {
    run = what;
    info_.context->push_work(*this);
}

inline void Handle::finish(Run what) noexcept {
    run = what;
    info_.context->push_done(*this);
}

// The request is complete. The references are the user's, who destroys the handle, that of
// dispatch(), and that of the answer.
inline void Handle::arrived() noexcept {
    refs_.store(kUserRef + kLibraryRef + answer_ref(), std::memory_order_relaxed);
    hand_on();
}

// Makes a request visible that came whole, inside the handler of its receive. The turns of peers
// count a request that has others before it in the queue.
inline void Handle::arrived_whole() noexcept {
    refs_.store(kUserRef + kLibraryRef + answer_ref(), std::memory_order_relaxed);
    stage_.store(Stage::received, std::memory_order_release);
    if (info_.context->callbacks_due() == 0) [[likely]] {
        finish(&Handle::dispatch);
    } else {
        port_->request_due();
        finish(&Handle::dispatch_due);
    }
}

// The same where the references are there already, perhaps with more of the program's.
inline void Handle::hand_on() noexcept {
    stage_.store(Stage::received, std::memory_order_release);
    finish(&Handle::dispatch);
}

}  // namespace hg
