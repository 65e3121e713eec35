// SPDX-License-Identifier: BSD-3-Clause
// Peers that are lost with transfers under way.
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "spies.hpp"
#include "support/options.hpp"
#include "support/until.hpp"

using namespace std::chrono_literals;
using na::Status;
using support::until;

// Its user may do with the memory what he likes from then on, and libfabric writes into it what the
// dead have left in a socket.
TEST_CASE("a get from a peer that is lost ends when libfabric has let go of the memory",
          "[ofi][lost]") {
    const std::string protocol =
        GENERATE(as<std::string>{}, "ofi+tcp", "ofi+tcp;ofi_rxm", "ofi+sockets");
    if (!can_open(protocol)) {
        support::skip(protocol + " cannot be opened here");
        return;
    }
    const bool large = GENERATE(true, false);
    INFO(protocol << (large ? ", direct" : ", through a buffer"));
    const std::size_t size = large ? std::size_t{1} << 20 : 64;
    transfers().clear();
    Side side(protocol);
    auto other = std::make_unique<Side>(protocol);
    std::vector<std::byte> there(size, std::byte{7});
    std::vector<std::byte> here(size);
    auto lent = std::make_unique<na::Memory>(
        other->domain.register_memory(std::span(there), na::Access::read_write).value());
    const na::Memory local =
        side.domain.register_memory(std::span(here), na::Access::read_write).value();
    const na::RemoteMemory remote = side.domain.decode_memory(lent->encode()).value();
    const na::Address peer = side.domain.lookup(other->domain.uri()).value();
    na::Operation get(side.context), receive(side.context);
    bool ended = false;
    Status how = Status::success;
    const auto post = [&] {
        ended = false;
        REQUIRE(side.context.get(get, peer, local.all(), remote.at(0), [&](Status s) {
            how = s;
            ended = true;
        }));
    };
    post();
    REQUIRE(until([&] { return ended; },
                  [&] {
                      side.pump();
                      other->pump();
                  }));
    CHECK(ok(how));
    CHECK(here == there);
    const na::Buffer in = side.domain.make_buffer(8).value();
    bool lost = false;
    REQUIRE(side.context.recv_expected(receive, peer, 1, in,
                                       [&](Status, std::span<std::byte>) { lost = true; }));
    withholds() = true;
    post();
    CHECK(other->context.close(10s));
    lent.reset();
    other.reset();
    REQUIRE(until([&] { return lost; }, [&] { side.pump(); }));
    for (int i = 0; i < 100; ++i) {
        side.pump();
    }
    // A buffer of the transport's own may be written to.
    CHECK(ended == !large);
    withholds() = false;
    REQUIRE(until([&] { return ended; }, [&] { side.pump(); }));
    CHECK(how == Status::hostunreach);
    REQUIRE(until([&] { return transfers().empty(); }, [&] { side.pump(); }));
    CHECK(side.context.close(10s));
}
