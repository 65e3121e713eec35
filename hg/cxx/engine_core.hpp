// SPDX-License-Identifier: BSD-3-Clause
// The object behind hg::Engine: an RPC class with one context, who drives it, and what the C++ API
// keeps: peers with their idle handles, deadlines, handlers in flight.
//
// Reference counted: the Engine has one reference, and so have peers, handlers that run and tasks
// that were spawned. Engine's end closes the context where everything has ended; what outlives it
// (peers, results that look into messages, handlers beyond the time limit) leaves that to the last
// reference.
//
// Locks: those of timers and peers come first, the core's own after them; none is held while users'
// code runs.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>

#include "hg/class.hpp"
#include "hg/context.hpp"
#include "hg/cxx/rpc_counters.hpp"
#include "hg/cxx/timers.hpp"
#include "hg/engine.hpp"
#include "na/util/intrusive_list.hpp"

namespace hg::detail {

// A peer of an engine. Handles of calls that have ended wait here for the next call.
class PeerCore {
 public:
    PeerCore(EngineCore& engine, AddressRef address);
    ~PeerCore();
    PeerCore(const PeerCore&) = delete;
    PeerCore& operator=(const PeerCore&) = delete;

    EngineCore& engine() const noexcept { return engine_; }
    Address& address() const noexcept { return *address_; }
    // An idle handle for calls of `rpc`, with a reference for the caller. noentry and the like as
    // Context::create_handle; canceled: the engine is closing; throws std::bad_alloc.
    Result<Handle*> take(const RpcInfo& rpc);
    void give(Handle& handle) noexcept;
    // Idle handles go.
    void drop_handles() noexcept;

    std::atomic<std::uint32_t> refs{1};
    na::util::ListHook hook;

 private:
    Result<Handle*> make(const RpcInfo& rpc);

    static constexpr std::size_t kIdle = 8;
    static constexpr std::size_t kLook = 4;  // places that are looked at for a handle of one RPC

    EngineCore& engine_;
    AddressRef address_;
    std::atomic<Handle*> idle_[kIdle] = {};
};

class EngineCore {
 public:
    static Result<EngineCore*> open(std::string_view info, bool listen, EngineOptions options);
    EngineCore(const EngineCore&) = delete;
    EngineCore& operator=(const EngineCore&) = delete;

    void ref() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
    void unref() noexcept;

    Class& cls() const noexcept { return *class_; }
    Context& context() const noexcept { return *context_; }
    Timers& timers() noexcept { return timers_; }
    bool closing() const noexcept { return closing_.load(std::memory_order_acquire); }
    // Nobody may drive it any more.
    bool over() const noexcept { return over_.load(std::memory_order_acquire); }
    const std::stop_source& stopping() const noexcept { return stopping_; }
    const EngineOptions& options() const noexcept { return options_; }

    // --- progress
    // To be taken before anything is read that wake() is called for, and given to step(), which
    // does not sleep if there was a wake() since.
    std::uint32_t look() const noexcept { return look_.load(std::memory_order_acquire); }
    // One round of at most `ms`; answers whether something ran.
    // With `done`: returns when that is not 0, too.
    bool step(unsigned ms, std::uint32_t look,
              const std::atomic<std::uint32_t>* done = nullptr) noexcept;
    // Into the heap, and whoever sleeps learns of it. False: the engine ends, it does not fire.
    // Throws std::bad_alloc.
    bool start_timer(Timer& timer);
    void wake() noexcept {
        look_.fetch_add(1, std::memory_order_seq_cst);
        if (!over_.load(std::memory_order_acquire)) {
            context_->wake();
        }
    }
    // Other threads that drive the engine too look again.
    void wake_others() noexcept {
        if (options_.progress == Progress::caller && threaded_) {
            wake();
        }
    }
    void wait(std::atomic<std::uint32_t>& done) noexcept;
    void run_until(Clock::time_point deadline) noexcept;
    void stop() noexcept;
    void run_job(Completion& completion) noexcept;

