// SPDX-License-Identifier: BSD-3-Clause
// A server embedded in somebody else's event loop: here epoll, with a pipe that the loop serves as
// well. Lines that come on standard input are kept, RPCs ask for them.
//   event_loop server [INFO]       prints its address, ends with its standard input
//   event_loop last ADDRESS        prints the last line, "-" if there is none
#include <sys/epoll.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "hg/engine.hpp"

constexpr hg::Rpc<std::string()> last{"loop.last"};

static int serve(const std::string& info) {
    hg::Engine engine = hg::Engine::server(info, {.progress = hg::Progress::caller});
    std::string line = "-";
    engine.serve(last, [&] { return line; });  // on the loop's thread: no lock

    const int loop = epoll_create1(EPOLL_CLOEXEC);
    const auto watch = [loop](int fd) {
        epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
        return fd < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) == 0;
    };
    // -1: this transport cannot be waited on, and is polled now and then.
    const int descriptor = engine.descriptor();
    if (loop < 0 || !watch(descriptor) || !watch(STDIN_FILENO)) {
        std::perror("epoll");
        return 1;
    }
    std::printf("%s\n", engine.uri().c_str());
    std::fflush(stdout);

    std::string unfinished;
    for (;;) {
        const bool ran = engine.poll();
        // Without this look something that came just now would be slept upon.
        const bool sleep = !ran && engine.ready_to_sleep();
        const int timeout = sleep ? -1 : descriptor < 0 ? 1 : 0;
        epoll_event events[8];
        const int n = epoll_wait(loop, events, 8, timeout);
        for (int i = 0; i < n; ++i) {
            if (events[i].data.fd != STDIN_FILENO) {
                continue;  // the engine's: poll() is next
            }
            char text[512];
            const ssize_t got = read(STDIN_FILENO, text, sizeof text);
            if (got <= 0) {
                close(loop);
                return 0;  // the engine ends with what it has in flight
            }
            unfinished.append(text, static_cast<std::size_t>(got));
            for (std::size_t end = 0; (end = unfinished.find('\n')) != std::string::npos;) {
                line = unfinished.substr(0, end);
                unfinished.erase(0, end + 1);
            }
        }
    }
}

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    try {
        if (what == "server") {
            return serve(argc > 2 ? argv[2] : "na+sm");
        }
        if (what == "last" && argc == 3) {
            const std::string address = argv[2];
            hg::Engine engine = hg::Engine::client(address.substr(0, address.find("://")));
            std::printf("%s\n", last(engine.connect(address)).get().c_str());
            return 0;
        }
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
    std::fprintf(stderr, "usage: %s server [INFO] | last ADDRESS\n", argv[0]);
    return 2;
}
