// SPDX-License-Identifier: BSD-3-Clause
// When peers get a place in the provider's address vector, and when they leave it.
//
// The transport is a real one; spies.hpp listens to what is asked of its address vectors.
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <sys/stat.h>

#include "spies.hpp"
#include "support/options.hpp"
#include "support/two_process.hpp"
#include "support/until.hpp"

using namespace std::chrono_literals;
using na::Status;
using support::Link;
using support::Party;
using support::until;

namespace {

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

// What takes the place of a segment if it can.
class Filler {
 public:
    Filler() { REQUIRE(at_ != MAP_FAILED); }
    Filler(Filler&& other) noexcept : at_(std::exchange(other.at_, MAP_FAILED)) {}
    Filler& operator=(Filler&&) = delete;
    ~Filler() {
        if (at_ != MAP_FAILED) {
            munmap(at_, kSize);
        }
    }

 private:
    static constexpr std::size_t kSize = std::size_t{64} << 10;
    void* at_ = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
};

// Sends something to a side of this process.
Status tell(Side& from, Side& to) {
    const na::Buffer out = from.domain.make_buffer(8).value();
    const na::Buffer in = to.domain.make_buffer(8).value();
    na::Operation send(from.context), receive(to.context);
    Status how = Status::success;
    bool sent = false, received = false;
    to.context.recv_unexpected(receive, in, [&](Status, const na::Message&) { received = true; })
        .value();
    const auto posted = from.context.send_unexpected(
        send, from.domain.lookup(to.domain.uri()).value(), 1, out.first(1), [&](Status s) {
            how = s;
            sent = true;
        });
    if (posted) {
        REQUIRE(until([&] { return sent && (received || !ok(how)); },
                      [&] {
                          from.pump();
                          to.pump();
                      }));
    } else {
        how = posted.status();
    }
    if (!received) {
        to.context.cancel(receive);
        REQUIRE(until([&] { return received; }, [&] { to.pump(); }));
    }
    return how;
}

void serve(Side& side, int questions) {
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
}

// Answers `questions`, and closes when the other party comes to the barrier.
void answer(Link& link, const std::string& info, int questions) {
    Side side(info);
    link.put(side.domain.uri());
    serve(side, questions);
    link.barrier([&] { side.pump(); });
}

std::string made_up(const std::string& protocol, int number) {
    return protocol == "ofi+shm" ? "ofi+shm://nobody-" + std::to_string(number)
                                 : protocol + "://127.0.0.1:" + std::to_string(1024 + number);
}

}  // namespace

TEST_CASE("who is only looked up has no place", "[ofi][places]") {
    const std::string protocol = GENERATE(as<std::string>{}, "ofi+tcp", "ofi+sockets", "ofi+shm");
    if (!can_open(protocol)) {
        support::skip(protocol + " cannot be opened here");
        return;
    }
    listened().clear();
    Side side(protocol);
    REQUIRE(listened().size() == 1);
    std::vector<na::Address> addresses;
    for (int i = 0; i < 300; ++i) {
        addresses.push_back(side.domain.lookup(made_up(protocol, i)).value());
    }
    for (int i = 0; i < 100; ++i) {
        side.pump();
    }
    CHECK(listened()[0]->inserted == 0);
    addresses.clear();
    CHECK(side.context.close(10s));
    CHECK(listened()[0]->removed == 0);
}

TEST_CASE("a context that would be behind the last port is nobody's, and not tried",
          "[ofi][places]") {
    const std::string protocol = GENERATE(as<std::string>{}, "ofi+tcp", "ofi+sockets");
    if (!can_open(protocol)) {
        support::skip(protocol + " cannot be opened here");
        return;
    }
    INFO(protocol);
    listened().clear();
    Side side(protocol);
    REQUIRE(listened().size() == 1);
    const na::Address peer = side.domain.lookup(protocol + "://127.0.0.1:65535").value();
    const na::Buffer out = side.domain.make_buffer(8).value();
    na::Operation send(side.context);
    bool ended = false;
    Status how = Status::success;
    const auto posted =
        side.context.send_unexpected(send, {peer, 3}, 1, out.first(1), [&](Status s) {
            how = s;
            ended = true;
        });
    if (posted) {
        REQUIRE(side.context.run_until([&] { return ended; }, 60s));
    } else {
        how = posted.status();
    }
    CHECK(how == Status::hostunreach);
    CHECK(listened()[0]->inserted == 0);
    CHECK(side.context.close(10s));
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
    listened().clear();
    Side side(protocol);
    REQUIRE(listened().size() == 1);
    Listened& vector = *listened()[0];
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
    listened().clear();
    Side side("ofi+shm");
    REQUIRE(listened().size() == 1);
    CHECK(ask(side, side.domain.lookup("ofi+shm://nobody-at-all").value()) == Status::hostunreach);
    CHECK(listened()[0]->inserted == 0);
}

