// SPDX-License-Identifier: BSD-3-Clause
// The demo's client: stores a file, reads it back, checks both, measures.
#pragma once

#include <string>

namespace demo {

struct ClientOptions {
    std::string server;  // address
    std::string file;
    unsigned calls = 20000;    // null RPCs to measure
    unsigned timeout_s = 120;  // longest wait for one answer; 0: for ever
    bool stop_server = false;  // at the end, whatever happened
    bool kept = true;          // the server keeps what it stored, beyond this run
};

// Throws Failure on any error or mismatch.
void run_client(const ClientOptions& options);

}  // namespace demo
