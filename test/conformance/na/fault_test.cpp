// SPDX-License-Identifier: BSD-3-Clause
// With a transport that fails, drops messages and loses peers: every operation still ends exactly
// once, with a code that tells the truth. And random sequences of everything.
#include <algorithm>

#include "common.hpp"

using namespace na_test;

namespace {

// The transport under test behind a plan; empty, and the case reported as skipped, if it has one
// already.
std::string with_plan(const std::string& plan) {
    if (faulty()) {
        support::skip("has a fault plan already");
        return {};
    }
    return "fault+" + options().protocol + "?" + plan + "&seed=" + std::to_string(options().seed);
}

// The other side: of the same class, so that addresses fit.
Endpoint::Settings faultless() {
    Endpoint::Settings settings;
    settings.info = "fault+" + options().protocol;
    return settings;
}

}  // namespace

TEST_CASE("malformed fault plans are refused", "[fault]") {
    const Quiet quiet;
    for (const char* text :
         {"fault+", "fault+loop", "fault++loop", "fault+loop+", "fault+no+such",
          "fault+loop+loop?again", "fault+loop+loop?again=", "fault+loop+loop?again=1.5",
          "fault+loop+loop?again=-1", "fault+loop+loop?what=1", "fault+loop+loop?seed=x",
          "fault+loop+loop?again=0.5x", "fault+loop+loop?seed=1&&seed=2"}) {
        INFO(text);
        CHECK(NA_Initialize(text, true) == nullptr);
        CHECK(std::strlen(NA_Get_last_error()) > 10);
    }
}

TEST_CASE("sends that fail say so, and only they are missing", "[fault]") {
    const std::string info = with_plan("fail=0.3&again=0.2&delay=0.2");
    if (info.empty()) {
        return;
    }
    Endpoint::Settings faulty_sender;
    faulty_sender.info = info;
    Pair p(faulty_sender);
    Buffer out(p.a);
    Buffer in(p.b);
    const std::size_t total = fill_message(p.a, out, 60, 1);
    std::vector<na_tag_t> arrived;
    Op recv(p.b);
    recv.on_result = [&](Op& op, const Result& r) {
        arrived.push_back(r.tag);
        REQUIRE(op.recv_unexpected(in) == NA_SUCCESS);
    };
    REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    std::vector<na_tag_t> sent;
    unsigned refused = 0;
    unsigned failed = 0;
    for (unsigned i = 0; i < 600; ++i) {
        Op send(p.a);
        const na_return_t r = send.send_unexpected(out, total, p.to_b, i);
        if (r != NA_SUCCESS) {
            CHECK(r == NA_IO_ERROR);
            settle([&] { p.pump(); }, 3);
            CHECK_FALSE(send.done());
            ++refused;
            continue;
        }
        REQUIRE(until([&] { return send.done(); }, [&] { p.pump(); }));
        if (send.ret() == NA_SUCCESS) {
            sent.push_back(i);
        } else {
            CHECK(send.ret() == NA_IO_ERROR);
            ++failed;
        }
    }
    REQUIRE(until([&] { return arrived.size() >= sent.size(); }, [&] { p.pump(); }));
    settle([&] { p.pump(); });
    CHECK(arrived == sent);
    CHECK(refused > 0);
    CHECK(failed > 0);
}

TEST_CASE("transfers that fail say so", "[fault]") {
    const std::string info = with_plan("fail=0.3&again=0.3&delay=0.3");
    if (info.empty()) {
        return;
    }
    Endpoint::Settings faulty_side;
    faulty_side.info = info;
    Pair p(faulty_side);
    meet(p.b, p.a);
    std::vector<std::byte> here(1000);
    std::vector<std::byte> there(1000);
    Mem local(p.a, here.data(), here.size(), NA_MEM_READWRITE);
    Mem target(p.b, there.data(), there.size(), NA_MEM_READWRITE);
    Mem remote(p.a, target.serialize());
    unsigned succeeded = 0;
    for (unsigned i = 0; i < 200; ++i) {
        support::fill(here, i);
        Op op(p.a);
        const na_return_t r = op.put(local, 0, remote, 0, 1000, p.to_b);
        if (r == NA_SUCCESS) {
            REQUIRE(until([&] { return op.done(); }, [&] { p.pump(); }));
            if (op.ret() == NA_SUCCESS) {
                ++succeeded;
                REQUIRE(support::mismatch(there, i) == -1);
                continue;
            }
        }
        CHECK((r == NA_IO_ERROR || op.ret() == NA_IO_ERROR));
    }
    CHECK(succeeded > 50);
    CHECK(succeeded < 200);
}

