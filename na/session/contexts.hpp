// SPDX-License-Identifier: BSD-3-Clause
// Which contexts a class has, as it tells its peers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "na/session/secret.hpp"

namespace na::session {

// Of ids. Travels as bytes of eight ids each, the lowest first, without zeros at the end.
class ContextSet {
 public:
    static constexpr std::size_t kMaxBytes = 32;

    bool has(std::uint8_t id) const noexcept { return (bytes_[id / 8U] >> id % 8U & 1U) != 0; }
    void add(std::uint8_t id) noexcept {
        bytes_[id / 8U] = static_cast<std::uint8_t>(bytes_[id / 8U] | 1U << id % 8U);
    }
    void remove(std::uint8_t id) noexcept {
        bytes_[id / 8U] = static_cast<std::uint8_t>(bytes_[id / 8U] & ~(1U << id % 8U));
    }
    std::span<const std::uint8_t> bytes() const noexcept {
        std::size_t n = bytes_.size();
        while (n != 0 && bytes_[n - 1] == 0) {
            --n;
        }
        return std::span(bytes_).first(n);
    }
    // False: malformed.
    bool read(std::span<const std::byte> in) noexcept {
        bytes_ = {};
        if (in.size() > kMaxBytes || (!in.empty() && in.back() == std::byte{})) {
            return false;
        }
        std::transform(in.begin(), in.end(), bytes_.begin(),
                       [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
        return true;
    }
    bool operator==(const ContextSet&) const = default;

 private:
    std::array<std::uint8_t, kMaxBytes> bytes_{};
};

struct Contexts {
    std::uint64_t life = 0;     // of the class: the next one at its address has another
    std::uint64_t edition = 0;  // of what is told of them, in this life: grows with each change
    ContextSet open;
};

// Ours, for all threads.
class Roster {
 public:
    // The first `promised` have their places, where peers may wait for them, until they close.
    explicit Roster(std::uint8_t promised) noexcept {
        contexts_.life = random_number();
        for (unsigned id = 0; id < promised; ++id) {
            contexts_.open.add(static_cast<std::uint8_t>(id));
        }
    }

    void opens(std::uint8_t id) noexcept {
        const std::lock_guard guard(mutex_);
        if (!contexts_.open.has(id)) {
            contexts_.open.add(id);
            ++contexts_.edition;
        }
    }
    void closes(std::uint8_t id) noexcept {
        const std::lock_guard guard(mutex_);
        if (contexts_.open.has(id)) {
            contexts_.open.remove(id);
            ++contexts_.edition;
        }
    }
    Contexts told() const noexcept {
        const std::lock_guard guard(mutex_);
        return contexts_;
    }

 private:
    mutable std::mutex mutex_;
    Contexts contexts_;  // guarded by mutex_
};

}  // namespace na::session
