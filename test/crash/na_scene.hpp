// SPDX-License-Identifier: BSD-3-Clause
// The stage of the NA crash tests: this process survives; a victim that it kills; and, in half of
// the setups, a third process that talks to the survivor all the time and must not notice anything.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crash/na_side.hpp"
#include "crash/residue.hpp"
#include "support/two_process.hpp"

namespace crash {

struct Setup {
    bool busy;     // NA_NO_BLOCK for all processes; else they sleep
    bool company;  // with the third process; without, the survivor has nothing to wake up for but
                   // the death of the victim
    bool attach;   // data may go by cross-memory attach; else it bounces through shared buffers
};
std::string to_string(const Setup& setup);
std::vector<Setup> all_setups();

class NaScene {
 public:
    // In the victim: a side, the survivor's address. When it returns, progress goes on.
    using Victim = std::function<void(NaSide&, support::Link&, na_addr_t* survivor)>;

    NaScene(const Setup& setup, const NaSide::Options& options, Victim victim,
            Inbox::Deliver deliver = {});

    const Setup setup;
    NaSide& side() noexcept { return *side_; }
    Inbox& inbox() noexcept { return *inbox_; }
    support::Link& link() noexcept { return victim_.link(); }
    na_addr_t* victim() noexcept { return address_; }

    // Progress here until the predicate is true, or an exception.
    template <typename Done>
    void until(Done&& done) {
        PARTY_REQUIRE(support::until(done, [this] { side().turn(setup.company ? 10 : 1); }));
    }
    // Progress here until the victim has sent something over the link.
    std::string hear() {
        until([this] { return link().readable(); });
        return link().take_text();
    }

    void stop();  // SIGSTOP
    void kill();  // SIGKILL; it is gone afterwards
    // After kill(): progress here, sleeping as long as it takes, until the predicate is true, which
    // has to be before the victim's death may stay unnoticed no longer.
    template <typename Done>
    void until_noticed(Done&& done, unsigned patience_ms = kPatience) {
        PARTY_REQUIRE(support::until(done, [&] { side().turn(patience_ms); }));
        PARTY_REQUIRE(since_death_->elapsed() < kNotice);
    }

    // The company goes on as before, everything here ends well, nothing is left.
    void finish();

 private:
    static constexpr unsigned kPatience = 5000 * support::kSlow;  // ms; longer than kNotice
    static void keep_company(support::Link& link, bool busy);

    const Environment attach_;
    const Places places_;
    support::Party victim_;
    std::unique_ptr<support::Party> company_;
    const std::size_t descriptors_;
    std::unique_ptr<NaSide> side_;
    std::unique_ptr<Inbox> inbox_;
    na_addr_t* address_ = nullptr;
    std::optional<Stopwatch> since_death_;
};

}  // namespace crash
