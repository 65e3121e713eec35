// SPDX-License-Identifier: BSD-3-Clause
// An engine: this process as a caller and a server of RPCs over one transport.
//
//   hg::Engine engine = hg::Engine::server("ofi+tcp");       // or client(...)
//   engine.serve(add, [](int a, int b) { return a + b; });
//   hg::Peer peer = engine.connect(uri);
//   int sum = add(peer, 1, 2).get();
//
// Handlers, callbacks and coroutines run on the engine's executor, which Progress chooses. The
// functions are for any thread, unless they say something else.
#pragma once

#include "na/detail/standard.hpp"

#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "hg/handler.hpp"
#include "hg/peer.hpp"
#include "hg/rpc.hpp"
#include "hg/stats.hpp"
#include "hg/task.hpp"
#include "na/plugin.hpp"

namespace hg {

namespace detail {
class EngineCore;
void run_job(EngineCore& engine, void* what) noexcept;

template <typename F>
Task<void> keep_and_run(F f) {
    co_await f();
}
}  // namespace detail

// Something that an engine wants to be run: a handler, a callback, the rest of a coroutine. Small,
// trivially copied; to be called exactly once, before the engine is destroyed.
class Job {
 public:
    Job(detail::EngineCore& engine, void* what) noexcept : engine_(&engine), what_(what) {}
    void operator()() const noexcept { detail::run_job(*engine_, what_); }

 private:
    detail::EngineCore* engine_;
    void* what_;
};

// Threads of the user's that run what engines have to run.
class Executor {
 public:
    virtual ~Executor() = default;
    // Runs the job soon, on one of its threads; never inside this call, which is made on the
    // engine's thread and must not block for long.
    virtual void execute(Job job) noexcept = 0;
};

// Who makes progress, and where handlers, callbacks and coroutines run.
enum class Progress : std::uint8_t {
    own_thread,  // a thread of the engine's does everything
    caller,      // whoever calls run(), run_for() or poll(), or blocks in a call
    executor,    // a thread of the engine's makes progress, EngineOptions::executor runs the rest
};

// What the checksums of messages cover; both ends must agree.
enum class Checksum : std::uint8_t { none, headers, payload };

struct EngineOptions {
    Progress progress = Progress::own_thread;
    Executor* executor = nullptr;  // with Progress::executor; outlives the engine

    // Handlers at a time, coroutines that wait included; further requests wait in their order.
    // 0: any number. With one thread this limits coroutines only.
    std::uint32_t handlers = 0;
    // Requests at a time, those that wait included; further ones are answered with Status::again.
    // 0: HG_REQUEST_LIMIT of the environment.
    std::uint32_t requests = 0;
    // Small messages to one destination that are sent while others are being dealt with leave
    // together, where the transport gains by it; HG_COALESCE and HG_COALESCE_LIMIT of the
    // environment say more. False: never.
    bool coalesce = true;
    // What a message that is decoded may cost: requests here, and the answers to calls.
    Limits limits = {};
    // How long the destructor waits for calls and handlers before it ends them.
    std::chrono::milliseconds drain{5000};

    // Peers of this host that have it set, too, are reached over shared memory.
    bool auto_sm = false;
    // With auto_sm: the name of the endpoint there; empty: chosen.
    std::string sm_name = {};
    // A message whose checksum is wrong is refused.
    Checksum checksum = Checksum::none;
    // Bulk memory that may be read travels inside its descriptor where the message has less than
    // 4 KiB with it (or na.max_unexpected): whoever pulls that sees it as it was then.
    bool bulk_eager = true;
    // Calls of oneself do not leave the process; false: they go through the transport.
    bool loopback = true;
    // Messages larger than the transport's are pulled by the other side; false: they fail with
    // Status::overflow. What a peer may announce: bytes of one message, and of all at a time; 0:
    // HG_OVERFLOW_LIMIT and HG_OVERFLOW_TOTAL of the environment.
    bool overflow = true;
    std::uint64_t overflow_limit = 0;
    std::uint64_t overflow_total = 0;
    // Receives that a server posts at once, and how many more when all are taken (negative: none,
    // later requests wait in the transport). 0: 512.
    std::uint32_t receives = 0;
    std::int32_t more_receives = 0;

    // Counts calls and requests of each RPC, with the time that they take: Engine::stats(). Costs
    // two looks at the clock and some counters per call, and nothing where it is not set.
    bool stats = false;
    // Never sleep: the lowest latency for a whole processor.
    bool busy = false;
    // The promise that one thread at a time uses the engine and all that belongs to it; with
    // Progress::caller only. The engine then takes no locks: two threads inside it at the same time
    // are undefined behaviour, which a debug build reports and ends the process for.
    bool single_thread = false;
    // More of the transport: addresses, keys, message sizes. no_block, single_class and
    // single_context come from the two above.
    na::InitInfo transport = {};
};

class Engine {
 public:
    // Opens `[class+]protocol[://address]`, "ofi+tcp", "na+sm://name", "ucx+all". server() can be
    // called, client() only calls. Throw Exception: invalid_arg (malformed, options that contradict
    // each other), protonosupport (no such transport here; the text says which there are),
    // addrinuse, and what the transport answers.
    static Engine server(std::string_view info, EngineOptions options = {}) {
        return value(open(info, true, std::move(options)));
    }
    static Engine client(std::string_view info, EngineOptions options = {}) {
        return value(open(info, false, std::move(options)));
    }
    // The same without exceptions, but for std::bad_alloc.
    static Result<Engine> open(std::string_view info, bool listen, EngineOptions options = {});

