// SPDX-License-Identifier: BSD-3-Clause
// The log for programs: their lines go where those of the library go.
#include <array>
#include <cstdarg>
#include <cstdio>
#include <string>
#include <string_view>

#include "mercury_log.h"
#include "na/util/program_log.hpp"

namespace nalog = na::log;

static_assert(static_cast<int>(nalog::Level::fatal) == HG_LOG_LEVEL_FATAL &&
              static_cast<int>(nalog::Level::debug) == HG_LOG_LEVEL_DEBUG);

namespace {

bool known(hg_log_level level) noexcept {
    return level > HG_LOG_LEVEL_NONE && level < HG_LOG_LEVEL_MAX;
}

}  // namespace

extern "C" {

HG_LOG_OUTLET_DECL(hg_all) = HG_LOG_OUTLET_INITIALIZER(hg_all, HG_LOG_PASS, NULL, NULL);

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

void hg_log_set_subsys(const char* log_subsys) {
    if (log_subsys != nullptr) {
        (void)nalog::set_outlets(log_subsys);
    }
}

void hg_log_set_func(int (*log_func)(FILE* stream, const char* format, ...)) {
    nalog::set_printer(log_func);
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

void hg_log_outlet_register(struct hg_log_outlet*) {}

bool hg_log_enabled(const struct hg_log_outlet* outlet, enum hg_log_level log_level) {
    if (outlet == nullptr || !known(log_level) ||
        static_cast<nalog::Level>(log_level) > nalog::level() ||
        (outlet->level != HG_LOG_LEVEL_NONE && log_level > outlet->level)) {
        return false;
    }
    switch (outlet->state) {
        case HG_LOG_ON:
            return true;
        case HG_LOG_OFF:
            return false;
        case HG_LOG_PASS:
            break;
    }
    std::array<std::string_view, 8> names;  // and those it descends from
    std::size_t count = 0;
    for (; outlet != nullptr && count < names.size(); outlet = outlet->parent) {
        names[count++] = outlet->name;
    }
    return nalog::listed({names.data(), count});
}

void hg_log_write(struct hg_log_outlet* outlet, enum hg_log_level log_level, const char* file,
                  unsigned int line, const char* func, const char* module, const char* format,
                  ...) {
    if (outlet == nullptr || !known(log_level)) {
        return;
    }
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    const int size = std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (size < 0) {
        return;
    }
    std::string_view whole(text);
    std::string large;
    if (static_cast<std::size_t>(size) >= sizeof text) {
        try {
            large.resize(static_cast<std::size_t>(size));
            va_start(arguments, format);
            (void)std::vsnprintf(large.data(), large.size() + 1, format, arguments);
            va_end(arguments);
            whole = large;
        } catch (const std::bad_alloc&) {
            // Its beginning, then.
        }
    }
    nalog::write_named(module != nullptr ? module : outlet->name,
                       static_cast<nalog::Level>(log_level), file, static_cast<int>(line), func,
                       whole);
}

}  // extern "C"
