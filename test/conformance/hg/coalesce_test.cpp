// SPDX-License-Identifier: BSD-3-Clause
// Small messages that leave together: what waits for what, and that nothing else changes.
#include <catch2/catch.hpp>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "conformance/hg/setting.hpp"
#include "conformance/hg/side.hpp"
#include "hg/context.hpp"
#include "hg/wire.hpp"
#include "na/core/bundle.hpp"
#include "support/na_endpoint.hpp"
#include "support/payload.hpp"
#include "support/two_process.hpp"
#include "support/until.hpp"

using namespace hgtest;
using Bytes = std::vector<std::byte>;

namespace {

hg::Context& core(Side& side) {
    return *reinterpret_cast<hg::Context*>(side.context());
}

bool waits(Side& side) {
    return core(side).net().gathered();
}

// Two sides that let messages wait over every transport, whatever the environment says.
struct Gathering {
    Setting always{"HG_COALESCE", "2"};
    Pair pair;
};

// `n` callbacks are due at the origin; of each, `then` is run in one call of HG_Trigger.
template <typename Then>
void trigger_at_once(Pair& pair, unsigned n, Then&& then, unsigned at_a_time = 1000) {
    std::vector<std::unique_ptr<Call>> calls;
    for (unsigned i = 0; i < n; ++i) {
        calls.push_back(std::make_unique<Call>(pair.a, pair.to_b, pair.a.empty));
        calls.back()->on_done = [&then, i](Call&) { then(i); };
        REQUIRE(calls.back()->forward() == HG_SUCCESS);
    }
    REQUIRE(support::until([&] { return core(pair.a).callbacks_due() == n; },
                           [&] {
                               (void)HG_Progress(pair.a.context(), 0);
                               pair.b.pump();
                           }));
    unsigned ran = 0;
    REQUIRE(HG_Trigger(pair.a.context(), 0, at_a_time, &ran) == HG_SUCCESS);
    CHECK(ran >= std::min(n, at_a_time));
    CHECK(!waits(pair.a));
    while (HG_Trigger(pair.a.context(), 0, at_a_time, &ran) == HG_SUCCESS) {
    }
}

// Runs `n` callbacks of a side in one call of HG_Trigger.
void run_together(Side& side, Side& other, unsigned n) {
    REQUIRE(support::until([&] { return core(side).callbacks_due() >= n; },
                           [&] {
                               (void)HG_Progress(side.context(), 0);
                               (void)HG_Progress(other.context(), 0);
                           }));
    unsigned ran = 0;
    REQUIRE(HG_Trigger(side.context(), 0, n, &ran) == HG_SUCCESS);
    CHECK(ran == n);
}

// Calls that are forwarded again by their callbacks, so often; each side runs all callbacks of a
// round together.
void run_rounds(Side& a, Side& b, hg_addr_t to_b, unsigned in_flight, unsigned rounds,
                std::size_t size) {
    std::vector<std::unique_ptr<Call>> calls;
    std::vector<unsigned> made(in_flight, 0);
    unsigned good = 0;
    for (unsigned i = 0; i < in_flight; ++i) {
        calls.push_back(std::make_unique<Call>(a, to_b, a.echo));
        calls.back()->on_done = [&, i](Call& call) {
            good += is_blob(call.out(), i * 1000 + made[i] + 1, size, i * 1000 + made[i]) ? 1U : 0U;
            if (++made[i] != rounds) {
                Blob in = blob(i * 1000 + made[i], size);
                REQUIRE(call.forward(in) == HG_SUCCESS);
            }
        };
        Blob in = blob(i * 1000, size);
        REQUIRE(calls.back()->forward(in) == HG_SUCCESS);
    }
    for (unsigned round = 0; round < rounds; ++round) {
        run_together(b, a, in_flight);
        run_together(a, b, in_flight);
    }
    CHECK(good == in_flight * rounds);
}

}  // namespace

