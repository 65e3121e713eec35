// SPDX-License-Identifier: BSD-3-Clause
#include "endpoint.hpp"

#include <fmt/format.h>

#include <csignal>

namespace demo {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

void on_signal(int) {
    g_interrupted = 1;
}

}  // namespace

std::string describe(const std::string& what, hg_return_t code) {
    const char* name = HG_Error_to_string(code);
    return fmt::format("{}: {}", what, name != nullptr ? name : "unknown code");
}

void check(hg_return_t code, const std::string& what) {
    if (code == HG_SUCCESS) {
        return;
    }
    const std::string cause = HG_Get_last_error();
    throw Failure(describe(what, code) + (cause.empty() ? "" : " (" + cause + ")"));
}

void catch_signals() {
    struct sigaction action = {};
    action.sa_handler = on_signal;  // without SA_RESTART: sleeping calls return
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() noexcept {
    return g_interrupted != 0;
}

Endpoint::Endpoint(const std::string& info, bool listen) {
    class_ = HG_Init(info.c_str(), listen ? 1 : 0);
    if (class_ == nullptr) {
        throw Failure(fmt::format("cannot open \"{}\": {}", info, HG_Get_last_error()));
    }
    context_ = HG_Context_create(class_);
    if (context_ == nullptr) {
        const std::string cause = HG_Get_last_error();
        HG_Finalize(class_);
        throw Failure(fmt::format("cannot create a context of \"{}\": {}", info, cause));
    }
}

Endpoint::~Endpoint() {
    hg_return_t code = HG_Context_destroy(context_);
    if (code == HG_SUCCESS) {
        code = HG_Finalize(class_);
    }
    if (code != HG_SUCCESS) {
        fmt::print(stderr, "{}\n", describe("cannot close the endpoint", code));
    }
}

std::string Endpoint::address() const {
    hg_addr_t self = HG_ADDR_NULL;
    check(HG_Addr_self(class_, &self), "own address");
    hg_size_t size = 0;
    hg_return_t code = HG_Addr_to_string(class_, nullptr, &size, self);
    std::string text(size, '\0');
    if (code == HG_SUCCESS) {
        code = HG_Addr_to_string(class_, text.data(), &size, self);
    }
    HG_Addr_free(class_, self);
    check(code, "own address as text");
    text.resize(size - 1);  // without the NUL
    return text;
}

void Endpoint::progress(unsigned timeout_ms) {
    const hg_return_t code = HG_Progress(context_, timeout_ms);
    if (code != HG_SUCCESS && code != HG_TIMEOUT) {
        check(code, "progress");
    }
    HG_Trigger(context_, 0, 256, nullptr);
}

std::string human_bytes(double bytes) {
    const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    std::size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < std::size(units)) {
        bytes /= 1024;
        ++unit;
    }
    return unit == 0 ? fmt::format("{} B", static_cast<std::uint64_t>(bytes))
                     : fmt::format("{:.1f} {}", bytes, units[unit]);
}

}  // namespace demo
