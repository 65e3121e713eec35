// SPDX-License-Identifier: BSD-3-Clause
// Handlers: from a request that was dispatched to the answer.
#include <utility>

#include <fmt/format.h>

#include "hg/cxx/engine_core.hpp"
#include "hg/small.hpp"
#include "na/util/log.hpp"

namespace hg {
namespace detail {
namespace {

constexpr std::size_t kLongestText = 4096;  // of an error, in bytes

// Reads what is in front of the arguments. False: a peer made it up.
bool read_header(RequestState& request) noexcept {
    const Handle::Payload* const input = request.handle->input();
    if (input == nullptr) {
        return false;
    }
    const std::span<const std::byte> bytes = input->beyond.empty() ? input->message : input->beyond;
    if (bytes.empty()) [[unlikely]] {
        return false;
    }
    std::size_t header = 1;
    if (bytes[0] != std::byte{0}) [[unlikely]] {
        std::uint32_t left = 0;
        header += sizeof left;
        if (bytes[0] != std::byte{kWithDeadline} || bytes.size() < header) {
            return false;
        }
        std::memcpy(&left, bytes.data() + 1, sizeof left);
        // The time in queues counts.
        request.deadline = request.handle->came() + std::chrono::microseconds(left);
    }
    request.arguments = bytes.subspan(header);
    return true;
}

// An error says that it is none: the caller gets one all the same.
Status failure_of(Status status) noexcept {
    return ok(status) ? Status::other_error : status;
}

// Ends a request that no handler begins with.
void turn_away(const RequestState& request, Status status, std::string_view why) noexcept {
    request.respond_error(status, why);
    if (request.counters != nullptr) {
        request.counters->requests.end(request.begun);
    }
    request.handle->unref_user();
}

}  // namespace

Status EngineCore::know(const RpcInfo& rpc) {
    Registry& registry = class_->registry();
    const std::lock_guard guard(mutex_);
    if (registry.contains(rpc.id)) {
        return Status::success;
    }
    if (auto added = registry.add(rpc.id, Registration::Functions{}); !added) {
        return added.status();
    }
    return rpc.one_way ? registry.set_one_way(rpc.id, true) : Status::success;
}

Result<void> serve(EngineCore& engine, Served* served) {
    return engine.serve(std::unique_ptr<Served>(served));
}

Result<void> EngineCore::serve(std::unique_ptr<Served> served) {
    const RpcInfo rpc = served->rpc;
    if (!class_->listening()) {
        return Error{
            Status::opnotsupported,
            fmt::format("a client cannot serve \"{}\": open the engine as a server", rpc.name)};
    }
    if (served->needs_driver && options_.progress != Progress::caller) {
        return Error{
            Status::opnotsupported,
            fmt::format("the handler of \"{}\" needs an executor of Asio's: open the "
                        "engine with Progress::caller and drive it by hg::asio::Driver, or "
                        "serve by hg::asio::on(executor, handler)",
                        rpc.name)};
    }
    const std::lock_guard guard(mutex_);
    if (closing()) {
        return Error{Status::canceled, "the engine is shut down"};
    }
    if (!served_.try_emplace(rpc.id, rpc.name).second) {
        return Error{Status::exist, fmt::format("\"{}\" is served already", rpc.name)};
    }
    served->engine = this;
    Registry& registry = class_->registry();
    // The registry knows functions only; invoke() casts it back.
    auto added =
        registry.add(rpc.id, {.invoke = &EngineCore::invoke,
                              .user = reinterpret_cast<Registration::Opaque>(served.get())});
    if (!added) {
        served_.erase(rpc.id);
        return std::move(added).error();
    }
    Status s = registry.set_data(rpc.id, served.get(),
                                 [](void* data) { delete static_cast<Served*>(data); });
    if (ok(s)) {
        (void)served.release();
        s = rpc.one_way ? registry.set_one_way(rpc.id, true) : s;
    }
    if (!ok(s)) {
        (void)registry.remove(rpc.id);
        served_.erase(rpc.id);
        return Error{s, fmt::format("\"{}\" cannot be served", rpc.name)};
    }
    return {};
}

// --- dispatch
// --------------------------------------------------------------------------------------------------------

// In trigger. The handle's reference goes to the request.
Status EngineCore::invoke(Handle& handle, Registration::Opaque user) {
    Served& served = *reinterpret_cast<Served*>(user);
    EngineCore& engine = *served.engine;
    RequestState request{.engine = &engine, .handle = &handle, .rpc = &served.rpc, .arguments = {}};
    if (!read_header(request)) [[unlikely]] {
        turn_away(request, Status::protocol_error, "a malformed request");
        return Status::success;
    }
    if (RpcTable* table = engine.counters(); table != nullptr) [[unlikely]] {
        try {
            request.counters = &table->of(served.rpc);
            request.begun = Clock::now();
            request.counters->requests.received(request.arguments.size());
        } catch (const std::bad_alloc&) {
            // It is not counted.
        }
    }
    if (!engine.enter(engine.handlers)) [[unlikely]] {
        turn_away(request, Status::canceled, "the target is shut down");
        return Status::success;
    }
    const std::uint32_t limit = engine.options_.handlers;
    if (limit != 0 && (engine.handlers.load(std::memory_order_seq_cst) > limit ||
                       engine.waiting.load(std::memory_order_seq_cst) != 0)) [[unlikely]] {
        engine.waiting.fetch_add(1, std::memory_order_seq_cst);
        try {
            const std::lock_guard guard(engine.mutex_);
            engine.queue_.push_back({request, &served});
        } catch (const std::bad_alloc&) {
            engine.leave(engine.waiting);
            turn_away(request, Status::nomem, "out of memory");
        }
        engine.handler_ended();  // it is none; it begins if the others have ended meanwhile
        return Status::success;
    }
    engine.start(request, served);
    return Status::success;
}

void EngineCore::start(RequestState& request, Served& served) noexcept {
    ref();
    if (request.deadline <= Clock::time_point::max() - Clock::duration(1) &&
        Clock::now() >= request.deadline) [[unlikely]] {
        if (request.counters != nullptr) {
            request.counters->requests.expire();
        }
        request.respond_error(Status::timeout, "the deadline passed before the handler began");
        request.finish();
        return;
    }
    served.run(served, request);
}

void EngineCore::handler_ended() noexcept {
    leave(handlers);
    if (waiting.load(std::memory_order_seq_cst) != 0 && !over() &&
        !begin_.pending.exchange(true, std::memory_order_acq_rel)) [[unlikely]] {
        context_->complete(begin_);
    }
    drop_handlers();
}

// Wherever the last of what it looks at may have ended, and in finish(): one of them sees that it
// is the last. Nobody triggers any more, so that no handler can begin; handles that are
// still there may refer to their registrations, which are not live then.
void EngineCore::drop_handlers_if_last() noexcept {
    if (handlers.load(std::memory_order_seq_cst) != 0 ||
        waiting.load(std::memory_order_seq_cst) != 0 || jobs.load(std::memory_order_seq_cst) != 0) {
        return;
    }
    std::unordered_map<std::uint64_t, std::string> served;
    {
        const std::lock_guard guard(mutex_);
        served.swap(served_);
    }
    Registry& registry = class_->registry();
    for (const auto& [id, name] : served) {
        const std::unique_ptr<Served> handler(static_cast<Served*>(registry.data(id)));
        (void)registry.set_data(id, nullptr, nullptr);
        (void)registry.remove(id);
    }
}

// One handler for a request that waits; at the end of the engine an answer for each.
void EngineCore::begin_waiting() noexcept {
    for (;;) {
        Waiting next{};
        {
            const std::lock_guard guard(mutex_);
            if (queue_.empty()) {
                return;
            }
            const bool over = stopping_.stop_requested();
            if (!over && handlers.load(std::memory_order_seq_cst) >= options_.handlers) {
                return;  // one of them goes on here when it ends
            }
            next = queue_.front();
            queue_.pop_front();
            handlers.fetch_add(1, std::memory_order_seq_cst);
        }
        leave(waiting);
        if (stopping_.stop_requested()) {
            turn_away(next.request, Status::canceled, "the target is shut down");
            leave(handlers);
            continue;
        }
        start(next.request, *next.served);
    }
}

// --- answers
// ---------------------------------------------------------------------------------------------------------

bool RequestState::prepare(Message& message) const noexcept {
    if (!ok(handle->claim_response())) {
        return false;
    }
    const std::span<std::byte> room = handle->output_space();
    message = {.handle = handle, .begin = room.data(), .end = room.data() + room.size()};
    return true;
}

void RequestState::respond(Message& message) const noexcept {
    if (counters != nullptr) [[unlikely]] {
        counters->requests.sent(message.size);
    }
    const bool large = message.beyond != nullptr;
    // Where it fails the caller is gone, or learns it from the library.
    (void)(large ? handle->respond(0, {}, std::exchange(message.beyond, nullptr), message.size)
                 : handle->respond_small(message.size, message.size, {}));
}

void RequestState::unprepare(Message& message) const noexcept {
    message.give_back();
    handle->unclaim_response();
}

void RequestState::respond_error(const Error& error) const noexcept {
    respond_error(error.status, error.message);
}

void RequestState::respond_error(Status code, std::string_view text) const noexcept {
    if (counters != nullptr) [[unlikely]] {
        counters->requests.fail();
    }
    if (rpc->one_way) {
        NA_LOG_WARNING(rpc, "one-way RPC \"{}\" failed: {}", rpc->name, text);
        return;
    }
    Message message;
    if (!prepare(message)) {
        return;
    }
    Status status = Status::success;
    const char* what = "";
    bool written = false;
    try {
        written = message.write(
            [&](Writer& w) {
                w.scalar(static_cast<std::uint8_t>(failure_of(code)));
                w(text.substr(0, kLongestText));
            },
            status, what);
    } catch (...) {
        // Only the code, then.
    }
    if (written) {
        respond(message);
    } else {
        (void)handle->respond_error(failure_of(code), {});
    }
}

void RequestState::finish() noexcept {
    if (counters != nullptr) [[unlikely]] {
        counters->requests.end(begun);
    }
    handle->unref_user();
    EngineCore& e = *engine;
    e.handler_ended();
    e.unref();
}

// --- deadlines
// -------------------------------------------------------------------------------------------------------

class RequestWatch {
 public:
    explicit RequestWatch(EngineCore& engine)
        : engine_(engine), on_stop_(engine.stopping().get_token(), Stop{this}) {}