TEST_CASE("calls made in callbacks, and answers to them, leave together", "[coalesce]") {
    Gathering g;
    run_rounds(g.pair.a, g.pair.b, g.pair.to_b, 32, 20, 30);
    const auto origin = core(g.pair.a).counters();
    const auto target = core(g.pair.b).counters();
    CHECK(origin.requests_sent == 32 * 20);
    CHECK(target.requests_received == 32 * 20);
    CHECK(origin.bundles_sent != 0);
    CHECK(origin.bundled_sent >= 2 * origin.bundles_sent);
    CHECK(target.bundles_received == origin.bundles_sent);
    CHECK(target.bundled_received == origin.bundled_sent);
    CHECK(target.bundles_sent != 0);
    CHECK(origin.bundles_received == target.bundles_sent);
    CHECK(origin.malformed == 0);
    CHECK(target.malformed == 0);
}

TEST_CASE("sizes up to the limit leave together, others alone", "[coalesce]") {
    Setting limit("HG_COALESCE_LIMIT", "300");
    Gathering g;
    for (const std::size_t size : {100U, 250U, 260U, 261U, 300U, 2000U}) {
        const auto before = core(g.pair.a).counters().bundles_sent;
        const auto together = [&] { return core(g.pair.a).counters().bundles_sent != before; };
        // 24 of the header, 16 of the blob.
        const bool fits = 24 + 16 + size <= 300;
        // What a transport has no room for at the moment leaves alone, which fault+ makes up.
        for (unsigned i = 0; i < 20 && !together(); ++i) {
            run_rounds(g.pair.a, g.pair.b, g.pair.to_b, 8, 5, size);
        }
        CHECK(together() == fits);
    }
}

TEST_CASE("a lone call waits for nobody", "[coalesce]") {
    Gathering g;
    Call warm(g.pair.a, g.pair.to_b, g.pair.a.empty);
    REQUIRE(g.pair.run(warm) == HG_SUCCESS);
    Call outside(g.pair.a, g.pair.to_b, g.pair.a.empty);
    REQUIRE(outside.forward() == HG_SUCCESS);
    CHECK(!waits(g.pair.a));
    Call first(g.pair.a, g.pair.to_b, g.pair.a.empty);
    Call last(g.pair.a, g.pair.to_b, g.pair.a.empty);
    CHECK(g.pair.wait(outside) == HG_SUCCESS);
    // Of two callbacks only the first has somebody behind it.
    trigger_at_once(g.pair, 2, [&](unsigned i) {
        REQUIRE((i == 0 ? first : last).forward() == HG_SUCCESS);
        CHECK(waits(g.pair.a) == (i == 0));
    });
    CHECK(g.pair.wait(first) == HG_SUCCESS);
    CHECK(g.pair.wait(last) == HG_SUCCESS);
    // One alone.
    first.reset();
    trigger_at_once(g.pair, 1, [&](unsigned) {
        REQUIRE(first.forward() == HG_SUCCESS);
        CHECK(!waits(g.pair.a));
    });
    CHECK(g.pair.wait(first) == HG_SUCCESS);
    // The next one is not of this call of HG_Trigger.
    first.reset();
    trigger_at_once(
        g.pair, 2,
        [&](unsigned i) {
            if (i == 0) {
                REQUIRE(first.forward() == HG_SUCCESS);
                CHECK(!waits(g.pair.a));
            }
        },
        1);
    CHECK(g.pair.wait(first) == HG_SUCCESS);
    // Progress in a callback sends what waits.
    first.reset();
    trigger_at_once(g.pair, 3, [&](unsigned i) {
        if (i == 0) {
            REQUIRE(first.forward() == HG_SUCCESS);
            CHECK(waits(g.pair.a));
            (void)HG_Progress(g.pair.a.context(), 0);
            CHECK(!waits(g.pair.a));
        }
    });
    CHECK(g.pair.wait(first) == HG_SUCCESS);
}

