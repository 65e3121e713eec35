// SPDX-License-Identifier: BSD-3-Clause
// The interface without structures, mercury_core.h: contexts that are told when to accept requests,
// payloads as bytes, and messages whose receiver fetches more.
#include <catch2/catch.hpp>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mercury.h"
#include "mercury_core.h"
#include "support/options.hpp"
#include "support/until.hpp"

namespace {

constexpr hg_id_t kEcho = 7;    // the same bytes back
constexpr hg_id_t kLarge = 8;   // answers with HG_CORE_MORE_DATA
constexpr hg_id_t kOneWay = 9;  // counted
constexpr hg_id_t kHeld = 10;   // answered by the test, with answer_held()

class Core {
 public:
    struct Settings {
        bool listen = true;
        bool post = true;
        bool fetches = false;  // HG_Core_set_more_data_callback
        bool fixed = false;    // one handle for requests, and no more
    };
    explicit Core(Settings settings) {
        hg_init_info init = HG_INIT_INFO_INITIALIZER;
        if (settings.fixed) {
            init.request_post_init = 1;
            init.request_post_incr = -1;
        }
        cls = HG_Core_init_opt2(support::options().protocol.c_str(), settings.listen,
                                HG_VERSION(HG_VERSION_MAJOR, HG_VERSION_MINOR), &init);
        REQUIRE(cls != nullptr);
        REQUIRE(HG_Core_class_set_data(cls, this, nullptr) == HG_SUCCESS);
        if (settings.fetches) {
            REQUIRE(HG_Core_set_more_data_callback(cls, acquire, release) == HG_SUCCESS);
        }
        context = HG_Core_context_create(cls);
        REQUIRE(context != nullptr);
        REQUIRE(HG_Core_register(cls, kEcho, on_echo) == HG_SUCCESS);
        REQUIRE(HG_Core_register(cls, kLarge, on_large) == HG_SUCCESS);
        REQUIRE(HG_Core_register(cls, kHeld, on_held) == HG_SUCCESS);
        REQUIRE(HG_Core_register(cls, kOneWay, on_one_way) == HG_SUCCESS);
        REQUIRE(HG_Core_registered_disable_response(cls, kOneWay, 1) == HG_SUCCESS);
        if (settings.listen && settings.post) {
            REQUIRE(HG_Core_context_post(context) == HG_SUCCESS);
        }
    }
    ~Core() {
        // What is in flight gets its callback, then the context can go.
        hg_return_t ret = HG_BUSY;
        (void)support::until([&] { return ret != HG_BUSY; },
                             [&] {
                                 ret = HG_Core_context_destroy(context);
                                 if (ret == HG_BUSY) {
                                     pump();
                                 }
                             });
        CHECK(ret == HG_SUCCESS);
        CHECK(HG_Core_finalize(cls) == HG_SUCCESS);
    }
    Core(const Core&) = delete;
    Core& operator=(const Core&) = delete;

    void pump() {
        unsigned count = 0;
        REQUIRE(HG_Core_event_progress(context, &count) == HG_SUCCESS);
        if (count != 0) {
            REQUIRE(HG_Core_event_trigger(context, count, nullptr) == HG_SUCCESS);
        }
    }
    std::string uri() const {
        hg_core_addr_t self = HG_CORE_ADDR_NULL;
        REQUIRE(HG_Core_addr_self(cls, &self) == HG_SUCCESS);
        CHECK(HG_Core_addr_is_self(self));
        char text[256];
        hg_size_t size = sizeof text;
        REQUIRE(HG_Core_addr_to_string(text, &size, self) == HG_SUCCESS);
        REQUIRE(HG_Core_addr_free(self) == HG_SUCCESS);
        return text;
    }

    void answer_held() {
        REQUIRE(respond(held, "more", 4, HG_CORE_MORE_DATA) == HG_SUCCESS);
        REQUIRE(HG_Core_destroy(std::exchange(held, HG_CORE_HANDLE_NULL)) == HG_SUCCESS);
    }

