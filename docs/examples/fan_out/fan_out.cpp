// SPDX-License-Identifier: BSD-3-Clause
// One question to several servers at once, and whatever they answer before the deadline.
//   fan_out server MILLISECONDS [INFO]        answers after that long; prints its address
//   fan_out ask MILLISECONDS ADDRESS...       asks all, waits that long at most
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <unistd.h>

#include "hg/engine.hpp"

struct Load {
    int process = 0;
    double load = 0;
};
constexpr hg::Rpc<Load()> load{"fan_out.load"};

static int serve(std::chrono::milliseconds delay, const std::string& info) {
    hg::Engine engine = hg::Engine::server(info, {.progress = hg::Progress::caller});
    // Waits without a thread: others are served meanwhile.
    engine.serve(load, [&]() -> hg::Task<Load> {
        co_await engine.sleep(delay);
        double now = 0;
        (void)getloadavg(&now, 1);
        co_return Load{static_cast<int>(getpid()), now};
    });
    std::printf("%s\n", engine.uri().c_str());
    std::fflush(stdout);
    engine.run();
    return 0;
}

static hg::Task<int> ask(const std::vector<hg::Peer>& servers, std::chrono::milliseconds limit) {
    // One deadline for all: each call ends by then, with an answer or without.
    const hg::CallOptions options = hg::within(limit);
    std::vector<hg::AsResult<hg::Call<Load>>> calls;
    for (const hg::Peer& server : servers) {
        calls.push_back(load(server, options).result());
    }
    int answers = 0;
    const auto results = co_await hg::when_all(std::move(calls));
    for (std::size_t i = 0; i < results.size(); ++i) {
        if (results[i]) {
            std::printf("%s: load %.2f\n", servers[i].uri().c_str(), results[i]->load);
            ++answers;
        } else {
            std::printf("%s\n", results[i].error().message.c_str());
        }
    }
    co_return answers;
}

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    const std::chrono::milliseconds time(argc > 2 ? std::atoi(argv[2]) : 0);
    try {
        if (what == "server" && argc > 2) {
            return serve(time, argc > 3 ? argv[3] : "na+sm");
        }
        if (what == "ask" && argc > 3) {
            const std::string first = argv[3];
            hg::Engine engine = hg::Engine::client(first.substr(0, first.find("://")));
            std::vector<hg::Peer> servers;
            for (int i = 3; i < argc; ++i) {
                servers.push_back(engine.connect(argv[i]));
            }
            const int answers = hg::sync_wait(engine, ask(servers, time));
            std::printf("%d of %zu answered\n", answers, servers.size());
            return 0;
        }
    } catch (const hg::Exception& e) {
        std::fprintf(stderr, "%s: %s\n", to_string(e.status()), e.what());
        return 1;
    }
    std::fprintf(stderr, "usage: %s server MILLISECONDS [INFO] | ask MILLISECONDS ADDRESS...\n",
                 argv[0]);
    return 2;
}
