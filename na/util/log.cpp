// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/log.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <ctime>
#include <mutex>

#include "na/util/config.hpp"
#include "na/util/immortal.hpp"
#include "na/util/program_log.hpp"
#include "na/util/quiet_signal.hpp"

namespace na::log {
namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(Outlet::count_)> kOutlets = {
    "cls",    "ctx", "addr", "op",   "msg",  "mem",  "rma",  "poll",
    "plugin", "sm",  "rpc",  "bulk", "proc", "perf", "diag",
};

struct LevelName {
    std::string_view name;
    std::string_view brief;
    Level level;
};
constexpr std::array kLevels = {
    LevelName{"none", "", Level::none},
    LevelName{"fatal", "ftl", Level::fatal},
    LevelName{"error", "err", Level::error},
    LevelName{"warning", "warn", Level::warning},
    LevelName{"min_debug", "trace", Level::min_debug},
    LevelName{"info", "inf", Level::info},
    LevelName{"debug", "dbg", Level::debug},
};

constexpr std::uint32_t kAll = (1U << kOutlets.size()) - 1;

// Users write HG_LOG_LEVEL=DEBUG as well.
bool same_name(std::string_view a, std::string_view b) noexcept {
    const auto lower = [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [&](char x, char y) { return lower(x) == lower(y); });
}

const LevelName* find_level(std::string_view name) noexcept {
    for (const LevelName& l : kLevels) {
        if (same_name(name, l.name) || (!name.empty() && same_name(name, l.brief))) {
            return &l;
        }
    }
    return nullptr;
}

// Returns false for an unknown outlet; `mask` then holds what came before it.
bool parse_outlets(std::string_view list, std::uint32_t& mask) noexcept {
    bool good = true;
    bool first = true;
    while (!list.empty()) {
        const auto [item, off] = take_outlet(list);
        if (first) {
            mask = off ? kAll : 0;
            first = false;
        }
        std::uint32_t bits = 0;
        if (item == "hg_all" || item == "hg" || item == "na" || item == "all") {
            bits = kAll;
        } else {
            for (std::size_t i = 0; i < kOutlets.size(); ++i) {
                if (item == kOutlets[i]) {
                    bits = 1U << i;
                }
            }
        }
        good = good && bits != 0;
        mask = off ? mask & ~bits : mask | bits;
    }
    return good;
}

struct State {
    std::atomic<Level> level{Level::error};
    std::atomic<std::uint32_t> outlets{kAll};
    std::string list;  // as given, for the outlets of programs; guarded by the mutex
    std::atomic<Printer> printer{nullptr};
    std::atomic<std::FILE*> streams[3] = {nullptr, nullptr, nullptr};  // error, warning, debug
    std::mutex mutex;                                                  // a message is written whole
    std::atomic<Observer> observer{nullptr};

    State() noexcept {
        try {
            if (const LevelName* l = find_level(config::value(config::kLogLevel)); l != nullptr) {
                level = l->level;
            }
        } catch (const std::bad_alloc&) {
            // The default, then.
        }
        std::uint32_t mask = kAll;
        try {
            list = config::value(config::kLogSubsys);
        } catch (const std::bad_alloc&) {
            // As if the variable were not set: logging must not fail.
        }
        if (!list.empty()) {
            parse_outlets(list, mask);
        }
        outlets = mask;
    }
};

State& state() noexcept {
    // Logging works in static destructors of the user's program too.
    static util::Immortal<State> s;
    return s.get();
}

std::string& kept() noexcept {
    thread_local std::string text;
    return text;
}

void changed() noexcept {
    if (const Observer observer = state().observer.load(std::memory_order_acquire);
        observer != nullptr) {
        observer();
    }
}

std::size_t stream_index(Level level) noexcept {
    return level <= Level::error ? 0 : level == Level::warning ? 1 : 2;
}

}  // namespace

bool enabled(Outlet outlet, Level level) noexcept {
    const State& s = state();
    return level <= s.level.load(std::memory_order_relaxed) &&
           (s.outlets.load(std::memory_order_relaxed) >> static_cast<unsigned>(outlet) & 1U) != 0;
}

