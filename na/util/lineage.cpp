// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/lineage.hpp"

#include <atomic>

#include <pthread.h>

namespace na::util {
namespace {

std::atomic<unsigned> forks_so_far{0};

void in_child() noexcept {
    forks_so_far.fetch_add(1, std::memory_order_relaxed);
}

[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, in_child);

}  // namespace

unsigned forks() noexcept {
    return forks_so_far.load(std::memory_order_relaxed);
}

}  // namespace na::util
