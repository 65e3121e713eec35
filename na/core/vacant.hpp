// SPDX-License-Identifier: BSD-3-Clause
// Contexts of programs that look at no ids: each has one of its own nevertheless, as answers are
// addressed by it.
#pragma once

#include <algorithm>

#include <fmt/format.h>

#include "na/core/class.hpp"

namespace na::inline impl {

// What `open(id)` answers for `id`; where that is 0 and there is a context 0 already, for an id
// that is nobody's, here or (ports are) outside of this process.
//
// Those that were asked for (max_contexts) come first; and of these and of the others the highest,
// as programs that name ids use the lowest.
template <typename Open>
auto open_with_id(const Class& cls, std::uint8_t id, Open&& open) -> decltype(open(id)) {
    auto opened = open(id);
    if (id != 0 || opened || opened.status() != Status::exist) {
        return opened;
    }
    const unsigned promised = std::max<unsigned>(cls.info().max_contexts, 1);
    for (unsigned n = 0; n < cls.contexts(); ++n) {
        const unsigned next = n < promised ? promised - 1 - n : cls.contexts() - 1 - (n - promised);
        const auto any = static_cast<std::uint8_t>(next);
        if (cls.has_context(any)) {
            continue;
        }
        opened = open(any);
        if (opened || (opened.status() != Status::exist && opened.status() != Status::addrinuse)) {
            return opened;
        }
    }
    if (opened.status() == Status::exist) {
        return Error{Status::exist,
                     fmt::format("all {} contexts of the class exist: max_contexts of na_init_info "
                                 "says how many there may be",
                                 cls.contexts())};
    }
    return opened;
}

}  // namespace na::inline impl
