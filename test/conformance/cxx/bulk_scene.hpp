// SPDX-License-Identifier: BSD-3-Clause
// What the tests of memory in the C++ API share.
#pragma once

#include "conformance/cxx/scene.hpp"
#include "hg/bulk.hpp"

namespace cxxtest {

using namespace std::chrono_literals;
using hg::Share;
using hg::Status;
using hg::Task;
using ReadBulk = hg::Bulk<Share::read>;
using FullBulk = hg::Bulk<Share::both>;

}  // namespace cxxtest
