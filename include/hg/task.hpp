// SPDX-License-Identifier: BSD-3-Clause
// Coroutines: Task<T>, when_all(), sync_wait().
//
// A Task starts when it is awaited and resumes whoever awaits it by symmetric transfer, so that
// long chains take no stack, nor do loops that await what ends at once. (GCC does that when it
// optimizes, from -O2 on. With -O0, -O1 and sanitizers each task that ends without having waited
// for anything leaves some stack in use until the one that awaits it waits itself: 100000 of them
// in a row may be too many.) It goes on where what it waits for ends: after a call, on the engine's
// executor (hg/engine.hpp). One thread at a time runs it. A Task that is never awaited never runs.
// Destroying one that has started and not ended is an error of the program.
#pragma once

#include "na/detail/standard.hpp"

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "hg/detail/core.hpp"

namespace hg {

template <typename T = void>
class Task;

namespace detail {

// What can be awaited, and started without a coroutine: true: the continuation will run; false: it
// has ended already, and the continuation does not run. take() answers the value, or throws.
template <typename A>
concept Startable = requires(A& a, Continuation& c) {
    { a.start(c) } -> std::same_as<bool>;
    a.take();
};

struct PromiseBase {
    Continuation* next = nullptr;
    std::exception_ptr exception;

    static void* operator new(std::size_t bytes) { return allocate_frame(bytes); }
    static void operator delete(void* frame, std::size_t bytes) noexcept {
        free_frame(frame, bytes);
    }

    std::suspend_always initial_suspend() const noexcept { return {}; }
    struct Final {
        bool await_ready() const noexcept { return false; }
        template <typename P>
        std::coroutine_handle<> await_suspend(std::coroutine_handle<P> self) const noexcept {
            Continuation& then = *self.promise().next;
            return then.run(then);
        }
        void await_resume() const noexcept {}
    };
    Final final_suspend() const noexcept { return {}; }
    void unhandled_exception() noexcept { exception = std::current_exception(); }
};

template <typename T>
struct Promise : PromiseBase {
    std::optional<T> value;

    Task<T> get_return_object() noexcept;
    template <typename U>
    requires std::is_constructible_v<T, U>
    void return_value(U&& v) { value.emplace(std::forward<U>(v)); }
    // Only to say what is wrong.
    template <typename U>
    requires(!std::is_constructible_v<T, U>) void return_value(U&&) {
        static_assert(std::is_constructible_v<T, U>,
                      "the value of co_return does not convert to the Task's: a call or a Task is "
                      "returned by co_return co_await");
    }
    T take() {
        if (exception) {
            std::rethrow_exception(exception);
        }
        return *std::move(value);
    }
};

template <>
struct Promise<void> : PromiseBase {
    Task<void> get_return_object() noexcept;
    void return_void() const noexcept {}
    void take() const {
        if (exception) {
            std::rethrow_exception(exception);
        }
    }
};

// A coroutine that waits for something startable; the awaiter of co_await.
template <Startable A>
class Awaiter : private Continuation {
 public:
    explicit Awaiter(A& operation) noexcept : operation_(operation) {
        run = [](Continuation& self) noexcept -> std::coroutine_handle<> {
            return static_cast<Awaiter&>(self).waiting_;
        };
    }
    Awaiter(const Awaiter&) = delete;
    Awaiter& operator=(const Awaiter&) = delete;

    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> waiting) {
        waiting_ = waiting;
        return operation_.start(*this);
    }
    decltype(auto) await_resume() { return operation_.take(); }

 private:
    A& operation_;
    std::coroutine_handle<> waiting_;
};

// For results in tuples and vectors.
template <typename T>
using Something = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <typename A>
using taken = decltype(std::declval<A&>().take());

template <typename A>
Something<taken<A>> take_something(A& a) {
    if constexpr (std::is_void_v<taken<A>>) {
        a.take();
        return {};
    } else {
        return a.take();
    }
}

}  // namespace detail

// The result of a coroutine that ends later. One owner; moved, not copied.
template <typename T>
class [[nodiscard("a Task runs only when it is awaited")]] Task {
 public:
    using promise_type = detail::Promise<T>;
    using value_type = T;

    Task(Task && other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
    Task& operator=(Task&& other) noexcept {
        if (this != &other) {
            reset();
            coroutine_ = std::exchange(other.coroutine_, nullptr);
        }
        return *this;
    }
    ~Task() {
        reset();
    }

    // co_await std::move(task), co_await f(): the value, or the exception that the coroutine ended
    // with.
    auto operator co_await()&& noexcept {
        struct TaskAwaiter : private detail::Continuation {
            explicit TaskAwaiter(std::coroutine_handle<promise_type> task) noexcept : child(task) {
                run = [](Continuation& self) noexcept -> std::coroutine_handle<> {
                    return static_cast<TaskAwaiter&>(self).waiting;
                };
            }
            bool await_ready() const noexcept { return false; }
            std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) noexcept {
                waiting = awaiting;
                child.promise().next = this;
                return child;
            }
            T await_resume() { return child.promise().take(); }

            std::coroutine_handle<promise_type> child;
            std::coroutine_handle<> waiting;
        };
        return TaskAwaiter(coroutine_);
    }

    // For when_all(), sync_wait() and adapters: see detail::Startable.
    bool start(detail::Continuation & next) {
        coroutine_.promise().next = &next;
        coroutine_.resume();
        return true;
    }
    T take() {
        return coroutine_.promise().take();
    }

