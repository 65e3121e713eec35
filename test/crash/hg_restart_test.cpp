// SPDX-License-Identifier: BSD-3-Clause
// A server is killed and comes back at its address while nobody calls it.
#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include "crash/hg_side.hpp"
#include "mercury_proc.h"
#include "support/options.hpp"
#include "support/two_process.hpp"
#include "support/until.hpp"

namespace {

using namespace crash;
using support::Link;
using support::Party;

constexpr int kLives = 4;

// One life, from when it is told to begin. Answers how many requests of each kind came.
void serve(Link& link, const std::string& name) {
    link.take_text();
    HgSide side({.name = name});
    link.put("there");
    for (;;) {
        side.turn(20);
        if (link.readable()) {
            link.put(std::to_string(side.requests(static_cast<Kind>(std::stoi(link.take_text())))));
        }
    }
}

// Nothing but one RPC that echoes so many bytes.
struct Bare {
    struct Sized {
        std::uint32_t size;
        char bytes[32];
    };
    struct Ends {
        unsigned all = 0;
        unsigned good = 0;
        unsigned unreachable = 0;
    };
    static hg_return_t proc(hg_proc_t proc, void* data) {
        auto* sized = static_cast<Sized*>(data);
        const hg_return_t s = hg_proc_uint32_t(proc, &sized->size);
        return s != HG_SUCCESS ? s
               : sized->size > sizeof sized->bytes
                   ? HG_PROTOCOL_ERROR
                   : hg_proc_memcpy(proc, sized->bytes, sized->size);
    }
    static hg_return_t serve(hg_handle_t handle) {
        Sized in{};
        if (HG_Get_input(handle, &in) == HG_SUCCESS) {
            HG_Respond(handle, nullptr, nullptr, &in);
            HG_Free_input(handle, &in);
        }
        return HG_Destroy(handle);
    }
    static hg_return_t on_end(const hg_cb_info* info) {
        auto& ends = *static_cast<Ends*>(info->arg);
        ++ends.all;
        ends.good += info->ret == HG_SUCCESS ? 1 : 0;
        ends.unreachable += info->ret == HG_HOSTUNREACH ? 1 : 0;
        return HG_SUCCESS;
    }

    Bare(const char* uri, bool listen) : cls(HG_Init(uri, listen ? HG_TRUE : HG_FALSE)) {
        PARTY_REQUIRE(cls != nullptr);
        context = HG_Context_create(cls);
        PARTY_REQUIRE(context != nullptr);
        id = HG_Register_name(cls, "sized", proc, proc, serve);
    }
    ~Bare() {
        HG_Context_destroy(context);
        HG_Finalize(cls);
    }
    Bare(const Bare&) = delete;
    Bare& operator=(const Bare&) = delete;
    void turn(unsigned timeout_ms) const {
        HG_Progress(context, timeout_ms);
        for (unsigned n = 1; n != 0;) {
            n = 0;
            HG_Trigger(context, 0, 16, &n);
        }
    }

    hg_class_t* const cls;
    hg_context_t* context = nullptr;
    hg_id_t id = 0;
};

}  // namespace

TEST_CASE("a server is killed and is back: who was idle reaches the new one with his first call",
          "[hg][back]") {
    for (const bool listening : {false, true}) {
        // Processes begin before anything is opened.
        const std::string name = support::lasting_host("back-" + std::to_string(getpid()) +
                                                       (listening ? "-both" : "-one"));
        std::vector<std::unique_ptr<Party>> lives;
        lives.reserve(kLives);
        for (int i = 0; i < kLives; ++i) {
            lives.push_back(std::make_unique<Party>(Party::As::process,
                                                    [=](Link& link) { serve(link, name); }));
        }
        HgSide client({.listen = listening});
        hg_addr_t server = HG_ADDR_NULL;
        for (int i = 0; i < kLives; ++i) {
            INFO("listening " << listening << ", life " << i);
            Link& link = lives[static_cast<std::size_t>(i)]->link();
            link.put("begin");
            REQUIRE(link.take_text() == "there");
            if (server == HG_ADDR_NULL) {
                server = client.peer(support::options().protocol + "://" + name);
            }
            // In the middle of its idling, and of several sizes: the kind that moves memory, too.
            for (int n = 0; n < 5 * i; ++n) {
                client.turn(10);
            }
            const Kind kind = std::vector{Kind::echo, Kind::pull, Kind::input,
                                          Kind::echo}[static_cast<std::size_t>(i)];
            Call first(client, server, kind, 7);
            REQUIRE(first.forward() == HG_SUCCESS);
            REQUIRE(support::until([&] { return !first.in_flight(); }, [&] { client.turn(100); }));
            CHECK(first.ret == HG_SUCCESS);
            // It came once.
            call(client, server, Kind::hold == kind ? Kind::echo : kind, 8);
            link.put(std::to_string(static_cast<int>(kind)));
            CHECK(support::until([&] { return link.readable(); }, [&] { client.turn(1); }));
            CHECK(link.take_text() == "2");
            lives[static_cast<std::size_t>(i)]->kill(SIGKILL);
        }
        client.close();
    }
}