// libfabric finds it where the former one was mapped.
TEST_CASE("an endpoint under a name that this process had before is not taken for the former one",
          "[ofi][places]") {
    if (!can_open("ofi+shm")) {
        support::skip("ofi+shm cannot be opened here");
        return;
    }
    const auto tell_each_other = [&](Side& named, Status status) {
        Side other("ofi+shm");
        CHECK(tell(named, named) == status);
        CHECK(tell(other, named) == status);
        CHECK(tell(named, other) == status);
    };
    const std::string name = "ofi+shm://again-" + std::to_string(getpid());
    SECTION("a class under the same name") {
        std::vector<Filler> others;  // memory of others, which comes where there is room
        for (int i = 0; i < 4; ++i) {
            {
                Side named(name);
                tell_each_other(named, Status::success);
            }
            others.resize(others.size() + 64);
        }
    }
    SECTION("a context that is opened again") {
        Side named("ofi+shm");
        std::vector<Filler> others;
        for (int i = 0; i < 4; ++i) {
            tell_each_other(named, Status::success);
            named.context = na::Context();
            others.resize(others.size() + 64);
            named.context = named.domain.open_context().value();
        }
    }
    SECTION("where its spot was lost") {
        if (!SpotSpy::possible()) {
            support::skip("mmap() is the sanitizer's");
            return;
        }
        const std::string other = name + "-lost";
        std::optional<SpotSpy> takes_it(std::in_place);
        {
            Side named(other);
            tell_each_other(named, Status::success);
        }
        {
            Side named(other);
            tell_each_other(named, Status::hostunreach);
        }
        takes_it.reset();
        Side named(other);
        tell_each_other(named, Status::success);
    }
}

// libfabric answers that it is busy, and removes it.
TEST_CASE("a name that is in use stays its owner's", "[ofi][places]") {
    if (!can_open("ofi+shm")) {
        support::skip("ofi+shm cannot be opened here");
        return;
    }
    const std::string name = "ofi+shm://owned-" + std::to_string(getpid());
    Party owner(Party::As::process, [&](Link& link) { answer(link, name, 1); });
    CHECK(owner.link().take_text() == name);
    for (int i = 0; i < 3; ++i) {
        const auto second = na::Domain::listen(name);
        REQUIRE_FALSE(second);
        CHECK(second.status() == Status::addrinuse);
    }
    Side side("ofi+shm");
    CHECK(ok(ask(side, side.domain.lookup(name).value())));
    owner.link().barrier([&] { side.pump(); });
    CHECK(owner.join().empty());
}

TEST_CASE("a name that a file of another program has is not taken from it", "[ofi][places]") {
    if (!can_open("ofi+shm")) {
        support::skip("ofi+shm cannot be opened here");
        return;
    }
    const std::string name = "foreign-" + std::to_string(getpid());
    const std::string path = "/dev/shm/" + name;
    {
        std::ofstream file(path);
        file << "precious";
    }
    const auto taken = na::Domain::listen("ofi+shm://" + name);
    REQUIRE_FALSE(taken);
    CHECK(taken.status() == Status::addrinuse);
    CHECK(taken.error().message.find(path) != std::string::npos);
    {
        Side side("ofi+shm");
        CHECK(ask(side, side.domain.lookup("ofi+shm://" + name).value()) == Status::hostunreach);
    }
    struct stat file {};
    REQUIRE(stat(path.c_str(), &file) == 0);
    CHECK(file.st_size == 8);
    CHECK((file.st_mode & S_ISVTX) == 0);
    CHECK(unlink(path.c_str()) == 0);
    CHECK(na::Domain::listen("ofi+shm://" + name));
}

