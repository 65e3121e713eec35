// SPDX-License-Identifier: BSD-3-Clause
// The same for every peer: a server process that sends bytes back, and a client that measures round
// trips over the loopback device, one call at a time, as the library's own examples do it.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace perf {

// Serves at 127.0.0.1:port for ever.
using EchoServe = std::function<void(int port)>;

class EchoClient {
 public:
    virtual ~EchoClient() = default;
    // Sends so many bytes and waits until they are back; false: they are not.
    virtual bool call(const std::string& bytes) = 0;
};
// Connects, waiting until the server is there.
using EchoConnect = std::function<std::unique_ptr<EchoClient>(int port)>;

// The body of main(): the exit status.
int run_echo(const char* library, int argc, char** argv, const EchoServe& serve,
             const EchoConnect& connect);

}  // namespace perf
