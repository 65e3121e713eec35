// SPDX-License-Identifier: BSD-3-Clause
// Puts and gets of UCX's own, where both sides have chosen so (Settings::native): from and to the
// user's memory, without the target's program. A put is followed by a flush, and ends with it: only
// then is it known to be in the target's memory.
//
// UCX works on the user's memory: an operation ends when UCX is done with it, also where it was
// canceled or the peer is lost. Until then it may have no link any more.
#include <algorithm>
#include <new>
#include <utility>

#include "na/util/log.hpp"
#include "plugins/ucx/context.hpp"

namespace na::ucx {

using plugin::Posted;

namespace {

// A large one leaves room for others in between, and for a cancel.
constexpr std::uint64_t kNativeBytes = std::uint64_t{1} << 20;
// Requests of one peer that UCX has.
constexpr std::size_t kNativeWindow = 64;

ucs_memory_type_t type_of(const Region& local) noexcept {
    return local.host() ? UCS_MEMORY_TYPE_HOST : UCS_MEMORY_TYPE_UNKNOWN;
}

// UCX has no way to this memory, as opposed to a transfer that went wrong.
bool no_way(ucs_status_t status) noexcept {
    return status == UCS_ERR_UNREACHABLE || status == UCS_ERR_UNSUPPORTED ||
           status == UCS_ERR_NOT_IMPLEMENTED;
}

}  // namespace

// done: it is native, and begun. again: later. failed: by messages, if that is possible.
Posted Context::begin_native(Transfer& t) noexcept {
    Way& way = *t.link->way;
    if (way.failed) {
        return Posted::failed(Status::hostunreach);
    }
    if (way.keys == nullptr) {
        try {
            way.keys = std::make_unique<Rkeys>();
        } catch (const std::bad_alloc&) {
            retry_soon();
            return Posted::again();
        }
    }
    ucs_status_t why = UCS_OK;
    if (key_at(t, t.op->remote_offset, why) == nullptr) {
        if (why == UCS_ERR_NO_RESOURCE) {
            retry_soon();
            return Posted::again();
        }
        way.plain = way.plain || no_way(why);
        return Posted::failed(Status::opnotsupported);
    }
    return Posted::done();
}

// The key, and the part of the remote region, that byte `offset` of it needs.
Rkey* Context::key_at(const Transfer& t, std::uint64_t offset, ucs_status_t& why) noexcept {
    const auto& remote = static_cast<const Region&>(*t.op->remote);
    const auto parts = remote.native();
    const auto behind =
        std::upper_bound(parts.begin(), parts.end(), offset,
                         [](std::uint64_t o, const NativePart& p) { return o < p.start; });
    Way& way = *t.link->way;
    return way.keys->find(way.ep, remote, static_cast<std::size_t>(behind - parts.begin()) - 1,
                          *unpack_room_, why);
}

// False: not all of it yet.
bool Context::post_native(Transfer& t) noexcept {
    const bool put = t.op->kind == OpKind::put;
    while (!t.stopped && (t.posted < t.op->length || (put && !t.flushed))) {
        const bool flush = t.posted == t.op->length;
        Request* r =
            t.link->way->natives < kNativeWindow ? take(natives_, t.link->way->natives) : nullptr;
        if (r == nullptr) {
            return false;  // what ends wakes us
        }
        const ucs_status_t status = flush ? post_flush(t, *r) : post_native_piece(t, *r);
        if (status == UCS_INPROGRESS) {
            continue;
        }
        r->transfer = nullptr;
        r->rkey = nullptr;
        natives_.put_back(*r);
        if (status == UCS_ERR_NO_RESOURCE) {
            retry_soon();
            return false;
        }
        if (status != UCS_OK) {
            t.link->way->plain = t.link->way->plain || (t.posted == 0 && no_way(status));
            stop_native(t, status);
        }
    }
    return true;
}

// UCS_INPROGRESS: UCX has the request. UCS_OK: it is done with.
ucs_status_t Context::post_native_piece(Transfer& t, Request& r) noexcept {
    const Op& op = *t.op;
    Way& way = *t.link->way;
    const std::uint64_t there = op.remote_offset + t.posted;
    ucs_status_t why = UCS_OK;
    Rkey* key = way.failed ? nullptr : key_at(t, there, why);
    if (key == nullptr) {
        return way.failed ? UCS_ERR_CONNECTION_RESET : why;
    }
    const NativePart& part = static_cast<const Region&>(*op.remote).native()[key->part];
    const auto& local = static_cast<const Region&>(*op.local);
    const auto here = local.at(
        op.local_offset + t.posted,
        std::min({op.length - t.posted, part.length - (there - part.start), kNativeBytes}));
    ucp_request_param_t param{};
    param.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.cb.send = on_sent;
    param.user_data = &r;
    param.memory_type = type_of(local);
    const std::uint64_t address = part.address + (there - part.start);
    const ucs_status_ptr_t answer =
        op.kind == OpKind::put
            ? ucp_put_nbx(way.ep, here.data(), here.size(), address, key->handle, &param)
            : ucp_get_nbx(way.ep, here.data(), here.size(), address, key->handle, &param);
    if (UCS_PTR_IS_ERR(answer)) {
        return UCS_PTR_STATUS(answer);
    }
    ++stats_.native;
    t.posted += here.size();
    if (answer == nullptr) {
        return UCS_OK;
    }
    ++key->users;
    r.rkey = key;
    hand_to_ucx(t, r);
    return UCS_INPROGRESS;
}

ucs_status_t Context::post_flush(Transfer& t, Request& r) noexcept {
    Way& way = *t.link->way;
    if (way.failed) {
        return UCS_ERR_CONNECTION_RESET;
    }
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.send = on_sent;
    param.user_data = &r;
    const ucs_status_ptr_t answer = ucp_ep_flush_nbx(way.ep, &param);
    if (UCS_PTR_IS_ERR(answer)) {
        return UCS_PTR_STATUS(answer);
    }
    t.flushed = true;
    if (answer == nullptr) {
        return UCS_OK;
    }
    t.flush = &r;
    hand_to_ucx(t, r);
    return UCS_INPROGRESS;
}

void Context::hand_to_ucx(Transfer& t, Request& r) noexcept {
    Way& way = *t.link->way;
    r.way = &way;
    r.message = false;
    r.transfer = &t;
    ++way.requests;
    ++way.natives;
    ++with_ucx_;
    ++t.pieces;
    start(r, *t.link);
}

// Called by settle_spent(). `lost`: the endpoint is no more; then UCX says "success" of flushes
// whose puts were never answered.
void Context::native_ended(Request& r, bool lost) {
    if (r.rkey != nullptr) {
        --r.rkey->users;
        r.rkey = nullptr;
    }
    Transfer* t = std::exchange(r.transfer, nullptr);
    if (t == nullptr || closed_) {
        return;
    }
    --t->pieces;
    if (t->flush == &r) {
        t->flush = nullptr;
    }
    if (r.result != UCS_OK) {
        stop_native(*t, r.result);
    } else if (lost && t->op->kind == OpKind::put) {
        stop_native(*t, UCS_ERR_CONNECTION_RESET);
    }
    end_if_done(*t);
}

void Context::stop_native(Transfer& t, ucs_status_t status) noexcept {
    t.stopped = true;
    if (ok(t.status)) {
        NA_LOG_INFO(rma, "a transfer failed: {}", ucs_status_string(status));
        t.status = status_of(status);
    }
}

// At once, if only the answer is missing: then UCX is done with the memory.
void Context::cancel_native(Transfer& t) {
    t.stopped = true;
    if (ok(t.status)) {
        t.status = Status::canceled;
    }
    if (t.flush != nullptr && t.pieces == 1) {
        std::exchange(t.flush, nullptr)->transfer = nullptr;
        t.pieces = 0;
    }
    end_if_done(t);
}

// The link goes; UCX lets go of the memory when the endpoint is closed.
void Context::end_natives(Link& link, Status why) {
    while (Transfer* t = link.natives.front()) {
        util::IntrusiveList<Transfer, &Transfer::own>::remove(*t);
        if (t->hook.linked()) {
            util::IntrusiveList<Transfer, &Transfer::hook>::remove(*t);
        }
        t->link = nullptr;
        t->status = ok(t->status) ? why : t->status;
        t->stopped = true;
        end_if_done(*t);
    }
}

}  // namespace na::ucx
