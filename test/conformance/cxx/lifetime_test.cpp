// SPDX-License-Identifier: BSD-3-Clause
// How long things live: memory that descriptors have taken over, and what handlers have captured.
#include <catch2/catch.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "conformance/cxx/bulk_scene.hpp"

using namespace cxxtest;

namespace {

using Storage = std::shared_ptr<std::vector<std::uint8_t>>;

Storage storage(std::size_t size, std::uint8_t with) {
    return std::make_shared<std::vector<std::uint8_t>>(size, with);
}

// A container whose bytes a test may look at when it is gone; until then it is one of the owners.
class Container {
 public:
    explicit Container(Storage bytes) : bytes_(std::move(bytes)) {}
    std::uint8_t* begin() const { return bytes_->data(); }
    std::uint8_t* end() const { return bytes_->data() + bytes_->size(); }

 private:
    Storage bytes_;
};

struct Put {
    std::string key;
    hg::RemoteBulk<Share::read> data;
};

inline constexpr hg::Rpc<std::uint64_t(Put)> put{"put"};
inline constexpr hg::Rpc<std::uint64_t(hg::RemoteBulk<Share::read>)> total{"total"};
inline constexpr hg::Rpc<std::string_view(hg::RemoteBulk<Share::read>)> text_of{"text_of"};
inline constexpr hg::OneWay<void(hg::RemoteBulk<Share::read>)> look{"look"};

Task<std::uint64_t> pull_total(hg::Engine& engine, hg::RemoteBulk<Share::read> from) {
    const auto here = FullBulk::allocate(engine, from.size());
    co_await from.pull(here);
    std::uint64_t n = 0;
    for (const std::byte b : here.bytes()) {
        n += std::to_integer<std::uint64_t>(b);
    }
    co_return n;
}

void serve_all(hg::Engine& server) {
    server.serve(put, [&server](Put p) { return pull_total(server, std::move(p.data)); });
    server.serve(total, [&server](hg::RemoteBulk<Share::read> from) {
        return pull_total(server, std::move(from));
    });
    server.serve(text_of, [](hg::RemoteBulk<Share::read> from) -> Task<std::string> {
        std::string text(from.size(), ' ');
        co_await from.pull(text);
        co_return text;
    });
}

// Where a coroutine waits until the test lets it go on.
class Barrier {
 public:
    auto operator co_await() noexcept {
        struct Awaiter {
            std::atomic<void*>& waiting;
            bool await_ready() const noexcept { return false; }
            void await_suspend(std::coroutine_handle<> me) noexcept { waiting = me.address(); }
            void await_resume() const noexcept {}
        };
        return Awaiter{waiting_};
    }
    bool reached() const noexcept { return waiting_ != nullptr; }
    void open() { std::coroutine_handle<>::from_address(waiting_.exchange(nullptr)).resume(); }

 private:
    std::atomic<void*> waiting_{nullptr};
};

}  // namespace