TEST_CASE("dropped messages are missing, the others in order", "[fault]") {
    const std::string info = with_plan("drop=0.3&delay=0.3");
    if (info.empty()) {
        return;
    }
    Endpoint::Settings lossy;
    lossy.info = info;
    Pair p(lossy, faultless());
    meet(p.b, p.a);
    Buffer out(p.a);
    Buffer in(p.b);
    std::vector<na_tag_t> arrived;
    Op recv(p.b);
    recv.on_result = [&](Op& op, const Result& r) {
        arrived.push_back(r.tag);
        REQUIRE(op.recv_unexpected(in) == NA_SUCCESS);
    };
    REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    for (unsigned i = 0; i < 500; ++i) {
        Op send(p.a);
        const std::size_t payload = i % 20 == 0 ? 3000 : 50;
        REQUIRE(send.send_unexpected(out, fill_message(p.a, out, payload, 1), p.to_b, i) ==
                NA_SUCCESS);
        REQUIRE(until([&] { return send.done(); }, [&] { p.pump(); }));
        REQUIRE(send.ret() == NA_SUCCESS);
    }
    CHECK(until([&] { return arrived.size() > 200; }, [&] { p.pump(); }));
    settle([&] { p.pump(); });
    CHECK(arrived.size() < 500);
    CHECK(std::is_sorted(arrived.begin(), arrived.end()));
    CHECK(std::adjacent_find(arrived.begin(), arrived.end()) == arrived.end());
}

TEST_CASE("a lost peer ends what hangs on it, another goes on", "[fault][peer_loss]") {
    const std::string info = with_plan("lose_peer_at=20&delay=0.2&again=0.2");
    if (info.empty()) {
        return;
    }
    Endpoint::Settings losing;
    losing.info = info;
    Pair p(losing);
    meet(p.b, p.a);
    Endpoint::Settings plain;
    plain.info = "fault+" + options().protocol;
    Endpoint c(plain);
    Addr a_to_c(p.a, c.uri());
    Buffer out(p.a);
    Buffer in(p.a);
    Buffer in_c(p.a);
    Op recv(p.a);
    Op recv_c(p.a);
    REQUIRE(recv.recv_expected(in, p.to_b, 1) == NA_SUCCESS);
    REQUIRE(recv_c.recv_expected(in_c, a_to_c, 1) == NA_SUCCESS);
    std::vector<std::unique_ptr<Op>> sends;
    unsigned refused = 0;
    for (unsigned i = 0; i < 300; ++i) {
        auto op = std::make_unique<Op>(p.a);
        const na_return_t r =
            op->send_unexpected(out, p.a.header() + (i % 3 == 0 ? 3000 : 10), p.to_b, i);
        if (r == NA_SUCCESS) {
            sends.push_back(std::move(op));
        } else {
            CHECK(r == NA_HOSTUNREACH);
            ++refused;
        }
    }
    REQUIRE(until(
        [&] {
            return recv.done() &&
                   std::all_of(sends.begin(), sends.end(), [](const auto& o) { return o->done(); });
        },
        [&] { p.pump(); }));
    CHECK(recv.ret() == NA_HOSTUNREACH);
    unsigned lost = refused;
    for (const auto& op : sends) {
        CHECK((op->ret() == NA_SUCCESS || op->ret() == NA_HOSTUNREACH));
        lost += op->ret() == NA_HOSTUNREACH ? 1 : 0;
    }
    CHECK(lost >= 200);
    CHECK_FALSE(recv_c.done());
    Addr c_to_a(c, p.a.uri());
    Buffer out_c(c);
    Op send_c(c);
    REQUIRE(send_c.send_expected(out_c, fill_message(c, out_c, 10, 4, true), c_to_a, 1) ==
            NA_SUCCESS);
    REQUIRE(until([&] { return recv_c.done() && send_c.done(); }, [&] { p.a.pump(); },
                  [&] { c.pump(); }));
    CHECK(recv_c.ret() == NA_SUCCESS);
}

TEST_CASE("an address of a faulty class is known to another one", "[fault][peer]") {
    const std::string info = with_plan("again=0.5");
    if (info.empty()) {
        return;
    }
    Endpoint::Settings settings;
    settings.info = info;
    Endpoint a(settings);
    Endpoint b(settings);
    CHECK(a.uri().starts_with("fault+"));
    Addr to_a(b, a.uri());
    CHECK(support::to_string(b, to_a) == a.uri());
    // The info string with a name, as somebody would write it.
    Addr by_info(b, info + a.uri().substr(a.uri().find("://")));
    CHECK(NA_Addr_cmp(b.cls(), to_a, by_info));
}

