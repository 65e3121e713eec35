// SPDX-License-Identifier: BSD-3-Clause
// Names: one transport under several, and addresses as files and terminals have them.
#include <catch2/catch.hpp>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "conformance/hg/side.hpp"
#include "support/payload.hpp"
#include "support/two_process.hpp"
#include "support/until.hpp"

using namespace hgtest;
using support::Link;
using support::Party;

namespace {

// One side serves under `server`, the other calls it under `client`: arguments of all sizes go both
// ways. False: the server's addresses are not for the client, and lookup has said why.
bool calls(const std::string& server, const std::string& client) {
    INFO(client << " calls " << server);
    Party party(Party::As::process, [&server](Link& link) {
        Side::Settings settings;
        settings.info = server;
        Side side(settings);
        link.put(side.uri());
        while (!link.readable()) {
            support::rest_point();
            (void)HG_Progress(side.context(), 10);
            side.pump();
        }
    });
    bool known = false;
    {
        Side::Settings settings;
        settings.info = client;
        Side origin(settings);
        const std::string uri = party.link().take_text();
        hg_addr_t found = HG_ADDR_NULL;
        HG_Set_log_level("none");
        const hg_return_t ret = HG_Addr_lookup2(origin.cls(), uri.c_str(), &found);
        HG_Set_log_level("error");
        known = ret == HG_SUCCESS;
        if (!known) {
            CHECK(std::string(HG_Get_last_error()).find(uri.substr(uri.find('+') + 1)) !=
                  std::string::npos);
        } else {
            const Addr to(origin, found);
            for (const std::size_t size : {0, 1000, 70'000, 300'000, 3'000'000}) {
                INFO(size << " bytes");
                Call call(origin, to, origin.echo);
                Blob in = blob(size, size);
                REQUIRE(call.forward(in) == HG_SUCCESS);
                REQUIRE(support::until([&] { return call.done(); },
                                       [&] { (void)HG_Progress(origin.context(), 100); },
                                       [&] { origin.pump(); }));
                REQUIRE(call.ret() == HG_SUCCESS);
                CHECK(is_blob(call.out(), size + 1, size, size));
            }
        }
    }
    party.link().put("stop");
    CHECK(party.join() == "");
    return known;
}

}  // namespace

TEST_CASE("classes that name the transport otherwise call each other") {
    const auto others = support::other_names();
    if (others.empty()) {
        support::skip("the transport has one name");
        return;
    }
    const std::string& one = support::options().protocol;
    std::size_t met = 0;
    for (const std::string& other : others) {
        const bool there = calls(one, other);
        CHECK(calls(other, one) == there);
        met += there ? 1 : 0;
    }
    CHECK(met >= 1);
}

TEST_CASE("an address that leads nowhere is refused and the reason told") {
    const std::string& protocol = support::options().protocol;
    std::vector<std::pair<std::string, std::string>> strange;
    if (protocol.starts_with("ofi+tcp")) {
        strange = {{"ofi+sockets://127.0.0.1:9999", "provider tcp"},
                   {"ucx+tcp://127.0.0.1:9999", "class ucx"}};
    } else if (protocol == "ucx+tcp") {
        strange = {{"ucx+shm://127.0.0.1:9999", "no transport in common with ucx+shm"},
                   {"ucx+rc,shm://127.0.0.1:9999", "no transport in common with ucx+rc,shm"},
                   {"ucx+carrier_pigeon://127.0.0.1:9999", "knows no such protocol"}};
    } else {
        support::skip("the transport has no others beside it");
        return;
    }
    Side side;
    HG_Set_log_level("none");
    for (const auto& [uri, reason] : strange) {
        INFO(uri);
        hg_addr_t none = HG_ADDR_NULL;
        CHECK(HG_Addr_lookup2(side.cls(), uri.c_str(), &none) == HG_INVALID_ARG);
        INFO(HG_Get_last_error());
        CHECK(std::string(HG_Get_last_error()).find(reason) != std::string::npos);
    }
    HG_Set_log_level("error");
}

TEST_CASE("an address may have blanks around it") {
    Pair p;
    for (const std::string& text :
         {p.b.uri() + "\n", p.b.uri() + " \t\r\n", "  " + p.b.uri(), "\n" + p.b.uri() + "\n"}) {
        INFO('"' << text << '"');
        hg_addr_t found = HG_ADDR_NULL;
        REQUIRE(HG_Addr_lookup2(p.a.cls(), text.c_str(), &found) == HG_SUCCESS);
        const Addr to(p.a, found);
        CHECK(HG_Addr_cmp(p.a.cls(), to, p.to_b));
        CHECK(to_string(p.a, to) == to_string(p.a, p.to_b));
    }
    HG_Set_log_level("none");
    hg_addr_t none = HG_ADDR_NULL;
    for (const std::string& text :
         {std::string("\n"), std::string(" "), p.b.uri() + "\n" + p.b.uri(),
          p.b.uri().substr(0, 3) + " " + p.b.uri().substr(3)}) {
        INFO('"' << text << '"');
        CHECK(HG_Addr_lookup2(p.a.cls(), text.c_str(), &none) == HG_INVALID_ARG);
    }
    HG_Set_log_level("error");
}

TEST_CASE("so may one of a class that has shared memory as well") {
    Side::Settings settings;
    settings.init.auto_sm = true;
    Pair p(settings, settings);
    for (const std::string& text : {p.b.uri() + "\n", " " + p.b.uri()}) {
        INFO('"' << text << '"');
        hg_addr_t found = HG_ADDR_NULL;
        REQUIRE(HG_Addr_lookup2(p.a.cls(), text.c_str(), &found) == HG_SUCCESS);
        const Addr to(p.a, found);
        CHECK(HG_Addr_cmp(p.a.cls(), to, p.to_b));
    }
}

TEST_CASE("the log for debugging names what comes and goes") {
    std::string log;
    std::string uri;
    {
        const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
        REQUIRE(file != nullptr);
        HG_Set_log_stream("debug", file.get());
        HG_Set_log_level("debug");
        {
            Pair p;
            uri = p.b.uri();
            REQUIRE(HG_Register_name(p.a.cls(), "names/logged", nullptr, nullptr, nullptr) != 0);
            REQUIRE(HG_Deregister(p.a.cls(), p.a.hold) == HG_SUCCESS);
            Call call(p.a, p.to_b, p.a.echo);
            Blob in = blob(1, 100);
            CHECK(p.run(call, in) == HG_SUCCESS);
        }
        HG_Set_log_level("error");
        HG_Set_log_stream("debug", nullptr);
        std::rewind(file.get());
        char line[1000];
        while (std::fgets(line, sizeof line, file.get()) != nullptr) {
            log += line;
        }
    }
    INFO(log);
    const std::string transport = uri.substr(uri.find("://") + 3);
    for (const std::string& said : {std::string("opened"), std::string("closed"),
                                    std::string("context 0"), std::string("\"names/logged\""),
                                    "looked up " + uri, transport, std::string("deregistered")}) {
        INFO(said);
        CHECK(log.find(said) != std::string::npos);
    }
}
