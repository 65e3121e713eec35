// SPDX-License-Identifier: BSD-3-Clause
// Sizes of messages over a provider that sends no more at once than some. Those at hand know no
// such limit: modes.hpp tells of one.
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdlib>
#include <string>

#include "modes.hpp"
#include "na.h"
#include "spies.hpp"
#include "support/options.hpp"
#include "support/until.hpp"

using na::Status;
using support::until;

namespace {

constexpr std::size_t kLimit = 8000;

// Empty: not here.
std::string protocol_of_case() {
    std::string protocol = GENERATE(as<std::string>{}, "ofi+tcp", "ofi+sockets");
    if (!can_open(protocol)) {
        support::skip(protocol + " cannot be opened here");
        protocol.clear();
    }
    return protocol;
}

}  // namespace

TEST_CASE("messages larger than the provider sends are refused when a class opens",
          "[ofi][sizes]") {
    const std::string protocol = protocol_of_case();
    if (protocol.empty()) {
        return;
    }
    const bool unexpected = GENERATE(true, false);
    const std::string argument = unexpected ? "max_unexpected_size" : "max_expected_size";
    INFO(protocol << ", " << argument);
    const modes::Limited limited(kLimit);
    na::InitInfo options;
    std::size_t& size = unexpected ? options.max_unexpected : options.max_expected;
    for (const std::size_t more : {std::size_t{1}, kLimit}) {
        size = kLimit + more;
        const auto domain = na::Domain::listen(protocol, options);
        REQUIRE(domain.status() == Status::invalid_arg);
        const std::string& why = domain.error().message;
        INFO(why);
        CHECK(why.find(protocol + ": " + argument + " of " + std::to_string(size) + " bytes") !=
              std::string::npos);
        CHECK(why.find("ask for 8000 at most") != std::string::npos);
    }
}

TEST_CASE("users of na.h are told of the sizes that they know", "[ofi][sizes]") {
    const std::string protocol = protocol_of_case();
    if (protocol.empty()) {
        return;
    }
    INFO(protocol);
    const modes::Limited limited(kLimit);
    na_init_info options = NA_INIT_INFO_INITIALIZER;
    options.max_expected_size = kLimit;  // and a header, which they do not see
    REQUIRE(NA_Initialize_opt2(protocol.c_str(), true, NA_VERSION(6, 0), &options) == nullptr);
    const std::string why = NA_Get_last_error();
    INFO(why);
    CHECK(why.find("max_expected_size of 8000 bytes") != std::string::npos);
    const std::size_t at = why.find("ask for ");
    REQUIRE(at != std::string::npos);
    // What is told to be the most is taken.
    options.max_expected_size = std::strtoul(why.c_str() + at + 8, nullptr, 10);
    CHECK(options.max_expected_size < kLimit);
    na_class_t* cls = NA_Initialize_opt2(protocol.c_str(), true, NA_VERSION(6, 0), &options);
    REQUIRE(cls != nullptr);
    CHECK(NA_Msg_get_max_expected_size(cls) == options.max_expected_size);
    CHECK(NA_Finalize(cls) == NA_SUCCESS);
}

TEST_CASE("a provider that cannot send a greeting is refused", "[ofi][sizes]") {
    const std::string protocol = protocol_of_case();
    if (protocol.empty()) {
        return;
    }
    const modes::Limited limited(64);
    const auto domain = na::Domain::listen(protocol);
    REQUIRE(domain.status() == Status::opnotsupported);
    CHECK(domain.error().message.find("choose another protocol") != std::string::npos);
}

TEST_CASE("messages as large as the provider sends arrive", "[ofi][sizes]") {
    const std::string protocol = protocol_of_case();
    if (protocol.empty()) {
        return;
    }
    const bool by_default = GENERATE(true, false);
    INFO(protocol << (by_default ? ", size by default" : ", size asked for"));
    const modes::Limited limited(kLimit);
    na::InitInfo options;
    options.max_unexpected = by_default ? 0 : kLimit;
    na::Domain from = na::Domain::listen(protocol, options).value();
    na::Domain to = na::Domain::listen(protocol, options).value();
    na::Context sender = from.open_context().value();
    na::Context receiver = to.open_context().value();
    const na::Address peer = from.lookup(to.uri()).value();
    const std::size_t size = from.max_unexpected();
    CHECK(size <= kLimit);
    na::Buffer out = from.make_buffer(size).value();
    const na::Buffer in = to.make_buffer(size).value();
    na::Operation send(sender), receive(receiver);
    std::size_t got = 0;
    bool sent = false;
    receiver
        .recv_unexpected(receive, in,
                         [&](Status s, const na::Message& m) {
                             CHECK(ok(s));
                             got = m.data.size();
                         })
        .value();
    sender
        .send_unexpected(send, peer, 1, out.first(size),
                         [&](Status s) {
                             CHECK(ok(s));
                             sent = true;
                         })
        .value();
    CHECK(until([&] { return sent && got != 0; },
                [&] {
                    for (na::Context* context : {&sender, &receiver}) {
                        (void)context->progress();
                        context->trigger();
                    }
                }));
    CHECK(got == size);
}
