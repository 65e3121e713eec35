// SPDX-License-Identifier: BSD-3-Clause
// What na_perf_server does, on the contexts of any side: with -S the client serves itself.
//
// Threads: callbacks run on whichever thread drives their context.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "na_side.hpp"

namespace perf {

class NaService {
 public:
    // Posts receives on each lane. Both outlive it.
    NaService(const Options& options, const Lanes& lanes);
    NaService(const NaService&) = delete;
    NaService& operator=(const NaService&) = delete;
    ~NaService();

    // A client said that it is done, and has its answer; or stop() was called.
    const std::atomic<bool>& stopped() const noexcept { return stopped_; }
    void stop() noexcept { stopped_.store(true); }
    // Takes the receives back and forgets the memory of clients; before the contexts are closed.
    void close();

 private:
    class Memories;
    class Receiver;

    const Options& options_;
    const std::uint64_t id_;
    const Lanes& lanes_;
    std::atomic<bool> stopped_{false};
    std::unique_ptr<Memories> memories_;
    std::vector<std::unique_ptr<Receiver>> receivers_;
};

}  // namespace perf
