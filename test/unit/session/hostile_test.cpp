// SPDX-License-Identifier: BSD-3-Clause
// What strangers send.
#include <chrono>
#include <string>

#include <catch2/catch.hpp>

#include "unit/session/net.hpp"

using namespace session_test;

namespace {

Card card_of(const std::string& identity, std::uint64_t number = 1) {
    Card card{.number = number,
              .max_message = {4096, 4096},
              .window = 16,
              .context = 0,
              .contexts = {.life = 1, .edition = 0, .open = {}},
              .identity = identity};
    card.contexts.open.add(0);
    return card;
}

// Someone who takes part by hand: it hears what is sent to its place.
struct Stranger {
    Stranger(Net& net, std::uint16_t port) : node(net, port) {}
    // What came, of this kind. The card points into `bytes`.
    bool heard(Kind kind, Header& h, Card& card) {
        while (!node->inbox.empty()) {
            bytes = node->inbox.front();
            node->inbox.pop_front();
            if (h.read(bytes) && h.kind == kind) {
                return card.read(std::span(bytes).subspan(Header::kSize));
            }
        }
        return false;
    }
    const std::string& identity() { return node.local.address.identity(); }

    Node node;
    Bytes bytes;
};

// A session as the stranger has it: what it has to write, and what is written to it.
struct Session {
    std::uint64_t out = 0;
    std::uint64_t in = 0;
};

Session begin(Stranger& s, Node& n) {
    constexpr std::uint64_t kOffer = 99;
    n->inbox.push_back(control(Kind::hello, 0, card_of(s.identity(), kOffer)));
    n.progress();
    Header h;
    Card card;
    REQUIRE(s.heard(Kind::welcome, h, card));
    CHECK(h.cookie == kOffer);
    const std::uint64_t cookie = card.number;
    n->inbox.push_back(control(Kind::confirm, cookie, card_of(s.identity(), kOffer), 0, h.tag));
    n.progress();
    CHECK(n->stat("session_begun") == 1);
    return {.out = cookie, .in = kOffer};
}

Bytes data(const Header& header, std::size_t size = Header::kSize) {
    Bytes bytes(size);
    header.write(bytes.data());
    return bytes;
}

}  // namespace

TEST_CASE("bytes that are no message are dropped") {
    Net net;
    Node n(net, 1000);
    n->inbox.emplace_back(Bytes{});
    n->inbox.emplace_back(Bytes(Header::kSize - 1));
    n->inbox.emplace_back(Bytes(Header::kSize, std::byte{0xff}));
    n->inbox.push_back(data({.cookie = 5, .version = 9}));
    n->inbox.push_back(data({.target = 3}));  // another context
    n->inbox.push_back(data({.cookie = 12345}));
    n->inbox.push_back(data({.kind = Kind::hello}));  // without a card
    n.progress();
    CHECK(n->stat("session_bad_input") == 7);
    CHECK(n.drops.size() == 7);
    CHECK(n.was_dropped("a message of another protocol or version"));
    CHECK(n.was_dropped("a message of an ended or unknown session"));
    CHECK(n.was_dropped("a malformed greeting"));
    CHECK(n->stat("session_links") == 0);
}

TEST_CASE("a session needs the number that was sent to the address") {
    Net net;
    Node n(net, 1000);
    Stranger s(net, 2000);
    // Nobody answers for somebody else, nor at once.
    n->inbox.push_back(control(Kind::confirm, 4711, card_of(s.identity(), 99)));
    n.progress();
    CHECK(n.was_dropped("a confirmation that does not fit"));
    const Session session = begin(s, n);
    // The number is good for this address and offer only.
    n->inbox.push_back(control(Kind::confirm, session.out, card_of(s.identity(), 98)));
    const std::string other = address_of(3000).identity();
    n->inbox.push_back(control(Kind::confirm, session.out, card_of(other, 99)));
    n.progress();
    CHECK(n->stat("session_begun") == 1);
    CHECK(n->stat("session_bad_input") == 3);
}

TEST_CASE("greetings from addresses that cannot be are dropped") {
    Net net;
    Node n(net, 1000);
    std::string multicast = address_of(2000, "239.1.1.1").identity();
    const std::string last = address_of(65535).identity();
    Card high = card_of(last);
    high.context = 1;
    high.contexts.open.add(1);
    const std::string v6 = address_of(2000, "2001:db8::1").identity();  // n speaks IPv4
    const std::string garbage = "garbage";
    const std::string self = n.local.address.identity();
    n->inbox.push_back(control(Kind::hello, 0, card_of(multicast)));
    n->inbox.push_back(control(Kind::hello, 0, high));
    n->inbox.push_back(control(Kind::hello, 0, card_of(v6)));
    n->inbox.push_back(control(Kind::hello, 0, card_of(garbage)));
    n->inbox.push_back(control(Kind::hello, 0, card_of(self)));
    n.progress();
    CHECK(n->stat("session_bad_input") == 5);
    CHECK(n->stat("session_links") == 0);
}

