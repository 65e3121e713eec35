// SPDX-License-Identifier: BSD-3-Clause
// More messages than a context holds back for receives to come: who waits, who does not, and what
// wakes them.
#include <atomic>
#include <thread>

#include <poll.h>

#include "common.hpp"

using namespace na_test;

namespace {

constexpr unsigned kFlood = 100;
constexpr unsigned kLimit = 16;
constexpr unsigned kForever = 600'000;  // ms; far longer than any deadline

// A target that holds few messages, a peer that sends many, and one that sends a few.
struct Scene {
    Scene() {
        const Environment limit("NA_UNEXPECTED_LIMIT", std::to_string(kLimit).c_str());
        target = std::make_unique<Endpoint>();
        to_target = Addr(hog, target->uri());
        honest_to_target = Addr(honest, target->uri());
        hog_address = Addr(*target, hog.uri());
        honest_address = Addr(*target, honest.uri());
        // Connected, so that what is sent later is there soon.
        Buffer in(*target);
        for (Endpoint* e : {&hog, &honest}) {
            Op recv(*target);
            Op send(*e);
            Buffer out(*e);
            REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
            REQUIRE(send.send_unexpected(out, e->header() + 1,
                                         e == &hog ? to_target : honest_to_target,
                                         0) == NA_SUCCESS);
            REQUIRE(until([&] { return recv.done() && send.done(); }, [&] { pump(); }));
        }
    }
    void pump() {
        target->pump();
        pump_peers();
    }
    void pump_peers() {
        hog.pump();
        honest.pump();
    }
    void flood(bool expected) {
        for (unsigned i = 0; i < kFlood; ++i) {
            ops.push_back(std::make_unique<Op>(hog));
            REQUIRE((expected
                         ? ops.back()->send_expected(hog_out, hog.header(true) + 8, to_target, i)
                         : ops.back()->send_unexpected(hog_out, hog.header() + 8, to_target, i)) ==
                    NA_SUCCESS);
        }
        settle([&] { pump(); }, 300);
    }

    Endpoint hog;
    Endpoint honest;
    std::unique_ptr<Endpoint> target;
    Addr to_target;
    Addr honest_to_target;
    Addr hog_address;
    Addr honest_address;
    Buffer hog_out{hog};
    std::vector<std::unique_ptr<Op>> ops;
};

}  // namespace

TEST_CASE("a peer that sends many unexpected messages does not hold up another", "[held]") {
    Scene s;
    s.flood(false);
    Buffer out(s.honest);
    Op send(s.honest);
    REQUIRE(send.send_unexpected(out, fill_message(s.honest, out, 20, 7), s.honest_to_target,
                                 1000) == NA_SUCCESS);
    REQUIRE(until([&] { return send.done(); }, [&] { s.pump(); }));
    settle([&] { s.pump(); });
    Buffer in(*s.target);
    unsigned before = 0;  // messages of the other that come first
    bool seen = false;
    unsigned received = 0;
    while (received < kFlood + 1) {
        Op recv(*s.target);
        REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
        REQUIRE(until([&] { return recv.done(); }, [&] { s.pump(); }));
        REQUIRE(recv.ret() == NA_SUCCESS);
        ++received;
        if (recv.result().tag == 1000) {
            CHECK(holds(*s.target, in.data(), recv.result().size, 7));
            seen = true;
        } else if (!seen) {
            ++before;
        }
    }
    CHECK(seen);
    CHECK(before <= kLimit);
    for (const auto& op : s.ops) {
        CHECK(op->ret() == NA_SUCCESS);
    }
}

TEST_CASE("a peer that sends expected messages nobody waits for costs others none", "[held]") {
    Scene s;
    Buffer out(s.honest);
    Op send(s.honest);
    REQUIRE(send.send_expected(out, fill_message(s.honest, out, 20, 7, true), s.honest_to_target,
                               5) == NA_SUCCESS);
    REQUIRE(until([&] { return send.done(); }, [&] { s.pump(); }));
    settle([&] { s.pump(); });
    s.flood(true);
    Buffer in(*s.target);
    Op recv(*s.target);
    REQUIRE(recv.recv_expected(in, s.honest_address, 5) == NA_SUCCESS);
    REQUIRE(until([&] { return recv.done(); }, [&] { s.pump(); }));
    CHECK(holds(*s.target, in.data(), recv.result().size, 7, true));
}

TEST_CASE("a receive wakes who sleeps while messages are refused", "[held][wait][threads]") {
    Scene s;
    if (NA_Poll_get_fd(s.target->cls(), s.target->context()) < 0) {
        support::skip("the transport cannot be waited on");
        return;
    }
    s.flood(false);
    Buffer in(*s.target);
    if (one_process_only() && !faulty()) {  // which is known to sleep then
        const auto sleepy = [&] { return NA_Poll_try_wait(s.target->cls(), s.target->context()); };
        REQUIRE(until(sleepy, [&] { s.pump(); }));
        pollfd p{.fd = NA_Poll_get_fd(s.target->cls(), s.target->context()),
                 .events = POLLIN,
                 .revents = 0};
        CHECK(poll(&p, 1, 0) == 0);
        Op recv(*s.target);
        REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
        CHECK(poll(&p, 1, 0) == 1);
        CHECK_FALSE(sleepy());
        REQUIRE(recv.done() == false);  // only trigger runs callbacks
        REQUIRE(until([&] { return recv.done(); }, [&] { s.target->pump(); }));
        REQUIRE(until(sleepy, [&] { s.pump(); }));
    }
    std::atomic<bool> stop{false};
    std::thread sleeper([&] {
        while (!stop) {
            NA_Poll_wait(s.target->cls(), s.target->context(), kForever, nullptr);
            NA_Trigger(s.target->context(), 100, nullptr);
        }
    });
    bool received = true;
    unsigned n = 0;
    for (; n < kFlood / 2 && received; ++n) {
        if (n % 8 == 0) {
            // Only to let the other one fall asleep: where it does not, the case finds nothing.
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        Op recv(*s.target);
        received = recv.recv_unexpected(in) == NA_SUCCESS &&
                   until([&] { return recv.done(); }, [&] { s.pump_peers(); });
        stop = n + 1 == kFlood / 2 || !received;
    }
    CHECK(received);
    stop = true;
    // One message more, whether or not the last one has found it asleep.
    Op last(*s.target);
    CHECK(last.recv_unexpected(in) == NA_SUCCESS);
    sleeper.join();
    REQUIRE(until([&] { return last.done(); }, [&] { s.pump(); }));
}
