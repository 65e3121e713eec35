// SPDX-License-Identifier: BSD-3-Clause
// The functions of mercury_bulk.h: check, cast, call bulk/, map the status. hg_bulk_t is a
// bulk::Bulk, hg_op_id_t a bulk::TransferId.
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#include "bulk/segments.hpp"
#include "bulk/transfer.hpp"
#include "bulk/wire.hpp"
#include "hg/c_api/handles.hpp"
#include "hg/context.hpp"
#include "hg/proc/bulk.hpp"
#include "mercury_bulk.h"
#include "na/util/log.hpp"

using namespace hg;
using hg::c_api::code;
using hg::c_api::core;
using hg::c_api::failed;
using na::Status;

namespace {

static_assert(static_cast<int>(bulk::Direction::push) == HG_BULK_PUSH &&
              static_cast<int>(bulk::Direction::pull) == HG_BULK_PULL);
static_assert(static_cast<int>(bulk::Access::read) == HG_BULK_READ_ONLY &&
              static_cast<int>(bulk::Access::write) == HG_BULK_WRITE_ONLY);
static_assert(static_cast<int>(na::MemoryKind::host) == HG_MEM_TYPE_HOST &&
              static_cast<int>(na::MemoryKind::ze) == HG_MEM_TYPE_ZE);
static_assert(sizeof(na::Segment::length) == sizeof(hg_size_t));
static_assert(sizeof(bulk::TransferId) == sizeof(hg_op_id_t));

Class& class_of(const bulk::Bulk& b) noexcept {
    return *static_cast<Class*>(b.space().owner());
}

bulk::WireOptions wire_options(const bulk::Bulk& b, unsigned long flags, bool self) noexcept {
    return {.eager = (flags & HG_BULK_EAGER) != 0 && class_of(b).options().bulk_eager,
            .sm = (flags & HG_BULK_SM) != 0,
            .self = self};
}

hg_return_t out_of_memory() noexcept {
    NA_LOG_ERROR(bulk, "out of memory");
    return HG_NOMEM;
}

// As failed(), for what a peer sent.
hg_return_t refused(const na::Error& error) noexcept {
    NA_LOG_WARNING(bulk, "{}", error.message);
    na::log::set_last_error(error.message);
    return code(error.status);
}

std::vector<std::byte> encoded(const Address& address, bool with_sm) {
    std::vector<std::byte> bytes(address.encoded_size(with_sm));
    (void)address.encode(bytes, with_sm);  // as long as it said
    return bytes;
}

// Both forms of the address, and the reference that HG_Bulk_get_addr hands out.
void fill(bulk::Owner& owner, AddressRef address) {
    owner.address = encoded(*address, false);
    if (address->sm() != nullptr && address->net() != nullptr) {
        owner.address_with_sm = encoded(*address, true);
    }
    owner.resolved = address.release();
    owner.release = [](void* a) noexcept { AddressRef::adopt(static_cast<Address*>(a)).reset(); };
}

// --- completions
// -----------------------------------------------------------------------------------------------------

// In bulk::Transfer::user, from the end of the transfer to its callback.
struct Ended : Completion {
    bulk::Transfer* transfer = nullptr;
    Status status = Status::success;
};
static_assert(sizeof(Ended) <= bulk::Transfer::kUserBytes &&
              std::is_trivially_destructible_v<Ended>);

// Inside trigger.
void run_callback(Completion& completion) {
    const auto& ended = static_cast<const Ended&>(completion);
    bulk::Transfer& transfer = *ended.transfer;
    const bulk::Request& request = transfer.request();
    struct Release {  // a callback may throw
        bulk::Transfer& transfer;
        ~Release() { transfer.engine().release(transfer); }
    };
    const Release after{transfer};
    if (request.callback != nullptr) {
        hg_cb_info info{};
        info.info.bulk = {.origin_handle = c_api::handle(request.origin),
                          .local_handle = c_api::handle(request.local),
                          .op = static_cast<hg_bulk_op_t>(request.direction),
                          .size = request.size};
        info.arg = request.arg;
        info.type = HG_CB_BULK;
        info.ret = code(ended.status);
        (void)reinterpret_cast<hg_cb_t>(request.callback)(&info);
    }
}

// Perhaps inside a handler.
void on_end(bulk::Transfer& transfer, Status status) noexcept {
    auto* ended = new (transfer.user) Ended;
    ended->transfer = &transfer;
    ended->status = status;
    ended->run = &run_callback;
    static_cast<Context*>(transfer.owner())->complete(*ended);
}

hg_return_t start(Context& context, hg_cb_t callback, void* arg, hg_bulk_op_t op, Address& peer,
                  std::uint8_t origin_id, bulk::Bulk& origin, hg_size_t origin_offset,
                  bulk::Bulk& local, hg_size_t local_offset, hg_size_t size, hg_op_id_t* op_id) {
    HG_C_REQUIRE(op == HG_BULK_PUSH || op == HG_BULK_PULL, bulk,
                 "op must be HG_BULK_PUSH or HG_BULK_PULL");
    HG_C_REQUIRE(&peer.cls() == &context.cls(), bulk,
                 "the address is of another class than the context");
    const bulk::Request request{.direction = static_cast<bulk::Direction>(op),
                                .origin = &origin,
                                .origin_offset = origin_offset,
                                .local = &local,
                                .local_offset = local_offset,
                                .size = size,
                                .peer = {.net = peer.net(), .sm = peer.sm()},
                                .origin_context = origin_id,
                                .done = &on_end,
                                .owner = &context,
                                .callback = reinterpret_cast<void (*)()>(callback),
                                .arg = arg};
    if (op_id == nullptr || op_id == HG_OP_ID_IGNORE) {
        return code(context.bulk().start(request));
    }
    // The engine writes it before anything can end, so that a callback on another thread finds it;
    // and it is not to change on failure.
    const hg_op_id_t before = *op_id;
    const Status s = context.bulk().start(request, reinterpret_cast<bulk::TransferId*>(op_id));
    if (!ok(s)) {
        *op_id = before;
    }
    return code(s);
}

hg_return_t create(hg_class_t* hg_class, uint32_t count, void** buf_ptrs,
                   const hg_size_t* buf_sizes, uint8_t flags, const bulk::Attributes& attributes,
                   hg_bulk_t* out) try {
    HG_C_REQUIRE(hg_class != nullptr && buf_sizes != nullptr && out != nullptr, bulk,
                 "NULL argument");
    HG_C_REQUIRE(count != 0, bulk, "count must not be 0");
    HG_C_REQUIRE(flags >= HG_BULK_READ_ONLY && flags <= HG_BULK_READWRITE, bulk,
                 "flags must be HG_BULK_READ_ONLY, HG_BULK_WRITE_ONLY or HG_BULK_READWRITE");
    bulk::Space& space = core(hg_class)->space();
    const auto access = static_cast<bulk::Access>(flags);
    if (buf_ptrs == nullptr) {
        if (attributes.kind != na::MemoryKind::host) {
            NA_LOG_ERROR(bulk, "only host memory can be allocated: pass buf_ptrs");
            return HG_OPNOTSUPPORTED;
        }
        auto made = bulk::Bulk::allocate(space, {buf_sizes, count}, access);
        if (!made) {
            return failed<na::log::Outlet::bulk>(made.error());
        }
        *out = c_api::handle(made->release());
        return HG_SUCCESS;
    }
    std::vector<na::Segment> segments(count);
    for (uint32_t i = 0; i < count; ++i) {
        segments[i] = {buf_ptrs[i], buf_sizes[i]};
    }
    auto made = bulk::Bulk::create(space, segments, access, attributes);
    if (!made) {
        return failed<na::log::Outlet::bulk>(made.error());
    }
    *out = c_api::handle(made->release());
    return HG_SUCCESS;
} catch (const std::bad_alloc&) {
    return out_of_memory();
}

}  // namespace

