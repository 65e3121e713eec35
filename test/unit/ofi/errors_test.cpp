// SPDX-License-Identifier: BSD-3-Clause
// What the completion queue says of operations that failed: programs get a code that they can act
// on, the log has the provider's own words.
#include <rdma/fi_errno.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "heard.hpp"
#include "spies.hpp"
#include "support/options.hpp"
#include "support/payload.hpp"
#include "support/until.hpp"

using na::Status;
using support::until;

namespace {

constexpr std::size_t kSize = 100'000;

// Two classes; one puts into the other's memory.
struct Scene {
    explicit Scene(const std::string& protocol) : a(protocol), b(protocol) {}

    Status put(std::uint64_t seed) {
        support::fill(here, seed);
        Status how = Status::again;
        bool ended = false;
        na::Operation op(a.context);
        a.context
            .put(op, peer, local.all(), remote.at(0),
                 [&](Status s) {
                     how = s;
                     ended = true;
                 })
            .value();
        REQUIRE(until([&] { return ended; },
                      [&] {
                          a.pump();
                          b.pump();
                      }));
        return how;
    }

    Side a;
    Side b;
    std::vector<std::byte> here = std::vector<std::byte>(kSize);
    std::vector<std::byte> there = std::vector<std::byte>(kSize);
    na::Memory local = a.domain.register_memory(std::span(here), na::Access::read_write).value();
    na::Memory exposed = b.domain.register_memory(std::span(there), na::Access::read_write).value();
    na::RemoteMemory remote = a.domain.decode_memory(exposed.encode()).value();
    na::Address peer = a.domain.lookup(b.domain.uri()).value();
};

}  // namespace

TEST_CASE("errors of the completion queue are mapped, and keep the provider's words",
          "[ofi][errors]") {
    const std::string protocol =
        GENERATE(as<std::string>{}, "ofi+tcp", "ofi+tcp;ofi_rxm", "ofi+sockets");
    if (!can_open(protocol)) {
        support::skip(protocol + " cannot be opened here");
        return;
    }
    struct Case {
        int error;
        Status status;
    };
    const Case one =
        GENERATE(Case{FI_ENOMEM, Status::nomem}, Case{FI_EACCES, Status::permission},
                 Case{FI_EINVAL, Status::invalid_arg}, Case{FI_EOTHER, Status::io_error},
                 Case{FI_ECONNRESET, Status::hostunreach}, Case{FI_ETIMEDOUT, Status::hostunreach});
    INFO(protocol << ", " << fi_strerror(one.error));
    transfers().clear();
    Scene scene(protocol);
    CHECK(scene.put(1) == Status::success);
    {
        const Heard heard("info");
        next_failure() = Failure{one.error, 4711, "a mouse has eaten the cable"};
        CHECK(scene.put(2) == one.status);
        const std::string log = Heard::text();
        INFO(log);
        const std::string uri = scene.b.domain.uri();
        CHECK(log.find("an operation to " + uri.substr(uri.find("//") + 2) +
                       " failed: " + fi_strerror(one.error) + " (a mouse has eaten the cable)") !=
              std::string::npos);
    }
    CHECK_FALSE(next_failure());
    // Whatever it was, the peer is still there.
    CHECK(scene.put(3) == Status::success);
    CHECK(support::mismatch(std::span(scene.there), 3) == -1);
}
