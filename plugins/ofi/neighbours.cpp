// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ofi/neighbours.hpp"

#include <mutex>
#include <unordered_map>

#include "na/util/immortal.hpp"

namespace na::ofi {
namespace {

struct Table {
    std::mutex mutex;
    std::unordered_map<std::string, std::shared_ptr<Neighbour>> open;
};

Table& table() noexcept {
    static util::Immortal<Table> t;  // endpoints may close while the process ends
    return t.get();
}

}  // namespace

std::shared_ptr<Neighbour> open_neighbour(const std::string& name) {
    auto made = std::make_shared<Neighbour>();
    const std::lock_guard guard(table().mutex);
    return table().open.try_emplace(name, made).second ? made : nullptr;
}

std::shared_ptr<Neighbour> find_neighbour(const std::string& name) {
    const std::lock_guard guard(table().mutex);
    const auto it = table().open.find(name);
    return it == table().open.end() ? nullptr : it->second;
}

void close_neighbour(const std::string& name, Neighbour& neighbour) noexcept {
    {
        const std::lock_guard guard(table().mutex);
        const auto it = table().open.find(name);
        if (it != table().open.end() && it->second.get() == &neighbour) {
            table().open.erase(it);
        }
    }
    const std::unique_lock guard(neighbour.mutex);
    neighbour.state = Neighbour::State::closed;
}

}  // namespace na::ofi
