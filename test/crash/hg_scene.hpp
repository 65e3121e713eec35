// SPDX-License-Identifier: BSD-3-Clause
// A Scene whose processes use RPC. Each of them is a target as well.
#pragma once

#include <functional>
#include <memory>

#include "crash/hg_side.hpp"
#include "crash/scene.hpp"

namespace crash {

class HgScene final : public Scene {
 public:
    // In the victim: a side, the survivor's address. When it returns, progress goes on.
    using Victim = std::function<void(HgSide&, support::Link&, hg_addr_t survivor)>;

    explicit HgScene(
        const Setup& setup, Victim victim = [](HgSide&, support::Link&, hg_addr_t) {});

    HgSide& side() noexcept { return *side_; }
    hg_addr_t victim() noexcept { return address_; }
    void turn(unsigned timeout_ms = 0) override { side_->turn(timeout_ms); }

 private:
    // Echoes are the company's, unless the victim calls for them too.
    std::uint64_t traffic() const override { return side_->requests(Kind::echo); }
    void close() override { side_->close(); }

    std::unique_ptr<HgSide> side_;
    hg_addr_t address_ = HG_ADDR_NULL;
};

// `window` calls of one kind, repeated for ever by their own callbacks as long as they succeed and
// `*going` is true. Counts successes.
Calls keep_calling(HgSide& side, hg_addr_t to, Kind kind, std::uint64_t window, const bool* going,
                   std::uint64_t* done);

}  // namespace crash
