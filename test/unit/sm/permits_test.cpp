// SPDX-License-Identifier: BSD-3-Clause
// Permits: descriptors that reach memory, and those that do not; who works on memory while it is
// deregistered.
#include "plugins/sm/permits.hpp"

#include <algorithm>
#include <climits>
#include <cstring>
#include <thread>

#include <sys/mman.h>
#include <sys/wait.h>
#include <catch2/catch.hpp>

#include "plugins/sm/region.hpp"
#include "unit/sm/exchange.hpp"
#include "unit/sm/fake_peer.hpp"

using namespace sm_test;
using namespace na::sm;
using na::Segment;

namespace {

constexpr std::size_t kSize = 8192;
constexpr std::byte kSecret{0xAB};

// What is registered lies between two areas that are not.
struct Guarded {
    Guarded(Node& owner_, bool shared_) : owner(owner_), shared(shared_) {
        if (shared) {
            all = static_cast<std::byte*>(owner.domain->allocate(3 * kSize));
            REQUIRE(all != nullptr);
        } else {
            plain.resize(3 * kSize);
            all = plain.data();
        }
        std::memset(all, static_cast<int>(kSecret), 3 * kSize);
        std::memset(middle(), 1, kSize);
    }
    ~Guarded() {
        if (shared) {
            owner.domain->deallocate(all, 3 * kSize);
        }
    }
    std::byte* middle() const { return all + kSize; }
    bool intact() const {
        const auto secret = [](std::byte b) { return b == kSecret; };
        return std::all_of(all, all + kSize, secret) &&
               std::all_of(all + 2 * kSize, all + 3 * kSize, secret);
    }
    Node& owner;
    const bool shared;
    std::vector<std::byte> plain;
    std::byte* all = nullptr;
};

std::vector<std::byte> described(const na::plugin::Region& region) {
    std::vector<std::byte> bytes(region.encode({}));
    region.encode(bytes);
    return bytes;
}

struct Peers {
    Node a;
    Node b;
    std::vector<std::byte> here = std::vector<std::byte>(2 * kSize);
    std::unique_ptr<na::plugin::Region> local = a.region(here.data(), here.size());

    Peers() { exchange(a, b, {1}, Lane::unexpected); }
    // How a transfer by these bytes ends.
    Status attempt(const std::vector<std::byte>& bytes, OpKind kind, std::uint64_t length = kSize,
                   std::uint64_t offset = 0, std::uint64_t size = kSize) {
        auto remote = a.domain->decode_region(bytes, length);
        if (!remote) {
            return remote.status();
        }
        TestOp op;
        const Posted p = a.transfer(op, kind, b.uri(), *local, 0, **remote, offset, size);
        if (p.what == Posted::What::failed) {
            return p.status;
        }
        REQUIRE(settle([&] { return op.done(); }, a, b));
        return op.how.status;
    }
};

// The permit that an encoded region names.
std::uint32_t permit_of(const na::plugin::Region& region) {
    const std::uint32_t permit = static_cast<const Region&>(region).permit();
    REQUIRE(permit != 0);
    return permit;
}

PermitTable& permits_of(Node& node) {
    return static_cast<Domain&>(*node.domain).permits();
}

}  // namespace

