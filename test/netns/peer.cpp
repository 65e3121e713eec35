// SPDX-License-Identifier: BSD-3-Clause
// One process on one host of test/netns/netns.py: serves all RPCs of the crash tests, and does what
// it is told on standard input, a command per line, with an answer per line. The script holds the
// clock.
//
// clang-format off
//   uri               -> ok ADDRESS
//   peer ADDRESS      -> ok NUMBER             looks an address up; NUMBER stands for it from here on
//   call PEER KIND    -> ok | failed CODE      one call, waited for
//   start PEER KIND N -> ok                    N calls that are repeated for ever, as long as they succeed
//   hold PEER N       -> ok                    N calls that the peer leaves without an answer
//   done PEER         -> ok NUMBER             successes of what was started
//   flying PEER       -> ok NUMBER             calls to it that have not ended
//   stop PEER         -> ok SUCCESSES CODE...  ends repetition; how each of its last calls ended
//   ended PEER        -> ok SUCCESSES CODE...  the same when all have ended by themselves
//   release           -> ok                    answers what was held
//   requests          -> ok NUMBER             requests served
//   close             -> ok                    closes, checking that everything succeeds; the end
// clang-format on
//
// Lines that begin with "note" are about what went wrong and are no answers.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "crash/hg_scene.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace crash;

// What this process does at a peer.
struct Peer {
    hg_addr_t address = HG_ADDR_NULL;
    bool going = false;
    std::uint64_t done = 0;
    Calls calls;
};

void answer(const std::string& text) {
    fmt::print("{}\n", text);
    std::fflush(stdout);
}

Kind kind_of(const std::string& name) {
    for (const Kind kind : kKinds) {
        if (name == to_string(kind)) {
            return kind;
        }
    }
    throw std::runtime_error("no kind " + name);
}

class Process {
 public:
    explicit Process(const HgSide::Options& options) : side_(options) {}

    // False: it was the last command.
    bool obey(const std::string& line) {
        std::istringstream in(line);
        std::string verb;
        in >> verb;
        if (verb == "uri") {
            answer("ok " + side_.uri());
        } else if (verb == "peer") {
            std::string uri;
            in >> uri;
            peers_.push_back(std::make_unique<Peer>());
            peers_.back()->address = side_.peer(uri);
            answer(fmt::format("ok {}", peers_.size() - 1));
        } else if (verb == "call") {
            Peer& peer = peer_of(in);
            answer(call(peer, kind_of(word(in))));
        } else if (verb == "start") {
            Peer& peer = peer_of(in);
            const Kind kind = kind_of(word(in));
            peer.going = true;
            peer.done = 0;
            peer.calls = keep_calling(side_, peer.address, kind, std::stoull(word(in)), &peer.going,
                                      &peer.done);
            answer("ok");
        } else if (verb == "hold") {
            Peer& peer = peer_of(in);
            for (std::uint64_t i = std::stoull(word(in)); i != 0; --i) {
                peer.calls.push_back(std::make_unique<Call>(side_, peer.address, Kind::hold, i));
                (void)peer.calls.back()->forward();
            }
            answer("ok");
        } else if (verb == "done") {
            answer(fmt::format("ok {}", peer_of(in).done));
        } else if (verb == "flying") {
            std::size_t n = 0;
            for (const auto& c : peer_of(in).calls) {
                n += c->in_flight() ? 1 : 0;
            }
            answer(fmt::format("ok {}", n));
        } else if (verb == "stop") {
            Peer& peer = peer_of(in);
            peer.going = false;
            waiting_ = &peer;
        } else if (verb == "ended") {
            waiting_ = &peer_of(in);
        } else if (verb == "release") {
            side_.release();
            answer("ok");
        } else if (verb == "requests") {
            answer(fmt::format("ok {}", side_.requests()));
        } else if (verb == "pending") {
            answer(fmt::format("ok {}", side_.pending()));
        } else if (verb == "close") {
            peers_.clear();
            side_.close();
            answer("ok");
            return false;
        } else {
            throw std::runtime_error("no command \"" + line + "\"");
        }
        return true;
    }

    void turn() {
        try {
            side_.turn(5);
        } catch (const std::exception& e) {
            answer(std::string("note ") + e.what());
        }
        if (waiting_ != nullptr && all_ended(waiting_->calls)) {
            std::string text = fmt::format("ok {}", waiting_->done);
            for (const auto& c : waiting_->calls) {
                text += fmt::format(" {}", HG_Error_to_string(c->ret));
            }
            waiting_->calls.clear();
            waiting_ = nullptr;
            answer(text);
        }
    }

 private:
    static std::string word(std::istringstream& in) {
        std::string w;
        in >> w;
        return w;
    }
    Peer& peer_of(std::istringstream& in) { return *peers_.at(std::stoull(word(in))); }

    std::string call(const Peer& peer, Kind kind) {
        Call one(side_, peer.address, kind, ++number_);
        hg_return_t ret = one.forward();
        while (ret == HG_SUCCESS && one.in_flight()) {
            side_.turn(10);
        }
        ret = ret == HG_SUCCESS ? one.ret : ret;
        return ret == HG_SUCCESS ? "ok" : fmt::format("failed {}", HG_Error_to_string(ret));
    }

    HgSide side_;
    std::vector<std::unique_ptr<Peer>> peers_;
    Peer* waiting_ = nullptr;
    std::uint64_t number_ = 0;
};

// Whole lines that have come on standard input, without waiting. False: it has ended.
bool read_lines(std::string& rest, std::vector<std::string>& lines) {
    pollfd set{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (poll(&set, 1, 0) <= 0) {
        return true;
    }
    char bytes[4096];
    const ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
    if (n <= 0) {
        return false;
    }
    rest.append(bytes, static_cast<std::size_t>(n));
    for (std::size_t end; (end = rest.find('\n')) != std::string::npos; rest.erase(0, end + 1)) {
        lines.push_back(rest.substr(0, end));
    }
    return true;
}

int live(const HgSide::Options& options) {
    Process process(options);
    answer("ready");
    std::string rest;
    std::vector<std::string> lines;
    while (read_lines(rest, lines)) {
        for (const std::string& line : std::exchange(lines, {})) {
            if (!process.obey(line)) {
                return 0;
            }
        }
        process.turn();
    }
    return 0;  // the script has gone
}

}  // namespace

// netns_peer PROTOCOL LIMIT(seconds) [HOST [SUBNET]]
int main(int argc, char** argv) {
    if (argc < 3) {
        return 2;
    }
    support::options().protocol = argv[1];
    support::watchdog(static_cast<unsigned>(std::atoi(argv[2])), "the process of a host");
    HgSide::Options options;
    options.origins_give_up = true;  // when a cable is pulled
    options.name = argc > 3 ? argv[3] : "";
    options.subnet = argc > 4 ? argv[4] : "";
    try {
        return live(options);
    } catch (const std::exception& e) {
        answer(std::string("failed ") + e.what());
        return 1;
    }
}
