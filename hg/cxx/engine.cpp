// SPDX-License-Identifier: BSD-3-Clause
// Opening, progress and the end of an engine.
#include "hg/engine.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "hg/cxx/engine_core.hpp"
#include "na/util/log.hpp"

namespace hg {
namespace detail {
namespace {

// The engine that this thread drives, for which it need not be woken. Read in every round: without
// a call of __tls_get_addr (a pointer fits into what the loader keeps for libraries that come
// late).
[[gnu::tls_model("initial-exec")]] thread_local EngineCore* driving = nullptr;

constexpr unsigned kLongest = 60'000;  // ms that progress sleeps without a look around
// For what was canceled at the end of a shutdown to say so.
constexpr std::chrono::milliseconds kGrace{1000};

}  // namespace

// --- open
// ------------------------------------------------------------------------------------------------------------

Result<EngineCore*> EngineCore::open(std::string_view info, bool listen, EngineOptions options) {
    if ((options.progress == Progress::executor) != (options.executor != nullptr)) {
        return Error{Status::invalid_arg,
                     "EngineOptions: Progress::executor and `executor` go together"};
    }
    if (options.single_thread && options.progress != Progress::caller) {
        return Error{Status::invalid_arg,
                     "EngineOptions: single_thread needs Progress::caller: any other progress is "
                     "made by a second thread"};
    }
    if (!options.sm_name.empty() && !options.auto_sm) {
        return Error{Status::invalid_arg, "EngineOptions: sm_name is for auto_sm"};
    }
    if (options.limits.depth == 0) {
        return Error{Status::invalid_arg,
                     "EngineOptions: limits with a depth of 0 refuse everything but numbers"};
    }
    Options core;
    core.na = options.transport;
    core.na.no_block = options.busy;
    core.na.single_class = options.single_thread;
    core.na.single_context = options.single_thread;
    core.auto_sm = options.auto_sm;
    core.sm_name = options.sm_name;
    static_assert(static_cast<int>(Checksum::payload) == static_cast<int>(ChecksumLevel::payload));
    core.checksum = static_cast<ChecksumLevel>(options.checksum);
    core.bulk_eager = options.bulk_eager;
    core.loopback = options.loopback;
    core.overflow = options.overflow;
    core.overflow_limit = options.overflow_limit;
    core.overflow_total = options.overflow_total;
    core.post_init = options.receives != 0 ? options.receives : core.post_init;
    core.post_incr = options.more_receives != 0 ? options.more_receives : core.post_incr;
    if (!options.coalesce) {
        core.coalesce = Options::Coalesce::never;
    }
    if (options.requests != 0) {
        core.request_limit = options.requests;
        core.post_init = std::min(core.post_init, options.requests);
    }
    auto cls = Class::open(info, listen, std::move(core));
    if (!cls) {
        return Error{cls.status(),
                     fmt::format("cannot open \"{}\": {}", info, cls.error().message)};
    }
    auto context = Context::open(**cls, 0);
    if (!context) {
        return Error{context.status(),
                     fmt::format("cannot open \"{}\": {}", info, context.error().message)};
    }
    auto* engine = new EngineCore(std::move(options), std::move(*cls), std::move(*context));
    try {
        if (engine->options_.progress == Progress::caller) {
            // Where the context is polled, so are the timers.
            if (engine->context_->wait_fd() >= 0 && engine->timers_.open_descriptor()) {
                (void)engine->context_->wait_also(engine->timers_.descriptor());
            }
        } else {
            engine->thread_ = std::thread([engine] { engine->drive(); });
        }
    } catch (const std::system_error& e) {
        engine->unref();
        return Error{Status::nomem, fmt::format("no thread for the engine: {}", e.what())};
    }
    return engine;
}

EngineCore::EngineCore(EngineOptions options, std::unique_ptr<Class> cls,
                       std::unique_ptr<Context> context)
    : options_(std::move(options)),
      class_(std::move(cls)),
      context_(std::move(context)),
      threaded_(class_->threaded()),
      timers_(threaded_),
      counters_(options_.stats ? std::make_unique<RpcTable>() : nullptr) {
    class_->user = {.data = this};  // for descriptors that come in messages
    begin_.engine = this;
    begin_.run = [](Completion& c) {
        auto& begin = static_cast<Begin&>(c);
        begin.pending.store(false, std::memory_order_release);
        begin.engine->begin_waiting();
    };
}

// --- progress
// --------------------------------------------------------------------------------------------------------

bool EngineCore::step(unsigned ms, std::uint32_t look,
                      const std::atomic<std::uint32_t>* done) noexcept {
    // In this order, as expel() has the opposite one.
    inside_.fetch_add(1, std::memory_order_seq_cst);
    if (over_.load(std::memory_order_seq_cst)) [[unlikely]] {
        inside_.fetch_sub(1, std::memory_order_seq_cst);
        return false;
    }
    EngineCore*& mine = driving;  // found once
    EngineCore* const before = std::exchange(mine, this);
    timers_.expire();
    const unsigned limit = timers_.until_next(ms);
    if (limit == 0) {
        (void)context_->progress(0);  // nothing to wait for: the short way
    } else {
        (void)context_->progress_until(limit, [&] {
            return this->look() != look ||
                   (done != nullptr && done->load(std::memory_order_acquire) != 0);
        });
    }
    timers_.expire();
    bool ran = false;
    if (options_.progress == Progress::executor) {
        ran = hand_out();
    } else {
        unsigned count = 0;
        ran = ok(context_->trigger(0, 64, count));
    }
    mine = before;
    inside_.fetch_sub(1, std::memory_order_seq_cst);
    return ran;
}

bool EngineCore::hand_out() noexcept {
    bool any = false;
    while (Completion* c = context_->take_callback()) {
        any = true;
        if (wakes_only(*c)) {
            c->run(*c);
        } else {
            ref();
            jobs.fetch_add(1, std::memory_order_seq_cst);
            options_.executor->execute(Job(*this, c));
        }
    }
    return any;
}

void EngineCore::run_job(Completion& completion) noexcept {
    completion.run(completion);
    leave(jobs);
    drop_handlers();
    unref();
}

void run_job(EngineCore& engine, void* what) noexcept {
    engine.run_job(*static_cast<Completion*>(what));
}

void EngineCore::drive() noexcept {
    for (;;) {
        const std::uint32_t look = this->look();
        if (stop_.load(std::memory_order_acquire)) {
            return;
        }
        (void)step(kLongest, look);
    }
}

bool EngineCore::start_timer(Timer& timer) {
    switch (timers_.add(timer)) {
        case Timers::Added::first:
            // A sleeper has to look again, unless this thread will do it anyway.
            if (driving != this && threaded_) {
                wake();
            }
            return true;
        case Timers::Added::later:
            return true;
        case Timers::Added::closed:
            break;
    }
    return false;
}

void EngineCore::wait(std::atomic<std::uint32_t>& done) noexcept {
    if (options_.progress == Progress::caller || driving == this) {
        while (done.load(std::memory_order_acquire) == 0 && !over()) {
            (void)step(kLongest, look(), &done);  // which looks at both itself
        }
    }
    done.wait(0, std::memory_order_acquire);
}

void wait(EngineCore* engine, std::atomic<std::uint32_t>& done) noexcept {
    if (engine != nullptr) {
        engine->wait(done);
    } else {
        done.wait(0, std::memory_order_acquire);
    }
}

void wake(EngineCore* engine, std::atomic<std::uint32_t>& done) noexcept {
    done.store(1, std::memory_order_seq_cst);
    done.notify_one();  // by address only
    if (engine != nullptr) {
        engine->wake_others();
    }
}

void EngineCore::run_until(Clock::time_point deadline) noexcept {
    for (;;) {
        const std::uint32_t look = this->look();
        const auto now = Clock::now();
        if (over() || stop_.exchange(false, std::memory_order_acq_rel) || now >= deadline) {
            return;
        }
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
        (void)step(static_cast<unsigned>(std::min<std::int64_t>(left, kLongest)), look);
    }
}

void EngineCore::stop() noexcept {
    stop_.store(true, std::memory_order_release);
    wake();
}

// --- the end
// ---------------------------------------------------------------------------------------------------------

bool EngineCore::quiet() const noexcept {
    return calls.load() == 0 && handlers.load() == 0 && waiting.load() == 0 && tasks.load() == 0 &&
           jobs.load() == 0;
}

void EngineCore::say_quiet() noexcept {
    {
        const std::lock_guard guard(quiet_mutex_);
        quiet_.notify_all();
    }
    if (options_.progress == Progress::caller) {
        wake();
    }
}

void EngineCore::wait_quiet(Clock::time_point deadline) noexcept {
    if (options_.progress != Progress::caller) {
        std::unique_lock lock(quiet_mutex_);
        quiet_.wait_until(lock, deadline, [this] { return quiet(); });
        return;
    }
    for (;;) {
        const std::uint32_t look = this->look();
        const auto now = Clock::now();
        if (quiet() || now >= deadline) {
            return;
        }
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
        (void)step(static_cast<unsigned>(std::min<std::int64_t>(left, kLongest)), look);
    }
}

void EngineCore::refuse() noexcept {
    if (!closing_.exchange(true, std::memory_order_seq_cst)) {
        // Answers that are on their way have to leave, and requests that have come to be answered.
        (void)context_->unpost();
    }
}

void EngineCore::cancel_rest(std::chrono::milliseconds limit) noexcept {
    if (canceling_.exchange(true, std::memory_order_seq_cst)) {
        return;
    }
    if (!quiet()) {
        NA_LOG_WARNING(cls,
                       "shutdown: {} calls, {} handlers, {} requests that wait for one and {} "
                       "tasks have not ended in {} ms: they are canceled",
                       calls.load(), handlers.load(), waiting.load(), tasks.load(), limit.count());
    }
    // First: who sleeps in a loop until he is told would not sleep any more, and not be told yet.
    (void)stopping_.request_stop();
    timers_.expire_all();
    begin_waiting();  // which answers them
}

void EngineCore::end_rest() noexcept {
    try {
        context_->end_all(Status::canceled);
    } catch (const std::bad_alloc&) {
        NA_LOG_ERROR(cls, "shutdown: out of memory");
    }
}

void EngineCore::shutdown(std::chrono::milliseconds limit) noexcept {
    if (class_->inherited()) {
        return;
    }
    if (driving == this) {
        // It would wait for itself.
        NA_LOG_ERROR(
            cls,
            "an engine is shut down or destroyed by what it runs (a handler, a callback, a "
            "coroutine): do that on another thread, or after run() and poll() are back");
        std::abort();
    }
    if (ending_.exchange(true, std::memory_order_seq_cst)) {
        return;
    }
    refuse();
    wait_quiet(within(limit).deadline);
    cancel_rest(limit);
    for (auto deadline = Clock::now() + kGrace; !quiet() && Clock::now() < deadline;) {
        end_rest();
        wait_quiet(std::min(deadline, Clock::now() + kGrace / 10));
    }
    finish();
}

// After refuse() and, unless quiet, cancel_rest().
void EngineCore::end(std::chrono::milliseconds limit) noexcept {
    if (!class_->inherited() && !ending_.exchange(true, std::memory_order_seq_cst)) {
        cancel_rest(limit);
        finish();
    }
}

void EngineCore::finish() noexcept {
    if (thread_.joinable()) {
        stop();
        thread_.join();
    }
    {
        const std::lock_guard guard(mutex_);
        for (PeerCore* peer = peers_.front(); peer != nullptr; peer = peers_.next(*peer)) {
            peer->drop_handles();
        }
    }
    expel();
    close();
    finished_.store(true, std::memory_order_seq_cst);
    drop_handlers();
}

void EngineCore::attach(std::shared_ptr<void> driver) noexcept {
    const std::lock_guard guard(mutex_);
    driver_.swap(driver);
}

std::shared_ptr<void> EngineCore::attached() noexcept {
    const std::lock_guard guard(mutex_);
    return driver_;
}

void attach(EngineCore& engine, std::shared_ptr<void> driver) noexcept {
    engine.attach(std::move(driver));
}
std::shared_ptr<void> attached(EngineCore& engine) noexcept {
    return engine.attached();
}
void refuse(EngineCore& engine) noexcept {
    engine.refuse();
}
bool quiet(const EngineCore& engine) noexcept {
    return engine.quiet();
}
void cancel_rest(EngineCore& engine, std::chrono::milliseconds limit) noexcept {
    engine.cancel_rest(limit);
}
void end_rest(EngineCore& engine) noexcept {
    engine.end_rest();
}
void finish(EngineCore& engine, std::chrono::milliseconds limit) noexcept {
    engine.end(limit);
}

// Whoever drives it leaves: who is in run(), or has blocked in a call that has ended now.
void EngineCore::expel() noexcept {
    over_.store(true, std::memory_order_seq_cst);
    while (inside_.load(std::memory_order_seq_cst) != 0) {
        look_.fetch_add(1, std::memory_order_seq_cst);
        context_->wake();
        std::this_thread::yield();
    }
}

// Nobody else drives the engine any more. What still uses the context closes it later.
void EngineCore::close() noexcept {
    try {
        for (;;) {
            // Handles that are still there belong to results, and to calls that were never
            // started: whoever has them closes it when they go.
            auto closed = context_->close(false);
            if (closed) {
                context_.reset();
                return;
            }
            unsigned count = 0;
            if (!ok(context_->trigger(0, UINT32_MAX, count))) {
                NA_LOG_INFO(cls, "an engine cannot be closed yet: {}", closed.error().message);
                return;
            }
        }
    } catch (const std::bad_alloc&) {
        NA_LOG_ERROR(cls, "an engine cannot be closed: out of memory");
    }
}

void EngineCore::unref() noexcept {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1 && !class_->inherited()) {
        delete this;
    }
}

EngineCore::~EngineCore() {
    if (context_ != nullptr) {
        close();
    }
    if (context_ != nullptr) {
        // Something of the user's still points into it.
        NA_LOG_ERROR(cls, "an engine is left behind: something still uses its context");
        (void)context_.release();
        (void)class_.release();
        return;
    }
    try {
        if (auto closable = class_->closable(); !closable) {
            NA_LOG_ERROR(cls, "an engine is left behind: {}", closable.error().message);
            (void)class_.release();
        }
    } catch (const std::bad_alloc&) {
        (void)class_.release();
    }
}

void EngineCore::add(PeerCore& peer) {
    const std::lock_guard guard(mutex_);
    peers_.push_back(peer);
}

void EngineCore::remove(PeerCore& peer) noexcept {
    if (class_->inherited()) {
        return;
    }
    const std::lock_guard guard(mutex_);
    na::util::IntrusiveList<PeerCore, &PeerCore::hook>::remove(peer);
}

// --- sleeping and spawning
// ---------------------------------------------------------------------------------------------

class SleepAccess {
 public:
    static bool start(Sleep& sleep, Continuation& next) {
        EngineCore& engine = sleep.engine_;
        // Also while the engine drains: what is in flight may sleep in the time that it has left.
        engine.tasks.fetch_add(1, std::memory_order_seq_cst);
        sleep.next_ = &next;
        sleep.timer_.sleep = &sleep;
        auto* due = new (sleep.due_) Due;
        due->sleep = &sleep;
        due->run = [](Completion& c) {
            Sleep& s = *static_cast<Due&>(c).sleep;
            EngineCore& e = s.engine_;
            e.leave(e.tasks);
            s.next_->run(*s.next_).resume();
        };
        sleep.timer_.fire = [](Timer& timer, bool passed) noexcept {
            Sleep& s = *static_cast<Sleep::Entry&>(timer).sleep;
            s.passed_ = passed;
            s.engine_.context().complete(*std::launder(reinterpret_cast<Due*>(s.due_)));
        };
        try {
            if (!engine.start_timer(sleep.timer_)) {
                engine.leave(engine.tasks);
                return false;
            }
        } catch (...) {
            engine.leave(engine.tasks);
            throw;
        }
        return true;
    }

