// SPDX-License-Identifier: BSD-3-Clause
// What the tools print: a table as users know it, CSV, or JSON for programs.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "options.hpp"
#include "result.hpp"

namespace perf {

// What the two main columns are.
enum class Measure {
    rate,       // operations per second, and the time of each
    bandwidth,  // bytes per second, and the time of each transfer
    one_way     // half of a round trip
};

// Each function but progress() throws Failure when the output cannot be written.
class Report {
 public:
    Report(const Options& options, Measure measure);
    Report(const Report&) = delete;
    Report& operator=(const Report&) = delete;
    ~Report();

    // A further line at the top of a table ("Class 0: ..."); in JSON among the notes.
    void note(const std::string& text);
    // `transfers`: how many of `size` bytes one operation is. Mean and median are of a transfer,
    // percentiles of an operation, and the titles say so.
    void row(std::uint64_t size, const Result& result, std::uint64_t transfers);
    // A figure that belongs to no size.
    void figure(const std::string& name, double value, const std::string& unit);
    // A line that shows how far a run is, on a terminal only; negative: it goes away.
    void progress(std::uint64_t size, double share);
    // Writes what has not been written yet, and closes. To be called once, when all is well.
    void finish();

 private:
    struct Body;

    double bandwidth(std::uint64_t size, double ns_per_transfer) const noexcept;
    void title(std::uint64_t transfers);
    // At once, so that who waits sees it.
    void write(const std::string& text);
    [[noreturn]] void cannot_write() const;

    const Options& options_;
    Measure measure_;
    std::FILE* out_;
    bool terminal_;
    bool titled_ = false;
    bool without_blocks_ = false;  // a row whose median is not of blocks
    std::unique_ptr<Body> body_;
};

}  // namespace perf