    hg_core_class_t* cls = nullptr;
    hg_core_context_t* context = nullptr;
    hg_core_handle_t held = HG_CORE_HANDLE_NULL;
    unsigned served = 0;
    unsigned one_way = 0;
    unsigned acquired = 0;
    unsigned released = 0;
    hg_core_addr_t released_addr = HG_CORE_ADDR_NULL;  // the last one's, when it was
    unsigned responses_left = 0;
    hg_return_t respond_ret = HG_RETURN_MAX;
    hg_return_t fetch_ret = HG_SUCCESS;  // what becomes of the fetching
    bool fetch_at_once = false;          // done() is called inside acquire
    bool keeps = false;                  // acquire takes a reference
    hg_core_handle_t fetching = HG_CORE_HANDLE_NULL;
    void (*fetched)(hg_core_handle_t, hg_return_t) = nullptr;

 private:
    static Core& of(hg_core_handle_t h) {
        return *static_cast<Core*>(HG_Core_class_get_data(HG_Core_get_info(h)->core_class));
    }
    static hg_return_t acquire(hg_core_handle_t h, hg_op_t op,
                               void (*done)(hg_core_handle_t, hg_return_t)) {
        Core& core = of(h);
        ++core.acquired;
        void* data = nullptr;
        hg_size_t size = 0;
        const hg_return_t got = op == HG_INPUT ? HG_Core_get_input(h, &data, &size)
                                               : HG_Core_get_output(h, &data, &size);
        if (got != HG_SUCCESS || size != 4 || std::memcmp(data, "more", 4) != 0) {
            return HG_PROTOCOL_ERROR;
        }
        if (core.keeps) {
            HG_Core_ref_incr(h);
        }
        if (core.fetch_at_once) {
            done(h, core.fetch_ret);
        } else {
            core.fetching = h;
            core.fetched = done;
        }
        return HG_SUCCESS;
    }
    static void release(hg_core_handle_t h) {
        ++of(h).released;
        of(h).released_addr = HG_Core_get_info(h)->addr;
    }
    static hg_return_t respond(hg_core_handle_t h, const void* bytes, hg_size_t size,
                               std::uint8_t flags) {
        void* out = nullptr;
        hg_size_t room = 0;
        hg_return_t ret = HG_Core_get_output(h, &out, &room);
        if (ret == HG_SUCCESS && room >= size) {
            std::memcpy(out, bytes, size);
            ret = HG_Core_respond(h, on_responded, &of(h), flags, size);
        }
        return ret;
    }
    static hg_return_t on_responded(const struct hg_core_cb_info* info) {
        auto& core = *static_cast<Core*>(info->arg);
        ++core.responses_left;
        core.respond_ret = info->ret;
        return HG_SUCCESS;
    }
    static hg_return_t on_echo(hg_core_handle_t h) {
        ++of(h).served;
        void* in = nullptr;
        hg_size_t size = 0;
        hg_return_t ret = HG_Core_get_input(h, &in, &size);
        if (ret == HG_SUCCESS && size == HG_Core_get_input_payload_size(h)) {
            ret = respond(h, in, size, 0);
        }
        HG_Core_destroy(h);
        return ret;
    }
    static hg_return_t on_large(hg_core_handle_t h) {
        ++of(h).served;
        const hg_return_t ret = respond(h, "more", 4, HG_CORE_MORE_DATA);
        HG_Core_destroy(h);
        return ret;
    }
    static hg_return_t on_held(hg_core_handle_t h) {
        of(h).held = h;
        return HG_SUCCESS;
    }
    static hg_return_t on_one_way(hg_core_handle_t h) {
        ++of(h).one_way;
        return HG_Core_destroy(h);
    }
};

struct Call {
    Call(Core& a, Core& b, hg_id_t id) : origin(a), target(b) {
        REQUIRE(HG_Core_addr_lookup2(a.cls, b.uri().c_str(), &addr) == HG_SUCCESS);
        REQUIRE(HG_Core_create(a.context, addr, id, &handle) == HG_SUCCESS);
    }
    ~Call() {
        CHECK(HG_Core_destroy(handle) == HG_SUCCESS);
        CHECK(HG_Core_addr_free(addr) == HG_SUCCESS);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    hg_return_t forward(const std::string& bytes, std::uint8_t flags = 0) {
        void* in = nullptr;
        hg_size_t room = 0;
        REQUIRE(HG_Core_get_input(handle, &in, &room) == HG_SUCCESS);
        std::memcpy(in, bytes.data(), bytes.size());
        count = 0;
        return HG_Core_forward(
            handle,
            [](const struct hg_core_cb_info* info) -> hg_return_t {
                auto& call = *static_cast<Call*>(info->arg);
                ++call.count;
                call.ret = info->ret;
                void* bytes_back = nullptr;
                hg_size_t size = 0;
                if (HG_Core_get_output(info->info.forward.handle, &bytes_back, &size) ==
                    HG_SUCCESS) {
                    call.out.assign(static_cast<const char*>(bytes_back), size);
                }
                return HG_SUCCESS;
            },
            this, flags, bytes.size());
    }
    template <typename Condition>
    bool until(Condition condition) {
        return support::until(condition, [this] {
            origin.pump();
            target.pump();
        });
    }
    hg_return_t wait() {
        REQUIRE(until([this] { return count != 0; }));
        CHECK(count == 1);
        return ret;
    }

    Core& origin;
    Core& target;
    hg_core_addr_t addr = HG_CORE_ADDR_NULL;
    hg_core_handle_t handle = HG_CORE_HANDLE_NULL;
    unsigned count = 0;
    hg_return_t ret = HG_RETURN_MAX;
    std::string out;
};

}  // namespace

TEST_CASE("core: bytes there and back") {
    Core a({.listen = false});
    Core b({});
    Call call(a, b, kEcho);
    for (const std::size_t size : {0, 1, 60, 1000}) {
        const std::string bytes(size, 'x');
        REQUIRE(call.forward(bytes) == HG_SUCCESS);
        REQUIRE(call.wait() == HG_SUCCESS);
        CHECK(call.out == bytes);
        CHECK(HG_Core_get_output_payload_size(call.handle) == size);
    }
    CHECK(b.served == 4);
    CHECK(HG_Core_ref_get(call.handle) == 1);
    CHECK(HG_Core_get_info(call.handle)->id == kEcho);
    CHECK(HG_Core_get_info(call.handle)->addr != HG_CORE_ADDR_NULL);
    CHECK(HG_Core_context_get_completion_count(a.context) == 0);
}

TEST_CASE("core: what the buffer does not have is not sent") {
    Core a({});
    Core b({});
    Call call(a, b, kEcho);
    const hg_size_t most = HG_Core_class_get_input_eager_size(a.cls);
    void* in = nullptr;
    hg_size_t room = 0;
    REQUIRE(HG_Core_get_input(call.handle, &in, &room) == HG_SUCCESS);
    CHECK(room >= most);
    CHECK(HG_Core_forward(call.handle, nullptr, nullptr, 0, room + 1) == HG_MSGSIZE);
    CHECK(HG_Core_forward(call.handle, nullptr, nullptr, 1 << 1, 0) == HG_INVALID_ARG);
    REQUIRE(call.forward(std::string(most, 'y')) == HG_SUCCESS);
    CHECK(call.wait() == HG_SUCCESS);
    CHECK(HG_Core_respond(call.handle, nullptr, nullptr, 0, 0) == HG_INVALID_ARG);
    CHECK(HG_Core_release_input(call.handle) == HG_INVALID_ARG);
}

TEST_CASE("core: a context accepts requests when it is told to, and again after it stopped") {
    Core a({.listen = false});
    CHECK(HG_Core_context_post(a.context) == HG_OPNOTSUPPORTED);
    Core b({.post = false});
    unsigned created = 0;
    REQUIRE(HG_Core_context_set_handle_create_callback(
                b.context,
                [](hg_core_handle_t h, void* arg) {
                    ++*static_cast<unsigned*>(arg);
                    return HG_Core_set_data(h, arg, nullptr);
                },
                &created) == HG_SUCCESS);
    CHECK(created == 0);
    REQUIRE(HG_Core_context_post(b.context) == HG_SUCCESS);
    CHECK(created > 0);
    Call call(a, b, kEcho);
    REQUIRE(call.forward("one") == HG_SUCCESS);
    CHECK(call.wait() == HG_SUCCESS);
    REQUIRE(HG_Core_context_unpost(b.context) == HG_SUCCESS);
    REQUIRE(HG_Core_context_post(b.context) == HG_SUCCESS);
    REQUIRE(HG_Core_context_post(b.context) == HG_SUCCESS);
    REQUIRE(call.forward("two") == HG_SUCCESS);
    CHECK(call.wait() == HG_SUCCESS);
    CHECK(call.out == "two");
}

TEST_CASE("core: requests that have waited use all receives up when a context begins to accept") {
    Core a({.listen = false});
    Core b({.post = false, .fixed = true});
    std::vector<std::unique_ptr<Call>> calls;
    for (unsigned i = 0; i < 40; ++i) {
        calls.push_back(std::make_unique<Call>(a, b, kEcho));
        REQUIRE(calls.back()->forward("waits") == HG_SUCCESS);
    }
    for (unsigned i = 0; i < 1000;
         ++i) {  // until they are there, as far as the transport takes them
        a.pump();
        b.pump();
    }
    CHECK(b.served == 0);
    REQUIRE(HG_Core_context_post(b.context) == HG_SUCCESS);
    for (auto& call : calls) {
        CHECK(call->wait() == HG_SUCCESS);
    }
    CHECK(b.served == 40);
}

TEST_CASE("core: a context that accepts already goes on when it is told again") {
    Core a({.listen = false});
    Core b({.fixed = true});
    Call held(a, b, kHeld);
    REQUIRE(held.forward("") == HG_SUCCESS);
    REQUIRE(held.until([&] { return b.held != HG_CORE_HANDLE_NULL; }));
    REQUIRE(HG_Core_context_post(b.context) == HG_SUCCESS);
    CHECK(HG_Core_respond(b.held, nullptr, nullptr, 0, 0) == HG_SUCCESS);
    CHECK(HG_Core_destroy(std::exchange(b.held, HG_CORE_HANDLE_NULL)) == HG_SUCCESS);
    CHECK(held.wait() == HG_SUCCESS);
    Call next(a, b, kEcho);
    REQUIRE(next.forward("next") == HG_SUCCESS);
    CHECK(next.wait() == HG_SUCCESS);
}

TEST_CASE("core: a reference that is taken while the rest is fetched is kept") {
    Core a({.listen = false});
    Core b({.fetches = true});
    b.keeps = true;
    for (const hg_id_t id : {kHeld, kOneWay}) {
        Call call(a, b, id);
        REQUIRE(call.forward("more", HG_CORE_MORE_DATA) == HG_SUCCESS);
        REQUIRE(call.until([&] { return b.fetching != HG_CORE_HANDLE_NULL; }));
        const hg_core_handle_t h = std::exchange(b.fetching, HG_CORE_HANDLE_NULL);
        b.fetched(h, HG_SUCCESS);
        if (id == kHeld) {
            REQUIRE(call.until([&] { return b.held == h; }));
            CHECK(HG_Core_ref_get(h) == 2);  // the program's, twice
            CHECK(HG_Core_destroy(h) == HG_SUCCESS);
            CHECK(HG_Core_ref_get(h) == 1);
            CHECK(HG_Core_respond(h, nullptr, nullptr, 0, 0) == HG_SUCCESS);
            b.held = HG_CORE_HANDLE_NULL;
        } else {
            REQUIRE(call.until([&] { return b.one_way == 1; }));  // which destroys it once
            CHECK(HG_Core_ref_get(h) == 1);
        }
        CHECK(HG_Core_destroy(h) == HG_SUCCESS);
        CHECK(call.wait() == HG_SUCCESS);
        REQUIRE(call.until([&] { return b.released == b.acquired; }));
    }
}

TEST_CASE("core: what lies underneath") {
    Core a({});
    CHECK(std::string(NA_Get_class_name(HG_Core_class_get_na(a.cls))) ==
          HG_Core_class_get_name(a.cls));
    CHECK(HG_Core_class_get_na_sm(a.cls) == nullptr);
    CHECK(HG_Core_context_get_na(a.context) != nullptr);
    CHECK(HG_Core_context_get_na_sm(a.context) == nullptr);
    CHECK(HG_Core_context_get_class(a.context) == a.cls);
    hg_core_addr_t self = HG_CORE_ADDR_NULL;
    REQUIRE(HG_Core_addr_self(a.cls, &self) == HG_SUCCESS);
    CHECK(NA_Addr_is_self(HG_Core_class_get_na(a.cls), HG_Core_addr_get_na(self)));
    CHECK(HG_Core_addr_get_na_sm(self) == nullptr);
    REQUIRE(HG_Core_addr_free(self) == HG_SUCCESS);
    int data = 0;
    REQUIRE(HG_Core_register_data(a.cls, kEcho, &data, nullptr) == HG_SUCCESS);
    Call call(a, a, kEcho);
    CHECK(HG_Core_get_rpc_data(call.handle) == &data);
}

TEST_CASE("core: addresses travel as bytes and as names") {
    Core a({});
    Core b({});
    hg_core_addr_t self = HG_CORE_ADDR_NULL;
    REQUIRE(HG_Core_addr_self(b.cls, &self) == HG_SUCCESS);
    const hg_size_t size = HG_Core_addr_get_serialize_size(self, HG_CORE_SM);
    REQUIRE(size > 0);
    std::vector<char> bytes(size);
    CHECK(HG_Core_addr_serialize(bytes.data(), size - 1, HG_CORE_SM, self) == HG_OVERFLOW);
    REQUIRE(HG_Core_addr_serialize(bytes.data(), size, HG_CORE_SM, self) == HG_SUCCESS);
    hg_core_addr_t decoded = HG_CORE_ADDR_NULL;
    CHECK(HG_Core_addr_deserialize(a.cls, &decoded, bytes.data(), size - 1, 0) != HG_SUCCESS);
    REQUIRE(HG_Core_addr_deserialize(a.cls, &decoded, bytes.data(), size, 0) == HG_SUCCESS);

    hg_core_addr_t found = HG_CORE_ADDR_NULL;
    REQUIRE(HG_Core_addr_lookup1(
                a.context,
                [](const struct hg_core_cb_info* info) {
                    *static_cast<hg_core_addr_t*>(info->arg) = info->info.lookup.addr;
                    return info->ret;
                },
                &found, b.uri().c_str(), HG_CORE_OP_ID_IGNORE) == HG_SUCCESS);
    CHECK(found == HG_CORE_ADDR_NULL);  // not before trigger
    REQUIRE(support::until([&] { return found != HG_CORE_ADDR_NULL; }, [&] { a.pump(); }));
    CHECK(HG_Core_addr_cmp(found, decoded) == HG_TRUE);
    hg_core_addr_t copy = HG_CORE_ADDR_NULL;
    REQUIRE(HG_Core_addr_dup(found, &copy) == HG_SUCCESS);
    for (hg_core_addr_t addr : {self, decoded, found, copy}) {
        CHECK(HG_Core_addr_free(addr) == HG_SUCCESS);
    }
}

TEST_CASE("core: a request is served when its receiver has fetched the rest") {
    Core a({.listen = false});
    Core b({.fetches = true});
    for (const hg_id_t id : {kEcho, kOneWay}) {
        Call call(a, b, id);
        REQUIRE(call.forward("more", HG_CORE_MORE_DATA) == HG_SUCCESS);
        REQUIRE(call.until([&] { return b.fetching != HG_CORE_HANDLE_NULL; }));
        CHECK(b.served == 0);
        CHECK(b.one_way == 0);
        CHECK(call.count == 0);  // the origin keeps what is fetched until then
        b.fetched(std::exchange(b.fetching, HG_CORE_HANDLE_NULL), HG_SUCCESS);
        CHECK(call.wait() == HG_SUCCESS);
        REQUIRE(call.until([&] { return (id == kEcho ? b.served : b.one_way) == 1; }));
        REQUIRE(call.until([&] { return b.released == b.acquired; }));
        b.served = 0;
    }
    CHECK(b.acquired == 2);
}

TEST_CASE("core: what cannot be fetched ends its RPC") {
    Core a({.listen = false});
    Core b({.fetches = true});
    Call call(a, b, kEcho);
    b.fetch_at_once = true;
    b.fetch_ret = HG_NOMEM;
    REQUIRE(call.forward("more", HG_CORE_MORE_DATA) == HG_SUCCESS);
    CHECK(call.wait() == HG_NOMEM);
    REQUIRE(call.forward("less", HG_CORE_MORE_DATA) == HG_SUCCESS);  // acquire itself refuses it
    CHECK(call.wait() == HG_PROTOCOL_ERROR);
    b.fetch_ret = HG_SUCCESS;
    REQUIRE(call.forward("more", HG_CORE_MORE_DATA) == HG_SUCCESS);
    CHECK(call.wait() == HG_SUCCESS);
    CHECK(b.served == 1);
    REQUIRE(call.until([&] { return b.released == 3; }));
}

TEST_CASE("core: nobody fetches") {
    Core a({.listen = false});
    Core b({});
    Call call(a, b, kEcho);
    REQUIRE(call.forward("more", HG_CORE_MORE_DATA) == HG_SUCCESS);
    CHECK(call.wait() == HG_OPNOTSUPPORTED);
    CHECK(b.served == 0);
    Call large(a, b, kLarge);
    REQUIRE(large.forward("") == HG_SUCCESS);
    CHECK(large.wait() == HG_OPNOTSUPPORTED);
    REQUIRE(large.until([&] { return b.responses_left == 1; }));
    CHECK(b.respond_ret == HG_OPNOTSUPPORTED);
}

TEST_CASE("core: the sender of a response hears when the rest of it was fetched") {
    Core a({.listen = false, .fetches = true});
    Core b({});
    Call call(a, b, kLarge);
    for (const hg_return_t ret : {HG_SUCCESS, HG_IO_ERROR}) {
        b.responses_left = 0;
        REQUIRE(call.forward("") == HG_SUCCESS);
        REQUIRE(call.until([&] { return a.fetching != HG_CORE_HANDLE_NULL; }));
        CHECK(call.count == 0);
        CHECK(b.responses_left == 0);
        a.fetched(std::exchange(a.fetching, HG_CORE_HANDLE_NULL), ret);
        CHECK(call.wait() == ret);
        REQUIRE(call.until([&] { return b.responses_left == 1; }));
        CHECK(b.respond_ret == ret);
    }
    CHECK(a.acquired == 2);
    CHECK(a.released == 1);  // the last goes with its handle
}

TEST_CASE("core: what was fetched is released before its handle is another RPC's") {
    Core a({.listen = false, .fetches = true});
    Core b({});
    Core c({});
    hg_core_addr_t other = HG_CORE_ADDR_NULL;
    REQUIRE(HG_Core_addr_lookup2(a.cls, c.uri().c_str(), &other) == HG_SUCCESS);
    {
        Call call(a, b, kLarge);
        a.fetch_at_once = true;
        REQUIRE(call.forward("") == HG_SUCCESS);
        CHECK(call.wait() == HG_SUCCESS);
        CHECK(a.released == 0);
        CHECK(HG_Core_reset(call.handle, other, 12345) == HG_NOENTRY);  // nothing has changed
        CHECK(a.released == 0);
        const hg_core_addr_t before = HG_Core_get_info(call.handle)->addr;
        REQUIRE(HG_Core_reset(call.handle, other, kEcho) == HG_SUCCESS);
        CHECK(a.released == 1);
        CHECK(a.released_addr == before);
        CHECK(HG_Core_get_info(call.handle)->addr != before);
        REQUIRE(call.until([&] { return b.responses_left == 1; }));
    }
    CHECK(a.released == 1);
    CHECK(HG_Core_addr_free(other) == HG_SUCCESS);
}

TEST_CASE("core: who cancels late does not keep the sender of a response waiting") {
    Core a({.listen = false, .fetches = true});
    Core b({});
    Call call(a, b, kLarge);
    for (unsigned i = 1; i <= 200 / support::kSlow; ++i) {
        REQUIRE(call.forward("") == HG_SUCCESS);
        REQUIRE(call.until([&] { return a.fetching != HG_CORE_HANDLE_NULL; }));
        std::atomic<bool> stop{false};
        std::thread canceler([&] {
            do {
                HG_Core_cancel(call.handle);
            } while (!stop);
        });
        a.fetched(std::exchange(a.fetching, HG_CORE_HANDLE_NULL), HG_SUCCESS);
        const bool heard = call.until([&] { return call.count != 0 && b.responses_left == i; });
        stop = true;
        canceler.join();
        REQUIRE(heard);
        REQUIRE(call.ret == HG_SUCCESS);
        REQUIRE(b.respond_ret == HG_SUCCESS);
    }
}

TEST_CASE("core: who is not there is named") {
    Core a({.listen = false});
    auto b = std::make_unique<Core>(Core::Settings{});
    const std::string uri = b->uri();
    auto call = std::make_unique<Call>(a, *b, kEcho);
    REQUIRE(call->forward("") == HG_SUCCESS);
    CHECK(call->wait() == HG_SUCCESS);
    b.reset();
    hg_return_t ret = HG_SUCCESS;
    for (unsigned i = 0; i < 2 && ret == HG_SUCCESS; ++i) {
        ret = call->forward("");
        if (ret == HG_SUCCESS) {  // not known yet
            REQUIRE(support::until([&] { return call->count != 0; }, [&] { a.pump(); }));
            CHECK(call->ret == HG_HOSTUNREACH);
        }
    }
    if (ret != HG_SUCCESS) {
        CHECK(ret == HG_HOSTUNREACH);
        CHECK(std::string(HG_Get_last_error()).find(uri) != std::string::npos);
    }
}

TEST_CASE("core: another thread says that the rest was fetched") {
    Core a({.listen = false, .fetches = true});
    Core b({.fetches = true});
    Call in(a, b, kEcho);
    Call out(a, b, kLarge);
    for (unsigned i = 0; i < 200 / support::kSlow; ++i) {
        REQUIRE(in.forward("more", HG_CORE_MORE_DATA) == HG_SUCCESS);
        REQUIRE(out.forward("") == HG_SUCCESS);
        REQUIRE(in.until([&] { return a.fetching != HG_CORE_HANDLE_NULL; }));
        REQUIRE(in.until([&] { return b.fetching != HG_CORE_HANDLE_NULL; }));
        std::thread done([&, x = std::exchange(a.fetching, HG_CORE_HANDLE_NULL),
                          y = std::exchange(b.fetching, HG_CORE_HANDLE_NULL)] {
            a.fetched(x, HG_SUCCESS);
            b.fetched(y, HG_SUCCESS);
        });
        const bool ended = in.until([&] { return in.count != 0 && out.count != 0; });
        done.join();
        REQUIRE(ended);
        REQUIRE(in.ret == HG_SUCCESS);
        REQUIRE(out.ret == HG_SUCCESS);
        REQUIRE(in.out == "more");
    }
    REQUIRE(in.until([&] { return b.responses_left == b.served; }));
}

TEST_CASE("core: a response to a canceled RPC keeps nobody waiting") {
    Core a({.listen = false, .fetches = true});
    Core b({});
    Call call(a, b, kHeld);
    REQUIRE(call.forward("") == HG_SUCCESS);
    REQUIRE(call.until([&] { return b.held != HG_CORE_HANDLE_NULL; }));
    REQUIRE(HG_Core_cancel(call.handle) == HG_SUCCESS);
    CHECK(call.wait() == HG_CANCELED);
    b.answer_held();
    REQUIRE(call.until([&] { return b.responses_left == 1; }));
    CHECK(b.respond_ret == HG_CANCELED);
    CHECK(a.acquired == 0);
}

TEST_CASE("core: one does not fetch from oneself") {
    Core a({.fetches = true});
    Call call(a, a, kEcho);
    CHECK(call.forward("more", HG_CORE_MORE_DATA) == HG_OPNOTSUPPORTED);
    REQUIRE(call.forward("more") == HG_SUCCESS);
    CHECK(call.wait() == HG_SUCCESS);
    CHECK(call.out == "more");
}
