// SPDX-License-Identifier: BSD-3-Clause
// A peer that speaks to an RPC class by hand, and to its calls: an input is a list of messages.
//
//   kind 1, length 2, bytes     kind 0: the bytes as they are, on the lane of requests
//                                    1: flags, RPC, cookie 4, payload: a request with a true header
//                                    2: the bytes as the answer to a call of the class
//                                    3: flags, code, payload: an answer with a true header
//
// Whatever it says, the class serves the next who asks, and its calls end once.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "conformance/hg/side.hpp"
#include "hg/wire.hpp"
#include "support/na_endpoint.hpp"
#include "support/until.hpp"
#include "target.hpp"

namespace {

constexpr std::size_t kMaxMessages = 16;
constexpr const char* kInfo = "loop+loop";

hgtest::Side& victim() {
    static hgtest::Side& side = *[] {
        HG_Set_log_level("none");
        hgtest::Side::Settings settings;
        settings.info = kInfo;
        return new hgtest::Side(settings);
    }();
    return side;
}

// One who was heard of only now: what a class keeps of a peer ends with the input.
struct Stranger {
    Stranger()
        : endpoint({.info = kInfo}),
          to(endpoint, victim().uri()),
          out(endpoint),
          in(endpoint),
          heard(endpoint) {}
    void pump() {
        endpoint.pump();
        victim().pump();
    }
    std::span<std::byte> room(bool expected) {
        const std::size_t header = endpoint.header(expected);
        return {out.data() + header, endpoint.max_message(expected) - header};
    }
    void send(bool expected, std::size_t size, na_tag_t tag) {
        support::Op op(endpoint);
        size += endpoint.header(expected);
        const na_return_t sent = expected ? op.send_expected(out, size, to, tag)
                                          : op.send_unexpected(out, size, to, tag);
        if (sent == NA_SUCCESS) {
            fuzz::require(support::until([&] { return op.done(); }, [&] { pump(); }),
                          "a message is sent, or is not");
        }
    }

    support::Endpoint endpoint;
    support::Addr to;
    support::Buffer out;
    support::Buffer in;
    support::Op heard;
};

// A call of the class to the stranger, which ends as the input wants, and is canceled otherwise.
struct Open {
    Open(Stranger& s, const hgtest::Addr& to) : stranger(s), call(victim(), to, victim().echo) {
        fuzz::require(s.heard.recv_unexpected(s.in) == NA_SUCCESS, "a receive is posted");
        hgtest::Blob in = hgtest::blob(1, 100);
        fuzz::require(call.forward(in) == HG_SUCCESS, "a call is sent");
        fuzz::require(support::until([&] { return s.heard.done(); }, [&] { s.pump(); }),
                      "a call arrives");
        tag = s.heard.result().tag;
        const std::size_t header = s.endpoint.header();
        hg::wire::Request request;
        const auto size = s.heard.result().size;
        fuzz::require(
            size >= header &&
                hg::wire::decode(std::span(s.in.data() + header, size - header), request).status ==
                    na::Status::success,
            "a request is well-formed");
        cookie = request.cookie;
        s.heard.reset();
    }
    ~Open() {
        if (!call.done()) {
            HG_Cancel(call.handle());
        }
        fuzz::require(support::until([&] { return call.done(); }, [&] { stranger.pump(); }),
                      "a call ends");
        for (int i = 0; i < 3; ++i) {
            stranger.pump();
        }
        fuzz::require(call.count() == 1, "a call ends once");
    }

    Stranger& stranger;
    hgtest::Call call;
    na_tag_t tag = 0;
    std::uint32_t cookie = 0;
};

using fuzz::Input;

std::size_t copy(std::span<const std::byte> from, std::span<std::byte> to) {
    const std::size_t n = std::min(from.size(), to.size());
    std::memcpy(to.data(), from.data(), n);
    return n;
}

void speak(Stranger& s, std::unique_ptr<Open>& open, std::uint8_t kind, Input message) {
    const bool expected = kind >= 2;
    if (expected && open == nullptr) {
        const std::string uri = s.endpoint.uri();
        open = std::make_unique<Open>(s, hgtest::Addr(victim(), uri));
    }
    const std::span<std::byte> room = s.room(expected);
    std::size_t size = 0;
    switch (kind) {
        case 1: {
            const std::array<hg_id_t, 5> ids{victim().echo, victim().empty, victim().note,
                                             victim().unserved, 4711};
            hg::wire::Request r;
            r.flags = message.integer<std::uint8_t>();
            r.id = ids[message.integer<std::uint8_t>() % ids.size()];
            r.cookie = message.integer<std::uint32_t>();
            const std::size_t n =
                copy(message.take(SIZE_MAX), room.subspan(hg::wire::kRequestSize));
            hg::wire::encode(room.data(), r, n);
            size = hg::wire::kRequestSize + n;
            break;
        }
        case 3: {
            hg::wire::Response r;
            r.flags = message.integer<std::uint8_t>();
            r.code = static_cast<na::Status>(message.integer<std::uint8_t>());
            r.cookie = open->cookie;
            const std::size_t n =
                copy(message.take(SIZE_MAX), room.subspan(hg::wire::kResponseSize));
            hg::wire::encode(room.data(), r, n);
            size = hg::wire::kResponseSize + n;
            break;
        }
        default:
            size = copy(message.take(SIZE_MAX), room);
            break;
    }
    s.send(expected, size, expected ? open->tag : 7);
    s.pump();
    if (open != nullptr && open->call.done()) {
        open.reset();
    }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Input input(data, size);
    auto stranger = std::make_unique<Stranger>();
    {
        std::unique_ptr<Open> open;
        for (std::size_t n = 0; n < kMaxMessages && !input.empty(); ++n) {
            const auto kind = static_cast<std::uint8_t>(input.integer<std::uint8_t>() % 4);
            const auto bytes = input.take(input.integer<std::uint16_t>());
            speak(*stranger, open, kind, Input(bytes));
        }
    }
    stranger.reset();
    fuzz::require(support::until([] { return victim().counters().rpc_req_recv_active_count == 0; },
                                 [] { victim().pump(); }),
                  "requests are answered or dropped");
    static const hgtest::Addr self(victim(), victim().uri());
    hgtest::Call call(victim(), self, victim().empty);
    fuzz::require(call.forward() == HG_SUCCESS &&
                      support::until([&] { return call.done(); }, [] { victim().pump(); }) &&
                      call.ret() == HG_SUCCESS,
                  "the class serves");
    return 0;
}
