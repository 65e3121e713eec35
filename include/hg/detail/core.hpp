// SPDX-License-Identifier: BSD-3-Clause
// What the headers of the C++ API need of the library: a few structs and functions. Not for users,
// and free to change.
#pragma once

#include "na/detail/standard.hpp"

#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>
#include <utility>

#include "hg/codec.hpp"
#include "hg/error.hpp"

namespace hg {

// The library's own, opaque here.
class Address;
class Handle;
struct Block;

using Clock = std::chrono::steady_clock;

// Passed behind the arguments of a call.
struct CallOptions {
    // The call ends with Status::timeout then, whatever the target does. The target is told, where
    // it is at most 71 minutes away, and does not begin what nobody waits for.
    Clock::time_point deadline = Clock::time_point::max();
    // The call ends with Status::canceled when a stop is requested.
    std::stop_token stop = {};
};

// A deadline from now on; of a time that the clock does not get to, none.
template <typename Rep, typename Period>
CallOptions within(const std::chrono::duration<Rep, Period>& time) {
    // In seconds first: in the clock's units a long time may be no number.
    using Seconds = std::chrono::duration<long double>;
    const auto now = Clock::now();
    if (Seconds(time) >= Seconds(Clock::time_point::max() - now)) {
        return {.deadline = Clock::time_point::max()};
    }
    if (Seconds(time) <= Seconds(Clock::duration::min()) / 2) {
        return {.deadline = Clock::time_point::min()};
    }
    return {.deadline = now + std::chrono::duration_cast<Clock::duration>(time)};
}

namespace detail {

class EngineCore;
class PeerCore;
class RpcCounters;
class BulkRef;

// What an RPC is, apart from its types.
struct RpcInfo {
    std::string_view name;
    std::uint64_t id = 0;  // of name and types
    bool one_way = false;
};

// FNV-1a; two definitions with one name and different types are different RPCs.
constexpr std::uint64_t rpc_id(std::string_view name, std::uint32_t kind) noexcept {
    std::uint64_t hash = 14695981039346656037ULL;
    const auto add = [&hash](unsigned byte) { hash = (hash ^ byte) * 1099511628211ULL; };
    for (const char c : name) {
        add(static_cast<unsigned char>(c));
    }
    add(0);
    for (unsigned shift = 0; shift < 32; shift += 8) {
        add((kind >> shift) & 0xff);
    }
    return hash == 0 ? 1 : hash;
}

// What goes on when an operation has ended: answers the coroutine to resume, perhaps
// std::noop_coroutine(). Runs exactly once for each start; its memory may be gone afterwards.
struct Continuation {
    std::coroutine_handle<> (*run)(Continuation& self) noexcept = nullptr;
    // Told on whatever thread notices, not on the engine's executor: it only wakes somebody.
    bool wakes_only = false;
};

// In the heap of its engine while it runs.
struct Timer {
    Clock::time_point when{};
    std::size_t position = SIZE_MAX;  // SIZE_MAX: not in the heap
    // Under the heap's lock, and out of the heap already: short, and starts nothing. Not `passed`:
    // the engine ends.
    void (*fire)(Timer& self, bool passed) noexcept = nullptr;
};

// Where a message is written, and what it went into.
struct Message {
    Handle* handle = nullptr;
    std::byte* begin = nullptr;
    std::byte* end = nullptr;
    Block* beyond = nullptr;  // what was written lies here, not in [begin, end)
    std::size_t size = 0;

    // Writes by f(Writer&). False: it cannot be sent; nothing is kept.
    template <typename F>
    bool write(F&& f, Status& status, const char*& what) {
        Writer w(begin, end, &grow, this);
        w.handle = handle;
        try {
            f(w);
        } catch (...) {
            give_back();
            throw;
        }
        status = w.status();
        what = w.what();
        size = w.written();
        if (!w.ok()) [[unlikely]] {
            give_back();
            return false;
        }
        return true;
    }
    // The block, to where it came from.
    void give_back() noexcept;

 private:
    static bool grow(Writer& w, std::size_t more);
};

// The first byte of requests: flags. Of responses: a Status; not success: the text follows.
inline constexpr std::uint8_t kWithDeadline = 1;  // 4 bytes follow: microseconds that are left

// A message that came, kept as long as this.
class MessageRef {
 public:
    MessageRef(PeerCore* peer, Handle* handle) noexcept : peer_(peer), handle_(handle) {}
    MessageRef(MessageRef&& other) noexcept
        : peer_(std::exchange(other.peer_, nullptr)), handle_(other.handle_) {}
    MessageRef& operator=(MessageRef&& other) noexcept {
        std::swap(peer_, other.peer_);
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~MessageRef();

 private:
    PeerCore* peer_;
    Handle* handle_;
};

// Memory of this process that a call shows its target: registered until the call has ended. Empty
// where there is no peer.
class Shown {
 public:
    Shown() noexcept = default;
    Shown(Shown&& other) noexcept : first_(std::exchange(other.first_, nullptr)) {}
    Shown& operator=(Shown&&) = delete;

    void add(const BulkRef& bulk);  // throws std::bad_alloc
    // Must come before the end.
    void clear() noexcept {
        if (first_ != nullptr) [[unlikely]] {
            drop();
        }
    }

 private:
    struct Node;
    void drop() noexcept;

    Node* first_ = nullptr;
};

// One call, from its arguments to its result. Lives in the Call; moves until it is started.
struct CallState {
    enum class Cause : std::uint8_t { none, deadline, stop, closing };

