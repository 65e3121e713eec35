// SPDX-License-Identifier: BSD-3-Clause
#include "na/core/address.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "core_fixture.hpp"
#include "support/options.hpp"

using namespace core_test;
using na::Address;
using na::AddressRef;

TEST_CASE("one object per identity", "[address]") {
    Core core;
    AddressRef a = core.address("a");
    AddressRef again = core.address("a");
    AddressRef b = core.address("b");
    CHECK(a.get() == again.get());
    CHECK(a.get() != b.get());
    CHECK(core.cls->addresses().find("a").get() == a.get());
    CHECK_FALSE(core.cls->addresses().find("c"));
    CHECK(Address::of(a->peer()) == a.get());
    CHECK(core.cls->addresses().referenced() == 3);  // and oneself
    again.reset();
    CHECK(core.cls->addresses().referenced() == 3);
    b.reset();
    CHECK(core.cls->addresses().referenced() == 2);
}

TEST_CASE("an address that nobody holds goes at the next reaping", "[address]") {
    Core core;
    AddressRef a = core.address("a");
    CHECK_FALSE(core.cls->addresses().has_dead());
    a.reset();
    CHECK(core.cls->addresses().has_dead());
    core.cls->reap();
    CHECK_FALSE(core.cls->addresses().has_dead());
    CHECK_FALSE(core.cls->addresses().find("a"));
}

TEST_CASE("an address that is looked up again in time stays", "[address]") {
    Core core;
    AddressRef a = core.address("a");
    Address* const object = a.get();
    a.reset();
    AddressRef back = core.address("a");
    CHECK(back.get() == object);
    core.cls->reap();
    CHECK(core.cls->addresses().find("a").get() == object);
    // Freed, found and freed again before anybody reaps.
    back.reset();
    core.address("a").reset();
    core.address("a").reset();
    core.cls->reap();
    CHECK_FALSE(core.cls->addresses().find("a"));
    CHECK_FALSE(core.cls->addresses().has_dead());
}

TEST_CASE("bytes of an address", "[address]") {
    Core core;
    AddressRef a = core.address("name");
    std::vector<std::byte> bytes(a->encoded_size());
    CHECK(bytes.size() == 8);
    CHECK(a->encode(std::span(bytes).first(7)) == na::Status::overflow);
    REQUIRE(a->encode(bytes) == na::Status::success);
    auto copy = core.cls->decode_address(bytes);
    REQUIRE(copy);
    CHECK(copy->get() == a.get());
}

TEST_CASE("freed and looked up by threads at once, an address is never used after its end",
          "[address][threads]") {
    // The sanitizers judge: every object that is found must be alive until it is released.
    Core core;
    constexpr int kThreads = 4;
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    std::atomic<unsigned> good{0};
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 4000 / static_cast<int>(support::kSlow); ++i) {
                const std::string name(1, static_cast<char>('a' + (i + t) % 3));
                AddressRef ref = core.address(name);
                AddressRef more = AddressRef::share(ref.get());
                ref.reset();
                if (more->uri() == "loop+loop://" + name) {
                    ++good;
                }
            }
        });
    }
    std::thread reaper([&] {
        while (!stop) {
            core.cls->reap();
            std::this_thread::yield();
        }
    });
    for (std::thread& t : threads) {
        t.join();
    }
    stop = true;
    reaper.join();
    CHECK(good == kThreads * (4000 / support::kSlow));
    core.cls->reap();
    CHECK(core.cls->addresses().referenced() == 1);
}

TEST_CASE("an address that is freed once too often stays whole", "[address]") {
    Core core;
    AddressRef a = core.address("a");
    Address* const object = a.get();
    a.reset();
    CHECK_FALSE(object->unref());  // until it is reaped it can be told
    CHECK_FALSE(object->unref());
    // Found again it is as good as ever, and goes with its last reference.
    AddressRef back = core.address("a");
    CHECK(back.get() == object);
    AddressRef other = AddressRef::share(back.get());
    back.reset();
    core.cls->reap();
    CHECK(core.cls->addresses().find("a").get() == object);
    CHECK(core.cls->addresses().referenced() == 2);  // and oneself
    other.reset();
    core.cls->reap();
    CHECK_FALSE(core.cls->addresses().find("a"));
}

TEST_CASE("references of contexts keep an address as others do", "[address]") {
    na::InitInfo info;
    info.max_contexts = GENERATE(std::uint8_t{1}, std::uint8_t{2}, std::uint8_t{40});
    INFO(unsigned{info.max_contexts} << " contexts");
    Core core(info);
    AddressRef a = core.address("a");
    Address& object = *a;
    const auto there = [&] { return core.cls->addresses().find("a").get() == &object; };
    using Contexts = std::initializer_list<std::uint8_t>;
    for (const std::uint8_t context : Contexts{0, 1, 9, 39, 0}) {
        object.ref_in(context);
    }
    a.reset();
    for (const std::uint8_t context : Contexts{39, 0, 9, 1}) {
        CHECK(object.unref_in(context));
        core.cls->reap();
        CHECK(core.cls->addresses().referenced() == 2);  // and oneself
        CHECK(there());
    }
    if (info.max_contexts > 1) {  // of which one has been given back already
        CHECK_FALSE(object.unref_in(1));
        CHECK(there());
    }
    // The last of all: it goes.
    CHECK(object.unref_in(0));
    CHECK(core.cls->addresses().referenced() == 1);
    core.cls->reap();
    CHECK_FALSE(core.cls->addresses().find("a"));
}

TEST_CASE("threads that take and give back references of contexts lose none",
          "[address][threads]") {
    na::InitInfo info;
    info.max_contexts = 4;
    Core core(info);
    constexpr int kThreads = 4;
    // With and without one that the context holds meanwhile, for its connection.
    for (const bool connected : {true, false}) {
        AddressRef held = core.address("a");
        Address& object = *held;
        std::vector<std::thread> threads;
        std::mutex locks[kThreads / 2];
        for (int t = 0; t < kThreads; ++t) {
            threads.emplace_back([&, t] {
                const auto context = static_cast<std::uint8_t>(t / 2);  // two threads share one
                const auto in_context = [&](auto&& what) {
                    const std::lock_guard guard(locks[context]);
                    what();
                };
                if (connected) {
                    in_context([&] { object.ref_in(context); });
                }
                for (int i = 0; i < 20'000 / static_cast<int>(support::kSlow); ++i) {
                    in_context([&] { object.ref_in(context); });
                    in_context([&] { object.unref_in(context); });
                }
                if (connected) {
                    in_context([&] { object.unref_in(context); });
                }
            });
        }
        for (std::thread& t : threads) {
            t.join();
        }
        core.cls->reap();
        CHECK(core.cls->addresses().find("a").get() == &object);
        held.reset();
        core.cls->reap();
        CHECK_FALSE(core.cls->addresses().find("a"));
    }
}
