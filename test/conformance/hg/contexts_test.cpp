// SPDX-License-Identifier: BSD-3-Clause
// Several contexts of one class: programs open one for each of their threads, and never mention it.
#include <catch2/catch.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "conformance/hg/side.hpp"
#include "mercury_bulk.h"
#include "mercury_proc.h"
#include "mercury_proc_bulk.h"
#include "support/until.hpp"

using namespace hgtest;

namespace {

// Fetches what the descriptor in the request names, from where the request came; answers its sum.
struct Puller {
    hg_class_t* cls = nullptr;
    hg_handle_t handle = HG_HANDLE_NULL;
    hg_addr_t from = HG_ADDR_NULL;
    hg_bulk_t remote = HG_BULK_NULL;
    hg_bulk_t local = HG_BULK_NULL;
    std::vector<unsigned char> bytes;
};
hg_return_t on_pulled(const hg_cb_info* info) {
    const std::unique_ptr<Puller> p(static_cast<Puller*>(info->arg));
    std::uint64_t sum = info->ret == HG_SUCCESS ? 0 : UINT64_MAX;
    for (const unsigned char byte : p->bytes) {
        sum += byte;
    }
    HG_Bulk_free(p->local);
    HG_Bulk_free(p->remote);
    HG_Addr_free(p->cls, p->from);
    const hg_return_t ret = HG_Respond(p->handle, nullptr, nullptr, &sum);
    HG_Destroy(p->handle);
    return ret;
}
hg_return_t on_pull(hg_handle_t handle) {
    auto p = std::make_unique<Puller>();
    p->handle = handle;
    const hg_info* info = HG_Get_info(handle);
    p->cls = info->hg_class;
    hg_bulk_t in = HG_BULK_NULL;
    if (HG_Get_input(handle, &in) != HG_SUCCESS) {
        return HG_FAULT;
    }
    p->remote = in;
    HG_Bulk_ref_incr(in);
    HG_Free_input(handle, &in);
    HG_Addr_dup(info->hg_class, info->addr, &p->from);
    hg_size_t size = HG_Bulk_get_size(p->remote);
    p->bytes.resize(size);
    void* data = p->bytes.data();
    HG_Bulk_create(info->hg_class, 1, &data, &size, HG_BULK_WRITE_ONLY, &p->local);
    Puller& it = *p;
    return HG_Bulk_transfer(info->context, on_pulled, p.release(), HG_BULK_PULL, it.from, it.remote,
                            0, it.local, 0, size, HG_OP_ID_IGNORE);
}

// A further context of a side, which nobody else progresses.
class Aside {
 public:
    explicit Aside(Side& side) : Aside(side, 0) {}
    Aside(Side& side, std::uint8_t id) : Aside(HG_Context_create_id(side.cls(), id)) {}
    explicit Aside(hg_context_t* context) : context_(context) { REQUIRE(context_ != nullptr); }
    ~Aside() { close(); }
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;
    std::uint8_t id() const { return HG_Context_get_id(context_); }
    void pump() {
        unsigned count = 0;
        (void)HG_Progress(context_, 0);
        (void)HG_Trigger(context_, 0, 16, &count);
    }
    std::uint8_t target = 0;  // of calls
    // Answers the handle when its callback has run; `others` make progress, too.
    template <typename... Others>
    hg_handle_t call(hg_addr_t to, hg_id_t id, void* in, Others&&... others) {
        hg_handle_t handle = HG_HANDLE_NULL;
        REQUIRE(HG_Create(context_, to, id, &handle) == HG_SUCCESS);
        REQUIRE(HG_Set_target_id(handle, target) == HG_SUCCESS);
        hg_return_t ret = HG_RETURN_MAX;
        REQUIRE(HG_Forward(
                    handle,
                    [](const hg_cb_info* info) {
                        *static_cast<hg_return_t*>(info->arg) = info->ret;
                        return HG_SUCCESS;
                    },
                    &ret, in) == HG_SUCCESS);
        REQUIRE(support::until([&] { return ret != HG_RETURN_MAX; }, [&] { pump(); }, others...));
        CHECK(ret == HG_SUCCESS);
        return handle;
    }
    void close() {
        if (context_ != nullptr) {
            CHECK(HG_Context_destroy(context_) == HG_SUCCESS);
            context_ = nullptr;
        }
    }

