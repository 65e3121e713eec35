// SPDX-License-Identifier: BSD-3-Clause
// Options of HG_Init_opt2 in all their versions, properties of classes, contexts and handles,
// counters.
#include <catch2/catch.hpp>

#include <cstddef>
#include <cstring>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include "conformance/hg/side.hpp"
#include "mercury_proc.h"
#include "na.h"
#include "support/until.hpp"

using namespace hgtest;

namespace {

// An init struct whose first `size` bytes are there, and what its compiler would have padded it to;
// it ends where the memory ends: to read one byte more is to crash.
class Truncated {
 public:
    explicit Truncated(std::size_t size) {
        constexpr std::size_t kAlign = alignof(struct hg_init_info);
        size = (size + kAlign - 1) / kAlign * kAlign;
        page_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        base_ = static_cast<char*>(
            mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        REQUIRE(base_ != MAP_FAILED);
        REQUIRE(mprotect(base_ + page_, page_, PROT_NONE) == 0);
        const hg_init_info defaults = HG_INIT_INFO_INITIALIZER;
        at_ = base_ + page_ - size;
        std::memcpy(at_, &defaults, size);
    }
    ~Truncated() { munmap(base_, 2 * page_); }
    Truncated(const Truncated&) = delete;
    Truncated& operator=(const Truncated&) = delete;
    struct hg_init_info* get() const {
        return reinterpret_cast<struct hg_init_info*>(at_);
    }

 private:
    std::size_t page_ = 0;
    char* base_ = nullptr;
    char* at_ = nullptr;
};

const char* protocol() {
    return support::options().protocol.c_str();
}

}  // namespace

TEST_CASE("of an older init struct nothing is read that is not there") {
    constexpr std::size_t k22 = offsetof(struct hg_init_info, no_multi_recv);
    constexpr std::size_t k23 = offsetof(struct hg_init_info, traffic_class);
    struct Version {
        unsigned version;
        std::size_t size;
    };
    for (const Version v :
         {Version{HG_VERSION(2, 2), k22}, Version{HG_VERSION(2, 0), k22},
          Version{HG_VERSION(2, 3), k23}, Version{HG_VERSION(2, 4), sizeof(struct hg_init_info)}}) {
        const Truncated info(v.size);
        hg_class_t* cls = HG_Init_opt2(protocol(), 1, v.version, info.get());
        REQUIRE(cls != nullptr);
        CHECK(HG_Finalize(cls) == HG_SUCCESS);
    }
    const Truncated old(k22);
    hg_class_t* cls = HG_Init_opt(protocol(), 0, old.get());
    REQUIRE(cls != nullptr);
    CHECK(HG_Finalize(cls) == HG_SUCCESS);
}

TEST_CASE("versions that do not exist are refused") {
    hg_init_info info = HG_INIT_INFO_INITIALIZER;
    CHECK(HG_Init_opt2(protocol(), 0, 0, &info) == nullptr);
    CHECK(HG_Init_opt2(protocol(), 0, HG_VERSION(HG_VERSION_MAJOR, HG_VERSION_MINOR + 1), &info) ==
          nullptr);
    CHECK(HG_Init_opt2(protocol(), 0, HG_VERSION(9, 9), nullptr) == nullptr);
    info.multi_recv_copy_threshold = 5;
    CHECK(HG_Init_opt2(protocol(), 0, HG_VERSION(2, 4), &info) == nullptr);
    info.multi_recv_op_max = 8;
    hg_class_t* cls = HG_Init_opt2(protocol(), 0, HG_VERSION(2, 4), &info);
    REQUIRE(cls != nullptr);
    CHECK(HG_Finalize(cls) == HG_SUCCESS);
    info = HG_INIT_INFO_INITIALIZER;
    info.checksum_level = static_cast<hg_checksum_level_t>(3);
    CHECK(HG_Init_opt2(protocol(), 0, HG_VERSION(2, 4), &info) == nullptr);
    cls = HG_Init_opt2(protocol(), 0, 0, nullptr);
    REQUIRE(cls != nullptr);
    CHECK(HG_Finalize(cls) == HG_SUCCESS);
}

TEST_CASE("checksums of each level") {
    for (const hg_checksum_level_t level :
         {HG_CHECKSUM_NONE, HG_CHECKSUM_RPC_HEADERS, HG_CHECKSUM_RPC_PAYLOAD}) {
        Side::Settings s;
        s.init.checksum_level = level;
        Pair pair(s, s);
        for (const std::size_t size : {0, 10, 3000, 100'000}) {
            Call call(pair.a, pair.to_b, pair.a.echo);
            Blob in = blob(size, size);
            REQUIRE(pair.run(call, in) == HG_SUCCESS);
            CHECK(is_blob(call.out(), size + 1, size, size));
            Call note(pair.a, pair.to_b, pair.a.note);
            CHECK(pair.run(note, in) == HG_SUCCESS);
        }
    }
}

TEST_CASE("one thread, no blocking, statistics, small bulk outside: all at once") {
    Side::Settings s;
    s.init.na_init_info.thread_mode = NA_THREAD_MODE_SINGLE;
    s.init.na_init_info.progress_mode = NA_NO_BLOCK;
    s.init.stats = 1;
    s.init.no_bulk_eager = 1;
    s.init.no_multi_recv = 1;
    Pair pair(s, s);
    CHECK(HG_Event_get_wait_fd(pair.a.context()) == -1);
    CHECK(HG_Event_ready(pair.a.context()));
    for (const std::size_t size : {10, 100'000}) {
        Call call(pair.a, pair.to_b, pair.a.echo);
        Blob in = blob(size, size);
        REQUIRE(pair.run(call, in) == HG_SUCCESS);
    }
    unsigned n = 7;
    CHECK(HG_Trigger(pair.a.context(), 100, 1, &n) == HG_TIMEOUT);
    CHECK(n == 0);
    HG_Diag_dump_counters();
}

TEST_CASE("a transport opened by the user is used and left open") {
    na_class_t* na = NA_Initialize(protocol(), true);
    REQUIRE(na != nullptr);
    {
        Side::Settings s;
        s.init.na_class = na;
        Side target(s);
        Side origin;
        const Addr to(origin, target.uri());
        Call call(origin, to, origin.echo);
        Blob in = blob(1, 70'000);
        REQUIRE(call.forward(in) == HG_SUCCESS);
        REQUIRE(support::until([&] { return call.done(); }, [&] { origin.pump(); },
                               [&] { target.pump(); }));
        CHECK(call.ret() == HG_SUCCESS);
    }
    CHECK(NA_Finalize(na) == NA_SUCCESS);
}

TEST_CASE("peers of one host meet over shared memory with auto_sm") {
    if (support::options().protocol.find("sm") != std::string::npos) {
        support::skip("the transport is shared memory already");
        return;
    }
    Side::Settings s;
    s.init.auto_sm = 1;
    hg_class_t* probe = HG_Init_opt2(protocol(), 1, HG_VERSION(2, 4), &s.init);
    if (probe == nullptr) {
        support::skip("no shared memory here");
        return;
    }
    REQUIRE(HG_Finalize(probe) == HG_SUCCESS);
    Pair both(s, s);
    CHECK(both.b.uri().rfind("uid://", 0) == 0);
    CHECK(both.b.uri().find("#na+sm://") != std::string::npos);
    for (const std::size_t size : {10, 100'000}) {
        Call call(both.a, both.to_b, both.a.echo);
        Blob in = blob(size, size);
        REQUIRE(both.run(call, in) == HG_SUCCESS);
        CHECK(is_blob(call.out(), size + 1, size, size));
    }
    // A class without it understands the name, and the other way round.
    Side plain;
    const Addr to_both(plain, both.b.uri());
    const Addr to_plain(both.a, plain.uri());
    Call out(plain, to_both, plain.echo);
    Call in_call(both.a, to_plain, both.a.echo);
    const auto pump = [&] {
        plain.pump();
        both.pump();
    };
    for (const std::size_t size : {10, 100'000}) {
        for (Call* call : {&out, &in_call}) {
            Blob in = blob(size, size);
            call->reset();
            REQUIRE(call->forward(in) == HG_SUCCESS);
            REQUIRE(support::until([&] { return call->done(); }, pump));
            CHECK(call->ret() == HG_SUCCESS);
            CHECK(is_blob(call->out(), size + 1, size, size));
        }
    }
    // One handle for both kinds of peer.
    Call either(both.a, both.to_b, both.a.empty);
    for (int i = 0; i < 4; ++i) {
        REQUIRE(HG_Reset(either.handle(), i % 2 == 0 ? static_cast<hg_addr_t>(to_plain) : both.to_b,
                         0) == HG_SUCCESS);
        either.reset();
        REQUIRE(either.forward() == HG_SUCCESS);
        REQUIRE(support::until([&] { return either.done(); }, pump));
        CHECK(either.ret() == HG_SUCCESS);
    }
    // Oneself, by its own name.
    const Addr self(both.a, both.a.uri());
    Call own(both.a, self, both.a.empty);
    CHECK(both.run(own) == HG_SUCCESS);
}

TEST_CASE("classes and contexts tell what they are, and keep the user's data") {
    unsigned freed = 0;
    const auto free_it = [](void* p) { ++*static_cast<unsigned*>(p); };
    {
        Side::Settings two;
        two.contexts = 2;
        Side side(two);
        const std::string info = support::options().protocol;
        CHECK(info.rfind(HG_Class_get_name(side.cls()), 0) == 0);
        CHECK(HG_Class_get_protocol(side.cls()) != nullptr);
        CHECK(HG_Class_is_listening(side.cls()));
        CHECK(HG_Context_get_class(side.context(1)) == side.cls());
        CHECK(HG_Context_get_id(side.context(1)) == 1);
        CHECK(HG_Context_create_id(side.cls(), 1) == nullptr);    // taken
        CHECK(HG_Context_create_id(side.cls(), 200) == nullptr);  // beyond max_contexts
        CHECK(HG_Context_set_data(side.context(), &freed, free_it) == HG_SUCCESS);
        CHECK(HG_Context_get_data(side.context()) == &freed);
        CHECK(HG_Context_get_data(side.context(1)) == nullptr);
        CHECK(HG_Finalize(side.cls()) == HG_BUSY);
        hg_class_t* plain = HG_Init(protocol(), 0);
        REQUIRE(plain != nullptr);
        CHECK(!HG_Class_is_listening(plain));
        CHECK(HG_Class_set_data(plain, &freed, free_it) == HG_SUCCESS);
        CHECK(HG_Class_get_data(plain) == &freed);
        CHECK(HG_Finalize(plain) == HG_SUCCESS);
        CHECK(freed == 1);
    }
    CHECK(freed == 2);
}

TEST_CASE("data of handles is released when the handle goes, or is used for the next request") {
    Pair pair;
    unsigned freed = 0;
    const auto free_it = [](void* p) { ++*static_cast<unsigned*>(p); };
    {
        Call call(pair.a, pair.to_b, pair.a.hold);
        call.decode_output = false;
        HG_Set_data(call.handle(), &freed, free_it);
        CHECK(HG_Get_data(call.handle()) == &freed);
        for (unsigned i = 1; i <= 3; ++i) {
            REQUIRE(call.forward(1) == HG_SUCCESS);
            auto& held = pair.b.held();
            REQUIRE(support::until([&] { return !held.empty(); }, [&] { pair.pump(); }));
            CHECK(HG_Get_data(held[0]) == nullptr);
            HG_Set_data(held[0], &freed, free_it);
            HG_Respond(held[0], nullptr, nullptr, nullptr);
            HG_Destroy(held[0]);
            held.clear();
            CHECK(pair.wait(call) == HG_SUCCESS);
            // The answer may be here before its sender hears that it was sent, and until then the
            // sender's handle lives.
            CHECK(support::until([&] { return freed >= i; }, [&] { pair.pump(); }));
            CHECK(freed == i);
        }
        CHECK(HG_Get_data(call.handle()) == &freed);
        // The handle's, not the RPC's: programs set it once, and change address and RPC before each
        // call.
        REQUIRE(HG_Reset(call.handle(), pair.to_b, pair.a.empty) == HG_SUCCESS);
        CHECK(HG_Get_data(call.handle()) == &freed);
        call.reset();
        REQUIRE(pair.run(call) == HG_SUCCESS);
        CHECK(HG_Get_data(call.handle()) == &freed);
        CHECK(freed == 3);
    }
    CHECK(freed == 4);
}

TEST_CASE("the handle-create callback sees every handle, and may refuse") {
    struct Created {
        unsigned count = 0;
        unsigned freed = 0;
        bool refuse = false;
    } created;
    const auto create = [](hg_handle_t h, void* arg) -> hg_return_t {
        auto* c = static_cast<Created*>(arg);
        if (c->refuse) {
            return HG_NOMEM;
        }
        ++c->count;
        return HG_Set_data(h, c, [](void* p) { ++static_cast<Created*>(p)->freed; });
    };
    hg_class_t* cls = HG_Init(protocol(), 1);
    REQUIRE(cls != nullptr);
    REQUIRE(HG_Class_set_handle_create_callback(cls, create, &created) == HG_SUCCESS);
    hg_context_t* context = HG_Context_create(cls);
    REQUIRE(context != nullptr);
    const unsigned posted = created.count;
    CHECK(posted > 0);
    const hg_id_t id =
        HG_Register_name(cls, "self", nullptr, nullptr, [](hg_handle_t h) -> hg_return_t {
            const bool there = HG_Get_data(h) != nullptr;
            HG_Respond_error(h, nullptr, nullptr, there ? HG_EXIST : HG_NOENTRY);
            return HG_Destroy(h);
        });
    hg_addr_t self = HG_ADDR_NULL;
    REQUIRE(HG_Addr_self(cls, &self) == HG_SUCCESS);
    hg_handle_t h = HG_HANDLE_NULL;
    REQUIRE(HG_Create(context, self, id, &h) == HG_SUCCESS);
    CHECK(created.count == posted + 1);
    CHECK(HG_Get_data(h) == &created);
    static hg_return_t answer;
    answer = HG_RETURN_MAX;
    REQUIRE(HG_Forward(
                h,
                [](const struct hg_cb_info* info) -> hg_return_t {
                    answer = info->ret;
                    return HG_SUCCESS;
                },
                nullptr, nullptr) == HG_SUCCESS);
    REQUIRE(support::until([&] { return answer != HG_RETURN_MAX; },
                           [&] {
                               unsigned n = 0;
                               HG_Progress(context, 0);
                               HG_Trigger(context, 0, 1, &n);
                           }));
    CHECK(answer == HG_EXIST);
    CHECK(HG_Destroy(h) == HG_SUCCESS);
    created.refuse = true;
    CHECK(HG_Create(context, self, id, &h) == HG_NOMEM);  // the code of the callback
    HG_Addr_free(cls, self);
    CHECK(HG_Context_destroy(context) == HG_SUCCESS);
    CHECK(created.freed == created.count);
    CHECK(HG_Context_create(cls) == nullptr);  // it could not receive anything
    CHECK(HG_Class_set_handle_create_callback(cls, nullptr, nullptr) == HG_SUCCESS);
    CHECK(HG_Finalize(cls) == HG_SUCCESS);
}

TEST_CASE("counters count") {
    Pair pair;
    Call echo(pair.a, pair.to_b, pair.a.echo);
    Call note(pair.a, pair.to_b, pair.a.note);
    for (unsigned i = 0; i < 10; ++i) {
        Blob in = blob(i, 10);
        REQUIRE(pair.run(echo, in) == HG_SUCCESS);
        REQUIRE(pair.run(note, in) == HG_SUCCESS);
    }
    Blob large = blob(1, 100'000);
    REQUIRE(pair.run(echo, large) == HG_SUCCESS);
    REQUIRE(support::until(
        [&] {
            const auto b = pair.b.counters();
            return pair.b.notes == 10 && b.rpc_resp_sent_count == 11 &&
                   b.rpc_req_recv_active_count == 0;
        },
        [&] { pair.pump(); }));
    const auto a = pair.a.counters();
    const auto b = pair.b.counters();
    CHECK(a.rpc_req_sent_count == 21);
    CHECK(a.rpc_resp_recv_count == 11);
    CHECK(a.rpc_req_recv_count == 0);
    CHECK(a.rpc_req_extra_count == 1);
    CHECK(a.rpc_resp_extra_count == 1);
    CHECK(b.rpc_req_recv_count == 21);
    CHECK(b.rpc_resp_sent_count == 11);
    CHECK(b.rpc_req_extra_count == 1);
    CHECK(b.rpc_resp_extra_count == 1);
    CHECK(b.rpc_req_recv_active_count == 0);
    CHECK(HG_Class_get_counters(pair.a.cls(), nullptr) == HG_INVALID_ARG);
}
