// SPDX-License-Identifier: BSD-3-Clause
// Memory as providers want it (mr_mode): messages, puts and gets between two classes, over a
// provider that insists on each of these bits, and on all of them.
#include "modes.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "spies.hpp"
#include "support/options.hpp"
#include "support/payload.hpp"
#include "support/until.hpp"

using namespace std::chrono_literals;
using na::Access;
using na::Segment;
using na::Status;
using support::until;

namespace {

struct Wanting {
    explicit Wanting(int bits) { modes::want(bits); }
    ~Wanting() { modes::want(0); }
};

// Three pieces.
struct Pieces {
    explicit Pieces(std::uint64_t seed) : first(100), second(1), third(70'000) { fill(seed); }
    void fill(std::uint64_t seed) {
        for (auto* part : {&first, &second, &third}) {
            support::fill(*part, seed++);
        }
    }
    std::vector<std::byte> all() const {
        std::vector<std::byte> bytes(first);
        bytes.insert(bytes.end(), second.begin(), second.end());
        bytes.insert(bytes.end(), third.begin(), third.end());
        return bytes;
    }
    na::Memory in(Side& side) {
        const Segment segments[] = {{first.data(), first.size()},
                                    {second.data(), second.size()},
                                    {third.data(), third.size()}};
        return side.domain.register_segments(segments, Access::read_write).value();
    }
    std::vector<std::byte> first, second, third;
};

}  // namespace

TEST_CASE("memory as a provider wants it", "[ofi][memory]") {
    const std::string protocol = GENERATE(as<std::string>{}, "ofi+tcp", "ofi+sockets");
    const int bits =
        GENERATE(0, FI_MR_LOCAL, FI_MR_VIRT_ADDR, FI_MR_ALLOCATED, FI_MR_PROV_KEY, FI_MR_ENDPOINT,
                 FI_MR_RMA_EVENT, FI_MR_RAW, FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY,
                 FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT |
                     FI_MR_RMA_EVENT | FI_MR_RAW);
    if (!can_open(protocol)) {
        support::skip(protocol + " cannot be opened here");
        return;
    }
    INFO(protocol << ", mr_mode " << bits);
    const Wanting wanting(bits);
    {
        Side a(protocol);
        Side b(protocol);
        const na::Address to_b = a.domain.lookup(b.domain.uri()).value();
        const auto wait_for = [&](const bool& ended) {
            REQUIRE(until([&] { return ended; },
                          [&] {
                              a.pump();
                              b.pump();
                          }));
        };
        // Messages, more than fit into what receives are posted with at first.
        const na::Buffer out = a.domain.make_buffer(4000).value();
        const na::Buffer in = b.domain.make_buffer(4000).value();
        na::Operation op(a.context), receive(b.context);
        for (unsigned i = 0; i < 50; ++i) {
            support::fill(out.bytes(), i);
            bool sent = false, received = false;
            b.context
                .recv_unexpected(receive, in,
                                 [&](Status s, const na::Message& m) {
                                     CHECK(ok(s));
                                     CHECK(support::mismatch(m.data, i) == -1);
                                     received = true;
                                 })
                .value();
            a.context
                .send_unexpected(op, to_b, 1, out.first(4000 - i), [&](Status s) { sent = ok(s); })
                .value();
            wait_for(sent);
            wait_for(received);
        }

        Pieces mine(1), theirs(10);
        const na::Memory exposed = theirs.in(b);
        const na::Memory local = mine.in(a);
        const na::RemoteMemory remote = a.domain.decode_memory(exposed.encode()).value();
        // A byte, what is injected, what goes through buffers over borders, all of it.
        for (const auto& [here, there, size] :
             {std::tuple<std::size_t, std::size_t, std::size_t>{100, 99, 1},
              {3, 90, 15},
              {90, 95, 5000},
              {0, 0, 70'101}}) {
            INFO(here << ", " << there << ", " << size);
            mine.fill(20);
            theirs.fill(30);
            auto expected = mine.all();
            const auto source = theirs.all();
            std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(there), size,
                        expected.begin() + static_cast<std::ptrdiff_t>(here));
            bool ended = false;
            a.context
                .get(op, to_b, local.range(here, size), remote.at(there),
                     [&](Status s) { ended = ok(s); })
                .value();
            wait_for(ended);
            CHECK((mine.all() == expected));

            mine.fill(40);
            expected = source;
            const auto put = mine.all();
            std::copy_n(put.begin() + static_cast<std::ptrdiff_t>(here), size,
                        expected.begin() + static_cast<std::ptrdiff_t>(there));
            ended = false;
            a.context
                .put(op, to_b, local.range(here, size), remote.at(there),
                     [&](Status s) { ended = ok(s); })
                .value();
            wait_for(ended);
            CHECK((theirs.all() == expected));
        }
        CHECK((modes::checked() != 0) == ((bits & FI_MR_LOCAL) != 0));
        CHECK((modes::translated() != 0) == (bits != 0));
        CHECK((modes::mapped_keys() != 0) == ((bits & FI_MR_RAW) != 0));
    }
    CHECK(modes::registrations() == 0);
    CHECK(modes::mapped_keys() == 0);
}
