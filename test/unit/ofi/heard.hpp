// SPDX-License-Identifier: BSD-3-Clause
// What the library says in its log, up to a level, as long as this is there. One at a time.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <string>

#include "na.h"
#include "na/util/log.hpp"

class Heard {
 public:
    explicit Heard(const char* level) {
        clear();
        na::log::set_printer(keep);
        NA_Set_log_level(level);
    }
    ~Heard() {
        NA_Set_log_level("error");
        na::log::set_printer(nullptr);
    }
    Heard(const Heard&) = delete;
    Heard& operator=(const Heard&) = delete;

    // All lines so far.
    static std::string text() {
        const std::lock_guard guard(mutex_);
        return text_;
    }
    static void clear() {
        const std::lock_guard guard(mutex_);
        text_.clear();
    }

 private:
    __attribute__((format(printf, 2, 3))) static int keep(std::FILE*, const char* format, ...) {
        char line[8192];
        va_list arguments;
        va_start(arguments, format);
        const int size = std::vsnprintf(line, sizeof line, format, arguments);
        va_end(arguments);
        const std::lock_guard guard(mutex_);
        text_ += line;
        return size;
    }

    static inline std::mutex mutex_;
    static inline std::string text_;
};
