// SPDX-License-Identifier: BSD-3-Clause
// Contexts of programs that look at no ids: each has one of its own nevertheless, as answers are
// addressed by it.
#pragma once

#include "na/core/class.hpp"

namespace na::inline impl {

// What `open(id)` answers for `id`; where that is 0 and there is a context 0 already, for an id
// that is nobody's, here or (ports are) outside of this process.
template <typename Open>
auto open_with_id(const Class& cls, std::uint8_t id, Open&& open) -> decltype(open(id)) {
    auto opened = open(id);
    if (id != 0 || opened || opened.status() != Status::exist) {
        return opened;
    }
    for (unsigned limit = cls.contexts();;) {
        const auto vacant = cls.vacant_context(limit);
        if (!vacant) {
            return opened.status() == Status::exist ? vacant.error() : opened.error();
        }
        limit = *vacant;
        opened = open(*vacant);
        if (opened || (opened.status() != Status::exist && opened.status() != Status::addrinuse)) {
            return opened;
        }
    }
}

}  // namespace na::inline impl
