// SPDX-License-Identifier: BSD-3-Clause
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "plugins/sm/shared_memory.hpp"

namespace na::sm {
namespace {

struct Remedy {
    int error;
    const char* text;
};

constexpr Remedy kRemedies[] = {
    {EMFILE, "raise the limit on open files (ulimit -n): each connected peer takes one"},
    {ENFILE, "the machine has no open files left: raise fs.file-max"},
    {ENOMEM, "out of memory, or of mappings (vm.max_map_count)"},
    {EFBIG, "shared memory is a file: raise the limit on file sizes (ulimit -f, RLIMIT_FSIZE)"},
    {EADDRINUSE, "another endpoint has this name: choose one of your own"},
    {EACCES, "a security policy forbids it"},
    {ENOSYS, "the kernel is too old: Linux 3.17 is needed"},
};

// strerror_r() answers the text with the GNU library, and a code elsewhere (POSIX, musl).
[[maybe_unused]] const char* text_of(const char* text, const char*) noexcept {
    return text;
}
[[maybe_unused]] const char* text_of(int failed, const char* buffer) noexcept {
    return failed == 0 ? buffer : "unknown error";
}

}  // namespace

Error os_error(int error, const char* what) {
    char buffer[128];
    const char* text = text_of(strerror_r(error, buffer, sizeof buffer), buffer);
    for (const Remedy& r : kRemedies) {
        if (r.error == error) {
            return Error{status_of_errno(error), fmt::format("{}: {} ({})", what, text, r.text)};
        }
    }
    return Error{status_of_errno(error), fmt::format("{}: {}", what, text)};
}

}  // namespace na::sm