TEST_CASE("of those who want a name at once one gets it", "[ofi][places]") {
    if (!can_open("ofi+shm")) {
        support::skip("ofi+shm cannot be opened here");
        return;
    }
    constexpr int kRounds = 10;
    const auto name_of = [pid = getpid()](int round) {
        return "ofi+shm://wanted-" + std::to_string(pid) + "-" + std::to_string(round);
    };
    std::vector<std::unique_ptr<Party>> all;
    for (int i = 0; i < 4; ++i) {
        all.push_back(std::make_unique<Party>(Party::As::process, [&](Link& link) {
            for (int round = 0; round < kRounds; ++round) {
                link.take();
                auto mine = na::Domain::listen(name_of(round));
                link.put(mine ? "mine" : "another's");
                link.take();  // all have tried
                if (mine) {
                    *mine = na::Domain();
                }
                link.put("closed");
            }
        }));
    }
    for (int round = 0; round < kRounds; ++round) {
        for (const auto& party : all) {
            party->link().put("go");
        }
        int owners = 0;
        for (const auto& party : all) {
            owners += party->link().take_text() == "mine" ? 1 : 0;
        }
        CHECK(owners == 1);
        struct stat file {};
        CHECK(stat(("/dev/shm/" + name_of(round).substr(10)).c_str(), &file) == 0);
        for (const auto& party : all) {
            party->link().put("tried");
        }
        for (const auto& party : all) {
            CHECK(party->link().take_text() == "closed");
        }
    }
    for (const auto& party : all) {
        CHECK(party->join().empty());
    }
}

// libfabric would look for it where this process had its own.
TEST_CASE("a name that this process had may be another's", "[ofi][places]") {
    if (!can_open("ofi+shm")) {
        support::skip("ofi+shm cannot be opened here");
        return;
    }
    const bool calls = GENERATE(true, false);
    CAPTURE(calls);
    const std::string name = "ofi+shm://moved-" + std::to_string(getpid());
    std::vector<std::unique_ptr<Party>> heirs;
    for (int i = 0; i < 3; ++i) {
        heirs.push_back(std::make_unique<Party>(Party::As::process, [&](Link& link) {
            const std::string uri = link.take_text();
            if (calls) {
                answer(link, name, 2);
            } else {
                Side side(name);
                PARTY_REQUIRE(ok(ask(side, side.domain.lookup(uri).value())));
                PARTY_REQUIRE(ok(ask(side, side.domain.lookup(uri).value())));
                link.barrier([&] { side.pump(); });
            }
        }));
    }
    listened().clear();
    Side side("ofi+shm");
    const Listened& vector = *listened().at(0);
    { const Side named(name); }
    for (const auto& heir : heirs) {
        heir->link().put(side.domain.uri());
        if (calls) {
            CHECK(heir->link().take_text() == name);
            CHECK(ok(ask(side, side.domain.lookup(name).value())));
            CHECK(ok(ask(side, side.domain.lookup(name).value())));
        } else {
            serve(side, 2);
        }
        heir->link().barrier([&] { side.pump(); });
        CHECK(heir->join().empty());
        REQUIRE(until([&] { return vector.places.empty(); }, [&] { side.pump(); }));
    }
    // And this one's again.
    Side named(name);
    CHECK(tell(side, named) == Status::success);
    CHECK(tell(named, side) == Status::success);
}

TEST_CASE("an endpoint of the same process", "[ofi][places]") {
    const std::string protocol = GENERATE(as<std::string>{}, "ofi+tcp", "ofi+shm");
    if (!can_open(protocol)) {
        support::skip(protocol + " cannot be opened here");
        return;
    }
    INFO(protocol);
    listened().clear();
    Side side(protocol);
    {
        Side other(protocol);
        REQUIRE(listened().size() == 2);
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
        CHECK(listened()[0]->places.size() == 1);
    }
    // (What is left to it when the other is closed depends on the version of shm: docs/ofi.md.)
    if (protocol != "ofi+shm" || FI_MAJOR(fi_version()) < 2) {
        REQUIRE(until([&] { return listened()[0]->places.empty(); }, [&] { side.pump(); }));
        CHECK(listened()[0]->removed == 1);
    }
    CHECK(side.context.close(10s));
}
