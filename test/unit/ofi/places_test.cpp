// SPDX-License-Identifier: BSD-3-Clause
// When peers get a place in the provider's address vector, and when they leave it.
//
// The transport is a real one; between it and libfabric stands this program, which has the function
// that everything of a class of libfabric's comes from, and listens to what is asked of its address
// vectors.
#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "na/domain.hpp"
#include "support/options.hpp"
#include "support/two_process.hpp"
#include "support/until.hpp"

using namespace std::chrono_literals;
using na::Status;
using support::Link;
using support::Party;
using support::until;

namespace {

// What was asked of one address vector.
struct Vector {
    std::size_t inserted = 0;
    std::size_t removed = 0;
    std::set<fi_addr_t> places;  // that are taken
};
// In the order in which they were opened.
std::vector<std::unique_ptr<Vector>>& vectors() {
    static std::vector<std::unique_ptr<Vector>> all;
    return all;
}

// Puts our functions before the object's. (Objects end with the process: few, and none looks after
// them.)
template <typename Object, typename Ops>
struct Spy {
    static std::map<Object*, Spy*>& all() {
        static std::map<Object*, Spy*> map;
        return map;
    }
    static Spy& of(Object* object) { return *all().at(object); }
    explicit Spy(Object* object) : theirs(object->ops), ours(*object->ops) {
        all()[object] = this;
        object->ops = &ours;
    }
    Ops* theirs;
    Ops ours;
    Vector* vector = nullptr;
};
using VectorSpy = Spy<fid_av, fi_ops_av>;
using DomainSpy = Spy<fid_domain, fi_ops_domain>;
using FabricSpy = Spy<fid_fabric, fi_ops_fabric>;

int insert(fid_av* av, const void* address, std::size_t count, fi_addr_t* places,
           std::uint64_t flags, void* context) {
    VectorSpy& spy = VectorSpy::of(av);
    const int n = spy.theirs->insert(av, address, count, places, flags, context);
    if (n == 1) {
        ++spy.vector->inserted;
        CHECK(spy.vector->places.insert(places[0]).second);
    }
    return n;
}

int remove(fid_av* av, fi_addr_t* places, std::size_t count, std::uint64_t flags) {
    VectorSpy& spy = VectorSpy::of(av);
    for (std::size_t i = 0; i < count; ++i) {
        CHECK(spy.vector->places.erase(places[i]) == 1);  // one that is taken, and once
        ++spy.vector->removed;
    }
    return spy.theirs->remove(av, places, count, flags);
}

int av_open(fid_domain* domain, fi_av_attr* attributes, fid_av** av, void* context) {
    const int rc = DomainSpy::of(domain).theirs->av_open(domain, attributes, av, context);
    if (rc == 0) {
        vectors().push_back(std::make_unique<Vector>());
        auto* spy = new VectorSpy(*av);
        spy->vector = vectors().back().get();
        spy->ours.insert = insert;
        spy->ours.remove = remove;
    }
    return rc;
}

int open_domain(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) {
    const int rc = FabricSpy::of(fabric).theirs->domain(fabric, info, domain, context);
    if (rc == 0) {
        (new DomainSpy(*domain))->ours.av_open = av_open;
    }
    return rc;
}

struct Side {
    explicit Side(const std::string& info)
        : domain(na::Domain::listen(info).value()), context(domain.open_context().value()) {}
    void pump() {
        (void)context.progress();
        context.trigger();
    }
    na::Domain domain;
    na::Context context;
};

// Asks somebody, and waits for the answer.
Status ask(Side& side, const na::Address& peer) {
    const na::Buffer out = side.domain.make_buffer(8).value();
    const na::Buffer in = side.domain.make_buffer(8).value();
    na::Operation send(side.context), receive(side.context);
    bool sent = false, answered = false;
    Status how = Status::success;
    side.context
        .recv_expected(receive, peer, 1, in,
                       [&](Status s, std::span<std::byte>) {
                           how = s;
                           answered = true;
                       })
        .value();
    const auto posted =
        side.context.send_unexpected(send, peer, 1, out.first(1), [&](Status) { sent = true; });
    if (!posted) {
        return posted.status();
    }
    REQUIRE(side.context.run_until([&] { return sent && answered; }, 60s));
    return how;
}

// Answers `questions`, and closes when the other party comes to the barrier.
void answer(Link& link, const std::string& info, int questions) {
    Side side(info);
    link.put(side.domain.uri());
    const na::Buffer in = side.domain.make_buffer(8).value();
    const na::Buffer out = side.domain.make_buffer(8).value();
    na::Operation receive(side.context), send(side.context);
    for (; questions != 0; --questions) {
        na::Address source;
        bool answered = false;
        side.context
            .recv_unexpected(receive, in,
                             [&](Status s, const na::Message& m) {
                                 na::check(s, "a question");
                                 source = m.source;
                                 side.context
                                     .send_expected(send, source, 1, out.first(1),
                                                    [&](Status) { answered = true; })
                                     .value();
                             })
            .value();
        PARTY_REQUIRE(side.context.run_until([&] { return answered; }, 60s));
    }
    link.barrier([&] { side.pump(); });
}

// In a child, so that nothing is open when cases fork.
bool can_open(const std::string& protocol) {
    Party party(Party::As::process,
                [&](Link& link) { link.put(na::Domain::listen(protocol) ? "yes" : "no"); });
    const bool yes = party.link().take_text() == "yes";
    return party.join().empty() && yes;
}

std::string made_up(const std::string& protocol, int number) {
    return protocol == "ofi+shm" ? "ofi+shm://nobody-" + std::to_string(number)
                                 : protocol + "://127.0.0.1:" + std::to_string(1024 + number);
}

}  // namespace