void write(Outlet outlet, Level level, const char* file, int line, const char* function,
           std::string_view text) noexcept {
    if (level <= Level::error) {
        set_last_error(text);
    }
    if (!enabled(outlet, level)) {
        return;
    }
    write_named(kOutlets[static_cast<std::size_t>(outlet)], level, file, line, function, text);
}

void lost(Outlet outlet, Level level, const char* file, int line, const char* function) noexcept {
    write(outlet, level, file, line, function, "(out of memory while formatting a message)");
}

void write_named(std::string_view outlet, Level level, const char* file, int line,
                 const char* function, std::string_view text, bool ends_line) noexcept {
    State& s = state();
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    std::string_view path(file);
    if (const std::size_t slash = path.rfind('/'); slash != std::string_view::npos) {
        path.remove_prefix(slash + 1);
    }
    try {
        const std::string message = fmt::format(
            "# [{}.{:06}] cinnabar->{} [{}] {}:{} {}() {}{}", now.tv_sec, now.tv_nsec / 1000,
            outlet, level_name(level), path, line, function, text, ends_line ? "\n" : "");
        std::FILE* stream = log::stream(level);
        const Printer printer = s.printer.load(std::memory_order_relaxed);
        if (printer != nullptr) {  // under no lock: it may change the log's settings
            printer(stream, "%s", message.c_str());
        } else {
            const std::lock_guard guard(s.mutex);
            const util::QuietSignal broken(SIGPIPE);  // a line is not worth the process
            const util::QuietSignal full(SIGXFSZ);
            std::fwrite(message.data(), 1, message.size(), stream);
            std::fflush(stream);
        }
    } catch (...) {  // out of memory: a log line is what can be spared
        std::fputs("# cinnabar: out of memory while logging\n", stderr);
    }
}

bool set_level(std::string_view name) noexcept {
    const LevelName* l = find_level(name);
    if (l == nullptr) {
        return false;
    }
    state().level.store(l->level, std::memory_order_relaxed);
    changed();
    return true;
}

bool set_outlets(std::string_view list) noexcept {
    State& s = state();
    try {
        const std::lock_guard guard(s.mutex);
        s.list.assign(list);
    } catch (...) {
        return false;
    }
    std::uint32_t mask = kAll;
    const bool good = parse_outlets(list, mask);
    if (mask != 0 || good) {
        s.outlets.store(mask, std::memory_order_relaxed);
    }
    changed();
    return good;
}

Level level() noexcept {
    return state().level.load(std::memory_order_relaxed);
}

bool is_level(std::string_view name, Level level) noexcept {
    const LevelName* l = find_level(name);
    return l != nullptr && l->level == level;
}

std::FILE* stream(Level level) noexcept {
    std::FILE* set = state().streams[stream_index(level)].load(std::memory_order_relaxed);
    return set != nullptr ? set : stderr;
}

std::string outlet_list() {
    State& s = state();
    const std::lock_guard guard(s.mutex);
    return s.list;
}

void set_observer(Observer observer) noexcept {
    state().observer.store(observer, std::memory_order_release);
}

Printer printer() noexcept {
    return state().printer.load(std::memory_order_relaxed);
}

void set_printer(Printer printer) noexcept {
    state().printer.store(printer, std::memory_order_relaxed);
}

bool set_stream(std::string_view level, std::FILE* stream) noexcept {
    const LevelName* l = find_level(level);
    if (l == nullptr || l->level == Level::none) {
        return false;
    }
    state().streams[stream_index(l->level)].store(stream, std::memory_order_relaxed);
    return true;
}

std::string_view level_name(Level level) noexcept {
    return kLevels[static_cast<std::size_t>(level)].name;
}

const std::string& last_error() noexcept {
    return kept();
}

void set_last_error(std::string_view text) noexcept {
    try {
        kept().assign(text);
    } catch (...) {
        kept().clear();
    }
}

}  // namespace na::log
