// SPDX-License-Identifier: BSD-3-Clause
// Memory that is shown to peers, pulled and pushed.
#include <catch2/catch.hpp>

#include <array>
#include <functional>
#include <numeric>

#include "conformance/cxx/bulk_scene.hpp"
#include "hg/elements.hpp"
#include "support/payload.hpp"

using namespace cxxtest;

namespace {

inline constexpr hg::Rpc<std::uint64_t(hg::RemoteBulk<Share::read>)> sum_of{"sum_of"};
inline constexpr hg::Rpc<void(hg::RemoteBulk<Share::write>, std::uint8_t)> fill_with{"fill_with"};
inline constexpr hg::Rpc<hg::RemoteBulk<Share::read>()> show{"show"};

std::uint64_t sum(std::span<const std::byte> bytes) {
    std::uint64_t n = 0;
    for (const std::byte b : bytes) {
        n += std::to_integer<std::uint64_t>(b);
    }
    return n;
}

// What refers to memory is not the memory.
template <typename M>
concept exposable = requires(const hg::Engine& e, M& m) {
    ReadBulk::expose(e, m);
};
template <typename M>
concept takeable = requires(const hg::Engine& e, M m) {
    ReadBulk::expose(e, std::move(m));
};
template <typename M>
concept transferable = requires(const hg::RemoteBulk<Share::both>& r, M& m) {
    r.pull(m);
    r.push(m);
};
template <typename M>
concept memory = exposable<M> && takeable<M> && transferable<M>;
template <typename M>
concept no_memory = !exposable<M> && !takeable<M> && !transferable<M>;
struct Pixel {
    float rgb[3];
};
static_assert(memory<std::vector<Pixel>> && memory<std::string> && memory<std::span<int>> &&
              memory<std::array<std::array<int, 2>, 2>> && exposable<double[3]> &&
              exposable<const std::string> && exposable<std::string_view>);
static_assert(no_memory<std::vector<char*>> && no_memory<std::vector<const char*>> &&
              no_memory<std::vector<std::string_view>> && no_memory<std::array<int*, 3>> &&
              no_memory<std::vector<std::span<const std::byte>>> &&
              no_memory<std::vector<std::array<std::string_view, 2>>> &&
              no_memory<std::vector<void (*)()>> &&
              no_memory<std::vector<std::reference_wrapper<int>>> &&
              no_memory<std::vector<int Pixel::*>> && no_memory<std::vector<hg::Elements<int>>> &&
              !exposable<char* [2]>);
static_assert(exposable<std::vector<std::span<std::byte>>> &&
              exposable<const std::vector<std::span<std::byte>>> &&
              !transferable<std::vector<std::span<std::byte>>>);

void serve_all(hg::Engine& server) {
    server.serve(sum_of, [&server](hg::RemoteBulk<Share::read> from) -> Task<std::uint64_t> {
        const auto here = FullBulk::allocate(server, from.size());
        co_await from.pull(here);
        co_return sum(here.bytes());
    });
    server.serve(fill_with, [](hg::RemoteBulk<Share::write> to, std::uint8_t with) -> Task<> {
        const std::vector<std::uint8_t> content(to.size(), with);
        co_await to.push(content);
    });
}

}  // namespace

TEST_CASE("containers are shown, pulled and pushed") {
    Pair pair;
    serve_all(pair.server);
    for (const std::size_t size : {1U, 100U, 5000U, 1'000'000U}) {
        std::vector<std::uint8_t> data(size);
        support::fill(data.data(), size, size);
        const auto shown = ReadBulk::expose(pair.client, data);
        CHECK(shown.size() == size);
        CHECK(sum_of(pair.peer, shown).get() == sum(std::as_bytes(std::span(data))));
        const auto open = FullBulk::expose(pair.client, data);
        fill_with(pair.peer, open, std::uint8_t{7}).get();
        CHECK(std::count(data.begin(), data.end(), 7) == static_cast<std::ptrdiff_t>(size));
        CHECK(sum_of(pair.peer, open).get() == 7 * size);
    }
}

