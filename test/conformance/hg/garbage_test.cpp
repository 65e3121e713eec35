// SPDX-License-Identifier: BSD-3-Clause
// Peers that do not keep to the protocol: raw NA on one side, RPC on the other. Whatever comes, the
// target answers or drops it, serves the others, and leaks nothing; an origin's call ends with a
// code.
#include <catch2/catch.hpp>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "conformance/hg/side.hpp"
#include "hg/wire.hpp"
#include "support/na_endpoint.hpp"
#include "support/payload.hpp"
#include "support/until.hpp"

using namespace hgtest;
using na::Status;

namespace {

using Bytes = std::vector<std::byte>;

Bytes request(hg::wire::Request r, std::size_t payload) {
    Bytes bytes(hg::wire::kRequestSize + payload);
    support::fill(bytes, 1);
    hg::wire::encode(bytes.data(), r, payload);
    return bytes;
}

// A raw peer of an RPC target.
struct Raw {
    Raw() : to_target(endpoint, target.uri()), buffer(endpoint), answer(endpoint) {}

    // Sends the bytes as a request with `tag`; answers the code of the response, or timeout where
    // none came within some rounds.
    na_return_t send(const Bytes& bytes, na_tag_t tag) {
        support::Op op(endpoint);
        std::memcpy(buffer.data() + endpoint.header(), bytes.data(), bytes.size());
        const na_return_t ret =
            op.send_unexpected(buffer, endpoint.header() + bytes.size(), to_target, tag);
        if (ret != NA_SUCCESS) {
            return ret;
        }
        return support::until([&] { return op.done(); }, [&] { pump(); }) ? op.ret() : NA_TIMEOUT;
    }
    // A receive for the answer has to be there before.
    hg_return_t ask(const Bytes& bytes) {
        const na_tag_t tag = next_tag++;
        support::Op op(endpoint);
        REQUIRE(op.recv_expected(answer, to_target, tag) == NA_SUCCESS);
        REQUIRE(send(bytes, tag) == NA_SUCCESS);
        if (!support::until([&] { return op.done(); }, [&] { pump(); })) {
            return HG_TIMEOUT;
        }
        REQUIRE(op.ret() == NA_SUCCESS);
        hg::wire::Response response;
        const std::size_t header = endpoint.header(true);
        REQUIRE(op.result().size >= header);
        const auto received = hg::wire::decode(
            std::span(answer.data() + header, op.result().size - header), response);
        REQUIRE(received.status == Status::success);
        cookie = response.cookie;
        return static_cast<hg_return_t>(response.code);
    }
    void pump() {
        target.pump();
        endpoint.pump();
    }
    // The target still serves, and keeps nothing.
    void check_target() {
        Side origin;
        const Addr to(origin, target.uri());
        Call call(origin, to, origin.echo);
        Blob in = blob(1, 70'000);
        REQUIRE(call.forward(in) == HG_SUCCESS);
        REQUIRE(
            support::until([&] { return call.done(); }, [&] { pump(); }, [&] { origin.pump(); }));
        CHECK(call.ret() == HG_SUCCESS);
        CHECK(is_blob(call.out(), 2, 70'000, 1));
        REQUIRE(support::until([&] { return target.counters().rpc_req_recv_active_count == 0; },
                               [&] { pump(); }, [&] { origin.pump(); }));
    }

    Side target;
    support::Endpoint endpoint;
    support::Addr to_target;
    support::Buffer buffer;
    support::Buffer answer;
    na_tag_t next_tag = 1;
    std::uint32_t cookie = 0;
};

}  // namespace

TEST_CASE("a request made by hand is served") {
    Raw raw;
    CHECK(raw.ask(request({.cookie = 0x12345678, .id = raw.target.empty}, 0)) == HG_SUCCESS);
    CHECK(raw.cookie == 0x12345678);
    CHECK(raw.ask(request({.cookie = 5, .id = 4711}, 100)) == HG_NOENTRY);
    CHECK(raw.cookie == 5);
}

TEST_CASE("each byte of a request's header is checked") {
    Raw raw;
    const std::uint8_t checksums = hg::wire::kHeaderChecksum | hg::wire::kPayloadChecksum;
    for (const std::uint8_t flags : {std::uint8_t{0}, checksums}) {
        for (const hg_id_t id : {raw.target.empty, raw.target.echo}) {
            const Bytes good = request({.flags = flags, .cookie = 7, .id = id}, 40);
            for (std::size_t at = 0; at < good.size(); ++at) {
                // Of the cookie, the id and the checksum one number is as good as another.
                const bool number = at >= 4 && at != 16;
                const unsigned step = number ? 51 : 5 * support::kSlow;
                for (unsigned value = 0; value < 256; value += step) {
                    Bytes bad = good;
                    bad[at] = static_cast<std::byte>(value);
                    const bool context =
                        at == 3;  // an answer to a context that is not there is lost
                    const bool one_way = at == 2 && (value & hg::wire::kOneWay) != 0;
                    if (context || one_way) {
                        REQUIRE(raw.send(bad, raw.next_tag++) == NA_SUCCESS);
                    } else {
                        REQUIRE(raw.ask(bad) != HG_TIMEOUT);
                    }
                }
            }
        }
    }
    raw.check_target();
}

TEST_CASE("what is wrong with a request is said to its sender") {
    Raw raw;
    using hg::wire::Request;
    const Request good{.cookie = 9, .id = raw.target.empty};
    // Too short, down to nothing.
    for (std::size_t size = 0; size < hg::wire::kRequestSize; ++size) {
        Bytes bytes = request(good, 0);
        bytes.resize(size);
        CHECK(raw.ask(bytes) == HG_PROTOCOL_ERROR);
        CHECK(raw.cookie == (size >= 8 ? 9U : 0U));
    }
    // A payload size that is not the message's.
    for (const int off : {-24, -1, 1, 1000}) {
        Bytes bytes = request(good, 24);
        const auto wrong = static_cast<std::uint32_t>(24 + off);
        std::memcpy(bytes.data() + 16, &wrong, sizeof wrong);
        CHECK(raw.ask(bytes) == HG_PROTOCOL_ERROR);
    }
    Bytes bytes = request({.flags = hg::wire::kHeaderChecksum | hg::wire::kPayloadChecksum,
                           .cookie = 9,
                           .id = good.id},
                          10);
    bytes.back() ^= std::byte{1};
    CHECK(raw.ask(bytes) == HG_CHECKSUM_ERROR);
    CHECK(raw.ask(request({.flags = 0x40, .cookie = 1, .id = good.id}, 0)) == HG_PROTOCOL_ERROR);
    CHECK(raw.ask(request({.flags = hg::wire::kPayloadChecksum, .cookie = 1, .id = good.id}, 0)) ==
          HG_PROTOCOL_ERROR);
    CHECK(raw.ask(request({.cookie = 1, .id = 0}, 0)) == HG_PROTOCOL_ERROR);
    raw.check_target();
}

TEST_CASE("announcements of large payloads are checked") {
    Raw raw;
    support::Random random(support::options().seed);
    const auto announce = [&](std::uint64_t size, std::uint32_t descriptor, std::size_t bytes) {
        Bytes m =
            request({.flags = hg::wire::kOverflow, .cookie = 3, .id = raw.target.echo}, 16 + bytes);
        hg::wire::encode_overflow(m.data() + hg::wire::kRequestSize, size, 0, descriptor);
        for (std::size_t i = hg::wire::kRequestSize + 16; i < m.size(); ++i) {
            m[i] = static_cast<std::byte>(random.next());
        }
        return m;
    };
    CHECK(raw.ask(request({.flags = hg::wire::kOverflow, .cookie = 3, .id = raw.target.echo}, 0)) ==
          HG_PROTOCOL_ERROR);
    CHECK(raw.ask(request({.flags = hg::wire::kOverflow, .cookie = 3, .id = raw.target.echo},
                          15)) == HG_PROTOCOL_ERROR);
    CHECK(raw.ask(announce(0, 0, 0)) == HG_PROTOCOL_ERROR);
    CHECK(raw.ask(announce(100, 10, 9)) == HG_PROTOCOL_ERROR);
    CHECK(raw.ask(announce(UINT64_MAX, 40, 40)) == HG_MSGSIZE);
    for (unsigned i = 0; i < 300; ++i) {
        const auto n = static_cast<std::size_t>(random.below(200));
        const hg_return_t ret =
            raw.ask(announce(1 + random.below(1 << 20), static_cast<std::uint32_t>(n), n));
        CHECK(ret != HG_SUCCESS);
        CHECK(ret != HG_TIMEOUT);
    }
    CHECK(raw.target.served == 0);
    raw.check_target();
}

TEST_CASE("a real announcement, mutated, harms nobody") {
    if (const char* why = support::lacks(support::Promise::forged_gets_end)) {
        support::skip(why);
        return;
    }
    // A request beyond the eager size, caught by a raw receiver, sent to a target again and again
    // with one byte changed.
    Bytes caught;
    support::Endpoint catcher;
    Side origin;
    const Addr to_catcher(origin, catcher.uri());
    // Without results: a target that has large ones waits until they are acknowledged.
    const hg_id_t measure = HG_Register_name(origin.cls(), "measure", proc_blob, nullptr, nullptr);
    Call call(origin, to_catcher, measure);
    support::Buffer room(catcher);
    {
        support::Op recv(catcher);
        REQUIRE(recv.recv_unexpected(room) == NA_SUCCESS);
        Blob in = blob(1, 90'000);
        REQUIRE(call.forward(in) == HG_SUCCESS);
        REQUIRE(support::until([&] { return recv.done(); }, [&] { origin.pump(); },
                               [&] { catcher.pump(); }));
        const std::size_t header = catcher.header();
        caught.assign(room.data() + header, room.data() + recv.result().size);
    }
    Raw raw;
    REQUIRE(HG_Register_name(raw.target.cls(), "measure", proc_blob, nullptr,
                             [](hg_handle_t h) -> hg_return_t {
                                 Blob in;
                                 const hg_return_t ret = HG_Get_input(h, &in);
                                 if (ret == HG_SUCCESS) {
                                     HG_Free_input(h, &in);
                                     HG_Respond(h, nullptr, nullptr, nullptr);
                                 }
                                 HG_Destroy(h);
                                 return ret;
                             }) == measure);
    for (std::size_t at = hg::wire::kRequestSize; at < caught.size(); ++at) {
        for (const unsigned flip : {1U, 0x80U, 0xffU}) {
            Bytes bad = caught;
            bad[at] ^= static_cast<std::byte>(flip);
            const na_tag_t tag = raw.next_tag++;
            // Where a bad access costs the connection, it is the sender's own.
            const na_return_t sent = raw.send(bad, tag);
            REQUIRE((sent == NA_SUCCESS || sent == NA_HOSTUNREACH));
            for (int i = 0; i < 20; ++i) {
                raw.pump();
                origin.pump();
            }
        }
    }
    REQUIRE(HG_Cancel(call.handle()) == HG_SUCCESS);
    REQUIRE(support::until([&] { return call.done(); }, [&] { origin.pump(); }));
    CHECK(call.ret() == HG_CANCELED);
    REQUIRE(support::until([&] { return raw.target.counters().rpc_req_recv_active_count == 0; },
                           [&] { raw.pump(); }, [&] { origin.pump(); }));
    raw.check_target();
}

TEST_CASE("a flood of garbage from a peer that reads no answer") {
    Raw raw;
    support::Random random(support::options().seed);
    for (unsigned i = 0; i < 3000 / support::kSlow; ++i) {
        Bytes bytes(static_cast<std::size_t>(random.below(200)));
        for (std::byte& b : bytes) {
            b = static_cast<std::byte>(random.next());
        }
        support::Op op(raw.endpoint);
        if (bytes.size() != 0) {  // memcpy takes no null, not even for nothing
            std::memcpy(raw.buffer.data() + raw.endpoint.header(), bytes.data(), bytes.size());
        }
        REQUIRE(op.send_unexpected(raw.buffer, raw.endpoint.header() + bytes.size(), raw.to_target,
                                   1) == NA_SUCCESS);
        // The sender makes progress only as far as its send needs it.
        REQUIRE(support::until([&] { return op.done(); }, [&] { raw.target.pump(); },
                               [&] { raw.endpoint.pump(); }));
    }
    raw.check_target();
}

namespace {

// A target made of raw NA, which answers an RPC origin as it likes.
struct RawTarget {
    RawTarget() : to_target(origin, endpoint.uri()), buffer(endpoint), reply(endpoint) {}

    // Lets the origin call, answers with `make(cookie)`, and tells how the call ended.
    template <typename Make>
    hg_return_t answer(Make&& make, std::size_t in_size = 8, bool one_way = false) {
        Call call(origin, to_target, one_way ? origin.note : origin.echo);
        call.decode_output = false;
        support::Op recv(endpoint);
        REQUIRE(recv.recv_unexpected(buffer) == NA_SUCCESS);
        Blob in = blob(1, in_size);
        REQUIRE(call.forward(in) == HG_SUCCESS);
        REQUIRE(support::until([&] { return recv.done(); }, [&] { pump(); }));
        hg::wire::Request r;
        const std::size_t header = endpoint.header();
        const auto received =
            hg::wire::decode(std::span(buffer.data() + header, recv.result().size - header), r);
        REQUIRE(received.status == Status::success);
        const Bytes bytes = make(r);
        std::memcpy(reply.data() + endpoint.header(true), bytes.data(), bytes.size());
        support::Op send(endpoint);
        REQUIRE(send.send_expected(reply, endpoint.header(true) + bytes.size(),
                                   recv.result().source, recv.result().tag,
                                   r.origin_context) == NA_SUCCESS);
        REQUIRE(support::until([&] { return call.done() && send.done(); }, [&] { pump(); }));
        return call.ret();
    }
    void pump() {
        origin.pump();
        endpoint.pump();
    }
    static Bytes response(hg::wire::Response r, std::size_t payload) {
        Bytes bytes(hg::wire::kResponseSize + payload);
        hg::wire::encode(bytes.data(), r, payload);
        return bytes;
    }

    Side origin;
    support::Endpoint endpoint;
    Addr to_target;
    support::Buffer buffer;
    support::Buffer reply;
};

}  // namespace

TEST_CASE("each byte of a response's header is checked") {
    RawTarget t;
    using hg::wire::Request;
    CHECK(t.answer([](const Request& r) { return RawTarget::response({.cookie = r.cookie}, 0); }) ==
          HG_SUCCESS);
    CHECK(t.answer([](const Request& r) {
        return RawTarget::response({.code = Status::nodev, .cookie = r.cookie}, 0);
    }) == HG_NODEV);
    CHECK(t.answer([](const Request& r) {
        return RawTarget::response({.cookie = r.cookie + 1}, 0);
    }) == HG_PROTOCOL_ERROR);
    for (std::size_t at = 0; at < hg::wire::kResponseSize; ++at) {
        for (unsigned flip = 1; flip < 256; flip += 25) {
            const hg_return_t ret = t.answer([&](const Request& r) {
                Bytes bytes = RawTarget::response({.cookie = r.cookie}, 8);
                bytes[at] ^= static_cast<std::byte>(flip);
                return bytes;
            });
            INFO("byte " << at << " ^ " << flip);
            if (at == 3 && flip < static_cast<unsigned>(Status::other_error) + 1) {
                CHECK(ret == static_cast<hg_return_t>(flip));
            } else {
                CHECK(ret != HG_SUCCESS);
            }
        }
    }
    for (std::size_t size = 0; size < hg::wire::kResponseSize; ++size) {
        CHECK(t.answer([&](const Request& r) {
            Bytes bytes = RawTarget::response({.cookie = r.cookie}, 0);
            bytes.resize(size);
            return bytes;
        }) == HG_PROTOCOL_ERROR);
    }
}

TEST_CASE("a large response that is none, and an acknowledgement that should not be") {
    RawTarget t;
    using hg::wire::Request;
    CHECK(t.answer([](const Request& r) {
        return RawTarget::response({.flags = hg::wire::kOverflow, .cookie = r.cookie}, 100);
    }) == HG_PROTOCOL_ERROR);
    CHECK(t.answer([](const Request& r) {
        return RawTarget::response(
            {.flags = hg::wire::kOverflow, .code = Status::fault, .cookie = r.cookie}, 100);
    }) == HG_PROTOCOL_ERROR);
    // One-way, large: the origin waits for an acknowledgement.
    CHECK(t.answer([](const Request& r) { return RawTarget::response({.cookie = r.cookie}, 0); },
                   90'000, true) == HG_SUCCESS);
    CHECK(t.answer(
              [](const Request& r) {
                  return RawTarget::response({.code = Status::nomem, .cookie = r.cookie}, 0);
              },
              90'000, true) == HG_NOMEM);
    CHECK(t.answer(
              [](const Request& r) {
                  return RawTarget::response({.flags = hg::wire::kOverflow, .cookie = r.cookie},
                                             100);
              },
              90'000, true) == HG_PROTOCOL_ERROR);
    CHECK(t.answer([](const Request&) { return Bytes(3); }, 90'000, true) == HG_PROTOCOL_ERROR);
}