    Engine(Engine&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
    Engine& operator=(Engine&& other) noexcept {
        std::swap(core_, other.core_);
        return *this;
    }
    // shutdown() with EngineOptions::drain. Not in what the engine runs: that would wait for
    // itself, and ends the program with a word to the log. In a child of fork() an engine of the
    // parent's is left as it is.
    ~Engine();

    // Ends the engine: no request and no call is accepted any more; calls and handlers in flight
    // get `limit` to end; then the calls end with Status::canceled, callers of handlers that still
    // run are answered so, and Request::stop() is requested. A handler that goes on beyond that
    // keeps what it uses; its answer goes nowhere. Handlers are destroyed, with what they have
    // captured, when the last of them has ended. Once; later calls do nothing.
    void shutdown(std::chrono::milliseconds limit) noexcept;

    // What connect() of other processes takes; empty where the transport has none. Throws
    // std::bad_alloc.
    std::string uri() const;

    // The peer at an address that its uri() gave. Does not contact it. Throws Exception
    // (invalid_arg, protonosupport and what the transport answers), std::bad_alloc.
    Peer connect(std::string_view uri) const { return value(lookup(uri)); }
    Result<Peer> lookup(std::string_view uri) const;
    // This engine itself; calls do not leave the process.
    Peer self() const;

    // Serves an RPC by `handler` (hg/handler.hpp) from now on, until the engine ends. The handler
    // is moved in and called from the executor. It may have peers and memory of this engine; they
    // go with it in shutdown(). Throws Exception: exist (served already),
    // opnotsupported (a client), std::bad_alloc.
    template <typename Definition, typename F>
    void serve(const Definition& definition, F handler) {
        value(detail::serve(
            core(), new detail::ServedBy<Definition, F>(definition.info(), std::move(handler))));
    }

    // --- Progress::caller
    // One round: what has come is handled, what has become due runs. Answers whether anything ran.
    // Never blocks. Any thread.
    bool poll() noexcept;
    // Makes progress until `time` has passed, sleeping where there is nothing to do.
    void run_for(std::chrono::milliseconds time) noexcept;
    // The same until stop(), which any thread and any handler may call (a signal handler may not).
    void run() noexcept;
    void stop() noexcept;

    // To embed the engine into another event loop: a descriptor that becomes readable when poll()
    // has something to do, deadlines included. Before each sleep on it, call ready_to_sleep();
    // false: poll() first. -1: the transport cannot be waited on: poll() at intervals.
    int descriptor() const noexcept;
    bool ready_to_sleep() noexcept;

    // --- all
    // Starts a coroutine that nobody waits for, here and now; shutdown() does. An exception that
    // leaves it ends the program.
    void spawn(Task<void> task);
    // The same for a function that answers the coroutine, such as a lambda: it is kept until the
    // coroutine has ended, which uses what the lambda has captured. (`spawn(lambda())` would keep
    // the coroutine only.) May throw std::bad_alloc.
    template <std::invocable F>
    requires std::same_as<std::invoke_result_t<F&>, Task<void>>
    void spawn(F f) { spawn(detail::keep_and_run(std::move(f))); }
    // Awaitables: goes on on the executor, now or after `time`; canceled early by shutdown(): the
    // value says whether the time has passed.
    template <typename Rep, typename Period>
    auto sleep(const std::chrono::duration<Rep, Period>& time);
    // Calls in flight; handlers that run, and requests that wait for one.
    std::uint32_t calls() const noexcept;
    std::uint32_t requests() const noexcept;
    // What EngineOptions::stats counts, of each RPC that was called or asked for, in the order of
    // names; empty without it. Until the engine is destroyed, also after shutdown(). Throws
    // std::bad_alloc.
    std::vector<RpcStats> stats() const;

    detail::EngineCore& core() const noexcept { return *core_; }  // for the library

 private:
    explicit Engine(detail::EngineCore* core) noexcept : core_(core) {}
    detail::EngineCore* core_;
};

// Runs a task or a call to its end and answers its value, or throws; with Progress::caller, and on
// the engine's own thread, this makes progress meanwhile.
template <detail::Startable A>
decltype(auto) sync_wait(Engine& engine, A operation) {
    return detail::block_on(&engine.core(), operation);
}

namespace detail {

// A timer that is awaited.
class [[nodiscard("nothing sleeps before it is awaited")]] Sleep {
 public:
    Sleep(EngineCore & engine, Clock::time_point when) noexcept : engine_(engine) {
        timer_.when = when;
    }
    // Before it is started.
    Sleep(Sleep && other) noexcept : engine_(other.engine_) {
        timer_.when = other.timer_.when;
    }
    auto operator co_await()&& noexcept {
        return Awaiter<Sleep>(*this);
    }
    bool start(Continuation & next);  // throws std::bad_alloc
    bool take() const noexcept {
        return passed_;
    }

 private:
    friend class SleepAccess;
    struct Entry : Timer {
        Sleep* sleep = nullptr;
    };
    EngineCore& engine_;
    Entry timer_;
    Continuation* next_ = nullptr;
    bool passed_ = false;
    alignas(void*) std::byte due_[4 * sizeof(void*)];  // on its way to the executor
};

}  // namespace detail

template <typename Rep, typename Period>
auto Engine::sleep(const std::chrono::duration<Rep, Period>& time) {
    return detail::Sleep(*core_, within(time).deadline);
}

}  // namespace hg
