// SPDX-License-Identifier: BSD-3-Clause
// The demo's server: keeps files that clients store, and gives them back.
#pragma once

#include <functional>
#include <string>

#include "transfer.hpp"

namespace demo {

struct ServerOptions {
    std::string protocol = "na+sm";
    std::string directory = ".";  // where files are kept
    PipelineShape shape;
};

// Serves until a client asks it to stop or a signal comes. `ready` gets the address. Throws
// Failure.
void serve(const ServerOptions& options,
           const std::function<void(const std::string& address)>& ready);

}  // namespace demo
