// SPDX-License-Identifier: BSD-3-Clause
// Listens to what the transport asks of libfabric: the program stands between the two, and has the
// function that everything of a class of libfabric's comes from.
#pragma once

#include <rdma/fi_domain.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "na/domain.hpp"

// What was asked for one endpoint.
struct Listened {
    std::size_t inserted = 0;  // into its address vector
    std::size_t removed = 0;
    std::set<fi_addr_t> places;  // that are taken
    std::size_t reads = 0;       // of its completion queue
};
// In the order in which they were opened.
std::vector<std::unique_ptr<Listened>>& listened();

// The contexts of puts and gets that libfabric has, and has not yet told the end of.
std::set<void*>& transfers();
// As long as it is true, the end of none of them is told.
bool& withholds();

// What libfabric says of the next put or get that ends: that it has failed.
struct Failure {
    int error = 0;
    int provider_error = 0;  // the provider's own, and what it means
    std::string words;
};
std::optional<Failure>& next_failure();

// The gate that whoever judges segments of shared memory goes through, an exclusive lock on the
// folder that they are in: what is answered there instead of the kernel.
struct GateSpy {
    // The error of the try that began `since` after the first; 0: the kernel answers.
    using Answer = std::function<int(std::chrono::nanoseconds since)>;
    explicit GateSpy(Answer answer);
    ~GateSpy();
    GateSpy(const GateSpy&) = delete;
    GateSpy& operator=(const GateSpy&) = delete;

    const Answer answer;
    std::vector<std::chrono::steady_clock::time_point> tries;
};

// As long as it is there another thread is quicker, always, to map something where the transport
// has just had something unmapped.
struct SpotSpy {
    static bool possible();
    SpotSpy();
    ~SpotSpy();
    SpotSpy(const SpotSpy&) = delete;
    SpotSpy& operator=(const SpotSpy&) = delete;

    std::vector<std::pair<void*, std::size_t>> taken;
};

// Called whenever the transport has had a segment of shared memory removed.
struct RemovalSpy {
    explicit RemovalSpy(std::function<void()> seen);
    ~RemovalSpy();
    RemovalSpy(const RemovalSpy&) = delete;
    RemovalSpy& operator=(const RemovalSpy&) = delete;

    const std::function<void()> seen;
};

struct Side {
    explicit Side(const std::string& info)
        : domain(na::Domain::listen(info).value()), context(domain.open_context().value()) {}
    void pump() {
        (void)context.progress();
        context.trigger();
    }
    na::Domain domain;
    na::Context context;
};

// In a child, so that nothing is open when cases fork. Throws when the child fails otherwise: one
// that crashes or leaks is no reason to skip.
bool can_open(const std::string& protocol);
