// SPDX-License-Identifier: BSD-3-Clause
// Messages: active messages of UCX's, sent at once where it can, else from a buffer of ours.
#include <cstring>

#include "na/util/log.hpp"
#include "plugins/ucx/context.hpp"

namespace na::ucx {

using plugin::Posted;

namespace {

ucp_request_param_t now_or_never() noexcept {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    return param;
}

}  // namespace

// `theirs`: how many of the pool are out already for the peer.
Request* Context::take(Requests& pool, std::size_t theirs) noexcept {
    Request* r = pool.take(
        [](std::byte*, std::size_t) -> Result<Request::Registration> {
            return Request::Registration{};
        },
        theirs);
    if (r == nullptr) {
        retry_soon();
    } else {
        r->home = &pool;
    }
    return r;
}

Posted Context::transmit(session::Link& base, std::span<const std::byte> bytes, Op* op) noexcept {
    auto& link = static_cast<Link&>(base);
    if (link.way == nullptr || !link.way->ready) [[unlikely]] {
        if (const Posted p = reach(link); p.what != Posted::What::done) {
            return p;
        }
    }
    return post(link, kMessageId, bytes, op);
}

// What UCX says of it, where nothing else waits. Null: it has left.
inline ucs_status_ptr_t Context::post_at_once(const Way& way, unsigned id,
                                              std::span<const std::byte> bytes) noexcept {
    static const ucp_request_param_t kParam = now_or_never();
    const ucs_status_ptr_t answer =
        ucp_am_send_nbx(way.ep, id, nullptr, 0, bytes.data(), bytes.size(), &kParam);
    stats_.immediate += answer == nullptr ? 1 : 0;
    return answer;
}

bool Context::transmit_at_once(session::Link& base, std::span<const std::byte> bytes) noexcept {
    const Way* way = static_cast<Link&>(base).way;
    return way != nullptr && way->ready && !way->failed && immediate_ && way->queued == 0 &&
           post_at_once(*way, kMessageId, bytes) == nullptr;
}

// At once, or from a copy. In the order of the calls.
Posted Context::post(Link& link, unsigned id, std::span<const std::byte> bytes, Op* op) noexcept {
    Way& way = *link.way;
    if (way.failed) [[unlikely]] {
        return Posted::failed(Status::hostunreach);
    }
    if (immediate_ && way.queued == 0) [[likely]] {
        const ucs_status_ptr_t answer = post_at_once(way, id, bytes);
        if (answer == nullptr) [[likely]] {
            return Posted::done();
        }
        if (UCS_PTR_STATUS(answer) != UCS_ERR_NO_RESOURCE) [[unlikely]] {
            return refused(link, UCS_PTR_STATUS(answer));
        }
    }
    Request* r = take(requests_, way.queued);
    if (r == nullptr) [[unlikely]] {
        return op != nullptr && requests_.barren() ? Posted::failed(Status::nomem)
                                                   : Posted::again();
    }
    std::memcpy(r->bounce, bytes.data(), bytes.size());
    const Posted posted = hand_over(link, id, *r, bytes.size(), op);
    stats_.copied += posted.what == Posted::What::failed ? 0 : 1;
    return posted;
}

// What is in the request's buffer. The request goes back to its pool by itself.
Posted Context::hand_over(Link& link, unsigned id, Request& r, std::size_t size, Op* op) noexcept {
    Way& way = *link.way;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK |
                         UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    param.cb.send = on_sent;
    param.user_data = &r;
    param.memory_type = UCS_MEMORY_TYPE_HOST;
    r.op = op;  // before the call: from there on a completion may name this request
    const ucs_status_ptr_t answer = ucp_am_send_nbx(way.ep, id, nullptr, 0, r.bounce, size, &param);
    if (!UCS_PTR_IS_PTR(answer)) {
        r.op = nullptr;
        r.home->put_back(r);
        return answer == nullptr ? Posted::done() : refused(link, UCS_PTR_STATUS(answer));
    }
    ++stats_.queued;
    ++with_ucx_;
    r.way = &way;
    r.message = r.home == &requests_;
    ++(r.message ? way.queued : way.carried);
    ++way.requests;
    if (op == nullptr) {
        return Posted::done();
    }
    start(r, link);
    return Posted::pending();
}

Posted Context::refused(Link& link, ucs_status_t status) noexcept {
    NA_LOG_INFO(msg, "cannot send to {}: {}", link.address, ucs_status_string(status));
    return Posted::failed(status_of(status));
}

// Called by UCX.
void Context::on_sent(void* request, ucs_status_t status, void* ours) {
    auto& r = *static_cast<Request*>(ours);
    r.result = status;
    ucp_request_free(request);
    r.way->context->spent_.push_back(r);
}

// --- arrival

// As ours are: in one piece, and no header of UCX's kind.
bool Context::whole(std::size_t header_size, const ucp_am_recv_param_t& how) noexcept {
    if ((how.recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0 || header_size != 0) [[unlikely]] {
        malformed("a message that is announced instead of sent");
        return false;
    }
    return true;
}

ucs_status_t Context::on_message(void* context, const void*, std::size_t header_size, void* data,
                                 std::size_t size, const ucp_am_recv_param_t* how) {
    auto& c = *static_cast<Context*>(context);
    if (!c.closed_ && c.whole(header_size, *how)) {
        ++c.arrivals_;
        c.arrived({static_cast<const std::byte*>(data), size});
    }
    return UCS_OK;
}

ucs_status_t Context::on_rma(void* context, const void*, std::size_t header_size, void* data,
                             std::size_t size, const ucp_am_recv_param_t* how) {
    auto& c = *static_cast<Context*>(context);
    if (!c.closed_ && c.whole(header_size, *how)) {
        ++c.arrivals_;
        c.arrived_rma({static_cast<const std::byte*>(data), size});
    }
    return UCS_OK;
}

}  // namespace na::ucx
