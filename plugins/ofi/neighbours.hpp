// SPDX-License-Identifier: BSD-3-Clause
// Endpoints of this process that are known by name (Naming::text).
//
// The provider of shared memory reaches an endpoint of its own process through a plain pointer,
// without noticing that it was closed. So whoever is about to post to one holds it open meanwhile,
// and learns that it is gone.
#pragma once

#include <memory>
#include <shared_mutex>
#include <string>

namespace na::ofi {

struct Neighbour {
    enum class State {
        opening,
        open,
        hidden,  // the provider would take something else for it: see spots.hpp
        closed,
    };
    std::shared_mutex mutex;  // shared: it is posted to, or sought; exclusive: it opens, or closes
    State state = State::opening;  // guarded by the mutex
};

// Keeps it as it is for a moment. Null: nothing to keep.
class HoldOpen {
 public:
    explicit HoldOpen(Neighbour* neighbour) noexcept : neighbour_(neighbour) {
        if (neighbour_ != nullptr) [[unlikely]] {
            neighbour_->mutex.lock_shared();
        }
    }
    HoldOpen(const HoldOpen&) = delete;
    HoldOpen& operator=(const HoldOpen&) = delete;
    ~HoldOpen() {
        if (neighbour_ != nullptr) [[unlikely]] {
            neighbour_->mutex.unlock_shared();
        }
    }
    bool closed() const noexcept { return is(Neighbour::State::closed); }
    bool is(Neighbour::State state) const noexcept {
        return neighbour_ != nullptr && neighbour_->state == state;
    }

 private:
    Neighbour* const neighbour_;
};

// The endpoint opens: others may find it. Its owner closes it with close_neighbour(). Null: there
// is one of that name.
std::shared_ptr<Neighbour> open_neighbour(const std::string& name);
// Null: no such endpoint in this process.
std::shared_ptr<Neighbour> find_neighbour(const std::string& name);
// Before the provider's endpoint is closed; waits for posts under way.
void close_neighbour(const std::string& name, Neighbour& neighbour) noexcept;

}  // namespace na::ofi
