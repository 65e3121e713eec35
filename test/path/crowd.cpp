// SPDX-License-Identifier: BSD-3-Clause
// A class that knows N addresses, of which it calls CALLED: `crowd PROTOCOL N CALLED ROUNDS`. Says
// what they took. Somebody lives at those that are called, each a class of its own with a thread
// that sleeps until it is asked, in a few processes; nobody at the others.
//
// A listener of rxm takes 2 MiB for its receives: FI_OFI_RXM_MSG_RX_SIZE=16 makes room for many.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "na/domain.hpp"
#include "resident.hpp"

namespace {

using namespace std::chrono_literals;
using path_test::resident_kib;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kPerProcess = 50;
constexpr auto kPatience = 60s;

double us(Clock::duration d) {
    return std::chrono::duration<double, std::micro>(d).count();
}

void must(bool good, const char* what) {
    if (!good) {
        std::fprintf(stderr, "crowd: %s\n", what);
        std::exit(1);
    }
}

struct Side {
    explicit Side(const std::string& info)
        : domain(na::Domain::listen(info).value()), context(domain.open_context().value()) {}
    na::Domain domain;
    na::Context context;
};

// Answers whoever asks, for ever.
void serve(Side& side) {
    const na::Buffer in = side.domain.make_buffer(8).value();
    const na::Buffer out = side.domain.make_buffer(8).value();
    na::Operation receive(side.context), send(side.context);
    for (;;) {
        bool answered = false;
        na::Address source;
        side.context
            .recv_unexpected(receive, in,
                             [&](na::Status s, const na::Message& m) {
                                 na::check(s, "a question");
                                 source = m.source;
                                 side.context
                                     .send_expected(send, source, 1, out.first(8),
                                                    [&](na::Status) { answered = true; })
                                     .value();
                             })
            .value();
        while (!side.context.run_until([&] { return answered; }, kPatience)) {
        }
    }
}

// A process with `count` of them. Its addresses come out of `uris`; it ends with its parent.
[[noreturn]] void be_many(const std::string& info, std::size_t count, int uris, int parent) {
    std::vector<std::unique_ptr<Side>> sides;
    for (std::size_t i = 0; i < count; ++i) {
        sides.push_back(std::make_unique<Side>(info));
        const std::string line = sides.back()->domain.uri() + "\n";
        must(write(uris, line.data(), line.size()) == static_cast<ssize_t>(line.size()),
             "cannot tell an address");
    }
    close(uris);
    for (const auto& side : sides) {
        std::thread([&side] { serve(*side); }).detach();
    }
    char byte = 0;
    while (read(parent, &byte, 1) > 0) {
    }
    _exit(0);
}

// Asks somebody, and waits for the answer.
void ask(Side& side, const na::Address& peer) {
    const na::Buffer out = side.domain.make_buffer(8).value();
    const na::Buffer in = side.domain.make_buffer(8).value();
    na::Operation send(side.context), receive(side.context);
    bool sent = false, answered = false;
    const auto good = [](bool& end) {
        return [&end](na::Status s) {
            na::check(s, "a question");
            end = true;
        };
    };
    side.context
        .recv_expected(receive, peer, 1, in,
                       [&](na::Status s, std::span<std::byte>) {
                           na::check(s, "an answer");
                           answered = true;
                       })
        .value();
    side.context.send_unexpected(send, peer, 1, out.first(8), good(sent)).value();
    must(side.context.run_until([&] { return sent && answered; }, kPatience), "no answer");
}

int run(const std::string& info, std::size_t count, std::size_t called, unsigned rounds) {
    int parent[2];
    must(pipe(parent) == 0, "no pipe");
    std::vector<std::string> real;
    for (std::size_t begun = 0; begun < called; begun += kPerProcess) {
        int uris[2];
        must(pipe(uris) == 0, "no pipe");
        const pid_t pid = fork();
        must(pid >= 0, "no process");
        if (pid == 0) {
            close(uris[0]);
            close(parent[1]);
            be_many(info, std::min(kPerProcess, called - begun), uris[1], parent[0]);
        }
        close(uris[1]);
        std::FILE* lines = fdopen(uris[0], "r");
        char line[512];
        while (std::fgets(line, sizeof line, lines) != nullptr) {
            real.emplace_back(line, std::string(line).find('\n'));
        }
        std::fclose(lines);
    }
    must(real.size() == called, "not all listen");
    Side side(info);
    const std::string stem = real.front().substr(0, real.front().find("://"));

    // Those that are called lie among the others.
    std::vector<na::Address> known;
    std::vector<na::Address> live;
    const long before = resident_kib();
    auto begin = Clock::now();
    for (std::size_t i = 0; i < count; ++i) {
        const bool lives = i * called / count != (i + 1) * called / count;
        const std::string uri = lives ? real[live.size()]
                                      : stem + "://192.0.2." + std::to_string(1 + i % 240) + ":" +
                                            std::to_string(10000 + i / 240);
        known.push_back(side.domain.lookup(uri).value());
        if (lives) {
            live.push_back(known.back());
        }
    }
    const double lookup = us(Clock::now() - begin) / static_cast<double>(count);
    must(live.size() == called, "not all were looked up");
    const long looked_up = resident_kib();
    std::vector<double> first, later;
    for (const na::Address& peer : live) {
        begin = Clock::now();
        ask(side, peer);
        first.push_back(us(Clock::now() - begin));
    }
    const long met = resident_kib();
    for (unsigned round = 0; round < rounds; ++round) {
        for (const na::Address& peer : live) {
            begin = Clock::now();
            ask(side, peer);
            later.push_back(us(Clock::now() - begin));
        }
    }
    const auto median = [](std::vector<double>& all) {
        std::sort(all.begin(), all.end());
        return all.empty() ? 0 : all[all.size() / 2];
    };
    std::printf(
        "%zu addresses: %.2f us each, %ld KiB; of these %zu called: first %.0f us, later "
        "%.1f us (medians), %.1f KiB each\n",
        count, lookup, looked_up - before, called, median(first), median(later),
        static_cast<double>(met - looked_up) / static_cast<double>(called));
    close(parent[1]);
    while (wait(nullptr) > 0) {
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc != 5) {
        std::fputs("usage: crowd PROTOCOL N CALLED ROUNDS\n", stderr);
        return 1;
    }
    const std::size_t count = std::strtoull(argv[2], nullptr, 10);
    const std::size_t called = std::strtoull(argv[3], nullptr, 10);
    must(called != 0 && called <= count, "of N addresses at least one and at most N are called");
    signal(SIGPIPE, SIG_IGN);
    return run(argv[1], count, called, static_cast<unsigned>(std::strtoul(argv[4], nullptr, 10)));
} catch (const std::exception& e) {
    std::fprintf(stderr, "crowd: %s\n", e.what());
    return 1;
}