 private:
    struct Due : Completion {
        Sleep* sleep = nullptr;
    };
    static_assert(sizeof(Due) <= sizeof(Sleep::due_));
};

bool Sleep::start(Continuation& next) {
    return SleepAccess::start(*this, next);
}

namespace {

Detached run_task(EngineCore& engine, Task<void> task) {
    co_await std::move(task);
    engine.leave(engine.tasks);
    engine.unref();
}

}  // namespace
}  // namespace detail

// --- Engine
// ----------------------------------------------------------------------------------------------------------

Result<Engine> Engine::open(std::string_view info, bool listen, EngineOptions options) {
    auto core = detail::EngineCore::open(info, listen, std::move(options));
    if (!core) {
        // The program has the error, and may not show it.
        NA_LOG_DEBUG(cls, "{}", core.error().message);
        return std::move(core).error();
    }
    return Engine(*core);
}

Engine::~Engine() {
    if (core_ != nullptr) {
        core_->shutdown(core_->options().drain);
        core_->unref();
    }
}

void Engine::shutdown(std::chrono::milliseconds limit) noexcept {
    core_->shutdown(limit);
}

std::string Engine::uri() const {
    return core_->cls().self()->uri();
}

Result<Peer> Engine::lookup(std::string_view uri) const {
    auto address = core_->cls().lookup(uri);
    if (!address) {
        return std::move(address).error();
    }
    return Peer::adopt(new detail::PeerCore(*core_, std::move(*address)));
}