TEST_CASE("messages leave in the order in which they were sent, alone or not", "[coalesce]") {
    Gathering g;
    std::vector<std::uint64_t> order;
    g.pair.b.on_served = [&](std::uint64_t number) { order.push_back(number); };
    std::vector<std::unique_ptr<Call>> calls;
    trigger_at_once(g.pair, 4, [&](unsigned i) {
        for (unsigned k = 0; k < 6; ++k) {
            calls.push_back(std::make_unique<Call>(g.pair.a, g.pair.to_b, g.pair.a.echo));
            // Beyond the limit, within a message.
            Blob in = blob(i * 6 + k, k == 3 ? 1500 : 10);
            REQUIRE(calls.back()->forward(in) == HG_SUCCESS);
        }
    });
    for (const auto& call : calls) {
        CHECK(g.pair.wait(*call) == HG_SUCCESS);
    }
    REQUIRE(order.size() == calls.size());
    CHECK(std::is_sorted(order.begin(), order.end()));
}

TEST_CASE("a call that waits can be canceled, and is not sent", "[coalesce]") {
    Gathering g;
    Call kept(g.pair.a, g.pair.to_b, g.pair.a.empty);
    Call canceled(g.pair.a, g.pair.to_b, g.pair.a.empty);
    Call also(g.pair.a, g.pair.to_b, g.pair.a.empty);
    trigger_at_once(g.pair, 3, [&](unsigned i) {
        if (i == 0) {
            REQUIRE(kept.forward() == HG_SUCCESS);
            REQUIRE(canceled.forward() == HG_SUCCESS);
            REQUIRE(also.forward() == HG_SUCCESS);
            REQUIRE(HG_Cancel(canceled.handle()) == HG_SUCCESS);
        }
    });
    CHECK(g.pair.wait(canceled) == HG_CANCELED);
    CHECK(g.pair.wait(kept) == HG_SUCCESS);
    CHECK(g.pair.wait(also) == HG_SUCCESS);
    for (int i = 0; i < 20; ++i) {
        g.pair.pump();
    }
    CHECK(g.pair.b.served == 3 + 2);
    CHECK(canceled.count() == 0);  // none but that which was waited for
}

TEST_CASE("each side decides for itself whether its messages leave together", "[coalesce]") {
    for (const bool origin_does : {false, true}) {
        std::optional<Side> a;
        std::optional<Side> b;
        {
            const Setting mine("HG_COALESCE", origin_does ? "2" : "0");
            a.emplace();
        }
        {
            const Setting its("HG_COALESCE", origin_does ? "0" : "2");
            b.emplace();
        }
        {
            const Addr to_b(*a, b->uri());
            run_rounds(*a, *b, to_b, 16, 10, 20);
        }
        const auto of_a = core(*a).counters();
        const auto of_b = core(*b).counters();
        CHECK((of_a.bundles_sent != 0) == origin_does);
        CHECK((of_b.bundles_sent != 0) == !origin_does);
        CHECK(of_b.bundles_received == of_a.bundles_sent);
        CHECK(of_a.bundles_received == of_b.bundles_sent);
        b->end(&*a);
    }
}