 private:
    friend promise_type;
    explicit Task(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}
    void reset() noexcept {
        if (coroutine_) {
            std::exchange(coroutine_, nullptr).destroy();
        }
    }

    std::coroutine_handle<promise_type> coroutine_;
};

template <typename T>
Task<T> detail::Promise<T>::get_return_object() noexcept {
    return Task<T>(std::coroutine_handle<Promise>::from_promise(*this));
}
inline Task<void> detail::Promise<void>::get_return_object() noexcept {
    return Task<void>(std::coroutine_handle<Promise>::from_promise(*this));
}

namespace detail {

// The last part that ends goes on with whoever waits for all.
class Join {
 public:
    struct Part : Continuation {
        Join* join = nullptr;
    };

    void add(Part& part) noexcept {
        part.join = this;
        part.run = [](Continuation& self) noexcept -> std::coroutine_handle<> {
            Join& join = *static_cast<Part&>(self).join;
            return join.end() ? join.next_->run(*join.next_) : std::noop_coroutine();
        };
    }
    void begin(std::size_t parts, Continuation& next) noexcept {
        next_ = &next;
        left_.store(parts + 1, std::memory_order_relaxed);  // one is that of who starts them
    }
    bool end() noexcept { return left_.fetch_sub(1, std::memory_order_acq_rel) == 1; }

 private:
    std::atomic<std::size_t> left_{0};
    Continuation* next_ = nullptr;
};

template <typename... A>
class [[nodiscard("nothing is started before it is awaited")]] WhenAll {
 public:
    explicit WhenAll(A && ... operations) : operations_(std::move(operations)...) {}
    // Before it is started.
    WhenAll(WhenAll && other) noexcept : operations_(std::move(other.operations_)) {}

    auto operator co_await()&& noexcept {
        return Awaiter<WhenAll>(*this);
    }
    bool start(Continuation & next) {
        join_.begin(sizeof...(A), next);
        start_parts(std::index_sequence_for<A...>{});
        return !join_.end();
    }
    std::tuple<Something<taken<A>>...> take() {
        return std::apply(
            [](A&... a) {
                // In braces: from left to right.
                return std::tuple<Something<taken<A>>...>{take_something(a)...};
            },
            operations_);
    }

 private:
    template <std::size_t... I>
    void start_parts(std::index_sequence<I...>) {
        (join_.add(parts_[I]), ...);
        ((std::get<I>(operations_).start(parts_[I]) ? void() : static_cast<void>(join_.end())),
         ...);
    }

    std::tuple<A...> operations_;
    Join::Part parts_[sizeof...(A)];
    Join join_;
};

template <typename A>
class [[nodiscard("nothing is started before it is awaited")]] WhenAllOf {
 public:
    explicit WhenAllOf(std::vector<A> && operations)
        : operations_(std::move(operations)), parts_(operations_.size()) {}
    WhenAllOf(WhenAllOf && other) noexcept
        : operations_(std::move(other.operations_)), parts_(std::move(other.parts_)) {}

    auto operator co_await()&& noexcept {
        return Awaiter<WhenAllOf>(*this);
    }
    bool start(Continuation & next) {
        join_.begin(operations_.size(), next);
        for (std::size_t i = 0; i < operations_.size(); ++i) {
            join_.add(parts_[i]);
            if (!operations_[i].start(parts_[i])) {
                (void)join_.end();
            }
        }
        return !join_.end();
    }
    std::vector<Something<taken<A>>> take() {
        std::vector<Something<taken<A>>> values;
        values.reserve(operations_.size());
        for (A& a : operations_) {
            values.push_back(take_something(a));
        }
        return values;
    }

 private:
    std::vector<A> operations_;
    std::vector<Join::Part> parts_;
    Join join_;
};

// Wakes a thread that blocks.
struct Wake : Continuation {
    std::atomic<std::uint32_t> done{0};
    EngineCore* engine;
    explicit Wake(EngineCore* e) noexcept : engine(e) {
        wakes_only = true;
        run = [](Continuation& self) noexcept -> std::coroutine_handle<> {
            auto& me = static_cast<Wake&>(self);
            wake(me.engine, me.done);
            return std::noop_coroutine();
        };
    }
};

template <Startable A>
decltype(auto) block_on(EngineCore* engine, A& operation) {
    Wake waker(engine);
    if (operation.start(waker)) {
        wait(engine, waker.done);
    }
    return operation.take();
}

}  // namespace detail

// Starts everything at once (calls, tasks) and waits for all: co_await when_all(a(...), b(...)) is
// a std::tuple of their values, std::monostate for void. Where some fail, the first of them in the
// order of arguments is thrown when all have ended; with `.result()` of the calls each has its own.
template <detail::Startable... A>
requires(sizeof...(A) > 0 &&
         (!std::is_lvalue_reference_v<A> && ...)) auto when_all(A&&... operations) {
    return detail::WhenAll<A...>(std::move(operations)...);
}
// The same for any number of one kind: a std::vector of values, in order.
template <detail::Startable A>
auto when_all(std::vector<A> operations) {
    return detail::WhenAllOf<A>(std::move(operations));
}

// Runs a task (a call) to its end and answers its value, or throws. The thread blocks: what it
// waits for must end on another one, or the engine be given (hg/engine.hpp).
template <detail::Startable A>
decltype(auto) sync_wait(A operation) {
    return detail::block_on(nullptr, operation);
}

}  // namespace hg
