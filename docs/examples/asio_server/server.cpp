// SPDX-License-Identifier: BSD-3-Clause
// A server in a Boost.Asio program: RPCs, a timer and signals on one thread. On SIGTERM (SIGINT) it
// takes no more requests, finishes those that it has, and ends.
//   asio_server server [INFO]       prints its address
//   asio_server work ADDRESS MS     asks for work that takes that long, prints the answer
//   asio_server busy ADDRESS        prints how much work is in progress
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "hg/asio.hpp"
#include "hg/engine.hpp"

constexpr hg::Rpc<std::string(std::uint32_t)> work{"asio.work"};
constexpr hg::Rpc<std::uint32_t()> busy{"asio.busy"};

static int serve(const std::string& info) {
    boost::asio::io_context io;
    hg::Engine engine = hg::Engine::server(info, {.progress = hg::Progress::caller});
    hg::asio::Driver driver(engine, io.get_executor());

    // One thread: no lock.
    std::uint64_t served = 0;
    std::uint32_t in_progress = 0;
    engine.serve(work, [&](std::uint32_t ms) -> boost::asio::awaitable<std::string> {
        ++in_progress;
        boost::asio::steady_timer timer(io, std::chrono::milliseconds(ms));
        co_await timer.async_wait(boost::asio::use_awaitable);
        --in_progress;
        ++served;
        co_return "done after " + std::to_string(ms) + " ms";
    });

    engine.serve(busy, [&] { return in_progress; });

    boost::asio::steady_timer report(io);
    std::function<void()> later = [&] {
        report.expires_after(std::chrono::seconds(10));
        report.async_wait([&](const boost::system::error_code& error) {
            if (!error) {
                std::fprintf(stderr, "%llu served\n", static_cast<unsigned long long>(served));
                later();
            }
        });
    };
    later();

    boost::asio::signal_set signals(io, SIGINT, SIGTERM);
    signals.async_wait([&](const boost::system::error_code&, int) {
        report.cancel();
        // Handlers in progress need the loop: it goes on until they have answered.
        driver.async_shutdown(std::chrono::seconds(10), [&] {
            std::fprintf(stderr, "%llu served, good bye\n",
                         static_cast<unsigned long long>(served));
        });
    });

    std::printf("%s\n", engine.uri().c_str());
    std::fflush(stdout);
    io.run();  // until nothing is left
    return 0;
}

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    try {
        if (what == "server") {
            return serve(argc > 2 ? argv[2] : "na+sm");
        }
        if ((what == "work" && argc == 4) || (what == "busy" && argc == 3)) {
            const std::string address = argv[2];
            hg::Engine engine = hg::Engine::client(address.substr(0, address.find("://")));
            const hg::Peer server = engine.connect(address);
            if (what == "busy") {
                std::printf("%u\n", busy(server).get());
                return 0;
            }
            std::printf("%s\n", work(server, std::strtoul(argv[3], nullptr, 10)).get().c_str());
            return 0;
        }
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
    std::fprintf(stderr, "usage: %s server [INFO] | work ADDRESS MILLISECONDS | busy ADDRESS\n",
                 argv[0]);
    return 2;
}
