// SPDX-License-Identifier: BSD-3-Clause
// Calls made from callbacks: handlers that call others before they answer, callbacks that call on.
#include <catch2/catch.hpp>

#include <memory>

#include "conformance/hg/side.hpp"
#include "support/until.hpp"

using namespace hgtest;

namespace {

// Passes a number on down a chain of sides, each adding one, and the answer back.
struct Chain {
    explicit Chain(std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
            sides.push_back(std::make_unique<Side>());
            links.push_back({});
            links.back().chain = this;
            links.back().index = i;
        }
        for (std::size_t i = 0; i < n; ++i) {
            hg_class_t* cls = sides[i]->cls();
            links[i].id =
                HG_Register_name(cls, "pass on", hg_proc_uint64_t, hg_proc_uint64_t, on_pass);
            HG_Register_data(cls, links[i].id, &links[i], nullptr);
            if (i + 1 < n) {
                links[i].next = std::make_unique<Addr>(*sides[i], sides[i + 1]->uri());
            }
        }
    }
    ~Chain() { links.clear(); }

    struct Link {
        Chain* chain = nullptr;
        std::size_t index = 0;
        hg_id_t id = 0;
        std::unique_ptr<Addr> next;
    };
    static Link& link_of(hg_handle_t h) {
        return *static_cast<Link*>(
            HG_Registered_data(HG_Get_info(h)->hg_class, HG_Get_info(h)->id));
    }
    static hg_return_t on_pass(hg_handle_t h) {
        Link& link = link_of(h);
        std::uint64_t n = 0;
        HG_Get_input(h, &n);
        HG_Free_input(h, &n);
        ++n;
        if (link.next == nullptr) {
            HG_Respond(h, nullptr, nullptr, &n);
            return HG_Destroy(h);
        }
        hg_handle_t onward = HG_HANDLE_NULL;
        hg_return_t ret = HG_Create(HG_Get_info(h)->context, *link.next, link.id, &onward);
        if (ret == HG_SUCCESS) {
            ret = HG_Forward(onward, on_answer, h, &n);
        }
        return ret;
    }
    static hg_return_t on_answer(const struct hg_cb_info* info) {
        auto* h = static_cast<hg_handle_t>(info->arg);
        std::uint64_t n = 0;
        HG_Get_output(info->info.forward.handle, &n);
        HG_Free_output(info->info.forward.handle, &n);
        HG_Respond(h, nullptr, nullptr, &n);
        HG_Destroy(h);
        return HG_Destroy(info->info.forward.handle);
    }
    void pump() {
        for (auto& side : sides) {
            side->pump();
        }
    }

    std::vector<std::unique_ptr<Side>> sides;
    std::vector<Link> links;
};

struct Answer {
    bool done = false;
    std::uint64_t number = 0;
};

hg_return_t take(const struct hg_cb_info* info) {
    auto& a = *static_cast<Answer*>(info->arg);
    HG_Get_output(info->info.forward.handle, &a.number);
    HG_Free_output(info->info.forward.handle, &a.number);
    a.done = true;
    return HG_SUCCESS;
}

}  // namespace

TEST_CASE("a handler calls another target before it answers") {
    Chain chain(5);
    hg_handle_t h = HG_HANDLE_NULL;
    REQUIRE(HG_Create(chain.sides[0]->context(), *chain.links[0].next, chain.links[0].id, &h) ==
            HG_SUCCESS);
    for (std::uint64_t i = 0; i < 100; ++i) {
        Answer answer;
        REQUIRE(HG_Forward(h, take, &answer, &i) == HG_SUCCESS);
        REQUIRE(support::until([&] { return answer.done; }, [&] { chain.pump(); }));
        CHECK(answer.number == i + 4);
    }
    HG_Destroy(h);
}

TEST_CASE("two sides call each other from their handlers") {
    Pair pair;
    const Addr to_a(pair.b, pair.a.uri());
    struct Back {
        Side* side;
        hg_addr_t to;
        hg_id_t id;
    } back{&pair.b, to_a, 0};
    const auto answer = [](const struct hg_cb_info* info) -> hg_return_t {
        auto* h = static_cast<hg_handle_t>(info->arg);
        Blob out;
        HG_Get_output(info->info.forward.handle, &out);
        HG_Respond(h, nullptr, nullptr, &out);
        HG_Free_output(info->info.forward.handle, &out);
        HG_Destroy(h);
        return HG_Destroy(info->info.forward.handle);
    };
    static hg_cb_t on_answer;
    on_answer = answer;
    const auto reflect = [](hg_handle_t h) -> hg_return_t {
        const auto& b =
            *static_cast<Back*>(HG_Registered_data(HG_Get_info(h)->hg_class, HG_Get_info(h)->id));
        Blob in;
        HG_Get_input(h, &in);
        hg_handle_t onward = HG_HANDLE_NULL;
        HG_Create(HG_Get_info(h)->context, b.to, b.side->echo, &onward);
        const hg_return_t ret = HG_Forward(onward, on_answer, h, &in);
        HG_Free_input(h, &in);
        return ret;
    };
    back.id = HG_Register_name(pair.b.cls(), "reflect", proc_blob, proc_blob, reflect);
    HG_Register_data(pair.b.cls(), back.id, &back, nullptr);
    REQUIRE(HG_Register_name(pair.a.cls(), "reflect", proc_blob, proc_blob, nullptr) == back.id);
    Call call(pair.a, pair.to_b, back.id);
    call.decode_output = true;
    for (const std::size_t size : {10, 100'000}) {
        Blob in = blob(3, size);
        CHECK(pair.run(call, in) == HG_SUCCESS);
        CHECK(is_blob(call.out(), 4, size, 3));
    }
}

TEST_CASE("a callback uses its own handle for the next call") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.echo);
    unsigned left = 200;
    call.on_done = [&](Call& c) {
        if (left-- != 0) {
            c.reset();
            Blob next = blob(c.out().number, 20);
            CHECK(c.forward(next) == HG_SUCCESS);
        }
    };
    Blob in = blob(0, 20);
    REQUIRE(call.forward(in) == HG_SUCCESS);
    REQUIRE(support::until([&] { return call.done(); }, [&] { pair.pump(); }));
    CHECK(call.out().number == 201);
}

TEST_CASE("a callback destroys the last reference to its handle") {
    Pair pair;
    unsigned done = 0;
    for (unsigned i = 0; i < 100; ++i) {
        hg_handle_t h = HG_HANDLE_NULL;
        REQUIRE(HG_Create(pair.a.context(), pair.to_b, pair.a.empty, &h) == HG_SUCCESS);
        REQUIRE(HG_Forward(
                    h,
                    [](const struct hg_cb_info* info) -> hg_return_t {
                        ++*static_cast<unsigned*>(info->arg);
                        return HG_Destroy(info->info.forward.handle);
                    },
                    &done, nullptr) == HG_SUCCESS);
        // And the same without a callback, with the handle destroyed at once.
        REQUIRE(HG_Create(pair.a.context(), pair.to_b, pair.a.empty, &h) == HG_SUCCESS);
        REQUIRE(HG_Forward(h, nullptr, nullptr, nullptr) == HG_SUCCESS);
        REQUIRE(HG_Destroy(h) == HG_SUCCESS);
    }
    REQUIRE(
        support::until([&] { return done == 100 && pair.b.served == 200; }, [&] { pair.pump(); }));
}
