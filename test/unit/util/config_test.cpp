// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/config.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <set>

#include "na/util/log.hpp"

namespace config = na::config;

TEST_CASE("every variable has a unique name, a help text and a good fallback", "[config]") {
    std::set<std::string> names;
    for (const config::Variable* v : config::all()) {
        INFO(v->name);
        CHECK(names.insert(v->name).second);
        CHECK((std::strncmp(v->name, "HG_", 3) == 0 || std::strncmp(v->name, "NA_", 3) == 0));
        CHECK(std::strlen(v->help) > 10);
        CHECK(v->fallback != nullptr);
    }
    for (const config::Variable* v :
         {&config::kUnexpectedLimit, &config::kMaxAddresses, &config::kPluginPath}) {
        CHECK(names.contains(v->name));
    }
}

TEST_CASE("values come from the environment, else the fallback", "[config]") {
    constexpr config::Variable kTest{"NA_TEST_VARIABLE", "12", "a variable of this test"};
    unsetenv(kTest.name);
    CHECK_FALSE(config::is_set(kTest));
    CHECK(config::value(kTest) == "12");
    CHECK(config::number(kTest) == 12);
    setenv(kTest.name, "", 1);
    CHECK_FALSE(config::is_set(kTest));
    CHECK(config::number(kTest) == 12);
    setenv(kTest.name, "345", 1);
    CHECK(config::is_set(kTest));
    CHECK(config::value(kTest) == "345");
    CHECK(config::number(kTest) == 345);
    setenv(kTest.name, "18446744073709551615", 1);
    CHECK(config::number(kTest) == UINT64_MAX);
    na::log::set_level("none");
    for (const char* bad : {"x", "-1", "1x", " 1", "0x10", "18446744073709551616", "1.5", "1e3"}) {
        INFO(bad);
        setenv(kTest.name, bad, 1);
        CHECK(config::number(kTest) == 12);
    }
    na::log::set_level("error");
    unsetenv(kTest.name);
}
