// SPDX-License-Identifier: BSD-3-Clause
// The course of a measurement, the same for all clients: sizes, warm-up, several processes, the
// report, the end.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "options.hpp"
#include "processes.hpp"
#include "report.hpp"
#include "run.hpp"

namespace perf {

// A client process. Created and used in that process only; errors are Failures.
class Client {
 public:
    virtual ~Client() = default;
    virtual const Lanes& lanes() const = 0;
    // Before the runs of a size.
    virtual void prepare(std::uint64_t size) = 0;
    // After them: throws Failure if what arrived, here or at the server, was wrong.
    virtual void check(std::uint64_t size) = 0;
    // No size above this is run.
    virtual std::uint64_t max_size() const { return UINT64_MAX; }
    // Lines about what was opened.
    virtual std::vector<std::string> notes() const = 0;
    // Further figures, after the last size.
    virtual void finish(Report& /*report*/) {}
    // Nothing is in flight any more: gives back what the server keeps for this client.
    virtual void leave() {}
    // Tells the servers to end. One client does, after all have left.
    virtual void shut_down() = 0;
    // Closes everything; the server is still there. Throws Failure if something is left.
    virtual void close() = 0;
};

struct Task {
    Measure measure = Measure::rate;
    const char* server = "";       // program that --launch starts
    std::uint64_t transfers = 1;   // per operation
    std::uint64_t least_size = 0;  // none is smaller
    // Opens a client; `addresses` are the server's, `index` says which client of how many it is.
    std::function<std::unique_ptr<Client>(const Options&, const std::vector<std::string>& addresses,
                                          unsigned index)>
        open = {};
};

// The body of main(): the exit status.
int run_tool(const Options& options, const Task& task);

// Prints what a Failure says, as the tool's.
int report_failure(const Options& options, const std::string& what);

// A server's addresses are known: says so, to people, to --announce-fd, and in the file.
void announce(const Options& options, const std::vector<std::string>& addresses);

// Memory of the machine for further use, KiB. 0: that cannot be told.
std::uint64_t available_memory();

// The product of these is the memory that will be touched: throws Failure, with a remedy, when the
// machine has not got it.
void need_memory(std::initializer_list<std::uint64_t> factors, const std::string& for_what);

// Calls `body`, which answers an exit status; what it throws is reported as the tool's.
int guarded(const Options& options, const std::function<int()>& body);

}  // namespace perf
