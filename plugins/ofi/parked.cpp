// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ofi/parked.hpp"

#include <algorithm>
#include <list>
#include <mutex>
#include <utility>

#include "na/util/immortal.hpp"

namespace na::ofi {
namespace {

struct Parked {
    std::shared_ptr<void> base;
    std::unique_ptr<Endpoint> endpoint;  // closed first
    std::vector<std::shared_ptr<Neighbour>> until;
    bool owed;

    bool awaited() const {
        return std::any_of(until.begin(), until.end(), [](const std::shared_ptr<Neighbour>& n) {
            return !HoldOpen(n.get()).closed();
        });
    }
};

struct Table {
    std::mutex mutex;
    std::list<Parked> parked;
};

Table& table() noexcept {
    static util::Immortal<Table> t;  // endpoints may close while the process ends
    return t.get();
}

template <typename Which>
void close_those(Which&& which) noexcept {
    std::list<Parked> closing;
    {
        Table& t = table();
        const std::lock_guard guard(t.mutex);
        for (auto it = t.parked.begin(); it != t.parked.end();) {
            const auto next = std::next(it);
            if (which(*it)) {
                closing.splice(closing.end(), t.parked, it);
            }
            it = next;
        }
    }
}

}  // namespace

void park(std::unique_ptr<Endpoint> endpoint, std::shared_ptr<void> base,
          std::vector<std::shared_ptr<Neighbour>> until, bool owed) noexcept {
    endpoint->give_up_name();
    try {
        std::list<Parked> one;
        one.push_back({std::move(base), std::move(endpoint), std::move(until), owed});
        Table& t = table();
        const std::lock_guard guard(t.mutex);
        t.parked.splice(t.parked.end(), one);
    } catch (const std::bad_alloc&) {
        // It closes now.
    }
}

void close_parked() noexcept {
    close_those([](const Parked& p) { return !p.awaited(); });
}

bool close_parked(const std::string& name) noexcept {
    bool stays = false;
    close_those([&](const Parked& p) {
        const bool meant = p.endpoint->known_as() == name;
        const bool keep = meant && p.owed && p.awaited();
        stays = stays || keep;
        return meant && !keep;
    });
    return !stays;
}

}  // namespace na::ofi