    void begin(Clock::time_point deadline) {
        expiry_.watch = this;
        expiry_.when = deadline;
        expiry_.fire = [](Timer& timer, bool) noexcept {
            // Stop callbacks are users' code.
            RequestWatch& watch = *static_cast<Expiry&>(timer).watch;
            watch.refs_.fetch_add(1, std::memory_order_relaxed);
            watch.passed_.watch = &watch;
            watch.passed_.run = [](Completion& c) {
                RequestWatch& self = *static_cast<Passed&>(c).watch;
                (void)self.source_.request_stop();
                self.unref();
            };
            watch.engine_.context().complete(watch.passed_);
        };
        if (!engine_.start_timer(expiry_)) {
            (void)source_.request_stop();
        }
    }
    void end() noexcept {
        (void)engine_.timers().remove(expiry_);
        unref();
    }
    std::stop_token token() const noexcept { return source_.get_token(); }

 private:
    struct Stop {
        RequestWatch* watch;
        void operator()() const noexcept {
            std::stop_source source = watch->source_;  // the handler may end in its callback
            (void)source.request_stop();
        }
    };
    struct Expiry : Timer {
        RequestWatch* watch = nullptr;
    };
    struct Passed : Completion {
        RequestWatch* watch = nullptr;
    };
    void unref() noexcept {
        if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            delete this;
        }
    }

