// SPDX-License-Identifier: BSD-3-Clause
// What a stranger may say to a context with sessions; an input is a list of steps.
//
//   step 1, length 1, bytes     step 0: the bytes as they are
//                                    1: number 1, kind 1, target 1, tag 4, taken 2 + 2, rest: with
//                                    a header 2: number 1, kind 1, tag 1, offer 8, sizes 4 + 4,
//                                    window 2, context 1,
//                                       contexts 1: with a card of the stranger
//                                    3: the context sends to the stranger
//                                    4: the context and an honest peer send to each other
//
// A number chooses a cookie of those that the stranger was given. Whatever it says, the context and
// the honest peer hear each other, and nobody else in the other's name.
#include <algorithm>
#include <cstring>
#include <string>

#include "target.hpp"
#include "unit/session/net.hpp"

namespace {

using namespace session_test;

using fuzz::Input;

struct Scene {
    Scene() : context(net, 1000), honest(net, 2000), stranger(net, 3000) {}

    void step(std::uint8_t what, Input in) {
        switch (what) {
            case 0: {
                const auto bytes = in.take(SIZE_MAX);
                context->inbox.emplace_back(bytes.begin(), bytes.end());
                break;
            }
            case 1: {
                Header h;
                h.cookie = cookie(in.integer<std::uint8_t>());
                h.kind = kind(in.integer<std::uint8_t>());
                h.target = in.integer<std::uint8_t>();
                h.tag = in.integer<std::uint32_t>();
                h.taken[0] = in.integer<std::uint16_t>();
                h.taken[1] = in.integer<std::uint16_t>();
                const auto rest = in.take(SIZE_MAX);
                Bytes bytes(Header::kSize + rest.size());
                h.write(bytes.data());
                std::memcpy(bytes.data() + Header::kSize, rest.data(), rest.size());
                context->inbox.push_back(std::move(bytes));
                break;
            }
            case 2: {
                const std::uint64_t to = cookie(in.integer<std::uint8_t>());
                const Kind of = kind(in.integer<std::uint8_t>());
                const std::uint32_t tag = stamp(in.integer<std::uint8_t>());
                Card card;
                card.number = in.integer<std::uint64_t>();
                card.max_message[0] = in.integer<std::uint32_t>();
                card.max_message[1] = in.integer<std::uint32_t>();
                card.window = in.integer<std::uint16_t>();
                card.context = in.integer<std::uint8_t>();
                const auto contexts = in.integer<std::uint8_t>();
                for (std::uint8_t id = 0; id < contexts; ++id) {
                    card.contexts.open.add(id);
                }
                card.contexts.life = 1 + contexts / 128U;
                card.contexts.edition = contexts;
                card.identity = stranger.local.address.identity();
                context->inbox.push_back(control(of, to, card, 0, tag));
                break;
            }
            case 3:
                if (to_stranger.done || !posted) {
                    posted = context.post(to_stranger, stranger, "for you").what !=
                             na::plugin::Posted::What::again;
                }
                break;
            default:
                greet();
                break;
        }
        context.progress();
        honest.progress();
        listen();
    }

    // The context and the honest peer, whatever came before.
    void greet() {
        TestOp there;
        TestOp back;
        fuzz::require(context.send(there, honest, "to the honest") &&
                          honest.send(back, context, "to the context"),
                      "a message is sent");
        fuzz::require(settle(
                          [&] {
                              return heard(honest, context) && heard(context, honest) &&
                                     there.done && back.done;
                          },
                          context, honest),
                      "a message arrives");
    }

 private:
    static Kind kind(std::uint8_t value) {
        return static_cast<Kind>(value % (static_cast<unsigned>(na::session::kLastKind) + 2));
    }
    std::uint64_t cookie(std::uint8_t choice) const {
        return choice < given.size() ? given[given.size() - 1 - choice] : choice;
    }
    std::uint32_t stamp(std::uint8_t choice) const {
        return choice < stamps.size() ? stamps[stamps.size() - 1 - choice] : choice;
    }
    // What the context said to the stranger.
    void listen() {
        for (; !stranger->inbox.empty(); stranger->inbox.pop_front()) {
            Header h;
            Card card;
            const Bytes& bytes = stranger->inbox.front();
            fuzz::require(h.read(bytes), "what is sent is well-formed");
            stamps.push_back(h.tag);
            if (card.read(std::span(bytes).subspan(Header::kSize))) {
                given.push_back(card.number);
            }
        }
    }
    // Whether something came in the name of `from`, who said one thing only.
    static bool heard(Node& node, const Node& from) {
        const std::string name = from.local.uri();
        bool any = false;
        for (const Message& m : node.messages) {
            if (m.source == name) {
                fuzz::require(m.text.starts_with("to the "), "nobody speaks for another");
                any = true;
            }
        }
        if (any) {
            node.messages.clear();
        }
        return any;
    }

    Net net;
    TestOp to_stranger;
    Node context;
    Node honest;
    Node stranger;
    bool posted = false;
    std::vector<std::uint64_t> given;
    std::vector<std::uint32_t> stamps;
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Input input(data, size);
    Scene scene;
    for (int steps = 0; steps < 64 && !input.empty(); ++steps) {
        const auto what = static_cast<std::uint8_t>(input.integer<std::uint8_t>() % 5);
        scene.step(what, Input(input.take(input.integer<std::uint8_t>())));
    }
    scene.greet();
    return 0;
}