TEST_CASE("random operations end once each", "[fault][random]") {
    std::string info = options().protocol;
    const bool failing = !faulty() && GENERATE(false, true);
    if (failing) {
        info = with_plan("fail=0.05&drop=0.05&again=0.3&delay=0.3&late_cancel=0.5");
    }
    support::Random random(options().seed * 77 + (failing ? 1 : 0));
    constexpr std::size_t kEndpoints = 3;
    constexpr std::size_t kMemory = std::size_t{1} << 17;  // more than a message
    Endpoint::Settings settings;
    settings.info = info;
    std::vector<std::unique_ptr<Endpoint>> e;
    std::vector<std::vector<Addr>> to(kEndpoints);
    std::vector<std::vector<std::byte>> memory(kEndpoints, std::vector<std::byte>(kMemory));
    std::vector<std::unique_ptr<Mem>> local;
    std::vector<std::vector<std::unique_ptr<Mem>>> remote(kEndpoints);
    for (std::size_t i = 0; i < kEndpoints; ++i) {
        e.push_back(std::make_unique<Endpoint>(settings));
        local.push_back(std::make_unique<Mem>(*e[i], memory[i].data(), kMemory, NA_MEM_READWRITE));
    }
    for (std::size_t i = 0; i < kEndpoints; ++i) {
        for (std::size_t k = 0; k < kEndpoints; ++k) {
            to[i].emplace_back(*e[i], e[k]->uri());
            remote[i].push_back(std::make_unique<Mem>(*e[i], local[k]->serialize()));
        }
    }
    struct Running {
        Running(Endpoint& endpoint, std::size_t at) : side(at), buffer(endpoint), op(endpoint) {}
        std::size_t side;
        Buffer buffer;
        Op op;
        bool used = false;
        na_tag_t order = 0;
    };
    std::vector<std::unique_ptr<Running>> slots;
    for (std::size_t i = 0; i < 120; ++i) {
        slots.push_back(std::make_unique<Running>(*e[i % kEndpoints], i % kEndpoints));
    }
    const auto pump = [&] {
        for (const auto& endpoint : e) {
            endpoint->pump();
        }
    };
    const auto may_end = [&](na_return_t r) {
        return r == NA_SUCCESS || r == NA_CANCELED || (failing && r == NA_IO_ERROR);
    };
    unsigned ended = 0;
    for (unsigned step = 0; step < 20000 / support::kSlow; ++step) {
        Running& s = *slots[random.below(slots.size())];
        Endpoint& here = *e[s.side];
        if (s.used && s.op.done()) {
            REQUIRE(s.op.count() == 1);
            REQUIRE(may_end(s.op.ret()));
            s.used = false;
            s.op.reset();
            ++ended;
        }
        const std::size_t peer = random.below(kEndpoints);
        const std::size_t size = random.below(4) == 0
                                     ? random.below(here.max_message() - here.header())
                                     : random.below(100);
        if (s.used) {
            if (random.below(4) == 0) {
                REQUIRE(s.op.cancel() == NA_SUCCESS);
            }
        } else {
            na_return_t r = NA_SUCCESS;
            const auto tag = static_cast<na_tag_t>(random.below(6));
            switch (random.below(6)) {
                case 0:
                    r = s.op.send_unexpected(s.buffer, here.header() + size, to[s.side][peer], tag);
                    break;
                case 1:
                    r = s.op.send_expected(s.buffer, here.header(true) + size, to[s.side][peer],
                                           tag);
                    break;
                case 2:
                    r = s.op.recv_unexpected(s.buffer);
                    break;
                case 3:
                    r = s.op.recv_expected(s.buffer, to[s.side][peer], tag);
                    break;
                case 4:
                    r = s.op.put(*local[s.side], random.below(100), *remote[s.side][peer],
                                 random.below(100), size, to[s.side][peer]);
                    break;
                default:
                    r = s.op.get(*local[s.side], random.below(100), *remote[s.side][peer],
                                 random.below(100), size, to[s.side][peer]);
                    break;
            }
            REQUIRE((r == NA_SUCCESS || (failing && r == NA_IO_ERROR)));
            s.used = r == NA_SUCCESS;
        }
        if (random.below(3) == 0) {
            e[random.below(kEndpoints)]->pump();
        }
    }
    CHECK(ended > 1000 / support::kSlow);
    for (const auto& s : slots) {
        if (s->used) {
            REQUIRE(s->op.cancel() == NA_SUCCESS);
        }
    }
    for (const auto& s : slots) {
        REQUIRE(until([&] { return !s->used || s->op.done(); }, pump));
    }
    settle(pump);
    for (const auto& s : slots) {
        if (s->used) {
            CHECK(s->op.count() == 1);
            CHECK(may_end(s->op.ret()));
        }
    }
}