TEST_CASE("more calls at once than the target has receives, or may have requests", "[coalesce]") {
    const Setting limit("HG_REQUEST_LIMIT", "8");
    const Setting always("HG_COALESCE", "2");
    Side::Settings few;
    few.init.request_post_init = 2;
    few.init.request_post_incr = 2;
    Pair pair(Side::Settings{}, few);
    constexpr unsigned kCalls = 40;
    std::vector<std::unique_ptr<Call>> calls;
    trigger_at_once(pair, 2, [&](unsigned i) {
        for (unsigned k = 0; i == 0 && k < kCalls; ++k) {
            calls.push_back(std::make_unique<Call>(pair.a, pair.to_b, pair.a.hold));
            calls.back()->decode_output = false;
            REQUIRE(calls.back()->forward(k) == HG_SUCCESS);
        }
    });
    auto& held = pair.b.held();
    const auto over = [&] {
        return std::count_if(calls.begin(), calls.end(), [](const auto& c) { return c->done(); });
    };
    REQUIRE(support::until([&] { return over() == kCalls - 8 && held.size() == 8; },
                           [&] { pair.pump(); }));
    for (const auto& call : calls) {
        CHECK((!call->done() || call->ret() == HG_AGAIN));
    }
    CHECK(core(pair.b).counters().requests_refused == kCalls - 8);
    CHECK(core(pair.b).counters().requests_unanswered == 0);
    for (hg_handle_t h : held) {
        CHECK(HG_Respond(h, nullptr, nullptr, nullptr) == HG_SUCCESS);
        HG_Destroy(h);
    }
    held.clear();
    for (const auto& call : calls) {
        if (!call->done()) {
            CHECK(pair.wait(*call) == HG_SUCCESS);
        }
    }
}

TEST_CASE("where callbacks take long no message waits for them", "[coalesce]") {
    const Setting where_it_pays("HG_COALESCE", "1");
    Pair pair;
    if (!core(pair.a).gathers()) {
        support::skip("over this transport nothing waits unless it is told to");
        return;
    }
    Call call(pair.a, pair.to_b, pair.a.empty);
    REQUIRE(pair.run(call) == HG_SUCCESS);
    bool waited = true;
    unsigned rounds = 0;
    // One that is too late is enough; the machine may have been slow before.
    for (; waited && rounds < 10; ++rounds) {
        trigger_at_once(pair, 2, [&](unsigned i) {
            if (i == 0) {
                REQUIRE(call.forward() == HG_SUCCESS);
                waited = waits(pair.a);
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
            }
        });
        CHECK(pair.wait(call) == HG_SUCCESS);
    }
    CHECK(!waited);
    CHECK(rounds <= 2);
}

TEST_CASE("calls that wait for a peer that is gone end", "[coalesce]") {
    if (support::options().protocol.find("loop") != std::string::npos) {
        support::skip("the transport lives in one process");
        return;
    }
    const Setting always("HG_COALESCE", "2");
    support::Party server(support::Party::As::process, [](support::Link& link) {
        Side side;
        link.put(side.uri());
        while (!link.readable()) {
            support::rest_point();
            (void)HG_Progress(side.context(), 10);
            unsigned n = 0;
            while (HG_Trigger(side.context(), 0, 16, &n) == HG_SUCCESS && n != 0) {
            }
        }
    });
    Pair pair;
    const Addr to(pair.a, server.link().take_text());
    Call first(pair.a, to, pair.a.empty);
    REQUIRE(first.forward() == HG_SUCCESS);
    REQUIRE(support::until([&] { return first.done(); }, [&] { pair.pump(); }));
    REQUIRE(first.ret() == HG_SUCCESS);
    std::vector<std::unique_ptr<Call>> calls;
    unsigned forwarded = 0;
    trigger_at_once(pair, 2, [&](unsigned i) {
        for (unsigned k = 0; i == 0 && k < 20; ++k) {
            calls.push_back(std::make_unique<Call>(pair.a, to, pair.a.hold));
            forwarded += calls.back()->forward(k) == HG_SUCCESS ? 1U : 0U;
        }
        if (i == 0) {
            CHECK(waits(pair.a));
            server.kill(SIGKILL);
        }
    });
    CHECK(forwarded == 20);
    for (const auto& call : calls) {
        CHECK(pair.wait(*call) == HG_HOSTUNREACH);
        CHECK(call->count() == 0);
    }
}