    void shutdown(std::chrono::milliseconds limit) noexcept;
    // Its parts; see hg/detail/core.hpp.
    void refuse() noexcept;
    bool quiet() const noexcept;
    void cancel_rest(std::chrono::milliseconds limit) noexcept;
    void end_rest() noexcept;
    void end(std::chrono::milliseconds limit) noexcept;

    void attach(std::shared_ptr<void> driver) noexcept;
    std::shared_ptr<void> attached() noexcept;

    // --- what is in flight
    // False: the engine is closing. Otherwise one more, until leave().
    bool enter(std::atomic<std::uint32_t>& counter) noexcept {
        counter.fetch_add(1, std::memory_order_seq_cst);
        if (closing_.load(std::memory_order_seq_cst)) [[unlikely]] {
            leave(counter);
            return false;
        }
        return true;
    }
    void leave(std::atomic<std::uint32_t>& counter) noexcept {
        if (counter.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
            closing_.load(std::memory_order_seq_cst)) [[unlikely]] {
            say_quiet();
        }
    }
    std::atomic<std::uint32_t> calls{0};
    std::atomic<std::uint32_t> handlers{0};  // those that run
    std::atomic<std::uint32_t> waiting{0};   // requests for which there is none yet
    std::atomic<std::uint32_t> tasks{0};
    std::atomic<std::uint32_t> jobs{0};  // with the user's executor

    // --- RPCs
    // So that handles for it can be made.
    Status know(const RpcInfo& rpc);
    Result<void> serve(std::unique_ptr<Served> served);
    static Status invoke(Handle& handle, Registration::Opaque user);
    void handler_ended() noexcept;
    // At the end, once none runs: what they have captured may be of this engine, and would keep it.
    void drop_handlers() noexcept {
        if (finished_.load(std::memory_order_seq_cst)) [[unlikely]] {
            drop_handlers_if_last();
        }
    }

    // Null: EngineOptions::stats is not set.
    RpcTable* counters() const noexcept { return counters_.get(); }

    void add(PeerCore& peer);
    void remove(PeerCore& peer) noexcept;

 private:
    EngineCore(EngineOptions options, std::unique_ptr<Class> cls, std::unique_ptr<Context> context);
    ~EngineCore();

    void drive() noexcept;  // the engine's thread
    bool hand_out() noexcept;
    void say_quiet() noexcept;
    void wait_quiet(Clock::time_point deadline) noexcept;
    void finish() noexcept;
    void close() noexcept;
    void expel() noexcept;
    void drop_handlers_if_last() noexcept;
    void begin_waiting() noexcept;
    void start(RequestState& request, Served& served) noexcept;

    const EngineOptions options_;
    std::unique_ptr<Class> class_;
    std::unique_ptr<Context> context_;
    const bool threaded_;
    Timers timers_;
    const std::unique_ptr<RpcTable> counters_;
    std::atomic<std::uint32_t> refs_{1};
    std::atomic<bool> closing_{false};
    std::atomic<bool> ending_{false};     // somebody ends it
    std::atomic<bool> canceling_{false};  // what is in flight
    std::atomic<bool> stop_{false};       // run(), drive()
    std::atomic<bool> over_{false};
    std::atomic<bool> finished_{false};     // nothing begins any more
    std::atomic<std::uint32_t> inside_{0};  // threads in step()
    std::stop_source stopping_;
    std::thread thread_;

    std::atomic<std::uint32_t> look_{0};  // changes when whoever sleeps has to look again
    struct Begin : Completion {
        EngineCore* engine = nullptr;
        std::atomic<bool> pending{false};
    };
    Begin begin_;  // a handler for a request that waits

    std::mutex quiet_mutex_;
    std::condition_variable quiet_;

    std::mutex mutex_;  // guards what follows
    na::util::IntrusiveList<PeerCore, &PeerCore::hook> peers_;
    std::unordered_map<std::uint64_t, std::string> served_;
    struct Waiting {
        RequestState request;
        Served* served;
    };
    std::deque<Waiting> queue_;
    std::shared_ptr<void> driver_;
};

// Whether the completion of a call, or of anything, only wakes a thread.
bool wakes_only(const Callback& callback) noexcept;
bool wakes_only(const Completion& completion) noexcept;

}  // namespace hg::detail