TEST_CASE("strangers are bounded, and nobody stays for ever") {
    Net net;
    Node n(net, 1000);
    constexpr std::size_t kLimit = 1024;
    Stranger first(net, 2000);
    n->inbox.push_back(control(Kind::hello, 0, card_of(first.identity())));
    n.progress();
    const std::size_t links_of_one = n->stat("session_links");
    CHECK(links_of_one == 1);
    for (std::size_t i = 0; i < 3 * kLimit; ++i) {
        const auto port = static_cast<std::uint16_t>(10'000 + i);
        n->inbox.push_back(control(Kind::hello, 0, card_of(address_of(port).identity())));
        n.progress();
        REQUIRE(n->stat("session_links") <= kLimit + 1);
    }
    // Who receives where he says is served all the same, as soon as the others have had their time.
    Header h;
    Card card;
    REQUIRE(settle(
        [&] {
            n->inbox.push_back(control(Kind::hello, 0, card_of(first.identity(), 99)));
            n.progress();
            return first.heard(Kind::welcome, h, card) && h.cookie == 99;
        },
        n));
    n->inbox.push_back(
        control(Kind::confirm, card.number, card_of(first.identity(), 99), 0, h.tag));
    n.progress();
    CHECK(n->stat("session_begun") == 1);
    CHECK(n.references == 1);
    CHECK(n->stat("session_turned_away") > 0);
}

TEST_CASE("who has no credit is not listened to") {
    Net net;
    Node n(net, 1000);
    Stranger s(net, 2000);
    const Session session = begin(s, n);
    n.room = false;
    const std::size_t window = n.local.window;
    for (std::size_t i = 0; i < 2 * window; ++i) {
        n->inbox.push_back(data({.cookie = session.out}));
    }
    n.progress();
    CHECK(n->stat("session_held") == window);
    CHECK(n->stat("session_bad_input") == window);
    n->inbox.push_back(data({.cookie = session.out, .kind = Kind::expected}, n.local.largest + 1));
    n.progress();
    CHECK(n->stat("session_bad_input") == window + 1);
    CHECK(n.was_dropped("a message larger than allowed, or without credit"));
}

TEST_CASE("counts that cannot be are not taken") {
    Net net;
    Node n(net, 1000);
    Stranger s(net, 2000);
    const Session session = begin(s, n);
    constexpr unsigned kTheirWindow = 16;
    TestOp op;
    for (unsigned i = 0; i < kTheirWindow; ++i) {
        REQUIRE(n.post(op, s.node, "x").what == Posted::What::done);
    }
    REQUIRE(n.post(op, s.node, "x").what == Posted::What::again);
    n->inbox.push_back(
        data({.cookie = session.out, .kind = Kind::credit, .taken = {kTheirWindow + 1, 7}}));
    n.progress();
    CHECK(n.post(op, s.node, "x").what == Posted::What::again);
    n->inbox.push_back(data({.cookie = session.out, .kind = Kind::credit, .taken = {1, 0}}));
    n.progress();
    CHECK(n.post(op, s.node, "x").what == Posted::What::done);
    CHECK(n.post(op, s.node, "x").what == Posted::What::again);
    // Nor do they go back.
    n->inbox.push_back(data({.cookie = session.out, .kind = Kind::credit, .taken = {0, 0}}));
    n.progress();
    CHECK(n.post(op, s.node, "x").what == Posted::What::again);
}

TEST_CASE("nobody else ends a session") {
    Net net;
    Node n(net, 1000);
    Stranger s(net, 2000);
    const Session session = begin(s, n);
    // Without the cookie that n gave, or was given.
    n->inbox.push_back(data({.cookie = session.in + 1, .kind = Kind::bye}));
    n->inbox.push_back(control(Kind::reset, session.in + 1, card_of(s.identity())));
    n->inbox.push_back(control(Kind::reset, 0, card_of(s.identity())));
    n->inbox.push_back(control(Kind::welcome, session.out, card_of(s.identity())));
    n->inbox.push_back(control(Kind::hello, 0, card_of(s.identity(), 77)));
    n.progress();
    CHECK(n.lost.empty());
    TestOp op;
    CHECK(n.post(op, s.node, "x").what == Posted::What::done);
    // With it.
    n->inbox.push_back(data({.cookie = session.out, .kind = Kind::bye}));
    n.progress();
    CHECK(n.lost.size() == 1);
}

TEST_CASE("an answer to a greeting counts from the one that was greeted only") {
    Net net;
    Node n(net, 1000);
    Stranger s(net, 2000);
    TestOp op;
    CHECK(n.post(op, s.node, "x").what == Posted::What::again);
    Header h;
    Card card;
    REQUIRE(s.heard(Kind::hello, h, card));
    const std::uint64_t offer = card.number;
    const std::string other = address_of(3000).identity();
    n->inbox.push_back(control(Kind::welcome, offer, card_of(other)));
    n->inbox.push_back(control(Kind::welcome, offer + 1, card_of(s.identity())));
    n.progress();
    CHECK(n->stat("session_begun") == 0);
    n->inbox.push_back(control(Kind::welcome, offer, card_of(s.identity(), 5)));
    n.progress();
    CHECK(n->stat("session_begun") == 1);
    CHECK(n.post(op, s.node, "x").what == Posted::What::done);
}

TEST_CASE("random bytes behind a header harm nobody") {
    Net net;
    Node n(net, 1000);
    Stranger s(net, 2000);
    const Session session = begin(s, n);
    std::uint64_t state = 1;
    const auto next = [&] {
        state = state * 6364136223846793005U + 1442695040888963407U;
        return static_cast<std::uint8_t>(state >> 56);
    };
    for (int i = 0; i < 20'000; ++i) {
        Bytes bytes(Header::kSize + next() % 64);
        for (std::byte& b : bytes) {
            b = std::byte{next()};
        }
        Header{.cookie = next() % 2 == 0 ? session.out : 0,
               .kind = static_cast<Kind>(next() % 8),  // but for `bye`
               .taken = {next(), next()}}
            .write(bytes.data());
        n->inbox.push_back(bytes);
        n.progress();
    }
    CHECK(n->stat("session_links") <= 1025);
    CHECK(n.lost.empty());
}

TEST_CASE("greetings in somebody's name keep nobody from meeting him") {
    // Both orders: who gives way to a greeting, and who does not.
    for (const bool smaller : {false, true}) {
        Net net;
        Node a(net, smaller ? 1000 : 3000), b(net, 2000);
        std::uint64_t offer = 1;
        TestOp op;
        Posted posted = b.post(op, a, "x");
        CHECK(support::until(
            [&] {
                posted = b.post(op, a, "x");
                return posted.what != Posted::What::again;
            },
            [&] {
                const std::string name = a.local.address.identity();
                b->inbox.push_front(control(Kind::hello, 0, card_of(name, ++offer)));
            },
            [&] { b.progress(); }, [&] { a.progress(); }));
        CHECK(posted.what == Posted::What::done);
        CHECK(b.lost.empty());
        CHECK(a.lost.empty());
    }
}

TEST_CASE("who has left an address does not come back in the name of its successor") {
    Net net;
    Node n(net, 1000);
    constexpr std::uint64_t kOffers[] = {98, 99};
    Bytes confirmations[2];
    {
        Stranger former(net, 2000);
        for (const int i : {0, 1}) {
            n->inbox.push_back(control(Kind::hello, 0, card_of(former.identity(), kOffers[i])));
            n.progress();
            Header h;
            Card card;
            REQUIRE(former.heard(Kind::welcome, h, card));
            confirmations[i] = control(Kind::confirm, card.number,
                                       card_of(former.identity(), kOffers[i]), 0, h.tag);
        }
        n->inbox.push_back(confirmations[0]);
        n.progress();
        CHECK(n->stat("session_begun") == 1);
        former.node->killed = true;
    }
    Node successor(net, 2000);
    TestOp op;
    REQUIRE(successor.send(op, n, "x"));
    REQUIRE(settle([&] { return n.messages.size() == 1; }, n, successor));
    CHECK(n->stat("session_begun") == 2);
    for (const Bytes& confirmation : confirmations) {
        n->inbox.push_back(confirmation);
        n.progress();
    }
    CHECK(n->stat("session_begun") == 2);
    REQUIRE(successor.send(op, n, "y"));
    REQUIRE(settle([&] { return n.messages.size() == 2; }, n, successor));
}

TEST_CASE("an answer to a greeting is good for a while only") {
    Net net;
    Node n(net, 1000);
    Stranger s(net, 2000);
    n->inbox.push_back(control(Kind::hello, 0, card_of(s.identity(), 99)));
    n.progress();
    Header h;
    Card card;
    REQUIRE(s.heard(Kind::welcome, h, card));
    // As if it had been given two minutes ago, or came from the future.
    for (const std::uint32_t stamp : {h.tag - 120'000'000, h.tag + 120'000'000}) {
        const std::uint64_t cookie =
            na::session::welcome_cookie(n.local.secret, s.identity(), 0, 99, stamp);
        n->inbox.push_back(control(Kind::confirm, cookie, card_of(s.identity(), 99), 0, stamp));
        n.progress();
        CHECK(n->stat("session_begun") == 0);
        // Who believed in it hears that there is no session.
        Header answer;
        Card none;
        REQUIRE(s.heard(Kind::reset, answer, none));
        CHECK(answer.cookie == cookie);
    }
    n->inbox.push_back(control(Kind::confirm, card.number, card_of(s.identity(), 99), 0, h.tag));
    n.progress();
    CHECK(n->stat("session_begun") == 1);
}

TEST_CASE("a transport says how many strangers it can bear") {
    Net net;
    Node n(net, 1000, 0, {}, {.max_strangers = 8});
    for (std::size_t i = 0; i < 100; ++i) {
        const auto port = static_cast<std::uint16_t>(10'000 + i);
        n->inbox.push_back(control(Kind::hello, 0, card_of(address_of(port).identity())));
        n.progress();
        REQUIRE(n->stat("session_links") <= 9);
    }
}

TEST_CASE("what is kept of one peer is bounded, however often it begins anew") {
    Net net;
    Node n(net, 1000);
    Stranger s(net, 2000);
    n.room = false;
    const std::size_t window = n.local.window;
    for (std::uint64_t offer = 1; offer < 20; ++offer) {
        n->inbox.push_back(control(Kind::hello, 0, card_of(s.identity(), offer)));
        n.progress();
        Header h;
        Card card;
        REQUIRE(s.heard(Kind::welcome, h, card));
        n->inbox.push_back(
            control(Kind::confirm, card.number, card_of(s.identity(), offer), 0, h.tag));
        for (std::size_t i = 0; i < window; ++i) {
            n->inbox.push_back(data({.cookie = card.number}));
        }
        n.progress();
    }
    CHECK(n->stat("session_begun") == 19);
    n.room = true;
    n.progress();
    CHECK(n.messages.size() <= 2 * window);
    CHECK(n.was_dropped("messages of an ended session that there was no room for"));
}

TEST_CASE("news are a peer's own, and answer what was asked") {
    Net net;
    Node n(net, 1000);
    Stranger s(net, 2000);
    const Session session = begin(s, n);
    const auto news = [&](std::uint64_t cookie, const Card& card) {
        n->inbox.push_back(control(Kind::news, cookie, card));
        n.progress();
    };
    const std::string other = address_of(3000).identity();
    Card third = card_of(s.identity(), 0);
    third.context = 3;
    third.contexts.open.add(3);
    news(4711, card_of(s.identity(), 0));      // of no session
    news(session.out, card_of(other, 0));      // in another one's name
    news(session.out, third);                  // in another context's
    news(session.out, card_of(s.identity()));  // number 1: nothing was asked
    CHECK(n->stat("session_bad_input") == 4);
    CHECK(n.was_dropped("news that nobody has asked for"));
    n->inbox.push_back(data({.cookie = session.out, .kind = Kind::news}));
    n->inbox.push_back(data({.cookie = session.out, .kind = Kind::ask}));
    n.progress();
    CHECK(n->stat("session_bad_input") == 6);
    CHECK(n->stat("session_links") == 1);
    CHECK(n.lost.empty());

    // A peer that claims to have no context but this one harms itself only.
    TestOp op;
    op.op.target_id = 2;
    CHECK(n.post(op, s.node, "x").what == Posted::What::again);
    Header h;
    Card card;
    REQUIRE(s.heard(Kind::ask, h, card));
    CHECK(h.cookie == session.in);
    CHECK(card.identity == n.local.address.identity());
    Card last = card_of(s.identity(), card.number);
    last.contexts.edition = UINT64_MAX;
    news(session.out, last);
    CHECK(n.post(op, s.node, "x").status == Status::hostunreach);
}

TEST_CASE("who asks is answered once for all that he asked before") {
    Net net;
    Node n(net, 1000);
    Stranger s(net, 2000);
    const Session session = begin(s, n);
    n->refuses = true;
    for (std::uint64_t number = 1; number <= 100; ++number) {
        n->inbox.push_back(control(Kind::ask, session.out, card_of(s.identity(), number)));
    }
    n.progress();
    n->refuses = false;
    n.progress();
    Header h;
    Card card;
    REQUIRE(s.heard(Kind::news, h, card));
    CHECK(h.cookie == session.in);
    CHECK(card.number == 100);
    CHECK(card.contexts.open.has(0));
    CHECK_FALSE(s.heard(Kind::news, h, card));
    // In a session that has ended he hears that.
    n->inbox.push_back(control(Kind::ask, 4711, card_of(s.identity(), 101)));
    n.progress();
    REQUIRE(s.heard(Kind::reset, h, card));
    CHECK(h.cookie == 4711);
}