extern "C" int fi_fabric(fi_fabric_attr* attributes, fid_fabric** fabric, void* context) {
    static const auto real = reinterpret_cast<decltype(&fi_fabric)>(dlsym(RTLD_NEXT, "fi_fabric"));
    const int rc = real(attributes, fabric, context);
    if (rc == 0) {
        (new FabricSpy(*fabric))->ours.domain = open_domain;
    }
    return rc;
}

TEST_CASE("who is only looked up has no place", "[ofi][places]") {
    const std::string protocol = GENERATE(as<std::string>{}, "ofi+tcp", "ofi+sockets", "ofi+shm");
    if (!can_open(protocol)) {
        support::skip(protocol + " cannot be opened here");
        return;
    }
    vectors().clear();
    Side side(protocol);
    REQUIRE(vectors().size() == 1);
    std::vector<na::Address> addresses;
    for (int i = 0; i < 300; ++i) {
        addresses.push_back(side.domain.lookup(made_up(protocol, i)).value());
    }
    for (int i = 0; i < 100; ++i) {
        side.pump();
    }
    CHECK(vectors()[0]->inserted == 0);
    addresses.clear();
    CHECK(side.context.close(10s));
    CHECK(vectors()[0]->removed == 0);
}

TEST_CASE("a place is taken by the first message and left with the session", "[ofi][places]") {
    const std::string protocol = GENERATE(as<std::string>{}, "ofi+tcp", "ofi+sockets", "ofi+shm");
    if (!can_open(protocol)) {
        support::skip(protocol + " cannot be opened here");
        return;
    }
    INFO(protocol);
    Party first(Party::As::process, [&](Link& link) { answer(link, protocol, 3); });
    Party second(Party::As::process, [&](Link& link) {
        // At the address of the first, when that is free.
        const std::string uri = link.take_text();
        answer(link, uri, 1);
    });
    const std::string uri = first.link().take_text();
    vectors().clear();
    Side side(protocol);
    REQUIRE(vectors().size() == 1);
    Vector& vector = *vectors()[0];
    na::Address peer = side.domain.lookup(uri).value();
    for (int i = 0; i < 3; ++i) {
        CHECK(ok(ask(side, peer)));
        CHECK(vector.inserted == 1);
        CHECK(vector.places.size() == 1);
    }
    // It closes, and so its place is given up, once.
    first.link().barrier([&] { side.pump(); });
    CHECK(first.join().empty());
    REQUIRE(until([&] { return vector.places.empty(); }, [&] { side.pump(); }));
    CHECK(vector.removed == 1);

    // Another one under its address gets a place of its own.
    second.link().put(uri);
    CHECK(second.link().take_text() == uri);
    CHECK(ok(ask(side, peer)));
    CHECK(vector.inserted == 2);
    CHECK(vector.places.size() == 1);
    second.link().barrier([&] { side.pump(); });
    CHECK(second.join().empty());
    REQUIRE(until([&] { return vector.places.empty(); }, [&] { side.pump(); }));
    CHECK(vector.removed == 2);
    CHECK(side.context.close(10s));
}

TEST_CASE("who is not there gets no place in shm", "[ofi][places]") {
    if (!can_open("ofi+shm")) {
        support::skip("ofi+shm cannot be opened here");
        return;
    }
    vectors().clear();
    Side side("ofi+shm");
    REQUIRE(vectors().size() == 1);
    CHECK(ask(side, side.domain.lookup("ofi+shm://nobody-at-all").value()) == Status::hostunreach);
    CHECK(vectors()[0]->inserted == 0);
}

TEST_CASE("an endpoint of the same process", "[ofi][places]") {
    const std::string protocol = GENERATE(as<std::string>{}, "ofi+tcp", "ofi+shm");
    if (!can_open(protocol)) {
        support::skip(protocol + " cannot be opened here");
        return;
    }
    INFO(protocol);
    vectors().clear();
    Side side(protocol);
    {
        Side other(protocol);
        REQUIRE(vectors().size() == 2);
        const na::Buffer in = other.domain.make_buffer(8).value();
        const na::Buffer out = side.domain.make_buffer(8).value();
        na::Operation receive(other.context), send(side.context);
        bool received = false, sent = false;
        REQUIRE(other.context.recv_unexpected(
            receive, in, [&](Status s, const na::Message&) { received = ok(s); }));
        REQUIRE(side.context.send_unexpected(send, side.domain.lookup(other.domain.uri()).value(),
                                             1, out.first(1), [&](Status s) { sent = ok(s); }));
        REQUIRE(until([&] { return sent && received; },
                      [&] {
                          side.pump();
                          other.pump();
                      }));
        CHECK(vectors()[0]->places.size() == 1);
    }
    // (What is left to it when the other is closed depends on the version of shm: docs/ofi.md.)
    if (protocol != "ofi+shm" || FI_MAJOR(fi_version()) < 2) {
        REQUIRE(until([&] { return vectors()[0]->places.empty(); }, [&] { side.pump(); }));
        CHECK(vectors()[0]->removed == 1);
    }
    CHECK(side.context.close(10s));
}
