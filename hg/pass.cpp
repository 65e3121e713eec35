// SPDX-License-Identifier: BSD-3-Clause
#include "hg/pass.hpp"

#include <algorithm>
#include <utility>

#include "hg/context.hpp"

namespace hg {
namespace {

using namespace std::chrono_literals;

// A system call takes a microsecond or two, a message through the kernel ten: who has waited longer
// than a few of them has lost more than is gained.
constexpr auto kPatience = 20us;
constexpr auto kLate = 100us;

[[gnu::tls_model("initial-exec")]] thread_local Pass* current = nullptr;

}  // namespace

void Patience::timely() noexcept {
    const std::uint32_t n = in_time_.load(std::memory_order_relaxed) + 1;
    if (n < kTrust) {
        in_time_.store(n, std::memory_order_relaxed);
        return;
    }
    in_time_.store(0, std::memory_order_relaxed);
    next_pause_.store(std::max(next_pause_.load(std::memory_order_relaxed) / 2, kLeastPause),
                      std::memory_order_relaxed);
}

void Patience::late() noexcept {
    const std::uint32_t pause = next_pause_.load(std::memory_order_relaxed);
    in_time_.store(0, std::memory_order_relaxed);
    paused_.store(pause, std::memory_order_relaxed);
    next_pause_.store(std::min(pause * 2, kLongestPause), std::memory_order_relaxed);
}

Pass::Pass(Context& context) noexcept : context_(context), outer_(std::exchange(current, this)) {}

Pass::~Pass() {
    current = outer_;
    if (waiting_) {
        flush(context_.patient() ? since_ : Clock::now());
    }
}

bool Pass::goes_on(Context& context) noexcept {
    Pass* pass = current;
    if (pass == nullptr || &pass->context_ != &context || pass->left_ == 0 ||
        context.callbacks_due() == 0) {
        return false;
    }
    if (!pass->asked_) {
        pass->asked_ = true;
        pass->gathers_ = context.patient() || context.patience().any();
    }
    if (pass->gathers_ && !pass->waiting_) {
        pass->waiting_ = true;
        if (!context.patient()) {
            pass->since_ = Clock::now();
        }
    }
    return pass->gathers_;
}

void Pass::look() noexcept {
    if (context_.patient()) {
        return;
    }
    const auto now = Clock::now();
    if (now - since_ > kPatience) {
        flush(now);
    }
}

void Pass::flush(Clock::time_point now) noexcept {
    waiting_ = false;
    if (now - since_ > kLate) {
        context_.patience().late();
    } else {
        context_.patience().timely();
    }
    context_.flush();
}

}  // namespace hg
