// SPDX-License-Identifier: BSD-3-Clause
// What the log says, at level warning, about RPCs that two programs do not agree on.
#include <catch2/catch.hpp>

#include <cstdarg>
#include <mutex>
#include <string>

#include "conformance/hg/side.hpp"
#include "support/until.hpp"

using namespace hgtest;

namespace {

std::mutex lines_mutex;
std::string lines;

int keep(std::FILE*, const char* format, ...) {
    char line[2000];
    va_list arguments;
    va_start(arguments, format);
    const int n = std::vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    const std::lock_guard guard(lines_mutex);
    lines += line;
    return n;
}

class Heard {
 public:
    Heard() {
        HG_Set_log_level("warning");
        HG_Set_log_func(keep);
        (void)take();
    }
    ~Heard() {
        HG_Set_log_func(nullptr);
        HG_Set_log_level("error");
    }
    Heard(const Heard&) = delete;
    Heard& operator=(const Heard&) = delete;
    std::string take() {
        const std::lock_guard guard(lines_mutex);
        return std::exchange(lines, {});
    }
};

bool says(const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* part : parts) {
        if (text.find(part) == std::string::npos) {
            UNSCOPED_INFO("missing: " << part << ", in: " << text);
            return false;
        }
    }
    return true;
}

hg_return_t give_back(hg_handle_t h) {
    return HG_Destroy(h);
}
hg_return_t give_back_too(hg_handle_t h) {
    const hg_return_t ret = HG_Destroy(h);
    return ret;
}
hg_return_t read_number(hg_handle_t h) {
    std::uint64_t number = 0;
    const hg_return_t ret = HG_Get_input(h, &number);
    if (ret == HG_SUCCESS) {
        HG_Free_input(h, &number);
    }
    HG_Destroy(h);
    return ret;
}

}  // namespace

TEST_CASE("the log names a callback that replaces another") {
    Heard heard;
    Side side;
    (void)!HG_Register_name(side.cls(), "twice", nullptr, nullptr, give_back);
    (void)!HG_Register_name(side.cls(), "twice", nullptr, nullptr, give_back);
    (void)!HG_Register_name(side.cls(), "twice", nullptr, nullptr, nullptr);
    CHECK(heard.take().empty());  // nothing that was registered is lost
    (void)!HG_Register_name(side.cls(), "twice", nullptr, nullptr, give_back);
    (void)!HG_Register_name(side.cls(), "twice", nullptr, nullptr, give_back_too);
    CHECK(says(heard.take(), {"[warning]", "\"twice\"", "another callback"}));
}

TEST_CASE("the log names RPCs that the target does not know, at both ends") {
    Heard heard;
    Pair pair;
    const hg_id_t unknown = HG_Register_name(pair.a.cls(), "only here", nullptr, nullptr, nullptr);
    Call call(pair.a, pair.to_b, unknown);
    REQUIRE(call.forward() == HG_SUCCESS);
    CHECK(pair.wait(call) == HG_NOENTRY);
    char id[32];
    std::snprintf(id, sizeof id, "%#llx", static_cast<unsigned long long>(unknown));
    const std::string text = heard.take();
    CHECK(says(text, {"[warning]", id, "no RPC is registered here",
                      to_string(pair.a, pair.to_b).c_str()}));
    CHECK(says(text, {"\"only here\"", "not registered at its target"}));
    Call unserved(pair.a, pair.to_b, pair.a.unserved);
    REQUIRE(unserved.forward() == HG_SUCCESS);
    CHECK(pair.wait(unserved) == HG_INVALID_ARG);
    CHECK(says(heard.take(), {"[warning]", "registered here without a callback"}));
    // A peer does not fill the log.
    for (int i = 0; i < 1000; ++i) {
        REQUIRE(call.forward() == HG_SUCCESS);
        REQUIRE(pair.wait(call) == HG_NOENTRY);
    }
    const std::string all = heard.take();
    std::size_t targets = 0;
    for (std::size_t at = 0; (at = all.find("no RPC is registered", at)) != std::string::npos;
         ++at) {
        ++targets;
    }
    CHECK(targets > 0);
    CHECK(targets < 30);
}

TEST_CASE("the log names the call whose input cannot be decoded") {
    Heard heard;
    Pair pair;
    // The two programs disagree about the input.
    const hg_id_t id = HG_Register_name(pair.a.cls(), "disagreed", nullptr, nullptr, nullptr);
    (void)!HG_Register_name(
        pair.b.cls(), "disagreed",
        [](hg_proc_t proc, void* data) { return hg_proc_raw(proc, data, 8); }, nullptr,
        read_number);
    Call call(pair.a, pair.to_b, id);
    REQUIRE(call.forward() == HG_SUCCESS);
    CHECK(pair.wait(call) == HG_OVERFLOW);
    CHECK(says(heard.take(), {"[warning]", "\"disagreed\"", "input of 0 bytes", "does not fit"}));
}
