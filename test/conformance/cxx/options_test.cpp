// SPDX-License-Identifier: BSD-3-Clause
// What an engine can be told when it is opened, one option after the other; and what it counts.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <list>
#include <numeric>
#include <thread>

#include "conformance/cxx/scene.hpp"
#include "hg/bulk.hpp"
#include "mercury.h"

using namespace cxxtest;
using namespace std::chrono_literals;
using hg::Status;

namespace {

inline constexpr hg::Rpc<std::uint64_t(hg::RemoteBulk<hg::Share::read>)> sum_of{"sum_of"};
inline constexpr hg::Rpc<double(hg::Elements<double>, std::string_view)> total{"total"};
inline constexpr hg::Rpc<hg::Elements<std::uint16_t>(std::uint16_t)> count_to{"count_to"};

// Small and large messages both ways.
void converse(Pair& pair) {
    pair.server.serve(echo, [](std::string text) { return text; });
    for (const std::size_t size : {std::size_t{0}, std::size_t{10}, std::size_t{100'000}}) {
        const std::string text(size, 'e');
        REQUIRE(echo(pair.peer, text).get() == text);
    }
}

hg::Engine open(const hg::EngineOptions& options) {
    return hg::Engine::server(support::options().protocol, options);
}

const hg::RpcStats* find(const std::vector<hg::RpcStats>& all, std::string_view name) {
    const auto at =
        std::find_if(all.begin(), all.end(), [&](const auto& s) { return s.name == name; });
    return at == all.end() ? nullptr : &*at;
}

}  // namespace

TEST_CASE("what a message may cost is each engine's to say") {
    static constexpr hg::Rpc<std::list<std::uint8_t>(std::list<std::uint8_t>, bool)> chain{"chain"};
    hg::EngineOptions strict;
    strict.limits = {.memory = 4000, .per_byte = 1};
    const std::list<std::uint8_t> few(50, 1);
    const std::list<std::uint8_t> many(1000, 1);
    for (const bool server : {true, false}) {
        CAPTURE(server);
        Pair pair(server ? strict : hg::EngineOptions{}, server ? hg::EngineOptions{} : strict);
        pair.server.serve(chain, [](std::list<std::uint8_t> list, bool back) {
            return back ? list : std::list<std::uint8_t>{};
        });
        CHECK(chain(pair.peer, few, true).get() == few);
        CHECK(chain(pair.peer, many, true).wait().status() == Status::msgsize);
        // The strict one sees none of them.
        CHECK(chain(pair.peer, many, false).wait().status() ==
              (server ? Status::msgsize : Status::success));
    }
    strict.limits.depth = 0;
    CHECK(hg::Engine::open(support::options().protocol, false, strict).status() ==
          Status::invalid_arg);
}

TEST_CASE("engines that never sleep") {
    hg::EngineOptions busy;
    busy.busy = true;
    hg::EngineOptions caller = busy;
    caller.progress = hg::Progress::caller;
    // (More than once: the end of an engine comes while its own thread is at work.)
    for (int i = 0; i < 10; ++i) {
        Pair pair(busy, busy);
        converse(pair);
        // A deadline passes there, too.
        CHECK(nothing(pair.peer, hg::within(-1s)).wait().status() == Status::timeout);
        pair.server.serve(nothing, [&]() -> hg::Task<> { co_await pair.server.sleep(10s); });
        CHECK(nothing(pair.peer, hg::within(20ms)).wait().status() == Status::timeout);
        pair.server.shutdown(0ms);
    }
    {
        Pair pair(busy, caller);
        converse(pair);
        CHECK(pair.client.descriptor() == -1);  // nothing to sleep on
    }
    {
        Pair pair({}, busy);  // it is a matter of each side
        converse(pair);
    }
}

TEST_CASE("peers of this host over shared memory") {
    if (support::options().protocol.find("sm") != std::string::npos) {
        support::skip("the transport is shared memory already");
        return;
    }
    hg::EngineOptions options;
    options.auto_sm = true;
    auto probe = hg::Engine::open(support::options().protocol, true, options);
    if (!probe) {
        support::skip("no shared memory here: " + probe.error().message);
        return;
    }
    Pair pair(options, options);
    CHECK(pair.server.uri().find("#na+sm://") != std::string::npos);
    converse(pair);
    pair.server.serve(sum_of, [&](hg::RemoteBulk<hg::Share::read> from) -> hg::Task<std::uint64_t> {
        const auto here = hg::Bulk<hg::Share::both>::allocate(pair.server, from.size());
        co_await from.pull(here);
        std::uint64_t n = 0;
        for (const std::byte b : here.bytes()) {
            n += std::to_integer<std::uint64_t>(b);
        }
        co_return n;
    });
    const std::vector<std::uint8_t> data(200'000, 2);
    CHECK(sum_of(pair.peer, hg::Bulk<hg::Share::read>::expose(pair.client, data)).get() == 400'000);
    // With others it is as before.
    hg::Engine plain = open({});
    CHECK(echo(plain.connect(pair.server.uri()), "x").get() == "x");
    plain.serve(nothing, [] {});
    nothing(pair.client.connect(plain.uri())).get();

    hg::EngineOptions named = options;
    named.sm_name = "cxx-options-" + std::to_string(support::options().seed);
    {
        const hg::Engine engine = open(named);
        CHECK(engine.uri().find(named.sm_name) != std::string::npos);
    }
    named.auto_sm = false;
    CHECK(hg::Engine::open(support::options().protocol, true, named).status() ==
          Status::invalid_arg);
}

TEST_CASE("checksums of each level") {
    for (const hg::Checksum level :
         {hg::Checksum::none, hg::Checksum::headers, hg::Checksum::payload}) {
        hg::EngineOptions options;
        options.checksum = level;
        Pair pair(options, options);
        converse(pair);
    }
}

TEST_CASE("large messages are refused where they are not wanted") {
    hg::EngineOptions options;
    options.overflow = false;
    Pair pair(options, options);
    pair.server.serve(echo, [](std::string text) { return text; });
    CHECK(echo(pair.peer, "small").get() == "small");
    CHECK(echo(pair.peer, std::string(1'000'000, 'x')).wait().status() == Status::overflow);
    // And by who is not prepared to take as much.
    hg::EngineOptions modest;
    modest.overflow_limit = 100'000;
    Pair second(modest);
    second.server.serve(echo, [](std::string text) { return text; });
    CHECK(echo(second.peer, std::string(90'000, 'x')).get().size() == 90'000);
    CHECK(!echo(second.peer, std::string(1'000'000, 'x')).wait());
    CHECK(echo(second.peer, "small").get() == "small");
}

TEST_CASE("calls of oneself, few receives, and bulk memory outside of descriptors") {
    hg::EngineOptions options;
    options.loopback = false;
    options.receives = 4;
    options.more_receives = -1;
    options.bulk_eager = false;
    Pair pair(options, options);
    converse(pair);
    std::vector<hg::Call<std::string>> calls;
    for (int i = 0; i < 50; ++i) {
        calls.push_back(echo(pair.peer, std::to_string(i)));
    }
    const auto texts = hg::sync_wait(hg::when_all(std::move(calls)));
    CHECK(texts[49] == "49");
    const hg::Peer self = pair.server.connect(pair.server.uri());
    CHECK(echo(self, "own").get() == "own");
}

TEST_CASE("what is counted of each RPC") {
    hg::EngineOptions options;
    options.stats = true;
    Pair pair(options, options);
    pair.server.serve(echo, [](std::string text) { return text; });
    pair.server.serve(fail, [](int) -> hg::Result<void> { return hg::Error{Status::busy, "no"}; });
    pair.server.serve(nothing, [&]() -> hg::Task<> { co_await pair.server.sleep(20ms); });
    std::atomic<int> notes{0};
    pair.server.serve(note, [&](const std::string&) { ++notes; });
    CHECK(pair.client.stats().empty());
    for (int i = 0; i < 10; ++i) {
        CHECK(echo(pair.peer, std::string(100, 'x')).get().size() == 100);
    }
    const std::string large(100'000, 'y');
    CHECK(echo(pair.peer, large).get() == large);
    CHECK(!fail(pair.peer, 1).wait());
    CHECK(!add(pair.peer, 1, 2).wait());                  // served by nobody
    CHECK(!echo(pair.peer, "", hg::within(-1s)).wait());  // not even sent
    nothing(pair.peer).get();
    note(pair.peer, "text").get();
    REQUIRE(support::until([&] { return notes == 1 && pair.server.requests() == 0; }));

    const auto calls = pair.client.stats();
    const auto requests = pair.server.stats();
    const auto* called = find(calls, "echo");
    REQUIRE(called != nullptr);
    CHECK(called->calls.count == 12);
    CHECK(called->calls.failed == 1);
    CHECK(called->calls.bytes_sent >= 101'000);
    CHECK(called->calls.bytes_sent <= 102'000);
    CHECK(called->calls.bytes_received >= 101'000);
    CHECK(called->requests.count == 0);
    const auto* served = find(requests, "echo");
    REQUIRE(served != nullptr);
    CHECK(served->requests.count == 11);
    CHECK(served->requests.failed == 0);
    CHECK(served->requests.bytes_received >= 101'000);
    CHECK(served->requests.bytes_sent >= 101'000);
    CHECK(served->calls.count == 0);
    CHECK(find(calls, "fail")->calls.failed == 1);
    CHECK(find(calls, "fail")->calls.count == 1);
    CHECK(find(requests, "fail")->requests.failed == 1);
    CHECK(find(calls, "add")->calls.failed == 1);
    CHECK(find(requests, "add") == nullptr);
    CHECK(find(calls, "note")->calls.count == 1);
    CHECK(find(requests, "note")->requests.count == 1);
    // Time: what the handler slept, at both sides.
    for (const hg::Latency& l :
         {find(calls, "nothing")->calls.latency, find(requests, "nothing")->requests.latency}) {
        CHECK(l.longest >= 20ms);
        CHECK(l.quantile(0.5) == l.longest);
        CHECK(l.mean() == l.longest);
    }
    pair.client.shutdown(1s);
    CHECK(pair.client.stats().size() == calls.size());
    CHECK(std::is_sorted(calls.begin(), calls.end(),
                         [](const auto& a, const auto& b) { return a.name < b.name; }));

    Pair quiet;  // not asked for
    quiet.server.serve(nothing, [] {});
    nothing(quiet.peer).get();
    CHECK(quiet.client.stats().empty());
    CHECK(quiet.server.stats().empty());
}

TEST_CASE("numbers are read where they are") {
    Pair pair;
    pair.server.serve(total, [](hg::Elements<double> all, std::string_view) {
        return std::accumulate(all.begin(), all.end(), 0.0);
    });
    std::vector<std::uint16_t> counted;
    pair.server.serve(count_to, [&](std::uint16_t n) {
        counted.resize(n);
        std::iota(counted.begin(), counted.end(), std::uint16_t{1});
        return std::span<const std::uint16_t>(counted);
    });
    for (const std::size_t size : {0U, 1U, 3U, 1000U, 90'000U}) {
        const std::vector<double> numbers(size, 0.5);
        CHECK(total(pair.peer, numbers, "x").get() == 0.5 * static_cast<double>(size));
        CHECK(total(pair.peer, hg::Elements<double>(numbers), "").get() ==
              0.5 * static_cast<double>(size));
    }
    for (const std::uint16_t n : {std::uint16_t{0}, std::uint16_t{5}, std::uint16_t{40'000}}) {
        const auto held = count_to(pair.peer, n).get();
        std::vector<std::uint16_t> expected(n);
        std::iota(expected.begin(), expected.end(), std::uint16_t{1});
        CHECK(held->size() == n);
        CHECK(held->to_vector() == expected);
    }
}

namespace {

std::string logged;
int keep_line(FILE*, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char line[1024];
    const int n = std::vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    logged += line;
    return n;
}

}  // namespace

TEST_CASE("an engine that cannot be opened says why in the program's log") {
    logged.clear();
    HG_Set_log_level("debug");
    HG_Set_log_func(keep_line);
    const auto engine = hg::Engine::open(support::options().protocol, false, {.sm_name = "x"});
    HG_Set_log_func(nullptr);
    HG_Set_log_level("error");
    CHECK(engine.status() == Status::invalid_arg);
    CHECK(logged.find("sm_name is for auto_sm") != std::string::npos);
}