TEST_CASE("a server is killed and is back: what is sent again to the new one is whole",
          "[hg][back]") {
    // One after the other, so that several are on their way before the new process has said that it
    // knows nothing of them, by handles that have sent other sizes before.
    constexpr unsigned kCalls = 300;
    const std::string name = support::lasting_host("whole-" + std::to_string(getpid()));
    const std::string uri = support::options().protocol + "://" + name;
    std::vector<std::unique_ptr<Party>> lives;
    for (int i = 0; i < kLives; ++i) {
        lives.push_back(std::make_unique<Party>(Party::As::process, [=](Link& link) {
            link.take_text();
            const Bare server(uri.c_str(), true);
            link.put("there");
            while (!link.readable()) {
                server.turn(10);
            }
            // Killed where it rests: not all transports survive who is killed at work.
            link.take_text();
            link.take_text();
        }));
    }
    std::unique_ptr<Bare> client;
    hg_addr_t server = HG_ADDR_NULL;
    std::vector<hg_handle_t> handles(kCalls);
    for (unsigned life = 0; life < kLives; ++life) {
        INFO("life " << life);
        lives[life]->link().put("begin");
        REQUIRE(lives[life]->link().take_text() == "there");
        if (client == nullptr) {
            client = std::make_unique<Bare>(support::options().protocol.c_str(), false);
            REQUIRE(HG_Addr_lookup2(client->cls, uri.c_str(), &server) == HG_SUCCESS);
            for (hg_handle_t& h : handles) {
                REQUIRE(HG_Create(client->context, server, client->id, &h) == HG_SUCCESS);
            }
        }
        Bare::Ends ends;
        for (unsigned n = 0; n < kCalls; ++n) {
            Bare::Sized in{(n * 7 + life * 3) % 20, {}};
            REQUIRE(HG_Forward(handles[n], Bare::on_end, &ends, &in) == HG_SUCCESS);
            const auto next = std::chrono::steady_clock::now() + std::chrono::microseconds(30);
            do {
                client->turn(0);
            } while (std::chrono::steady_clock::now() < next);
        }
        REQUIRE(support::until([&] { return ends.all == kCalls; }, [&] { client->turn(100); }));
        // Those that left together with others end, which is another matter.
        CHECK(ends.good + ends.unreachable == kCalls);
        CHECK(ends.good != 0);
        lives[life]->link().put("rest");
        lives[life]->kill(SIGKILL);
    }
    for (const hg_handle_t h : handles) {
        HG_Destroy(h);
    }
    HG_Addr_free(client->cls, server);
}

TEST_CASE(
    "a request that a server had when it was killed is not sent again, however long ago it came",
    "[hg][back]") {
    // Numbers of messages come again after 65,536.
    for (const unsigned after : {10U, 20'000U, 40'000U, 65'530U}) {
        const std::string name =
            support::lasting_host("had-" + std::to_string(getpid()) + "-" + std::to_string(after));
        std::vector<std::unique_ptr<Party>> lives;
        for (int i = 0; i < 2; ++i) {
            lives.push_back(std::make_unique<Party>(Party::As::process,
                                                    [=](Link& link) { serve(link, name); }));
        }
        INFO(after << " calls after it");
        lives[0]->link().put("begin");
        REQUIRE(lives[0]->link().take_text() == "there");
        HgSide client({.listen = false});
        const hg_addr_t server = client.peer(support::options().protocol + "://" + name);
        auto held = std::make_unique<Call>(client, server, Kind::hold, 1);
        REQUIRE(held->forward() == HG_SUCCESS);
        std::vector<std::unique_ptr<Call>> calls;
        for (int i = 0; i < 10; ++i) {
            calls.push_back(std::make_unique<Call>(client, server, Kind::echo, 2));
        }
        for (unsigned i = 0; i < after; i += 10) {
            for (const auto& c : calls) {
                REQUIRE(c->forward() == HG_SUCCESS);
            }
            REQUIRE(support::until(
                [&] {
                    return std::none_of(calls.begin(), calls.end(),
                                        [](const auto& c) { return c->in_flight(); });
                },
                [&] { client.turn(100); }));
        }
        lives[0]->kill(SIGKILL);
        lives[1]->link().put("begin");
        REQUIRE(lives[1]->link().take_text() == "there");
        REQUIRE(support::until([&] { return !held->in_flight(); }, [&] { client.turn(100); }));
        CHECK(held->ret == HG_HOSTUNREACH);
        call(client, server, Kind::echo, 3);
        lives[1]->link().put(std::to_string(static_cast<int>(Kind::hold)));
        CHECK(support::until([&] { return lives[1]->link().readable(); }, [&] { client.turn(1); }));
        CHECK(lives[1]->link().take_text() == "0");
        lives[1]->kill(SIGKILL);
        held.reset();
        calls.clear();
        client.close();
    }
}