TEST_CASE("a container that a descriptor took over lives as long as what was made of it") {
    Pair pair;
    serve_all(pair.server);
    for (const std::size_t size : {1000U, 100'000U}) {
        const Storage bytes = storage(size, 3);
        Put argument{"key", ReadBulk::expose(pair.client, Container(bytes))};
        CHECK(bytes.use_count() == 2);
        CHECK(put(pair.peer, argument).get() == 3 * size);
        CHECK(bytes.use_count() == 2);
        hg::RemoteBulk<Share::read> copy = argument.data;
        argument.data = {};
        CHECK(total(pair.peer, copy).get() == 3 * size);
        CHECK(bytes.use_count() == 2);
        copy = {};
        CHECK(bytes.use_count() == 1);
    }
}

TEST_CASE("a transfer keeps a container that a descriptor took over") {
    static constexpr hg::Rpc<void(hg::RemoteBulk<Share::both>)> swap{"swap"};
    Pair pair;
    const Storage here = storage(50'000, 1);
    std::atomic<long> pulling{0};
    std::atomic<long> pushing{0};
    pair.server.serve(swap, [&](hg::RemoteBulk<Share::both> from) -> Task<> {
        auto pull = from.pull(FullBulk::expose(pair.server, Container(here)));
        pulling = here.use_count();
        co_await std::move(pull);
        auto push = from.push(ReadBulk::expose(pair.server, Container(storage(50'000, 9))));
        pushing = here.use_count();
        co_await std::move(push);
    });
    std::vector<std::uint8_t> data(50'000, 7);
    swap(pair.peer, FullBulk::expose(pair.client, data)).get();
    CHECK(pulling == 2);
    CHECK(*here == std::vector<std::uint8_t>(50'000, 7));
    CHECK(data == std::vector<std::uint8_t>(50'000, 9));
    CHECK(pushing == 2);  // `pull` is there until the handler ends
    REQUIRE(support::until([&] { return pair.server.requests() == 0; }));
    CHECK(here.use_count() == 1);
}

TEST_CASE("a call keeps the memory that it shows until it has ended") {
    Pair pair;
    serve_all(pair.server);
    for (const std::size_t size : {1000U, 100'000U}) {
        const Storage bytes = storage(size, 2);
        {
            auto call = total(pair.peer, ReadBulk::expose(pair.client, Container(bytes)));
            CHECK(bytes.use_count() == 2);
            auto moved = std::move(call);
            CHECK(std::move(moved).get() == 2 * size);
            CHECK(bytes.use_count() == 1);
        }
        {
            auto dropped =
                put(pair.peer, Put{"k", ReadBulk::expose(pair.client, Container(bytes))});
            CHECK(bytes.use_count() == 2);
        }
        CHECK(bytes.use_count() == 1);
        // Of the library's, too.
        auto mine = ReadBulk::allocate(pair.client, size);
        auto call = total(pair.peer, mine);
        mine = {};
        CHECK(std::move(call).get() == 0);
    }
    std::vector<decltype(total(pair.peer, ReadBulk()).result())> calls;
    for (std::uint8_t i = 0; i < 8; ++i) {
        calls.push_back(
            total(pair.peer, ReadBulk::expose(pair.client, std::vector<std::uint8_t>(60'000, i)))
                .result());
    }
    const auto sums = hg::sync_wait(pair.client, hg::when_all(std::move(calls)));
    for (std::size_t i = 0; i < 8; ++i) {
        REQUIRE(sums[i]);
        CHECK(*sums[i] == i * 60'000);
    }
}

TEST_CASE("memory is let go when the call has ended, however that comes") {
    Pair pair;
    serve_all(pair.server);
    const Storage bytes = storage(20'000, 'x');
    const auto shown = [&] { return ReadBulk::expose(pair.client, Container(bytes)); };
    CHECK(text_of(pair.peer, shown()).wait());
    const auto held = text_of(pair.peer, shown()).get();
    CHECK(bytes.use_count() == 1);
    CHECK(*held == std::string(20'000, 'x'));
    auto late = total(pair.peer, shown(), hg::within(-1s));
    CHECK(bytes.use_count() == 2);
    CHECK(std::move(late).wait().status() == Status::timeout);
    CHECK(bytes.use_count() == 1);
    CHECK(total(hg::Peer(), shown()).wait().status() == Status::invalid_arg);
    CHECK(look(pair.peer, shown()).wait());
    CHECK(bytes.use_count() == 1);
    std::atomic<long> owners{0};
    total(pair.peer, shown()).then([&](const hg::Result<std::uint64_t>&) {
        owners = bytes.use_count();
    });
    REQUIRE(support::until([&] { return owners != 0; }));
    CHECK(owners == 1);
}

TEST_CASE("memory and engine may go in any order, on any thread") {
    const Storage bytes = storage(20'000, 1);
    std::optional<hg::Engine> engine(hg::Engine::server(support::options().protocol));
    hg::RemoteBulk<Share::read> kept = ReadBulk::expose(*engine, Container(bytes));
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([copy = kept] {
            for (int i = 0; i < 1000; ++i) {
                const hg::RemoteBulk<Share::read> another = copy;
            }
        });
    }
    for (std::thread& t : threads) {
        t.join();
    }
    threads.clear();
    CHECK(bytes.use_count() == 2);
    engine.reset();
    CHECK(bytes.use_count() == 2);
    std::thread([last = std::exchange(kept, {})] {}).join();
    CHECK(bytes.use_count() == 1);
}

TEST_CASE("an engine lets its handlers go when it ends, with what they have of it") {
    const auto probe = std::make_shared<int>(0);
    for (const bool bulk : {false, true}) {
        hg::Engine engine = hg::Engine::server(support::options().protocol);
        if (bulk) {
            engine.serve(add, [probe, b = FullBulk::allocate(engine, 10'000)](int x, int y) {
                return x + y + static_cast<int>(b.size());
            });
        } else {
            engine.serve(add, [probe, self = engine.connect(engine.uri())](int x, int y) {
                return x + y + (self ? 0 : 1);
            });
        }
        CHECK(add(engine.self(), 1, 2).get() == (bulk ? 10'003 : 3));
        CHECK(probe.use_count() == 2);
        if (bulk) {
            engine.shutdown(1s);
            CHECK(probe.use_count() == 1);
        }
    }
    CHECK(probe.use_count() == 1);
}

TEST_CASE("a handler that outlives its engine is let go at its end") {
    hg::EngineOptions options;
    options.drain = 20ms;
    Barrier barrier;
    const auto probe = std::make_shared<int>(0);
    std::optional<hg::Engine> server(hg::Engine::server(support::options().protocol, options));
    hg::Engine client = hg::Engine::client(support::options().protocol);
    std::atomic<long> owners{0};
    server->serve(nothing, [&, probe, self = server->self()]() -> Task<> {
        co_await barrier;
        owners = probe.use_count();
    });
    server->serve(add, [probe](int a, int b) { return a + b; });
    const hg::Peer peer = client.connect(server->uri());
    std::atomic<int> status{-1};
    nothing(peer).then([&](hg::Result<void> r) { status = static_cast<int>(r.status()); });
    REQUIRE(support::until([&] { return barrier.reached(); }));
    server.reset();
    CHECK(probe.use_count() == 3);
    barrier.open();
    CHECK(owners == 3);
    CHECK(probe.use_count() == 1);
    REQUIRE(support::until([&] { return status != -1; }));
}