TEST_CASE("permits: a descriptor says what was registered, or reaches nothing") {
    const bool shared = GENERATE(false, true);
    INFO((shared ? "memory of the allocator" : "any memory"));
    Peers p;
    Guarded there(p.b, shared);
    const std::size_t at_segment = shared ? 12 + 16 : 12;
    auto exported = p.b.region(there.middle(), kSize, Access::read);
    const auto good = described(*exported);
    const auto changed = [&](std::size_t at, std::uint64_t by) {
        auto bytes = good;
        std::uint64_t value = 0;
        std::memcpy(&value, bytes.data() + at, sizeof value);
        value += by;
        std::memcpy(bytes.data() + at, &value, sizeof value);
        return bytes;
    };
    REQUIRE(p.attempt(good, OpKind::get) == Status::success);
    if (shared) {
        REQUIRE(settle(
            [&] {
                return p.attempt(good, OpKind::get) == Status::success &&
                       p.a->stat("sm_rma_shared") != 0;
            },
            p.a, p.b));
    } else {
        REQUIRE(p.a->stat("sm_rma_attached") == 1);
    }
    CHECK(p.here[0] == std::byte{1});
    SECTION("each part of it") {
        CHECK(p.attempt(good, OpKind::put) == Status::permission);
        CHECK(p.attempt(changed(4, 1), OpKind::get) == Status::noentry);  // the key
        CHECK(p.attempt(changed(at_segment, kSize), OpKind::get) == Status::noentry);
        CHECK(p.attempt(changed(at_segment, 1), OpKind::get) == Status::noentry);
        CHECK(p.attempt(changed(at_segment + 8, kSize), OpKind::get, 2 * kSize, 0, 2 * kSize) ==
              Status::overflow);
        CHECK(p.attempt(changed(at_segment + 8, 1), OpKind::get, kSize + 1, kSize, 1) ==
              Status::overflow);
        CHECK(p.attempt(good, OpKind::get, kSize, 1, kSize) == Status::overflow);
        CHECK(p.attempt(good, OpKind::get, kSize, UINT64_MAX - 5, 100) == Status::overflow);
        if (shared) {
            CHECK(p.attempt(changed(12, 1), OpKind::get) == Status::noentry);
            CHECK(p.attempt(changed(20, UINT64_MAX - 99), OpKind::get) == Status::noentry);
        }
    }
    SECTION("any bytes") {
        support::Random random(support::options().seed);
        auto writable = p.b.region(there.middle(), kSize, Access::write);
        const auto for_put = described(*writable);
        for (int i = 0; i < 3000; ++i) {
            const OpKind kind = random.below(2) == 0 ? OpKind::put : OpKind::get;
            auto bytes = kind == OpKind::put ? for_put : good;
            for (std::uint64_t n = 1 + random.below(3); n != 0; --n) {
                std::byte& one = bytes[random.below(bytes.size())];
                one = random.below(2) == 0 ? static_cast<std::byte>(random.next())
                                           : one ^ static_cast<std::byte>(1U << random.below(8));
            }
            std::fill(p.here.begin(), p.here.end(), std::byte{1});
            // The core's header may be changed, too.
            const std::uint64_t length = random.below(4) == 0 ? kSize + random.below(kSize) : kSize;
            const std::uint64_t size = 1 + random.below(length);
            static_cast<void>(p.attempt(bytes, kind, length, length - size, size));
            REQUIRE(std::all_of(p.here.begin(), p.here.end(),
                                [](std::byte b) { return b == std::byte{1}; }));
        }
    }
    SECTION("a descriptor that outlived its registration") {
        exported.reset();
        std::fill(p.here.begin(), p.here.end(), std::byte{2});
        CHECK(p.attempt(good, OpKind::get) == Status::noentry);
        // The same memory again, and other memory, whose registration takes the same permit.
        auto again = p.b.region(there.middle(), kSize);
        CHECK(permit_of(*again) != 0);
        CHECK(p.attempt(good, OpKind::get) == Status::noentry);
        again.reset();
        std::vector<std::byte> other(kSize, std::byte{3});
        auto elsewhere = p.b.region(other.data(), kSize);
        CHECK(permit_of(*elsewhere) != 0);
        CHECK(p.attempt(good, OpKind::get) == Status::noentry);
        CHECK(p.attempt(good, OpKind::put) == Status::noentry);
        CHECK(std::all_of(p.here.begin(), p.here.end(),
                          [](std::byte b) { return b == std::byte{2}; }));
        CHECK(
            std::all_of(other.begin(), other.end(), [](std::byte b) { return b == std::byte{3}; }));
    }
    CHECK(there.intact());
    CHECK(p.a->lost.empty());
    CHECK(p.b->complaints.empty());
}

TEST_CASE("permits: of several segments each counts") {
    Peers p;
    Guarded there(p.b, false);
    auto exported = p.b.region({{there.middle(), 1000}, {there.middle() + 2000, 1000}});
    const auto good = described(*exported);
    CHECK(p.attempt(good, OpKind::get, 2000, 0, 2000) == Status::success);
    for (const std::size_t at : {std::size_t{12}, std::size_t{28}}) {
        auto bytes = good;
        std::uint64_t base = 0;
        std::memcpy(&base, bytes.data() + at, sizeof base);
        base -= kSize;
        std::memcpy(bytes.data() + at, &base, sizeof base);
        // Also where the range does not touch the segment.
        CHECK(p.attempt(bytes, OpKind::get, 2000, 0, 100) == Status::noentry);
        CHECK(p.attempt(bytes, OpKind::put, 2000, 1500, 100) == Status::noentry);
    }
    CHECK(there.intact());
}