namespace {

Bytes request(std::uint32_t cookie, hg_id_t id, std::size_t payload = 0) {
    Bytes bytes(hg::wire::kRequestSize + payload);
    support::fill(bytes, cookie);
    hg::wire::encode(bytes.data(), hg::wire::Request{.cookie = cookie, .id = id}, payload);
    return bytes;
}

Bytes response(std::uint32_t cookie) {
    Bytes bytes(hg::wire::kResponseSize);
    hg::wire::encode(bytes.data(), hg::wire::Response{.cookie = cookie}, 0);
    return bytes;
}

Bytes pack(const std::vector<std::pair<std::uint32_t, Bytes>>& parts) {
    Bytes bytes(4096);
    std::byte* at = na::bundle::begin(bytes.data(), parts.size());
    for (const auto& [tag, part] : parts) {
        at = na::bundle::add(at, tag, part);
    }
    bytes.resize(static_cast<std::size_t>(at - bytes.data()));
    return bytes;
}

}  // namespace

TEST_CASE("a bundle made by hand: each request in it is served, refused or dropped by itself",
          "[coalesce]") {
    const Setting never("HG_COALESCE", "0");  // raw NA takes no bundles apart
    Side target;
    support::Endpoint endpoint;
    const support::Addr to(endpoint, target.uri());
    const na_tag_t bundle_tag = na::bundle::tag(NA_Msg_get_max_tag(endpoint.cls()));
    const auto pump = [&] {
        target.pump();
        endpoint.pump();
    };
    support::Buffer buffer(endpoint);
    const auto send = [&](const Bytes& bytes) {
        support::Op op(endpoint);
        std::copy(bytes.begin(), bytes.end(), buffer.data() + endpoint.header());
        REQUIRE(op.send_unexpected(buffer, endpoint.header() + bytes.size(), to, bundle_tag) ==
                NA_SUCCESS);
        REQUIRE(support::until([&] { return op.done(); }, pump));
    };
    // Good, unknown, malformed, good.
    Bytes short_one = request(3, target.empty);
    short_one.resize(10);
    const Bytes bundle = pack({{1, request(1, target.empty)},
                               {2, request(2, 4711)},
                               {3, short_one},
                               {4, request(4, target.empty)}});
    struct Answer {
        explicit Answer(support::Endpoint& e) : buffer(e), op(e) {}
        support::Buffer buffer;
        support::Op op;
    };
    std::vector<std::unique_ptr<Answer>> answers;
    for (na_tag_t tag = 1; tag <= 4; ++tag) {
        answers.push_back(std::make_unique<Answer>(endpoint));
        REQUIRE(answers.back()->op.recv_expected(answers.back()->buffer, to, tag) == NA_SUCCESS);
    }
    send(bundle);
    const hg_return_t codes[] = {HG_SUCCESS, HG_NOENTRY, HG_PROTOCOL_ERROR, HG_SUCCESS};
    for (unsigned i = 0; i < 4; ++i) {
        REQUIRE(support::until([&] { return answers[i]->op.done(); }, pump));
        const std::size_t header = endpoint.header(true);
        hg::wire::Response r;
        REQUIRE(hg::wire::decode(std::span(answers[i]->buffer.data() + header,
                                           answers[i]->op.result().size - header),
                                 r)
                    .status == na::Status::success);
        CHECK(static_cast<hg_return_t>(r.code) == codes[i]);
        CHECK(r.cookie == i + 1);
    }
    // Whatever else comes is dropped as a whole, or its parts are.
    CHECK(core(target).counters().bundles_received == 1);
    send({});
    for (std::size_t size = 0; size < bundle.size(); ++size) {
        send(Bytes(bundle.begin(), bundle.begin() + static_cast<std::ptrdiff_t>(size)));
    }
    CHECK(core(target).counters().bundles_received == 1);
    support::Random random(support::options().seed);
    for (unsigned i = 0; i < 400 / support::kSlow; ++i) {
        Bytes bad = bundle;
        bad[random.below(bad.size())] = static_cast<std::byte>(random.next());
        send(bad);
    }
    Side origin;
    {
        const Addr to_target(origin, target.uri());
        Call call(origin, to_target, origin.echo);
        Blob in = blob(1, 100);
        REQUIRE(call.forward(in) == HG_SUCCESS);
        REQUIRE(support::until([&] { return call.done(); }, pump, [&] { origin.pump(); }));
        CHECK(call.ret() == HG_SUCCESS);
    }
    target.end(&origin);
}

