// SPDX-License-Identifier: BSD-3-Clause
// The log for programs: their lines go where those of the library go.
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <new>
#include <string>
#include <string_view>

#include "mercury_log.h"
#include "na/util/program_log.hpp"

namespace nalog = na::log;

static_assert(static_cast<int>(nalog::Level::fatal) == HG_LOG_LEVEL_FATAL &&
              static_cast<int>(nalog::Level::debug) == HG_LOG_LEVEL_DEBUG);

namespace {

// Outlets of constructors that run before anything here is initialised: constants, all.
constinit std::mutex registry_lock;
STAILQ_HEAD(Outlets, hg_log_outlet);
constinit Outlets registry{};

bool known(hg_log_level level) noexcept {
    return level > HG_LOG_LEVEL_NONE && level < HG_LOG_LEVEL_MAX;
}

enum class Listed { no, yes, off };

Listed look_up(std::string_view list, std::string_view name) noexcept {
    while (!list.empty()) {
        const auto [item, off] = nalog::take_outlet(list);
        if (item == name) {
            return off ? Listed::off : Listed::yes;
        }
    }
    return Listed::no;
}

// Without a list, and with one that only switches off, all the others are on.
bool writes(const hg_log_outlet& outlet, std::string_view list) noexcept {
    for (const hg_log_outlet* o = &outlet; o != nullptr; o = o->parent) {
        switch (look_up(list, o->name)) {
            case Listed::yes:
                return true;
            case Listed::off:
                return o->state == HG_LOG_ON;
            case Listed::no:
                break;
        }
        if (o->state != HG_LOG_PASS) {
            return o->state == HG_LOG_ON;
        }
    }
    return list.empty() || list.starts_with('~');
}

void store_level(hg_log_outlet& outlet, hg_log_level level) noexcept {
    __atomic_store(&outlet.level, &level, __ATOMIC_RELAXED);
}

hg_log_level level_of(const hg_log_outlet& outlet) noexcept {
    hg_log_level level = HG_LOG_LEVEL_NONE;
    __atomic_load(&outlet.level, &level, __ATOMIC_RELAXED);
    return level;
}

// With the lock.
void update(hg_log_outlet& outlet, std::string_view list) noexcept {
    store_level(outlet, writes(outlet, list) ? static_cast<hg_log_level>(nalog::level())
                                             : HG_LOG_LEVEL_NONE);
}

void update_all() noexcept {
    try {
        const std::lock_guard guard(registry_lock);
        const std::string list = nalog::outlet_list();
        update(hg_all_log_outlet_g, list);
        hg_log_outlet* outlet = nullptr;
        STAILQ_FOREACH(outlet, &registry, entry) {
            update(*outlet, list);
        }
    } catch (const std::bad_alloc&) {
        // They stay as they are.
    }
}

// An outlet is about to be used, or its level asked for: from here on levels follow changes.
void observe() noexcept {
    nalog::set_observer(&update_all);
}

// The root needs nobody to register it.
[[gnu::constructor]] void start() {
    observe();
    update_all();
}

// This library may be unloaded before the one that calls it.
[[gnu::destructor]] void stop() {
    nalog::set_observer(nullptr);
}

void print_counters(hg_log_outlet& outlet) {
    const hg_log_level level = level_of(outlet);
    if (outlet.debug_log != nullptr && level >= HG_LOG_LEVEL_MIN_DEBUG) {
        hg_dlog_dump_counters(outlet.debug_log, hg_log_get_func(),
                              nalog::stream(static_cast<nalog::Level>(level)), 0);
    }
}

}  // namespace

