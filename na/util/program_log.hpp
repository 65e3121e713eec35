// SPDX-License-Identifier: BSD-3-Clause
// What the log of programs (mercury_log.h) needs of the library's: outlets by name.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "na/util/log.hpp"

namespace na::log {

Level level() noexcept;
bool is_level(std::string_view name, Level level) noexcept;
std::FILE* stream(Level level) noexcept;

Printer printer() noexcept;  // null: fprintf
// As it was given; empty: all.
std::string outlet_list();

// Called after every change of the level or of the list, by whoever changed it, under no lock. One
// for the process.
using Observer = void (*)() noexcept;
void set_observer(Observer observer) noexcept;

// Writes whatever level and list say.
void write_named(std::string_view outlet, Level level, const char* file, int line,
                 const char* function, std::string_view text, bool ends_line = true) noexcept;

}  // namespace na::log
