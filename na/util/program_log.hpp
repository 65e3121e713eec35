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

// An item of such a list: "name", or "~name".
struct ListedOutlet {
    std::string_view name;
    bool off;
};
// Takes the first item off a list that is not empty.
inline ListedOutlet take_outlet(std::string_view& list) noexcept {
    const std::size_t comma = list.find(',');
    std::string_view item = list.substr(0, comma);
    list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
    const bool off = item.starts_with('~');
    if (off) {
        item.remove_prefix(1);
    }
    return {item, off};
}

// Called after every change of the level or of the list, by whoever changed it, under no lock. One
// for the process.
using Observer = void (*)() noexcept;
void set_observer(Observer observer) noexcept;

// Writes whatever level and list say.
void write_named(std::string_view outlet, Level level, const char* file, int line,
                 const char* function, std::string_view text, bool ends_line = true) noexcept;

}  // namespace na::log
