// SPDX-License-Identifier: BSD-3-Clause
// Forward, respond and cancel of mercury.h.
#include <optional>

#include "hg/c_api/codec.hpp"
#include "hg/c_api/family.hpp"
#include "hg/loopback.hpp"
#include "hg/small.hpp"

using namespace hg;
using hg::c_api::code;
using hg::c_api::core;
using na::Lane;
using na::Status;

namespace {

const char* why_not_forward(Status s) noexcept {
    switch (s) {
        case Status::busy:
            return "the handle's last RPC is in flight";
        case Status::fault:
            return "the RPC is no longer registered";
        case Status::opnotsupported:
            return "with HG_CORE_MORE_DATA it goes to another process only";
        case Status::invalid_arg:
            return "no address or no RPC is set, or the handle is a target's";
        default:
            return to_string(s);
    }
}

const char* why_not_respond(Status s) noexcept {
    switch (s) {
        case Status::busy:
            return "it was responded to already";
        case Status::opnotsupported:
            return "with HG_CORE_MORE_DATA it goes to another process only";
        case Status::invalid_arg:
            return "the handle is an origin's";
        default:
            return to_string(s);
    }
}

Status forward(Handle& h, const Callback& callback, void* in_struct) {
    Status s = h.claim();
    if (!ok(s)) [[unlikely]] {
        c_api::cannot_forward(h, s);
        return s;
    }
    c_api::Encoded e;
    const std::size_t offset = h.info().cls->offset(Lane::unexpected);
    try {
        s = c_api::encode(
            h, reinterpret_cast<hg_proc_cb_t>(h.registration()->functions().encode_input),
            in_struct, h.input_space(), offset, e);
    } catch (const std::bad_alloc&) {
        s = Status::nomem;
    } catch (...) {  // the program's
        h.unclaim();
        throw;
    }
    if (!ok(s)) [[unlikely]] {
        h.unclaim();
        return s;
    }
    Context& context = h.context();
    s = e.beyond == nullptr ? h.forward_small(e.size, e.size - offset, callback)
                            : h.forward(e.size, callback, e.beyond, e.beyond_size);
    if (!ok(s)) [[unlikely]] {
        context.overflow().give(e.beyond);
    }
    return s;
}

// `shown`: the handle that stands for it, of a call to oneself.
[[gnu::always_inline]] inline Status respond_claimed(Handle& h, const Callback& callback,
                                                     void* out_struct, Handle* shown = nullptr) {
    Status s = Status::success;
    c_api::Encoded e;
    const std::size_t offset = h.info().cls->offset(Lane::expected);
    try {
        std::optional<c_api::Behind> behind;  // ends first: who has responded may be gone
        if (shown != nullptr) {
            behind.emplace(h, *shown);
        }
        s = c_api::encode(
            h, reinterpret_cast<hg_proc_cb_t>(h.registration()->functions().encode_output),
            out_struct, h.output_space(), offset, e);
    } catch (const std::bad_alloc&) {
        s = Status::nomem;
    } catch (...) {  // the program's
        h.fail_response();
        throw;
    }
    if (!ok(s)) [[unlikely]] {
        h.fail_response();
        return s;
    }
    return e.beyond == nullptr ? h.respond_small(e.size, e.size - offset, callback)
                               : h.respond(e.size, callback, e.beyond, e.beyond_size);
}

// Not this one's: that of a call to oneself, perhaps, which it stands for.
[[gnu::noinline, gnu::cold]] Status respond_behind(Handle& shown, Status why,
                                                   const Callback& callback, void* out_struct) {
    Handle& h = Loopback::behind(shown);
    if (&h == &shown) {
        return c_api::not_claimed(h, why);
    }
    const Status s = c_api::claim_response(h);
    return ok(s) ? respond_claimed(h, callback, out_struct, &shown) : s;
}

Status respond(Handle& h, const Callback& callback, void* out_struct) {
    if (const Status s = h.claim_response(); !ok(s)) [[unlikely]] {
        return respond_behind(h, s, callback, out_struct);
    }
    return respond_claimed(h, callback, out_struct);
}

}  // namespace

void c_api::cannot_forward(const Handle& h, Status why) noexcept {
    NA_LOG_ERROR(rpc, "cannot forward RPC {}: {}", h.name(), why_not_forward(why));
}

void c_api::cannot_respond(std::uint64_t id, Status why) noexcept {
    if (why != Status::hostunreach) {
        NA_LOG_ERROR(rpc, "cannot respond to RPC {:#x}: {}", id, why_not_respond(why));
    }
}

Status c_api::not_claimed(const Handle& h, Status s) noexcept {
    if (s == Status::opnotsupported) {
        // No line in the log, which peers would fill; and no id: where the program has no
        // reference, the handle may serve another one-way request already.
        na::log::set_last_error("cannot respond to an RPC: its origin wants no response (one-way)");
    } else if (!h.held()) {
        // Likewise: peers that are more than may wait.
        na::log::set_last_error(
            "cannot respond to an RPC: it was responded to already, or has ended because nobody "
            "had responded for too long");
    } else {
        cannot_respond(h.info().id, s);
    }
    return s;
}

extern "C" {

hg_return_t HG_Forward(hg_handle_t handle, hg_cb_t callback, void* arg, void* in_struct) {
    HG_C_REQUIRE(handle != HG_HANDLE_NULL, rpc, "handle is HG_HANDLE_NULL");
    return code(forward(*core(handle), c_api::on_forward<c_api::Plain>(callback, arg), in_struct));
}

hg_return_t HG_Respond(hg_handle_t handle, hg_cb_t callback, void* arg, void* out_struct) {
    HG_C_REQUIRE(handle != HG_HANDLE_NULL, rpc, "handle is HG_HANDLE_NULL");
    return code(respond(*core(handle), c_api::on_respond<c_api::Plain>(callback, arg), out_struct));
}

hg_return_t HG_Respond_error(hg_handle_t handle, hg_cb_t callback, void* arg, hg_return_t ret) {
    HG_C_REQUIRE(handle != HG_HANDLE_NULL, rpc, "handle is HG_HANDLE_NULL");
    HG_C_REQUIRE(static_cast<unsigned>(ret) - 1U < static_cast<unsigned>(HG_RETURN_MAX) - 1U, rpc,
                 "no error code to respond with");
    Handle& h = Loopback::behind(*core(handle));
    if (const Status s = c_api::claim_response(h); !ok(s)) {
        return code(s);
    }
    return code(
        h.respond_error(c_api::status(ret), c_api::on_respond<c_api::Plain>(callback, arg)));
}

hg_return_t HG_Cancel(hg_handle_t handle) {
    HG_C_REQUIRE(handle != HG_HANDLE_NULL, rpc, "handle is HG_HANDLE_NULL");
    core(handle)->cancel();
    return HG_SUCCESS;
}

}  // extern "C"
