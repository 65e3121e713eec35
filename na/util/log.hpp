// SPDX-License-Identifier: BSD-3-Clause
// Run-time log: one line per message, by outlet and level, formatted with fmt, written whole.
//
// Any thread. Level and outlets come from the environment (HG_LOG_LEVEL, HG_LOG_SUBSYS) on first
// use and can be changed at run time. The text of an error is kept per thread as well: C functions
// that answer NULL leave their cause there.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace na::log {

enum class Level : std::uint8_t { none, fatal, error, warning, min_debug, info, debug };

// Names are those that users of HG_LOG_SUBSYS know.
enum class Outlet : std::uint8_t {
    cls,
    ctx,
    addr,
    op,
    msg,
    mem,
    rma,
    poll,
    plugin,
    sm,
    rpc,
    bulk,
    proc,
    perf,
    diag,
    count_,
};

bool enabled(Outlet outlet, Level level) noexcept;
// Writes where enabled; errors are remembered for last_error() in any case.
void write(Outlet outlet, Level level, const char* file, int line, const char* function,
           std::string_view text) noexcept;

// "error", "err", "warn", ..., in capitals too; unknown names are ignored and answered with false.
bool set_level(std::string_view name) noexcept;
// Comma-separated outlets, "~name" switches one off, "hg_all" all of them on.
bool set_outlets(std::string_view list) noexcept;
using Printer = int (*)(std::FILE* stream, const char* format, ...);
void set_printer(Printer printer) noexcept;                           // null: fprintf
bool set_stream(std::string_view level, std::FILE* stream) noexcept;  // null: the default one
std::string_view level_name(Level level) noexcept;

// In place of a message whose text could not be made.
[[gnu::cold]] void lost(Outlet outlet, Level level, const char* file, int line,
                        const char* function) noexcept;

// As write(), formatted; out of memory costs the message, never more.
template <typename... Args>
void format(Outlet outlet, Level level, const char* file, int line, const char* function,
            fmt::format_string<Args...> text, Args&&... args) noexcept {
    try {
        write(outlet, level, file, line, function, fmt::format(text, std::forward<Args>(args)...));
    } catch (...) {
        lost(outlet, level, file, line, function);
    }
}

// Text of the last error that was logged on this thread; empty if none. Valid until the next one.
const std::string& last_error() noexcept;
void set_last_error(std::string_view text) noexcept;

}  // namespace na::log

// The arguments are evaluated only where the message goes somewhere. An argument that throws, for
// want of memory, costs the message: destructors and noexcept functions log too.
#define NA_LOG_AT(outlet, level, ...)                                                            \
    do {                                                                                         \
        if ((level) <= ::na::log::Level::error || ::na::log::enabled((outlet), (level))) {       \
            try {                                                                                \
                ::na::log::format((outlet), (level), __FILE__, __LINE__, __func__, __VA_ARGS__); \
            } catch (...) {                                                                      \
                ::na::log::lost((outlet), (level), __FILE__, __LINE__, __func__);                \
            }                                                                                    \
        }                                                                                        \
    } while (0)
#define NA_LOG_ERROR(outlet, ...) \
    NA_LOG_AT(::na::log::Outlet::outlet, ::na::log::Level::error, __VA_ARGS__)
#define NA_LOG_WARNING(outlet, ...) \
    NA_LOG_AT(::na::log::Outlet::outlet, ::na::log::Level::warning, __VA_ARGS__)
#define NA_LOG_INFO(outlet, ...) \
    NA_LOG_AT(::na::log::Outlet::outlet, ::na::log::Level::info, __VA_ARGS__)
#define NA_LOG_DEBUG(outlet, ...) \
    NA_LOG_AT(::na::log::Outlet::outlet, ::na::log::Level::debug, __VA_ARGS__)