    EngineCore& engine_;
    std::atomic<unsigned> refs_{1};  // the request, and the completion under way
    std::stop_source source_;
    Expiry expiry_;
    Passed passed_;
    std::stop_callback<Stop> on_stop_;  // the last: it may run at once
};

RequestWatch* watch(const RequestState& request) {
    auto made = std::make_unique<RequestWatch>(*request.engine);
    made->begin(request.deadline);
    return made.release();
}

std::stop_token token_of(const RequestWatch& watch) noexcept {
    return watch.token();
}

void unwatch(RequestWatch& watch) noexcept {
    watch.end();
}

const Limits& limits_of(const EngineCore& engine) noexcept {
    return engine.options().limits;
}

// --- frames
// ----------------------------------------------------------------------------------------------------------

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kKeepFrames = false;  // a frame that is used after its end shall be noticed
#else
constexpr bool kKeepFrames = true;
#endif
constexpr std::size_t kGrain = 128;  // bytes
constexpr std::size_t kSizes = 16;   // of frames that are kept, in grains
constexpr unsigned kKeep = 64;       // of each

struct Frames {
    struct Free {
        Free* next;
    };
    Free* first[kSizes] = {};
    unsigned count[kSizes] = {};

    Frames() = default;
    Frames(const Frames&) = delete;
    Frames& operator=(const Frames&) = delete;
    ~Frames() {
        for (Free* frame : first) {
            while (frame != nullptr) {
                ::operator delete(std::exchange(frame, frame->next));
            }
        }
    }
};
thread_local Frames frames;

}  // namespace

void* allocate_frame(std::size_t bytes) {
    const std::size_t size = (bytes + kGrain - 1) / kGrain;
    if (kKeepFrames && size < kSizes) {
        if (Frames::Free* frame = frames.first[size]; frame != nullptr) {
            frames.first[size] = frame->next;
            --frames.count[size];
            return frame;
        }
    }
    return ::operator new(size* kGrain);
}

void free_frame(void* frame, std::size_t bytes) noexcept {
    const std::size_t size = (bytes + kGrain - 1) / kGrain;
    if (kKeepFrames && size < kSizes && frames.count[size] < kKeep) {
        auto* free = static_cast<Frames::Free*>(frame);
        free->next = frames.first[size];
        frames.first[size] = free;
        ++frames.count[size];
        return;
    }
    ::operator delete(frame);
}

}  // namespace detail

CallOptions Request::options() const {
    // The deadline ends them by itself, and says so.
    return {.deadline = deadline(), .stop = state_.engine->stopping().get_token()};
}

std::stop_token Request::stop() const {
    if (state_.deadline == Clock::time_point::max()) {
        return state_.engine->stopping().get_token();
    }
    std::atomic_ref<detail::RequestWatch*> mine(watch_);
    detail::RequestWatch* watch = mine.load(std::memory_order_acquire);
    if (watch == nullptr) {
        detail::RequestWatch* made = detail::watch(state_);
        if (mine.compare_exchange_strong(watch, made, std::memory_order_acq_rel)) {
            watch = made;
        } else {
            detail::unwatch(*made);
        }
    }
    return detail::token_of(*watch);
}

}  // namespace hg
