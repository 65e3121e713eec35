// SPDX-License-Identifier: BSD-3-Clause
// What mercury.h and mercury_core.h both do, under different types: callbacks of lookups, forwards
// and responses. Included by the files of this folder only.
#pragma once

#include <memory>
#include <utility>

#include "hg/c_api/core_handles.hpp"
#include "hg/loopback.hpp"

namespace hg::c_api {

// The types of mercury.h.
struct Plain {
    using CallbackInfo = struct hg_cb_info;
    using Function = hg_cb_t;
    static hg_addr_t made(Address* a) noexcept { return handle(a); }
    static hg_handle_t made(Handle* h) noexcept { return handle(h); }
};

// Those of mercury_core.h.
struct Core {
    using CallbackInfo = struct hg_core_cb_info;
    using Function = hg_core_cb_t;
    static hg_core_addr_t made(Address* a) noexcept { return core_handle(a); }
    static hg_core_handle_t made(Handle* h) noexcept { return core_handle(h); }
};

template <typename Family>
void run_forward(Handle& h, na::Status status, Callback::Opaque user, void* arg) {
    typename Family::CallbackInfo info = {};
    info.info.forward.handle = Family::made(&h);
    info.arg = arg;
    info.type = HG_CB_FORWARD;
    info.ret = code(status);
    (void)reinterpret_cast<typename Family::Function>(user)(&info);
}

template <typename Family>
void run_respond(Handle& h, na::Status status, Callback::Opaque user, void* arg) {
    typename Family::CallbackInfo info = {};
    info.info.respond.handle = Family::made(&Loopback::shown(h));
    info.arg = arg;
    info.type = HG_CB_RESPOND;
    info.ret = code(status);
    (void)reinterpret_cast<typename Family::Function>(user)(&info);
}

template <typename Family>
Callback on_forward(typename Family::Function user, void* arg) noexcept {
    return user == nullptr ? Callback{}
                           : Callback{.run = run_forward<Family>,
                                      .user = reinterpret_cast<Callback::Opaque>(user),
                                      .arg = arg};
}

template <typename Family>
Callback on_respond(typename Family::Function user, void* arg) noexcept {
    return user == nullptr ? Callback{}
                           : Callback{.run = run_respond<Family>,
                                      .user = reinterpret_cast<Callback::Opaque>(user),
                                      .arg = arg};
}

// A lookup that has succeeded, and whose callback waits for trigger.
template <typename Family>
struct Lookup final : Completion {
    typename Family::Function callback = nullptr;
    void* arg = nullptr;
    AddressRef address;

    static void run_callback(Completion& c) {
        const std::unique_ptr<Lookup> lookup(static_cast<Lookup*>(&c));
        typename Family::CallbackInfo info = {};
        info.arg = lookup->arg;
        info.type = HG_CB_LOOKUP;
        info.ret = HG_SUCCESS;
        info.info.lookup.addr = Family::made(lookup->address.release());
        (void)lookup->callback(&info);
    }
};

template <typename Family>
hg_return_t look_up(Context& context, typename Family::Function callback, void* arg,
                    const char* name) noexcept {
    try {
        auto address = context.cls().lookup(name);
        if (!address) {
            return failed<na::log::Outlet::addr>(address.error());
        }
        auto lookup = std::make_unique<Lookup<Family>>();
        lookup->run = Lookup<Family>::run_callback;
        lookup->callback = callback;
        lookup->arg = arg;
        lookup->address = std::move(*address);
        context.complete(*lookup.release());
        return HG_SUCCESS;
    } catch (const std::bad_alloc&) {
        return HG_NOMEM;
    }
}

// Says why, for HG_Get_last_error() and, unless the peer is just gone, in the log.
void cannot_forward(const Handle& h, na::Status why) noexcept;
void cannot_respond(std::uint64_t id, na::Status why) noexcept;
// Handle::claim_response(), with the reason in the log if it fails.
na::Status not_claimed(const Handle& h, na::Status why) noexcept;  // answers `why`
inline na::Status claim_response(Handle& h) noexcept {
    const na::Status s = h.claim_response();
    return ok(s) ? s : not_claimed(h, s);
}

}  // namespace hg::c_api
