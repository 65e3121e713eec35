// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/log.hpp"

#include <catch2/catch.hpp>
#include <cstdarg>
#include <mutex>
#include <thread>
#include <vector>

namespace nalog = na::log;
using nalog::Level;
using nalog::Outlet;

namespace {

std::mutex mutex;
std::vector<std::pair<std::FILE*, std::string>> lines;

int capture(std::FILE* stream, const char* format, ...) {
    char text[4096];
    va_list args;
    va_start(args, format);
    const int n = std::vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const std::lock_guard guard(mutex);
    lines.emplace_back(stream, text);
    return n;
}

// Captures what is logged, and puts everything back.
struct Captured {
    Captured() {
        lines.clear();
        nalog::set_printer(capture);
    }
    ~Captured() {
        nalog::set_printer(nullptr);
        nalog::set_level("error");
        nalog::set_outlets("all");
        for (const char* level : {"error", "warning", "debug"}) {
            nalog::set_stream(level, nullptr);
        }
    }
    std::size_t count() const { return lines.size(); }
    const std::string& last() const { return lines.back().second; }
};

void log_all_levels() {
    NA_LOG_ERROR(msg, "an error {}", 1);
    NA_LOG_WARNING(msg, "a warning {}", 2);
    NA_LOG_INFO(msg, "an info {}", 3);
    NA_LOG_DEBUG(msg, "a debug {}", 4);
}

}  // namespace

TEST_CASE("levels decide what is written", "[log]") {
    Captured c;
    const std::pair<const char*, std::size_t> expected[] = {
        {"none", 0}, {"fatal", 0}, {"error", 1}, {"warning", 2}, {"min_debug", 2},
        {"info", 3}, {"debug", 4}, {"err", 1},   {"warn", 2},    {"inf", 3},
        {"dbg", 4},  {"ERROR", 1}, {"Warn", 2},  {"DEBUG", 4}};
    for (const auto& [level, count] : expected) {
        INFO(level);
        lines.clear();
        CHECK(nalog::set_level(level));
        log_all_levels();
        CHECK(c.count() == count);
    }
    CHECK_FALSE(nalog::set_level("nonsense"));
    CHECK_FALSE(nalog::set_level(""));
    lines.clear();
    log_all_levels();
    CHECK(c.count() == 4);  // as it was
}

TEST_CASE("a line names level, place and text", "[log]") {
    Captured c;
    nalog::set_level("debug");
    NA_LOG_WARNING(addr, "{} of {}", "peer", 42);
    REQUIRE(c.count() == 1);
    CHECK(c.last().find("addr") != std::string::npos);
    CHECK(c.last().find("[warning]") != std::string::npos);
    CHECK(c.last().find("log_test.cpp:") != std::string::npos);
    CHECK(c.last().find("peer of 42") != std::string::npos);
    CHECK(c.last().back() == '\n');
    CHECK(c.last().find('\n') == c.last().size() - 1);
}

TEST_CASE("a percent sign is no format", "[log]") {
    Captured c;
    NA_LOG_ERROR(msg, "100% {}", "%s%n");
    REQUIRE(c.count() == 1);
    CHECK(c.last().find("100% %s%n") != std::string::npos);
}

TEST_CASE("outlets can be chosen", "[log]") {
    Captured c;
    const auto logged = [&](Outlet outlet) { return nalog::enabled(outlet, Level::error); };
    CHECK(nalog::set_outlets("msg,rma"));
    CHECK(logged(Outlet::msg));
    CHECK(logged(Outlet::rma));
    CHECK_FALSE(logged(Outlet::cls));
    CHECK(nalog::set_outlets("~msg"));
    CHECK_FALSE(logged(Outlet::msg));
    CHECK(logged(Outlet::diag));
    CHECK(nalog::set_outlets("hg_all,~diag"));
    CHECK(logged(Outlet::msg));
    CHECK_FALSE(logged(Outlet::diag));
    CHECK_FALSE(nalog::set_outlets("nonsense"));
    CHECK_FALSE(logged(Outlet::diag));  // as it was
    CHECK(nalog::set_outlets(""));
    CHECK(logged(Outlet::diag));
}

TEST_CASE("streams by level", "[log]") {
    Captured c;
    nalog::set_level("debug");
    std::FILE* errors = std::tmpfile();
    std::FILE* others = std::tmpfile();
    REQUIRE(nalog::set_stream("error", errors));
    REQUIRE(nalog::set_stream("debug", others));
    CHECK_FALSE(nalog::set_stream("none", others));
    CHECK_FALSE(nalog::set_stream("nonsense", others));
    log_all_levels();
    REQUIRE(c.count() == 4);
    CHECK(lines[0].first == errors);
    CHECK(lines[1].first == stderr);
    CHECK(lines[2].first == others);
    CHECK(lines[3].first == others);
    // Without a printer it is written there.
    nalog::set_printer(nullptr);
    NA_LOG_ERROR(msg, "to the file");
    std::rewind(errors);
    char text[300] = {};
    CHECK(std::fgets(text, sizeof text, errors) != nullptr);
    CHECK(std::string(text).find("to the file") != std::string::npos);
    nalog::set_stream("error", nullptr);
    nalog::set_stream("debug", nullptr);
    std::fclose(errors);
    std::fclose(others);
}

TEST_CASE("the last error is kept per thread, also unlogged", "[log]") {
    Captured c;
    nalog::set_level("none");
    NA_LOG_ERROR(msg, "the cause");
    CHECK(nalog::last_error() == "the cause");
    NA_LOG_WARNING(msg, "not an error");
    CHECK(nalog::last_error() == "the cause");
    std::thread([] {
        CHECK(nalog::last_error().empty());
        NA_LOG_ERROR(msg, "another cause");
    }).join();
    CHECK(nalog::last_error() == "the cause");
    CHECK(c.count() == 0);
}

TEST_CASE("arguments of what goes nowhere are not evaluated", "[log]") {
    Captured c;
    nalog::set_level("error");
    int evaluated = 0;
    NA_LOG_DEBUG(msg, "{}", ++evaluated);
    CHECK(evaluated == 0);
}

TEST_CASE("threads write whole lines", "[log]") {
    Captured c;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([t] {
            for (int i = 0; i < 200; ++i) {
                NA_LOG_ERROR(msg, "thread {} line {} {}", t, i,
                             std::string(100, static_cast<char>('a' + t)));
            }
        });
    }
    for (std::thread& t : threads) {
        t.join();
    }
    CHECK(c.count() == 800);
    for (const auto& [stream, line] : lines) {
        CHECK(line.starts_with("# ["));
        CHECK(line.back() == '\n');
    }
}
