// SPDX-License-Identifier: BSD-3-Clause
// Descriptors run out: libraries beneath the transports lose connections then, or end the process.
// So some are kept back. A newcomer that greets meanwhile is told so, and its calls end with
// `busy`, which nobody takes for a death; a way of our own waits a while, and fails with `nomem`.
#include "na/session/engine.hpp"
#include "na/util/files.hpp"
#include "na/util/log.hpp"

namespace na::session {
namespace {

constexpr std::int64_t kPatience = 1000 * kMs;   // of a way of our own
constexpr std::int64_t kComplaint = 1000 * kMs;  // between two in the log

}  // namespace

Engine::Files Engine::files_for(Link& link, std::size_t count) noexcept {
    if (util::free_descriptors(count) >= count) [[likely]] {
        link.short_since = 0;
        return Files::enough;
    }
    const std::int64_t now = now_ns();
    if (link.short_since == 0) {
        link.short_since = now;
    } else if (now - link.short_since > kPatience) {
        link.short_since = 0;
        NA_LOG_ERROR(
            addr,
            "cannot connect to {}: this process has no descriptor left; raise the limit on "
            "open files (ulimit -n)",
            link.address);
        return Files::none;
    }
    put_off(link);
    return Files::wait;
}

// A peer that has a session goes on with it.
bool Engine::turns_away(Link& link, const Card& card) noexcept {
    if (traits_.reserve == 0 || link.state == Link::State::up ||
        util::free_descriptors(traits_.reserve) >= traits_.reserve) [[likely]] {
        return false;
    }
    ++stats_.no_files;
    complain(now_ns());
    link.welcome_offer = card.number;
    link.due &= static_cast<std::uint16_t>(~Link::kWelcome);
    link.due |= Link::kFull;
    flush(link);
    return true;
}

void Engine::complain(std::int64_t now) noexcept {
    if (now < next_complaint_) {
        return;
    }
    next_complaint_ = now + kComplaint;
    NA_LOG_ERROR(
        poll,
        "{}: no descriptor is left for another peer; newcomers are refused until there are "
        "some, {} so far; raise the limit on open files (ulimit -n)",
        local_.name, stats_.no_files);
}

void Engine::on_full(Link& link) {
    NA_LOG_WARNING(addr,
                   "{} is alive, and has no descriptor left for another peer: raise its limit on "
                   "open files (ulimit -n)",
                   link.address);
    lost(link, Status::busy);
}

}  // namespace na::session
