// SPDX-License-Identifier: BSD-3-Clause
// Over a transport that loses messages, fails posts and loses peers (fault+...): every call ends
// exactly once, canceled if need be, and everything can be closed. Hidden: runs with plans that the
// other cases could not pass.
#include <catch2/catch.hpp>

#include <memory>

#include "conformance/hg/side.hpp"
#include "support/payload.hpp"
#include "support/until.hpp"

using namespace hgtest;

TEST_CASE("whatever the transport does, calls end once", "[.lossy]") {
    support::Random random(support::options().seed);
    auto target = std::make_unique<Side>();
    auto origin = std::make_unique<Side>();
    std::unique_ptr<Addr> to = std::make_unique<Addr>(*origin, target->uri());
    unsigned good = 0;
    unsigned bad = 0;
    for (unsigned round = 0; round < 60 / support::kSlow; ++round) {
        std::vector<std::unique_ptr<Call>> calls;
        std::vector<std::size_t> sizes;
        for (unsigned i = 0; i < 20; ++i) {
            const hg_id_t id = random.below(4) == 0 ? origin->note : origin->echo;
            calls.push_back(std::make_unique<Call>(*origin, *to, id));
            sizes.push_back(random.below(3) == 0 ? 70'000 : 200);
            Blob in = blob(i, sizes.back());
            if (calls.back()->forward(in) != HG_SUCCESS) {
                calls.back().reset();
                ++bad;
            }
        }
        const auto pump = [&] {
            origin->pump();
            target->pump();
        };
        for (unsigned i = 0; i < 300; ++i) {
            pump();
        }
        for (unsigned i = 0; i < 20; ++i) {
            if (calls[i] == nullptr) {
                continue;
            }
            if (!calls[i]->done()) {
                HG_Cancel(calls[i]->handle());
            }
            REQUIRE(support::until([&] { return calls[i]->done(); }, pump));
            if (calls[i]->ret() == HG_SUCCESS) {
                ++good;
                if (calls[i]->decode_output) {
                    CHECK(is_blob(calls[i]->out(), i + 1, sizes[i], i));
                }
            } else {
                ++bad;
            }
        }
        for (unsigned i = 0; i < 10; ++i) {
            pump();
        }
        for (auto& call : calls) {
            CHECK((call == nullptr || call->count() == 1));
        }
    }
    INFO(good << " calls succeeded, " << bad << " did not");
    CHECK(good > 0);
    to.reset();
    target.reset();  // with responses that nobody acknowledges, perhaps
    origin.reset();
}
