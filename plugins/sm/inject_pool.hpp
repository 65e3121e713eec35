// SPDX-License-Identifier: BSD-3-Clause
// The buffers of one direction, as their producer keeps them.
//
// Which buffers are free is known to the producer alone: a buffer returns when the consumer has
// given back the line that named it. The consumer only sees numbers and lengths, which it checks.
#pragma once

#include <array>

#include "plugins/sm/ring.hpp"

namespace na::sm {

class InjectPool {
 public:
    void attach(std::byte* base, const Geometry& geometry) noexcept {
        base_ = base;
        buffer_bytes_ = geometry.buffer_bytes;
        count_ = geometry.buffer_count;
        for (std::uint32_t i = 0; i < count_; ++i) {
            free_[i] = static_cast<std::uint8_t>(count_ - 1 - i);
        }
        free_count_ = count_;
    }

    // Whether take() will give a buffer.
    bool available(Producer& ring) noexcept {
        return free_count_ != 0 || reclaim(ring) || (ring.refresh() && reclaim(ring));
    }
    // The one given back last is taken first: it is still in the caches. available() said yes.
    std::uint32_t take() noexcept { return free_[--free_count_]; }
    // The line that names `buffer` has been written: it ends at `position`.
    void sent(std::uint32_t buffer, std::uint32_t position) noexcept {
        in_flight_[(first_ + flying_++) % Geometry::kMaxCount] = {
            position, static_cast<std::uint8_t>(buffer)};
    }
    std::byte* at(std::uint32_t buffer) const noexcept {
        return base_ + std::size_t{buffer} * buffer_bytes_;
    }

 private:
    struct Flight {
        std::uint32_t position;
        std::uint8_t buffer;
    };

    bool reclaim(const Producer& ring) noexcept {
        const std::uint32_t before = free_count_;
        while (flying_ != 0 && ring.passed(in_flight_[first_].position)) {
            free_[free_count_++] = in_flight_[first_].buffer;
            first_ = (first_ + 1) % Geometry::kMaxCount;
            --flying_;
        }
        return free_count_ != before;
    }

    std::byte* base_ = nullptr;
    std::uint32_t buffer_bytes_ = 0;
    std::uint32_t count_ = 0;
    std::uint32_t free_count_ = 0;
    std::uint32_t first_ = 0;  // oldest in flight
    std::uint32_t flying_ = 0;
    std::array<std::uint8_t, Geometry::kMaxCount> free_{};
    std::array<Flight, Geometry::kMaxCount> in_flight_{};
};

}  // namespace na::sm
