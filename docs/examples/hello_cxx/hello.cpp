// SPDX-License-Identifier: BSD-3-Clause
// A server that adds, and a client that asks it to.
//   hello_cxx server [INFO]           prints its address, serves until it is told to stop
//   hello_cxx client ADDRESS A B      prints the sum
//   hello_cxx stop ADDRESS
#include <cstdio>
#include <cstdlib>
#include <string>

#include "hg/engine.hpp"

// What both sides know.
constexpr hg::Rpc<int(int, int)> add{"hello.add"};
constexpr hg::OneWay<void()> stop{"hello.stop"};

static int serve(const std::string& info) {
    // The thread that calls run() does everything.
    hg::Engine engine = hg::Engine::server(info, {.progress = hg::Progress::caller});
    engine.serve(add, [](int a, int b) { return a + b; });
    engine.serve(stop, [&] { engine.stop(); });
    std::printf("%s\n", engine.uri().c_str());
    std::fflush(stdout);
    engine.run();
    return 0;
}

static hg::Engine client_for(const std::string& address) {
    return hg::Engine::client(address.substr(0, address.find("://")));
}

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    try {
        if (what == "server") {
            return serve(argc > 2 ? argv[2] : "na+sm");
        }
        if (what == "client" && argc == 5) {
            hg::Engine engine = client_for(argv[2]);
            const hg::Peer server = engine.connect(argv[2]);
            std::printf("%d\n", add(server, std::atoi(argv[3]), std::atoi(argv[4]),
                                    hg::within(std::chrono::seconds(10)))
                                    .get());
            return 0;
        }
        if (what == "stop" && argc == 3) {
            hg::Engine engine = client_for(argv[2]);
            stop(engine.connect(argv[2])).get();
            return 0;
        }
    } catch (const hg::Exception& e) {
        std::fprintf(stderr, "%s: %s\n", to_string(e.status()), e.what());
        return 1;
    }
    std::fprintf(stderr, "usage: %s server [INFO] | client ADDRESS A B | stop ADDRESS\n", argv[0]);
    return 2;
}