namespace hg::proc {

bool to_self(hg_handle_t handle) noexcept {
    return handle != HG_HANDLE_NULL && core(handle)->info().addr != nullptr &&
           core(handle)->info().addr->is_self();
}

hg_size_t bulk_size(hg_bulk_t b, unsigned long flags, bool self) noexcept {
    return b == HG_BULK_NULL ? 0
                             : ::bulk::encoded_size(*core(b), wire_options(*core(b), flags, self));
}

hg_return_t write_bulk(void* to, hg_size_t size, unsigned long flags, bool self,
                       hg_bulk_t b) noexcept try {
    const auto written =
        ::bulk::encode(*core(b), wire_options(*core(b), flags, self),
                       {static_cast<std::byte*>(to), static_cast<std::size_t>(size)});
    return written ? HG_SUCCESS : failed<na::log::Outlet::bulk>(written.error());
} catch (const std::bad_alloc&) {
    return out_of_memory();
}

}  // namespace hg::proc

extern "C" {

hg_return_t HG_Bulk_create(hg_class_t* hg_class, uint32_t count, void** buf_ptrs,
                           const hg_size_t* buf_sizes, uint8_t flags, hg_bulk_t* handle) {
    return create(hg_class, count, buf_ptrs, buf_sizes, flags, {}, handle);
}

hg_return_t HG_Bulk_create_attr(hg_class_t* hg_class, uint32_t count, void** buf_ptrs,
                                const hg_size_t* buf_sizes, uint8_t flags,
                                const struct hg_bulk_attr* attrs, hg_bulk_t* handle) {
    HG_C_REQUIRE(attrs != nullptr, bulk, "NULL argument");
    HG_C_REQUIRE(attrs->mem_type < HG_MEM_TYPE_MAX, bulk, "unknown mem_type");
    return create(hg_class, count, buf_ptrs, buf_sizes, flags,
                  {.kind = static_cast<na::MemoryKind>(attrs->mem_type), .device = attrs->device},
                  handle);
}

hg_return_t HG_Bulk_free(hg_bulk_t handle) {
    if (handle != HG_BULK_NULL) {
        core(handle)->unref();
    }
    return HG_SUCCESS;
}

hg_return_t HG_Bulk_ref_incr(hg_bulk_t handle) {
    HG_C_REQUIRE(handle != HG_BULK_NULL, bulk, "NULL argument");
    core(handle)->ref();
    return HG_SUCCESS;
}

hg_return_t HG_Bulk_bind(hg_bulk_t handle, hg_context_t* context) try {
    HG_C_REQUIRE(handle != HG_BULK_NULL && context != nullptr, bulk, "NULL argument");
    bulk::Bulk& b = *core(handle);
    const std::uint8_t id = core(context)->id();
    HG_C_REQUIRE(b.is_local(), bulk, "only a descriptor of memory of this process can be bound");
    HG_C_REQUIRE(&core(context)->cls() == &class_of(b), bulk, "the context is of another class");
    if (b.owner() == nullptr) {
        auto owner = std::make_unique<bulk::Owner>();
        owner->context_id = id;
        fill(*owner, class_of(b).self());
        if (b.bind(std::move(owner))) {
            return HG_SUCCESS;
        }
    }
    HG_C_REQUIRE(b.owner()->context_id == id, bulk, "the descriptor is bound to another context");
    return HG_SUCCESS;
} catch (const std::bad_alloc&) {
    return out_of_memory();
}

hg_addr_t HG_Bulk_get_addr(hg_bulk_t handle) {
    const bulk::Owner* owner = handle == HG_BULK_NULL ? nullptr : core(handle)->owner();
    return owner == nullptr ? HG_ADDR_NULL : static_cast<hg_addr_t>(owner->resolved);
}

uint8_t HG_Bulk_get_context_id(hg_bulk_t handle) {
    const bulk::Owner* owner = handle == HG_BULK_NULL ? nullptr : core(handle)->owner();
    return owner == nullptr ? 0 : owner->context_id;
}

hg_return_t HG_Bulk_access(hg_bulk_t handle, hg_size_t offset, hg_size_t size, uint8_t,
                           uint32_t max_count, void** buf_ptrs, hg_size_t* buf_sizes,
                           uint32_t* actual_count) {
    HG_C_REQUIRE(handle != HG_BULK_NULL, bulk, "NULL argument");
    const bulk::Bulk& b = *core(handle);
    if (size == 0 || max_count == 0) {
        return HG_SUCCESS;  // programs rely on outputs that keep their values, as with Mercury
    }
    HG_C_REQUIRE(b.covers(offset, size), bulk, "past the end of the descriptor");
    HG_C_REQUIRE(b.has_pointers(), bulk, "remote memory: pull it into local memory");
    bulk::SegmentCursor cursor(b.segments(), offset);
    uint32_t count = 0;
    for (; size != 0 && count < max_count; ++count) {
        const na::Segment piece = cursor.peek(size);
        cursor.advance(piece.length);
        size -= piece.length;
        if (buf_ptrs != nullptr) {
            buf_ptrs[count] = piece.base;
        }
        if (buf_sizes != nullptr) {
            buf_sizes[count] = piece.length;
        }
    }
    if (actual_count != nullptr) {
        *actual_count = count;
    }
    return HG_SUCCESS;
}

hg_size_t HG_Bulk_get_size(hg_bulk_t handle) {
    return handle == HG_BULK_NULL ? 0 : core(handle)->size();
}

uint32_t HG_Bulk_get_segment_count(hg_bulk_t handle) {
    return handle == HG_BULK_NULL ? 0 : static_cast<uint32_t>(core(handle)->segments().size());
}

uint8_t HG_Bulk_get_flags(hg_bulk_t handle) {
    return handle == HG_BULK_NULL ? uint8_t{0} : static_cast<uint8_t>(core(handle)->access());
}

hg_size_t HG_Bulk_get_serialize_size(hg_bulk_t handle, unsigned long flags) {
    return hg::proc::bulk_size(handle, flags, false);
}

hg_return_t HG_Bulk_serialize(void* buf, hg_size_t buf_size, unsigned long flags,
                              hg_bulk_t handle) {
    HG_C_REQUIRE(handle != HG_BULK_NULL && buf != nullptr, bulk, "NULL argument");
    return hg::proc::write_bulk(buf, buf_size, flags, false, handle);
}

hg_return_t HG_Bulk_deserialize(hg_class_t* hg_class, hg_bulk_t* handle, const void* buf,
                                hg_size_t buf_size) try {
    HG_C_REQUIRE(hg_class != nullptr && handle != nullptr && buf != nullptr, bulk, "NULL argument");
    Class& cls = *core(hg_class);
    auto decoded = bulk::decode(
        cls.space(), {static_cast<const std::byte*>(buf), static_cast<std::size_t>(buf_size)});
    if (!decoded) {
        return refused(decoded.error());
    }
    if (bulk::Owner* owner = (*decoded)->unresolved_owner(); owner != nullptr) {
        auto address = cls.decode_address(owner->address);
        if (!address) {
            return refused(address.error());
        }
        fill(*owner, std::move(*address));
    }
    *handle = c_api::handle(decoded->release());
    return HG_SUCCESS;
} catch (const std::bad_alloc&) {
    return out_of_memory();
}

hg_return_t HG_Bulk_transfer(hg_context_t* context, hg_cb_t callback, void* arg, hg_bulk_op_t op,
                             hg_addr_t origin_addr, hg_bulk_t origin_handle,
                             hg_size_t origin_offset, hg_bulk_t local_handle,
                             hg_size_t local_offset, hg_size_t size, hg_op_id_t* op_id) {
    const std::uint8_t origin_id = origin_addr == HG_ADDR_NULL ? 0 : core(origin_addr)->context();
    return HG_Bulk_transfer_id(context, callback, arg, op, origin_addr, origin_id, origin_handle,
                               origin_offset, local_handle, local_offset, size, op_id);
}

hg_return_t HG_Bulk_transfer_id(hg_context_t* context, hg_cb_t callback, void* arg, hg_bulk_op_t op,
                                hg_addr_t origin_addr, uint8_t origin_id, hg_bulk_t origin_handle,
                                hg_size_t origin_offset, hg_bulk_t local_handle,
                                hg_size_t local_offset, hg_size_t size, hg_op_id_t* op_id) {
    HG_C_REQUIRE(context != nullptr && origin_addr != HG_ADDR_NULL &&
                     origin_handle != HG_BULK_NULL && local_handle != HG_BULK_NULL,
                 bulk, "NULL argument");
    HG_C_REQUIRE(core(origin_handle)->owner() == nullptr, bulk,
                 "the origin is bound to an address: use HG_Bulk_bind_transfer");
    return start(*core(context), callback, arg, op, *core(origin_addr), origin_id,
                 *core(origin_handle), origin_offset, *core(local_handle), local_offset, size,
                 op_id);
}

hg_return_t HG_Bulk_bind_transfer(hg_context_t* context, hg_cb_t callback, void* arg,
                                  hg_bulk_op_t op, hg_bulk_t origin_handle, hg_size_t origin_offset,
                                  hg_bulk_t local_handle, hg_size_t local_offset, hg_size_t size,
                                  hg_op_id_t* op_id) {
    HG_C_REQUIRE(
        context != nullptr && origin_handle != HG_BULK_NULL && local_handle != HG_BULK_NULL, bulk,
        "NULL argument");
    const bulk::Owner* owner = core(origin_handle)->owner();
    HG_C_REQUIRE(owner != nullptr, bulk, "the origin is not bound: use HG_Bulk_transfer");
    return start(*core(context), callback, arg, op, *static_cast<Address*>(owner->resolved),
                 owner->context_id, *core(origin_handle), origin_offset, *core(local_handle),
                 local_offset, size, op_id);
}

hg_return_t HG_Bulk_cancel(hg_op_id_t op_id) {
    HG_C_REQUIRE(op_id != HG_OP_ID_NULL, bulk, "NULL argument");
    bulk::Engine::cancel_any(reinterpret_cast<bulk::TransferId>(op_id));
    return HG_SUCCESS;
}

}  // extern "C"