TEST_CASE("permits: without one the owner executes") {
    Peers p;
    std::vector<std::byte> there(kSize, std::byte{7});
    SECTION("no permit is left") {
        std::vector<std::unique_ptr<na::plugin::Region>> many;
        std::vector<Segment> segments(kMaxSegments, Segment{there.data(), 1});
        for (std::size_t i = 0; i <= kPermits / kMaxSegments; ++i) {
            many.push_back(p.b.region(segments));
            static_cast<void>(described(*many.back()));
        }
        CHECK(static_cast<const Region&>(*many.back()).permit() == 0);
        const auto bytes = described(*many.back());
        CHECK(p.attempt(bytes, OpKind::get, kMaxSegments, 0, kMaxSegments) == Status::success);
        CHECK(p.a->stat("sm_rma_bounced") == 1);
        CHECK(p.here[5] == std::byte{7});
        // Those that go make room.
        many.erase(many.begin());
        CHECK(static_cast<const Region&>(*many.back()).permit() != 0);
    }
    SECTION("nobody may attach") {
        NoAttach off;
        Node alone;
        auto region = alone.region(there.data(), kSize);
        static_cast<void>(described(*region));
        CHECK(static_cast<const Region&>(*region).permit() == 0);
    }
}

TEST_CASE("permits: withdrawn while others look") {
    constexpr int kRounds = 300;
    PermitTable table;
    na::Error error;
    REQUIRE(table.open(error) == Status::success);
    RegionTable regions;
    constexpr unsigned kThreads = 3;
    constexpr int kNoSocket = INT_MAX;
    struct Shared {
        std::atomic<std::uint64_t> key{0};
        std::atomic<std::uint32_t> permit{0};
        std::atomic<std::uint64_t> live{0};  // the key of the memory that is there
        std::atomic<bool> stop{false};
    } shared;
    // Each looker is a connection: what it writes, and what is written for it.
    std::vector<std::unique_ptr<Direction>> mine(kThreads);
    std::vector<std::unique_ptr<Direction>> theirs(kThreads);
    std::vector<PermitUser*> users;
    for (unsigned i = 0; i < kThreads; ++i) {
        mine[i] = std::make_unique<Direction>();
        theirs[i] = std::make_unique<Direction>();
        users.push_back(
            &table.join({getpid(), 0}, kNoSocket, mine[i]->hazard.permit, theirs[i]->bar.barred));
    }
    // The peer's mapping of the table.
    auto mapped = map_peer_memory(table.fd(), kPermitBytes, false);
    REQUIRE(mapped);
    std::vector<std::byte> memory(100);
    const Segment segment{memory.data(), memory.size()};
    std::atomic<std::uint64_t> found{0};
    std::atomic<std::uint64_t> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i) {
        threads.emplace_back([&, i] {
            while (!shared.stop) {
                const std::uint64_t key = shared.key;
                PermitUse use(mapped->at<const PermitEntry>(0), *mine[i], *theirs[i]);
                if (use.begin(shared.permit, seal_of(key), Access::read, {&segment, 1}, 0, 0, 0,
                              100) != Status::success) {
                    continue;
                }
                ++found;
                for (int look = 0; look < 20; ++look) {
                    wrong += shared.live != key;
                }
                wrong += !use.stands() && shared.live != key;
            }
        });
    }
    for (int round = 1; round <= kRounds || found < 20; ++round) {
        const auto key = static_cast<std::uint64_t>(round);
        {
            LocalRegion region(regions, &table, {segment}, key, Access::read);
            shared.live = key;
            shared.permit = region.permit();
            shared.key = key;
            if (round % 16 == 0) {
                std::this_thread::yield();
            }
        }
        shared.live = 0;
    }
    shared.stop = true;
    for (auto& t : threads) {
        t.join();
    }
    CHECK(wrong == 0);
    CHECK(table.late() == 0);
    Mapping none;
    for (PermitUser* user : users) {
        table.leave(*user, none);
    }
    for (const auto& direction : theirs) {
        CHECK(direction->bar.barred == 1);
    }
}