 private:
    hg_context_t* context_;
};

hg_id_t add_pull(Side& side, hg_rpc_cb_t handler) {
    return HG_Register_name(side.cls(), "pull", hg_proc_hg_bulk_t, hg_proc_uint64_t, handler);
}

// What `aside` hands out is fetched from there.
template <typename... Others>
void check_pull(Side& side, Aside& aside, hg_addr_t to, hg_id_t pull, Others&&... others) {
    std::vector<unsigned char> bytes(300'000, 3);
    void* data = bytes.data();
    hg_size_t size = bytes.size();
    hg_bulk_t bulk = HG_BULK_NULL;
    REQUIRE(HG_Bulk_create(side.cls(), 1, &data, &size, HG_BULK_READ_ONLY, &bulk) == HG_SUCCESS);
    hg_handle_t handle = aside.call(to, pull, &bulk, others...);
    std::uint64_t sum = 0;
    CHECK(HG_Get_output(handle, &sum) == HG_SUCCESS);
    CHECK(sum == 900'000);
    CHECK(HG_Free_output(handle, &sum) == HG_SUCCESS);
    CHECK(HG_Destroy(handle) == HG_SUCCESS);
    CHECK(HG_Bulk_free(bulk) == HG_SUCCESS);
}

}  // namespace

TEST_CASE("contexts that were asked for come before others") {
    Side::Settings three;
    three.init.na_init_info.max_contexts = 3;
    Side side(three);
    std::vector<hg_context_t*> contexts;
    for (const int id : {2, 1}) {
        contexts.push_back(HG_Context_create(side.cls()));
        REQUIRE(contexts.back() != nullptr);
        CHECK(HG_Context_get_id(contexts.back()) == id);
    }
    contexts.push_back(HG_Context_create(side.cls()));
    REQUIRE(contexts.back() != nullptr);
    CHECK(HG_Context_get_id(contexts.back()) >= 3);
    for (hg_context_t* context : contexts) {
        CHECK(HG_Context_destroy(context) == HG_SUCCESS);
    }
}

// Each is progressed alone.
TEST_CASE("data is fetched from the context that a request came from") {
    Side server;
    Side client;
    const Addr to(client, server.uri());
    const hg_id_t pull = add_pull(server, on_pull);
    REQUIRE(add_pull(client, nullptr) == pull);
    Aside aside(client);
    check_pull(client, aside, to, pull, [&] { server.pump(); });
}

// Nobody progresses context 0.
TEST_CASE("data is fetched from the context that a request to oneself came from") {
    Side side;
    const hg_id_t pull = add_pull(side, on_pull);
    const Addr self(side, side.uri());
    Aside aside(side);
    aside.target = aside.id();
    check_pull(side, aside, self, pull);
}

TEST_CASE("contexts that a class has not asked for call, serve and move data") {
    Side server;
    Side client;
    const Addr to(client, server.uri());
    std::vector<hg_context_t*> contexts;
    for (int i = 0; i < 3; ++i) {
        contexts.push_back(HG_Context_create(client.cls()));
        REQUIRE(contexts.back() != nullptr);
        CHECK(HG_Context_get_id(contexts.back()) != 0);
    }
    // The server, too, where requests come to its first one.
    hg_context_t* aside = HG_Context_create(server.cls());
    REQUIRE(aside != nullptr);
    struct Answer {
        hg_return_t ret = HG_RETURN_MAX;
        bool done = false;
    };
    const auto turn = [](hg_context_t* context) {
        unsigned count = 0;
        (void)HG_Progress(context, 0);
        (void)HG_Trigger(context, 0, 16, &count);
    };
    for (int round = 0; round < 3; ++round) {
        for (hg_context_t* context : contexts) {
            Answer answer;
            hg_handle_t handle = HG_HANDLE_NULL;
            REQUIRE(HG_Create(context, to, client.echo, &handle) == HG_SUCCESS);
            Blob in = blob(3, 100'000);  // more than a message, which is fetched
            REQUIRE(HG_Forward(
                        handle,
                        [](const hg_cb_info* info) {
                            auto* a = static_cast<Answer*>(info->arg);
                            a->ret = info->ret;
                            a->done = true;
                            return HG_SUCCESS;
                        },
                        &answer, &in) == HG_SUCCESS);
            REQUIRE(support::until([&] { return answer.done; }, [&] { turn(context); },
                                   [&] { server.pump(); }, [&] { turn(aside); }));
            CHECK(answer.ret == HG_SUCCESS);
            Blob out;
            REQUIRE(HG_Get_output(handle, &out) == HG_SUCCESS);
            CHECK(is_blob(out, 4, 100'000, 3));
            CHECK(HG_Free_output(handle, &out) == HG_SUCCESS);
            CHECK(HG_Destroy(handle) == HG_SUCCESS);
            // What has been fetched is acknowledged.
            REQUIRE(support::until([&] { return server.counters().rpc_req_recv_active_count == 0; },
                                   [&] { turn(context); }, [&] { server.pump(); },
                                   [&] { turn(aside); }));
        }
    }
    for (hg_context_t* context : contexts) {
        CHECK(HG_Context_destroy(context) == HG_SUCCESS);
    }
    CHECK(HG_Context_destroy(aside) == HG_SUCCESS);
}

TEST_CASE("a context that closes ends no call of its siblings") {
    Side server;
    Side client;
    const Addr to_server(client, server.uri());
    const Addr to_client(server, client.uri());
    const auto pump = [&] {
        client.pump();
        server.pump();
    };
    Call call(server, to_client, server.hold);
    {
        Aside aside(client);
        CHECK(HG_Destroy(aside.call(to_server, client.empty, nullptr, pump)) == HG_SUCCESS);
        REQUIRE(call.forward(3) == HG_SUCCESS);
        REQUIRE(support::until([&] { return !client.held().empty(); }, pump));
        const std::uint8_t id = aside.id();
        aside.close();
        // When this has ended the server knows that the context has.
        Call gone(server, to_client, server.empty);
        REQUIRE(HG_Set_target_id(gone.handle(), id) == HG_SUCCESS);
        if (gone.forward() == HG_SUCCESS) {
            REQUIRE(support::until([&] { return gone.done(); }, pump));
        }
    }
    CHECK_FALSE(call.done());
    Blob out = blob(4, 100);
    hg_handle_t held = client.held().front();
    client.held().clear();
    REQUIRE(HG_Respond(held, nullptr, nullptr, &out) == HG_SUCCESS);
    CHECK(HG_Destroy(held) == HG_SUCCESS);
    REQUIRE(support::until([&] { return call.done(); }, pump));
    CHECK(call.ret() == HG_SUCCESS);
}

namespace {

// The code that a call of a context of b's ends with.
template <typename Pump>
hg_return_t call_of(Pair& pair, std::uint8_t context, Pump&& pump) {
    Call call(pair.a, pair.to_b, pair.a.empty);
    REQUIRE(HG_Set_target_id(call.handle(), context) == HG_SUCCESS);
    if (const hg_return_t ret = call.forward(); ret != HG_SUCCESS) {
        return ret;
    }
    REQUIRE(support::until([&] { return call.done(); }, pump));
    return call.ret();
}

// Ports behind that of a class may be somebody else's.
bool has_room(Side& side, std::uint8_t first, std::uint8_t last) {
    std::vector<hg_context_t*> opened;
    for (std::uint8_t id = first; id <= last; ++id) {
        if (hg_context_t* context = HG_Context_create_id(side.cls(), id)) {
            opened.push_back(context);
        }
    }
    for (hg_context_t* context : opened) {
        REQUIRE(HG_Context_destroy(context) == HG_SUCCESS);
    }
    return opened.size() == std::size_t{last} - first + 1;
}

constexpr const char* kNoRoom = "no ports are free where contexts would have them";

// Two classes, of which the second can have a context of that id.
std::unique_ptr<Pair> pair_with_room(std::uint8_t id) {
    for (int tries = 0; tries < 16; ++tries) {
        auto pair = std::make_unique<Pair>();
        if (has_room(pair->b, id, id)) {
            return pair;
        }
    }
    throw std::runtime_error(kNoRoom);
}

// One that can have as many contexts beside its first.
std::unique_ptr<Side> side_with_room(std::uint8_t contexts) {
    for (int tries = 0; tries < 16; ++tries) {
        auto side = std::make_unique<Side>();
        if (has_room(*side, 1, contexts)) {
            return side;
        }
    }
    throw std::runtime_error(kNoRoom);
}

}  // namespace

TEST_CASE("a context that opens after its class was met is called") {
    const auto both = pair_with_room(3);
    Pair& pair = *both;
    const auto pump = [&] { pair.pump(); };
    CHECK(call_of(pair, 0, pump) == HG_SUCCESS);
    CHECK(call_of(pair, 3, pump) == HG_HOSTUNREACH);
    // It may close, and open again at the same place.
    for (int round = 0; round < 3; ++round) {
        Aside late(pair.b, 3);
        const auto served = pair.b.served.load();
        CHECK(call_of(pair, 3, [&] {
                  pair.pump();
                  late.pump();
              }) == HG_SUCCESS);
        CHECK(pair.b.served == served + 1);
        late.close();
        CHECK(call_of(pair, 3, pump) == HG_HOSTUNREACH);
    }
    CHECK(call_of(pair, 0, pump) == HG_SUCCESS);
}

TEST_CASE("a call that is made again takes no answer that was for the one that was canceled") {
    const auto both = pair_with_room(3);
    Pair& pair = *both;
    const auto pump = [&] { pair.pump(); };
    REQUIRE(call_of(pair, 0, pump) == HG_SUCCESS);
    Call call(pair.a, pair.to_b, pair.a.empty);
    REQUIRE(HG_Set_target_id(call.handle(), 3) == HG_SUCCESS);
    REQUIRE(call.forward() == HG_SUCCESS);
    // Whether there is such a context is asked, and answered, as far as the other side goes.
    for (int i = 0; i < 1000 && !call.done(); ++i) {
        pair.b.pump();
    }
    REQUIRE(HG_Cancel(call.handle()) == HG_SUCCESS);
    REQUIRE(support::until([&] { return call.done(); },
                           [&] {
                               unsigned count = 0;
                               (void)HG_Trigger(pair.a.context(), 0, 16, &count);
                               if (count == 0) {
                                   pair.a.pump();
                               }
                           }));
    CHECK((call.ret() == HG_CANCELED || call.ret() == HG_HOSTUNREACH));
    Aside late(pair.b, 3);
    call.reset();
    REQUIRE(call.forward() == HG_SUCCESS);
    REQUIRE(support::until([&] { return call.done(); }, pump, [&] { late.pump(); }));
    CHECK(call.ret() == HG_SUCCESS);
}

TEST_CASE("a context that is not there is told from the program at its place") {
    std::string plain = support::options().protocol;
    plain = plain.substr(0, plain.find('?'));
    if (plain.starts_with("fault+")) {
        plain = plain.substr(6);
    }
    // Ports are in a row; the next one is another class's.
    for (int tries = 0; tries < 16; ++tries) {
        Pair pair;
        const std::string uri = pair.b.uri();
        const std::size_t colon = uri.rfind(':');
        const std::size_t slashes = uri.find("://");
        if (slashes == colon ||
            uri.find_first_not_of("0123456789", colon + 1) != std::string::npos) {
            support::skip("no ports here");
            return;
        }
        const std::string next = plain + uri.substr(slashes, colon - slashes + 1) +
                                 std::to_string(std::stoi(uri.substr(colon + 1)) + 1);
        Side::Settings settings;
        settings.info = next;
        std::unique_ptr<Side> other;
        try {
            other = std::make_unique<Side>(settings);
        } catch (const std::exception&) {
            continue;  // the port is somebody else's
        }
        hg_context_t* seventh = HG_Context_create_id(pair.b.cls(), 7);
        if (seventh == nullptr) {
            continue;
        }
        Aside last(seventh);
        const auto pump = [&] {
            pair.pump();
            last.pump();
            other->pump();
        };
        const bool met = GENERATE(true, false);
        if (met) {
            CHECK(call_of(pair, 0, pump) == HG_SUCCESS);
        }
        CHECK(call_of(pair, 1, pump) == HG_HOSTUNREACH);
        CHECK(other->served == 0);
        CHECK(call_of(pair, 7, pump) == HG_SUCCESS);
        CHECK(call_of(pair, 0, pump) == HG_SUCCESS);
        last.close();
        return;
    }
    FAIL("no two ports in a row");
}

namespace {

// Where contexts open time and again while another class of this process talks with them.
bool may_open_many() {
    const std::string& protocol = support::options().protocol;
    if (protocol.find("ofi+shm") == std::string::npos) {
        return true;
    }
    support::skip(
        "libfabric's shm may not find an endpoint of this process that has the name of one that "
        "closed (docs/ofi.md)");
    return false;
}

}  // namespace

// What libraries have for a class is not used up by contexts that have closed.
TEST_CASE("a class goes on when many of its contexts have come and gone") {
    if (support::options().protocol.find("ofi+sockets") != std::string::npos) {
        support::skip("sockets sends nothing more after 128 (docs/ofi.md)");
        return;
    }
    if (!may_open_many()) {
        return;
    }
    Pair pair;
    const Addr to(pair.b, pair.a.uri());
    for (int round = 0; round < 140; ++round) {
        hg_context_t* context = nullptr;
        for (std::uint8_t id = 1; context == nullptr && id < 8; ++id) {
            context = HG_Context_create_id(pair.b.cls(), id);  // unless somebody has its port
        }
        Aside aside(context);
        REQUIRE(HG_Destroy(aside.call(to, pair.b.empty, nullptr, [&] { pair.pump(); })) ==
                HG_SUCCESS);
    }
    // (Until the last one's end is known: what the core has not handed over by then ends with it.)
    hg_return_t ret = HG_RETURN_MAX;
    CHECK(support::until(
        [&] {
            ret = call_of(pair, 0, [&] { pair.pump(); });
            return ret != HG_HOSTUNREACH;
        },
        [&] { pair.pump(); }));
    CHECK(ret == HG_SUCCESS);
}

// Both ends of each connection are new, and busy with others.
TEST_CASE("contexts that come and go on several threads are answered", "[threads]") {
    if (!may_open_many()) {
        return;
    }
    constexpr std::uint8_t kThreads = 7;
    // (Over libfabric's a call lasts.)
    const int rounds = support::options().protocol.find("ofi+") == std::string::npos ? 20 : 3;
    Side server;
    const auto owner = side_with_room(kThreads);
    Side& client = *owner;
    const Addr to(client, server.uri());
    std::atomic<unsigned> opened{0}, answered{0}, ended{0}, running{kThreads};
    const auto turn = [](hg_context_t* context) {
        unsigned count = 0;
        (void)HG_Progress(context, 0);
        (void)HG_Trigger(context, 0, 16, &count);
    };
    const auto call = [&](hg_context_t* context) {
        hg_handle_t handle = HG_HANDLE_NULL;
        if (HG_Create(context, to, client.empty, &handle) != HG_SUCCESS) {
            return;
        }
        hg_return_t ret = HG_RETURN_MAX;
        const auto note = [](const hg_cb_info* info) {
            *static_cast<hg_return_t*>(info->arg) = info->ret;
            return HG_SUCCESS;
        };
        if (HG_Forward(handle, note, &ret, nullptr) == HG_SUCCESS &&
            support::until([&] { return ret != HG_RETURN_MAX; }, [&] { turn(context); })) {
            ++(ret == HG_SUCCESS ? answered : ended);
        }
        HG_Destroy(handle);
    };
    std::vector<std::thread> threads;
    for (unsigned n = 0; n < kThreads; ++n) {
        threads.emplace_back([&, n] {
            for (int round = 0; round < rounds; ++round) {
                hg_context_t* context =
                    HG_Context_create_id(client.cls(), static_cast<std::uint8_t>(n + 1));
                // (Somebody else may have its port at the moment.)
                if (context != nullptr) {
                    ++opened;
                    for (int again = 0; again < 3; ++again) {
                        call(context);
                    }
                    HG_Context_destroy(context);
                }
            }
            --running;
        });
    }
    // It sleeps between them; each call has its limit.
    while (running != 0) {
        (void)HG_Progress(server.context(), 10);
        server.pump();
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    CHECK(opened > kThreads);
    CHECK(answered == 3 * opened);
    CHECK(ended == 0);
}