Peer Engine::self() const {
    return Peer::adopt(new detail::PeerCore(*core_, core_->cls().self()));
}

bool Engine::poll() noexcept {
    return core_->step(0, core_->look());
}

void Engine::run_for(std::chrono::milliseconds time) noexcept {
    core_->run_until(within(time).deadline);
}

void Engine::run() noexcept {
    core_->run_until(Clock::time_point::max());
}

void Engine::stop() noexcept {
    core_->stop();
}

int Engine::descriptor() const noexcept {
    return core_->over() ? -1 : core_->context().wait_fd();
}

bool Engine::ready_to_sleep() noexcept {
    return core_->over() || (core_->timers().until_next(1) != 0 && !core_->context().ready());
}

void Engine::spawn(Task<void> task) {
    core_->ref();
    core_->tasks.fetch_add(1);
    detail::run_task(*core_, std::move(task));
}

std::vector<RpcStats> Engine::stats() const {
    const detail::RpcTable* counters = core_->counters();
    return counters == nullptr ? std::vector<RpcStats>() : counters->read();
}

std::uint32_t Engine::calls() const noexcept {
    return core_->calls.load(std::memory_order_relaxed);
}

std::uint32_t Engine::requests() const noexcept {
    return core_->handlers.load(std::memory_order_relaxed) +
           core_->waiting.load(std::memory_order_relaxed);
}

}  // namespace hg
