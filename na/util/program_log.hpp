// SPDX-License-Identifier: BSD-3-Clause
// What the log of programs (mercury_log.h) needs of the library's: outlets by name.
#pragma once

#include <cstdio>
#include <span>
#include <string_view>

#include "na/util/log.hpp"

namespace na::log {

Level level() noexcept;
bool is_level(std::string_view name, Level level) noexcept;
std::FILE* stream(Level level) noexcept;

// Whether the list of outlets lets one of that name, or else one that it descends from, write.
bool listed(std::span<const std::string_view> names) noexcept;

// Writes whatever level and list say.
void write_named(std::string_view outlet, Level level, const char* file, int line,
                 const char* function, std::string_view text) noexcept;

}  // namespace na::log
