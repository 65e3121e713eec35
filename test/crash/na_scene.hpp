// SPDX-License-Identifier: BSD-3-Clause
// A Scene whose processes use NA.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "crash/na_side.hpp"
#include "crash/scene.hpp"

namespace crash {

class NaScene final : public Scene {
 public:
    // In the victim: a side, the survivor's address. When it returns, progress goes on.
    using Victim = std::function<void(NaSide&, support::Link&, na_addr_t* survivor)>;

    NaScene(const Setup& setup, const NaSide::Options& options, Victim victim,
            Inbox::Deliver deliver = {});

    NaSide& side() noexcept { return *side_; }
    na_addr_t* victim() noexcept { return address_; }
    void turn(unsigned timeout_ms = 0) override { side_->turn(timeout_ms); }

 private:
    std::uint64_t traffic() const override { return inbox_->pings(); }
    void close() override;

    std::unique_ptr<NaSide> side_;
    std::unique_ptr<Inbox> inbox_;
    na_addr_t* address_ = nullptr;
};

}  // namespace crash