TEST_CASE("permits: a peer that says that it is busy delays one deregistration") {
    Node server;
    Node friendly;
    check_alive(server, friendly);
    std::vector<std::byte> memory(kSize, std::byte{9});
    auto region = server.region(memory.data(), kSize);
    auto second = server.region(memory.data(), kSize);
    FakePeer peer;
    peer.join(server.uri(), [&] { server.poll(); });
    peer.out().hazard.permit = permit_of(*region);
    const auto start = std::chrono::steady_clock::now();
    region.reset();
    CHECK(std::chrono::steady_clock::now() - start >=
          std::chrono::nanoseconds(PermitTable::kPatience));
    CHECK(permits_of(server).late() == 1);
    CHECK(server->stat("sm_late_peers") == 1);
    // It has lost the connection, and every process that is it may not reach memory directly.
    CHECK(peer.in().bar.barred == 1);
    CHECK(settle([&] { return server->stat("sm_connections") == 1; }, server));
    peer.out().hazard.permit = permit_of(*second);
    second.reset();
    CHECK(permits_of(server).late() == 1);
    FakePeer back(std::to_string(getpid()) + "-4000000002");
    back.join(server.uri(), [&] { server.poll(); });
    CHECK(back.in().bar.barred == 1);
    // (Which all of this process are.) The owner executes for them.
    std::vector<std::byte> here(kSize);
    auto local = friendly.region(here.data(), kSize);
    auto exported = server.region(memory.data(), kSize);
    auto remote = friendly.decode(*exported, kSize);
    TestOp op;
    REQUIRE(friendly.transfer(op, OpKind::get, server.uri(), *local, 0, *remote, 0, kSize).what ==
            Posted::What::pending);
    REQUIRE(settle([&] { return op.done(); }, friendly, server));
    CHECK(op.how.status == Status::success);
    CHECK(friendly->stat("sm_rma_bounced") == 1);
    CHECK(here == memory);
}

namespace {

// Another process that is at work on our memory: it names a permit, and says so.
struct Worker {
    struct Word {
        std::atomic<int> joined{0};
        std::atomic<int> go{0};
        std::atomic<int> done{0};
    };
    // Make it before other threads. `rest` runs when `go` is set.
    Worker(const std::string& uri, std::function<void(FakePeer&, Word&)> rest)
        : word(new (mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                   Word) {
        pid = fork();
        if (pid == 0) {
            FakePeer peer;
            peer.join(uri, [] { std::this_thread::yield(); });
            word->joined = 1;
            while (word->go == 0) {
                std::this_thread::yield();
            }
            rest(peer, *word);
            for (;;) {
                pause();
            }
        }
    }
    ~Worker() {
        end();
        munmap(word, 4096);
    }
    void end() {
        if (pid > 0) {
            kill(pid, SIGKILL);
            waitpid(pid, nullptr, 0);
            pid = 0;
        }
    }
    Word* word;
    pid_t pid;
};

}  // namespace

TEST_CASE("permits: who worked on memory and died, or lost its connection") {
    Node server;
    server.poll();
    std::vector<std::byte> memory(kSize);
    auto region = server.region(memory.data(), kSize);
    const std::uint32_t permit = permit_of(*region);
    SECTION("killed") {
        const bool reaped = GENERATE(false, true);
        Worker worker(server.uri(), [&](FakePeer& peer, Worker::Word& word) {
            peer.out().hazard.permit = permit;
            word.done = 1;
        });
        REQUIRE(settle([&] { return worker.word->joined == 1; }, server));
        worker.word->go = 1;
        REQUIRE(settle([&] { return worker.word->done == 1; }, server));
        kill(worker.pid, SIGKILL);
        if (reaped) {
            worker.end();
        }
        // Before the context has noticed.
        region.reset();
        CHECK(permits_of(server).late() == 0);
        CHECK(settle([&] { return server->stat("sm_connections") == 0; }, server));
    }
    SECTION("alive, its connection gone") {
        Worker worker(server.uri(), [&](FakePeer& peer, Worker::Word& word) {
            peer.out().hazard.permit = permit;
            shutdown(peer.socket.get(), SHUT_RDWR);
            const auto table =
                map_peer_memory(permits_of(server).fd(), kPermitBytes, false).value();
            word.done = 1;
            while (table.at<const PermitEntry>(0)[permit].seal.load() != 0) {
                std::this_thread::yield();
            }
            word.done = 2;
            peer.out().hazard.permit = 0;
        });
        REQUIRE(settle([&] { return worker.word->joined == 1; }, server));
        worker.word->go = 1;
        REQUIRE(settle(
            [&] { return worker.word->done == 1 && server->stat("sm_connections") == 0; }, server));
        region.reset();
        CHECK(worker.word->done == 2);
        CHECK(permits_of(server).late() == 0);
    }
    SECTION("alive, its connection gone, and never done") {
        Worker worker(server.uri(), [&](FakePeer& peer, Worker::Word& word) {
            peer.out().hazard.permit = permit;
            shutdown(peer.socket.get(), SHUT_RDWR);
            word.done = 1;
        });
        REQUIRE(settle([&] { return worker.word->joined == 1; }, server));
        worker.word->go = 1;
        REQUIRE(settle(
            [&] { return worker.word->done == 1 && server->stat("sm_connections") == 0; }, server));
        region.reset();
        CHECK(permits_of(server).late() == 1);
        auto next = server.region(memory.data(), kSize);
        CHECK(permit_of(*next) == permit);
        next.reset();
        CHECK(permits_of(server).late() == 1);
    }
}