TEST_CASE("several segments are one range") {
    Pair pair;
    serve_all(pair.server);
    std::array<std::uint32_t, 3> first{1, 2, 3};
    std::string second(10'000, 'x');
    const std::vector<std::uint8_t> third(5, 9);
    const auto shown = ReadBulk::expose(pair.client, first, second, third);
    CHECK(shown.segments() == 3);
    CHECK(shown.size() == 12 + 10'000 + 5);
    CHECK(sum_of(pair.peer, shown).get() == 6 + 10'000 * std::uint64_t{'x'} + 45);
    std::vector<std::span<std::byte>> list(20, std::as_writable_bytes(std::span(second)));
    CHECK(ReadBulk::expose(pair.client, std::span<const std::span<std::byte>>(list)).size() ==
          200'000);
}

TEST_CASE("a vector of spans is what they show") {
    Pair pair;
    serve_all(pair.server);
    std::string first = "ab";
    std::vector<std::uint8_t> second(9000, 1);
    const std::vector<std::span<std::byte>> list{std::as_writable_bytes(std::span(first)),
                                                 std::as_writable_bytes(std::span(second))};
    const auto shown = ReadBulk::expose(pair.client, list);
    CHECK(shown.segments() == 2);
    CHECK(shown.size() == 9002);
    CHECK(sum_of(pair.peer, shown).get() == 'a' + 'b' + 9000);
    CHECK(ReadBulk::expose(pair.client, std::span(list)).size() == 9002);
    CHECK(ReadBulk::expose(pair.client, std::vector(list)).size() == 9002);
}

TEST_CASE("memory of the library's, and memory that a descriptor takes over") {
    Pair pair;
    serve_all(pair.server);
    const auto mine = FullBulk::allocate(pair.client, 300'000);
    CHECK(sum(mine.bytes()) == 0);
    fill_with(pair.peer, mine, std::uint8_t{1}).get();
    CHECK(sum(mine.bytes()) == 300'000);
    const auto kept = ReadBulk::expose(pair.client, std::vector<std::uint8_t>(20'000, 2));
    const auto copy = kept;
    CHECK(sum_of(pair.peer, copy).get() == 40'000);
    CHECK(sum_of(pair.peer, ReadBulk()).wait().status() == Status::invalid_arg);
}

TEST_CASE("ranges, and what is beyond them") {
    static constexpr hg::Rpc<std::string(hg::RemoteBulk<Share::read>, std::uint64_t, std::uint64_t,
                                         std::uint64_t)>
        part{"part"};
    Pair pair;
    pair.server.serve(part,
                      [&](hg::RemoteBulk<Share::read> from, std::uint64_t remote,
                          std::uint64_t local, std::uint64_t size) -> Task<std::string> {
                          std::string text(10, '.');
                          co_await from.pull(text,
                                             {.remote = remote, .local = local, .size = size});
                          co_return text;
                      });
    std::string text = "abcdefghijklmnopqrstuvwxyz";
    const auto shown = ReadBulk::expose(pair.client, text);
    CHECK(part(pair.peer, shown, 2U, 3U, 4U).get() == "...cdef...");
    CHECK(part(pair.peer, shown, 20U, 0U, hg::Range::kRest).get() == "uvwxyz....");
    CHECK(part(pair.peer, shown, 26U, 10U, 0U).get() == "..........");
    for (const auto& [remote, local, size] :
         {std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>{27, 0, 0},
          {0, 11, 0},
          {0, 0, 11},
          {0, 0, hg::Range::kRest},
          {20, 0, 7},
          {1, 1, UINT64_MAX - 1},
          {UINT64_MAX, 0, 1}}) {
        const auto r = part(pair.peer, shown, remote, local, size).wait();
        CHECK(r.status() == Status::invalid_arg);
    }
}

TEST_CASE("a response shows memory too") {
    // Outlives the pair: that what a thread sent from it was received orders nothing for the thread
    // sanitizer.
    std::string text(50'000, 't');
    Pair pair;
    const auto shown = ReadBulk::expose(pair.server, text);
    pair.server.serve(show, [&] { return hg::RemoteBulk<Share::read>(shown); });
    const hg::RemoteBulk<Share::read> remote = show(pair.peer).get();
    CHECK(remote.size() == 50'000);
    CHECK(remote.peer() == pair.peer);
    std::string here(50'000, ' ');
    CHECK(remote.pull(here).wait());
    CHECK(here == text);
    CHECK(remote.pull(here, {}, hg::within(-1s)).wait().status() == Status::timeout);
    std::stop_source source;
    source.request_stop();
    CHECK(remote.pull(here, {}, {.stop = source.get_token()}).wait().status() == Status::canceled);
    CHECK(remote.pull(here, {}, {.deadline = hg::Clock::now() + 10s}).wait());
}

TEST_CASE("a descriptor is passed on where its owner has bound it") {
    static constexpr hg::Rpc<std::uint64_t(hg::RemoteBulk<Share::read>, std::string)> forward{
        "forward"};
    Pair pair;
    hg::Engine third = hg::Engine::server(support::options().protocol);
    serve_all(third);
    pair.server.serve(forward,
                      [&](hg::RemoteBulk<Share::read> bulk, std::string to) -> Task<std::uint64_t> {
                          const hg::Peer next = pair.server.connect(to);
                          co_return co_await sum_of(next, bulk);
                      });
    std::vector<std::uint8_t> data(30'000, 3);
    const auto shown = ReadBulk::expose(pair.client, data);
    const auto refused = forward(pair.peer, shown, third.uri()).wait();
    CHECK(refused.status() == Status::invalid_arg);
    shown.bind();
    CHECK(forward(pair.peer, shown, third.uri()).get() == 90'000);
}

TEST_CASE("permissions hold against peers with other definitions") {
    // What the same RPC would be for somebody who wants more.
    static constexpr hg::Rpc<std::uint64_t(hg::RemoteBulk<Share::both>)> greedy{"sum_of"};
    Pair pair;
    serve_all(pair.server);
    std::vector<std::uint8_t> data(10, 1);
    CHECK(greedy(pair.peer, FullBulk::expose(pair.client, data)).wait().status() ==
          Status::noentry);
}

TEST_CASE("a window of 4 KiB and more shows what is there when it is looked at") {
    static constexpr hg::Rpc<void(hg::RemoteBulk<Share::read>)> keep{"keep"};
    static constexpr hg::Rpc<std::uint64_t()> look{"look"};
    static constexpr hg::Rpc<void()> drop{"drop"};
    hg::RemoteBulk<Share::read> kept;  // the server's thread's
    Pair pair;
    pair.server.serve(keep, [&](hg::RemoteBulk<Share::read> window) { kept = std::move(window); });
    pair.server.serve(drop, [&] { kept = {}; });
    pair.server.serve(look, [&]() -> Task<std::uint64_t> {
        const auto here = FullBulk::allocate(pair.server, kept.size());
        co_await kept.pull(here);
        co_return sum(here.bytes());
    });
    for (const std::size_t size : {4096U, 10'000U, 1'000'000U}) {
        std::vector<std::uint8_t> data(size, 1);
        const auto shown = ReadBulk::expose(pair.client, data);
        CHECK(keep(pair.peer, shown).wait());
        for (const std::uint8_t value : {std::uint8_t{2}, std::uint8_t{3}}) {
            data.assign(size, value);
            const auto seen = look(pair.peer).wait();
            CHECK((seen && *seen == value * size));
        }
        CHECK(drop(pair.peer).wait());  // whatever came before
    }
}
