// SPDX-License-Identifier: BSD-3-Clause
// Where calls from outside enter a plugin: no exception leaves it.
#pragma once

#include <memory>
#include <new>

#include "na/result.hpp"

namespace na::util {

// What `make` makes; out of memory is an error like others.
template <typename T, typename Make>
Result<std::unique_ptr<T>> guarded(Make&& make) noexcept {
    try {
        return make();
    } catch (const std::bad_alloc&) {
        return Error{Status::nomem, {}};
    }
}

}  // namespace na::util
