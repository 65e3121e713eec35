// SPDX-License-Identifier: BSD-3-Clause
// The stage of a crash test: this process survives; a victim that it kills; and, in half of the
// setups, a third process that talks to the survivor all the time and must not notice anything.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crash/residue.hpp"
#include "crash/waiting.hpp"
#include "support/two_process.hpp"

namespace crash {

struct Setup {
    Waiting waiting;
    bool company;  // with the third process; without, the survivor has nothing to wake up for but
                   // the death of the victim
    bool attach;   // data may go by cross-memory attach; else it bounces through shared buffers
};
std::string to_string(const Setup& setup);
std::vector<Setup> all_setups();
// For cases with many variants: half of them, in which each pair of properties is there in every
// combination; the other half with the next number.
std::vector<Setup> half_of_setups(std::uint64_t which);

class Scene {
 public:
    virtual ~Scene() = default;
    Scene(const Scene&) = delete;
    Scene& operator=(const Scene&) = delete;

    const Setup setup;
    support::Link& link() noexcept { return victim_.link(); }

    // A round of progress in the survivor, which may sleep so long if its mode lets it.
    virtual void turn(unsigned timeout_ms = 0) = 0;

    // Progress here until the predicate is true, or an exception.
    template <typename Done>
    void until(Done&& done) {
        PARTY_REQUIRE(support::until(done, [this] { turn(setup.company ? 10 : 1); }));
    }
    // Progress here until the victim has sent something over the link.
    std::string hear() {
        until([this] { return link().readable(); });
        return link().take_text();
    }

    void stop();    // SIGSTOP
    void resume();  // SIGCONT
    void kill();    // SIGKILL; it is gone afterwards
    // After kill(): progress here, sleeping as long as it takes, until the predicate is true, which
    // has to be before the victim's death may stay unnoticed no longer.
    template <typename Done>
    void until_noticed(Done&& done, unsigned patience_ms = kPatience) {
        PARTY_REQUIRE(support::until(done, [&] { turn(patience_ms); }));
        PARTY_REQUIRE(since_death_->elapsed() < kNotice);
    }

    // The company goes on as before.
    void go_on(std::uint64_t rounds);
    // That, and everything here ends well, nothing is left.
    void finish();

 protected:
    // Both run in processes of their own. Their first message over the link is the address of the
    // survivor; the company sends "talking" when it does, and ends when it gets a message.
    Scene(const Setup& setup, support::Party::Body victim, support::Party::Body company);
    // When the survivor is open.
    void introduce(const std::string& uri);

    // What the company has got from the survivor so far.
    virtual std::uint64_t traffic() const = 0;
    // Closes the survivor; everything must succeed.
    virtual void close() = 0;

 private:
    static constexpr unsigned kPatience = 5000 * support::kSlow;  // ms; longer than kNotice

    const Environment attach_;
    const Places places_;
    support::Party victim_;
    std::unique_ptr<support::Party> company_;
    const std::size_t descriptors_;
    const std::string descriptor_list_;
    std::optional<Stopwatch> since_death_;
};

}  // namespace crash
