// SPDX-License-Identifier: BSD-3-Clause
// Logging functions of mercury.h.
#include "na/util/log.hpp"
#include "mercury.h"

extern "C" {

const char* HG_Get_last_error(void) {
    return na::log::last_error().c_str();
}

void HG_Set_log_level(const char* level) {
    NA_Set_log_level(level);
}

void HG_Set_log_subsys(const char* subsys) {
    if (subsys != nullptr) {
        na::log::set_outlets(subsys);
    }
}

void HG_Set_log_func(int (*log_func)(FILE* stream, const char* format, ...)) {
    na::log::set_printer(log_func);
}

void HG_Set_log_stream(const char* level, FILE* stream) {
    if (level != nullptr) {
        na::log::set_stream(level, stream);
    }
}

}  // extern "C"