    PeerCore* peer = nullptr;  // a reference
    Handle* handle = nullptr;  // a reference; null: nothing was encoded
    const RpcInfo* rpc = nullptr;
    Message message;
    Shown shown;
    Continuation* next = nullptr;
    Status status = Status::success;
    bool guarded = false;  // has a deadline or a stop token
    std::atomic<Cause> cause{Cause::none};
    std::atomic<std::uint8_t> phase{0};
    const char* what = "";            // a literal
    RpcCounters* counters = nullptr;  // null: nothing is counted
    Clock::time_point begun{};        // where it is

    struct Cancel {
        CallState* call;
        void operator()() const noexcept;
    };
    struct Expiry : Timer {
        CallState* call = nullptr;
    };
    CallOptions options;
    Expiry expiry;
    std::optional<std::stop_callback<Cancel>> on_stop;

    CallState() = default;
    // Before it is started.
    CallState(CallState&& other) noexcept;
    CallState& operator=(CallState&&) = delete;
    ~CallState() {
        if (peer != nullptr) {
            release();
        }
    }

    // Takes a handle for the call and answers where the request goes; null: it failed, see status.
    Message* begin() noexcept;
    // The request is in place. True: next->run() follows, perhaps before this returns. False: it
    // has ended already, see status.
    bool start(Continuation& continuation) noexcept;
    // What came, where status is success; as long as the state.
    std::span<const std::byte> reply() const noexcept;
    // Why status is not success, in words. May throw std::bad_alloc.
    Error error() const;
    // The same where the target answered with an error.
    Error remote_error(Reader& r, Status code) const;
    Error malformed(const Reader& r) const;
    EngineCore* engine() const noexcept;  // null: no peer
    // Gives handle, peer and what was shown back.
    void release() noexcept;
    MessageRef keep() noexcept {
        return {std::exchange(peer, nullptr), std::exchange(handle, nullptr)};
    }
};

// The headers in front of the values.
void write_request_header(Writer& w, const CallState& call);

// One request at its target. A handle with one reference, which ends with finish().
struct RequestState {
    EngineCore* engine = nullptr;
    Handle* handle = nullptr;
    const RpcInfo* rpc = nullptr;
    std::span<const std::byte> arguments;
    Clock::time_point deadline = Clock::time_point::max();
    RpcCounters* counters = nullptr;  // null: nothing is counted
    Clock::time_point begun{};        // where it is

    // Answers; false: nobody waits for an answer, or it was answered. After prepare() one of the
    // other two is called.
    bool prepare(Message& message) const noexcept;
    void respond(Message& message) const noexcept;
    void unprepare(Message& message) const noexcept;
    // Both at once, with an error; the log has what one-way handlers fail with.
    void respond_error(const Error& error) const noexcept;
    void respond_error(Status code, std::string_view text) const noexcept;
    // The handler has ended.
    void finish() noexcept;
};

// Request::stop() of a request with a deadline: a source that is stopped when it passes, or when
// the engine ends. unwatch() when the handler has ended.
class RequestWatch;
RequestWatch* watch(const RequestState& request);  // throws std::bad_alloc
std::stop_token token_of(const RequestWatch& watch) noexcept;
void unwatch(RequestWatch& watch) noexcept;

// A handler, as the registry keeps it.
struct Served {
    RpcInfo rpc;
    EngineCore* engine = nullptr;
    void (*run)(Served& self, RequestState& request) noexcept = nullptr;
    bool needs_driver = false;  // runs where something drives the engine that was attached to it

    Served() = default;
    Served(const Served&) = delete;
    Served& operator=(const Served&) = delete;
    virtual ~Served() = default;
};

// Takes over `served`, also on failure.
Result<void> serve(EngineCore& engine, Served* served);

// EngineOptions::limits.
const Limits& limits_of(const EngineCore& engine) noexcept;
template <typename... T>
Limits limits_for([[maybe_unused]] const EngineCore* engine) noexcept {
    if constexpr ((false || ... || is_limited<T>)) {
        return limits_of(*engine);
    } else {
        return {};
    }
}

// What drives an engine with Progress::caller, for handlers that run there; null: nothing (any
// more). Any thread.
void attach(EngineCore& engine, std::shared_ptr<void> driver) noexcept;
std::shared_ptr<void> attached(EngineCore& engine) noexcept;

// The parts of Engine::shutdown(), for who cannot block: refuse what is new; whether nothing is in
// flight any more; cancel what is (once), and again what came after; the end, in which whatever
// still runs is left behind.
void refuse(EngineCore& engine) noexcept;
bool quiet(const EngineCore& engine) noexcept;
void cancel_rest(EngineCore& engine, std::chrono::milliseconds limit) noexcept;
void end_rest(EngineCore& engine) noexcept;
void finish(EngineCore& engine, std::chrono::milliseconds limit) noexcept;

void ref(PeerCore* peer) noexcept;
void unref(PeerCore* peer) noexcept;
EngineCore& engine_of(PeerCore& peer) noexcept;
PeerCore* peer_of(const RequestState& request);  // throws std::bad_alloc

// Blocks until `done` is not 0; makes progress meanwhile where that is this thread's business.
// Null: just waits.
void wait(EngineCore* engine, std::atomic<std::uint32_t>& done) noexcept;
// Sets it, and wakes whoever waits for it, who may be gone when this returns.
void wake(EngineCore* engine, std::atomic<std::uint32_t>& done) noexcept;

// Frames of coroutines; what is given back is kept for the next one of the thread.
void* allocate_frame(std::size_t bytes);
void free_frame(void* frame, std::size_t bytes) noexcept;

}  // namespace detail
}  // namespace hg
