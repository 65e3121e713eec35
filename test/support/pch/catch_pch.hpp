// SPDX-License-Identifier: BSD-3-Clause
// What takes most of the time to compile a test, once per program. Each source includes what it
// uses nevertheless. (No guard: it is compiled by itself, where "#pragma once" is a warning.)
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