extern "C" {

HG_LOG_OUTLET_DECL(hg_all) = HG_LOG_OUTLET_INITIALIZER(hg_all, HG_LOG_PASS, nullptr, nullptr);

void hg_log_set_level(enum hg_log_level log_level) {
    if (log_level < HG_LOG_LEVEL_MAX) {
        (void)nalog::set_level(nalog::level_name(static_cast<nalog::Level>(log_level)));
    }
}

enum hg_log_level hg_log_get_level(void) {
    return static_cast<enum hg_log_level>(nalog::level());
}

enum hg_log_level hg_log_name_to_level(const char* log_level) {
    for (int l = HG_LOG_LEVEL_FATAL; log_level != nullptr && l < HG_LOG_LEVEL_MAX; ++l) {
        if (nalog::is_level(log_level, static_cast<nalog::Level>(l))) {
            return static_cast<enum hg_log_level>(l);
        }
    }
    return HG_LOG_LEVEL_NONE;
}

const char* hg_log_level_to_string(enum hg_log_level level) {
    return known(level) ? nalog::level_name(static_cast<nalog::Level>(level)).data() : "";
}

void hg_log_set_subsys(const char* log_subsys) {
    if (log_subsys != nullptr) {
        (void)nalog::set_outlets(log_subsys);
    }
}

const char* hg_log_get_subsys(void) {
    thread_local std::string list;
    try {
        list = nalog::outlet_list();
        return list.empty() ? "hg_all" : list.c_str();
    } catch (const std::bad_alloc&) {
        return "";
    }
}

void hg_log_set_subsys_level(const char* subsys, enum hg_log_level log_level) {
    if (subsys == nullptr) {
        return;
    }
    try {
        std::string list = nalog::outlet_list();
        if (!list.empty() && look_up(list, subsys) != Listed::yes) {
            (void)nalog::set_outlets(list + "," + subsys);
        }
    } catch (const std::bad_alloc&) {
        return;
    }
    hg_log_set_level(log_level);
}

void hg_log_set_func(hg_log_func_t log_func) {
    nalog::set_printer(log_func);
}

hg_log_func_t hg_log_get_func(void) {
    const nalog::Printer set = nalog::printer();
    return set != nullptr ? set : std::fprintf;
}

void hg_log_set_stream_error(FILE* stream) {
    (void)nalog::set_stream("error", stream);
}

void hg_log_set_stream_warning(FILE* stream) {
    (void)nalog::set_stream("warning", stream);
}

void hg_log_set_stream_debug(FILE* stream) {
    (void)nalog::set_stream("debug", stream);
}

FILE* hg_log_get_stream_error(void) {
    return nalog::stream(nalog::Level::error);
}

FILE* hg_log_get_stream_warning(void) {
    return nalog::stream(nalog::Level::warning);
}

FILE* hg_log_get_stream_debug(void) {
    return nalog::stream(nalog::Level::debug);
}

void hg_log_outlet_register(struct hg_log_outlet* outlet) {
    if (outlet == nullptr || outlet->registered) {
        return;
    }
    observe();  // a program's constructor may come before ours, where both are in one file
    const std::lock_guard guard(registry_lock);
    std::string
        list;  // under the lock: a change after it was read finds the outlet in the registry
    try {
        list = nalog::outlet_list();
    } catch (const std::bad_alloc&) {
        return;
    }
    if (registry.stqh_last == nullptr) {
        STAILQ_INIT(&registry);
    }
    if (outlet->debug_log == nullptr && outlet->parent != nullptr) {
        outlet->debug_log = outlet->parent->debug_log;
    }
    STAILQ_INSERT_TAIL(&registry, outlet, entry);
    outlet->registered = true;
    update(*outlet, list);
}

void hg_log_outlet_deregister(struct hg_log_outlet* outlet) {
    if (outlet == nullptr) {
        return;
    }
    {
        const std::lock_guard guard(registry_lock);
        if (!outlet->registered) {
            return;
        }
        STAILQ_REMOVE(&registry, outlet, hg_log_outlet, entry);
        outlet->registered = false;
    }
    const bool own = outlet->debug_log != nullptr &&
                     (outlet->parent == nullptr || outlet->parent->debug_log != outlet->debug_log);
    if (own) {
        print_counters(*outlet);
        hg_dlog_free(outlet->debug_log);
        outlet->debug_log = nullptr;
    }
    store_level(*outlet, HG_LOG_LEVEL_NONE);
}

void hg_log_dump_counters(struct hg_log_outlet* outlet) {
    if (outlet != nullptr) {
        print_counters(*outlet);
    }
}

void hg_log_write(struct hg_log_outlet* outlet, enum hg_log_level log_level, const char* module,
                  const char* file, unsigned int line, const char* func, bool no_return,
                  const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    hg_log_vwrite(outlet, log_level, module, file, line, func, no_return, format, arguments);
    va_end(arguments);
}

void hg_log_vwrite(struct hg_log_outlet* outlet, enum hg_log_level log_level, const char* module,
                   const char* file, unsigned int line, const char* func, bool no_return,
                   const char* format, va_list ap) {
    if (outlet == nullptr || !known(log_level)) {
        return;
    }
    char text[1024];
    va_list again;
    va_copy(again, ap);
    const int size = std::vsnprintf(text, sizeof text, format, ap);
    std::string_view whole(text, 0);
    std::string large;
    if (size >= 0) {
        whole = text;
    }
    if (size >= static_cast<int>(sizeof text)) {
        try {
            large.resize(static_cast<std::size_t>(size));
            (void)std::vsnprintf(large.data(), large.size() + 1, format, again);
            whole = large;
        } catch (const std::bad_alloc&) {
            // Its beginning, then.
        }
    }
    va_end(again);
    nalog::write_named(module != nullptr ? module : outlet->name,
                       static_cast<nalog::Level>(log_level), file, static_cast<int>(line), func,
                       whole, !no_return);
    // What led there.
    if (log_level == HG_LOG_LEVEL_ERROR && outlet->debug_log != nullptr &&
        level_of(*outlet) >= HG_LOG_LEVEL_MIN_DEBUG) {
        hg_dlog_dump(outlet->debug_log, hg_log_get_func(), nalog::stream(nalog::Level::error), 0);
        hg_dlog_resetlog(outlet->debug_log);
    }
}

}  // extern "C"