TEST_CASE("answers in a bundle that were not asked for are dropped", "[coalesce]") {
    const Setting never("HG_COALESCE", "0");
    Side origin;
    support::Endpoint endpoint;
    const na_tag_t bundle_tag = na::bundle::tag(NA_Msg_get_max_tag(endpoint.cls()));
    support::Buffer buffer(endpoint);
    support::Buffer reply(endpoint);
    const auto pump = [&] {
        origin.pump();
        endpoint.pump();
    };
    {
        const Addr to(origin, endpoint.uri());
        std::vector<std::unique_ptr<Call>> calls;
        std::vector<std::pair<std::uint32_t, std::uint32_t>> asked;  // tag and cookie
        support::Addr source;
        for (unsigned i = 0; i < 4; ++i) {
            calls.push_back(std::make_unique<Call>(origin, to, origin.empty));
            support::Op recv(endpoint);
            REQUIRE(recv.recv_unexpected(buffer) == NA_SUCCESS);
            REQUIRE(calls.back()->forward() == HG_SUCCESS);
            REQUIRE(support::until([&] { return recv.done(); }, pump));
            hg::wire::Request r;
            REQUIRE(hg::wire::decode(std::span(buffer.data() + endpoint.header(),
                                               recv.result().size - endpoint.header()),
                                     r)
                        .status == na::Status::success);
            asked.emplace_back(recv.result().tag, r.cookie);
            source = support::Addr(endpoint, to_string(endpoint, recv.result().source));
        }
        REQUIRE(HG_Cancel(calls[3]->handle()) == HG_SUCCESS);
        const auto send = [&](const Bytes& bytes) {
            support::Op op(endpoint);
            std::memcpy(reply.data() + endpoint.header(true), bytes.data(), bytes.size());
            REQUIRE(op.send_expected(reply, endpoint.header(true) + bytes.size(), source,
                                     bundle_tag) == NA_SUCCESS);
            REQUIRE(support::until([&] { return op.done(); }, pump));
        };
        // To nobody, twice, with another's cookie, late, and nothing at all for the third.
        send(pack({{0x7ffffff, response(1)},
                   {asked[0].first, response(asked[0].second)},
                   {asked[0].first, response(asked[0].second)},
                   {asked[1].first, response(asked[0].second)},
                   {asked[3].first, response(asked[3].second)}}));
        send(pack({{asked[0].first, response(asked[0].second)}}));
        REQUIRE(support::until(
            [&] { return calls[0]->done() && calls[1]->done() && calls[3]->done(); }, pump));
        CHECK(calls[0]->ret() == HG_SUCCESS);
        CHECK(calls[1]->ret() == HG_PROTOCOL_ERROR);
        CHECK(calls[3]->ret() == HG_CANCELED);
        for (int i = 0; i < 20; ++i) {
            pump();
        }
        CHECK(!calls[2]->done());
        Bytes cut = pack({{asked[2].first, response(asked[2].second)}});
        cut.pop_back();
        send(cut);
        for (int i = 0; i < 20; ++i) {
            pump();
        }
        CHECK(!calls[2]->done());
        send(pack({{asked[2].first, response(asked[2].second)}}));
        REQUIRE(support::until([&] { return calls[2]->done(); }, pump));
        CHECK(calls[2]->ret() == HG_SUCCESS);
        for (const auto& call : calls) {
            CHECK(call->count() == 1);
        }
    }
}
