// SPDX-License-Identifier: BSD-3-Clause
// A class of mercury_core.h with RPCs that tests call, and a call.
#pragma once

#include <catch2/catch.hpp>

#include <atomic>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "mercury.h"
#include "mercury_core.h"
#include "support/options.hpp"
#include "support/until.hpp"

namespace conformance {

inline constexpr hg_id_t kEcho = 7;    // the same bytes back
inline constexpr hg_id_t kLarge = 8;   // answers with HG_CORE_MORE_DATA
inline constexpr hg_id_t kOneWay = 9;  // counted
inline constexpr hg_id_t kHeld = 10;   // answered by the test, with answer_held()

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
            fetch(true);
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
    void fetch(bool on) {
        REQUIRE(HG_Core_set_more_data_callback(cls, on ? acquire : nullptr,
                                               on ? release : nullptr) == HG_SUCCESS);
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
    bool throws = false;                 // an int, as soon as it is asked
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
        if (core.throws) {
            throw 1;
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

}  // namespace conformance
