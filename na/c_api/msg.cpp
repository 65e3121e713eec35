// SPDX-License-Identifier: BSD-3-Clause
// Message and RMA functions of na.h: what ends in a callback.
#include <algorithm>
#include <new>

#include "na/c_api/handles.hpp"

using namespace na;
using namespace na::c_api;

namespace {

// Users of na.h know no header of expected messages, as in Mercury: where the transport has one,
// they are copied. (What is built on the core leaves room for it, and is not.)
std::byte* frame(na_op_id_t& op, std::size_t bytes) {
    if (op.frame_bytes < bytes) {
        op.frame.reset(new std::byte[bytes]);
        op.frame_bytes = bytes;
    }
    return op.frame.get();
}

std::size_t most_expected(const Class& cls) noexcept {
    return cls.max_message(Lane::expected) - overhead(cls);
}

Status too_large(const Class& cls, std::size_t size) noexcept {
    NA_LOG_ERROR(msg,
                 "expected message of {} bytes: {}+{} takes at most {} (see max_expected_size of "
                 "na_init_info)",
                 size, cls.class_name(), cls.protocol(), most_expected(cls));
    return Status::overflow;
}

Status send_framed(Context& c, na_op_id_t& op_id, Address& to, std::uint8_t context,
                   std::uint32_t tag, const void* buf, std::size_t size) noexcept {
    const std::size_t head = c.cls().headroom(Lane::expected);
    try {
        std::byte* const at = frame(op_id, head + size);
        if (size != 0) {
            std::memcpy(at + head, buf, size);
        }
        return c.send(*op_id.op, Lane::expected, to, context, tag, at, head + size, nullptr);
    } catch (const std::bad_alloc&) {
        return Status::nomem;
    }
}

Status recv_framed(Context& c, na_op_id_t& op_id, Address& from, std::uint8_t context,
                   std::uint32_t tag, void* buf, std::size_t size) noexcept {
    const std::size_t head = c.cls().headroom(Lane::expected);
    const std::size_t room = std::min(size, most_expected(c.cls()));
    try {
        std::byte* const at = frame(op_id, head + room);
        op_id.into = buf;
        const Status s = c.recv_expected(*op_id.op, from, context, tag, at, head + room, nullptr);
        if (!ok(s)) {
            op_id.into = nullptr;
        }
        return s;
    } catch (const std::bad_alloc&) {
        return Status::nomem;
    }
}

// Takes the header off, and gives the user what has come. Answers how much that is.
std::size_t unframe(na_op_id_t& op, const Outcome& outcome) noexcept {
    const std::size_t head = op.cls->headroom(Lane::expected);
    const std::size_t size = outcome.size < head ? 0 : outcome.size - head;
    if (ok(outcome.status) && size != 0) {
        std::memcpy(op.into, op.frame.get() + head, size);
    }
    op.into = nullptr;
    return size;
}

// Stores the completion for NA_Trigger. Runs under the context's lock.
void on_complete(Operation& operation, const Outcome& outcome) noexcept {
    auto* op = static_cast<na_op_id_t*>(operation.owner);
    NaRecord* record = &op->record;
    // Only an end without a message (canceled before one came) took no credit, and has no record of
    // its own.
    if (operation.kind == OpKind::multi_recv_unexpected && outcome.data != nullptr) {
        const std::lock_guard guard(op->free_lock);
        record = op->free_records;  // the operation's credits say that there is one
        op->free_records = record->next_free;
    }
    record->op = op;
    record->outcome = outcome;
    if (op->into != nullptr) {
        record->outcome.size = unframe(*op, outcome);
    }
    Context& context = *op->context;
    context.completions().push(*record);
    // Another thread may have run the callback by now, and the operation be posted again, or gone.
    context.wake_sleepers();
}

// Takes the operation for a post; `post` answers the core's status.
template <typename Post>
na_return_t start(na_context_t* context, na_cb_t callback, void* arg, na_op_id_t* op,
                  Post&& post) noexcept {
    bool idle = false;
    if (!op->pending.compare_exchange_strong(idle, true, std::memory_order_acquire)) {
        NA_LOG_ERROR(op, "the operation is in use: wait for its callback");
        return NA_BUSY;
    }
    op->context = core(context);
    op->callback = callback;
    op->arg = arg;
    op->op->handler = on_complete;
    op->op->owner = op;
    const Status s = post(*core(context), *op->op);
    if (!ok(s)) {
        op->pending.store(false, std::memory_order_release);
    }
    return code(s);
}

plugin::Region* region_of(void* plugin_data) noexcept {
    return plugin_data == nullptr ? nullptr
                                  : static_cast<MessageBuffer*>(plugin_data)->region.get();
}

na_return_t init_message(const char* function, std::size_t header, const void* buf,
                         std::size_t size) noexcept {
    if (buf == nullptr || size < header) {
        NA_LOG_ERROR(msg, "{}: NULL buffer, or shorter than the header of {} bytes", function,
                     header);
        return buf == nullptr ? NA_INVALID_ARG : NA_OVERFLOW;
    }
    return NA_SUCCESS;  // headers are written by the plugin at each send
}

}  // namespace

#define NA_C_REQUIRE_POST(more)                                                               \
    NA_C_REQUIRE(na_class != nullptr && context != nullptr && op_id != nullptr && (more), op, \
                 "NULL argument");                                                            \
    NA_C_REQUIRE(&core(context)->cls() == core(na_class) && op_id->cls == core(na_class), op, \
                 "context and operation must be of the class")

extern "C" {

size_t NA_Msg_get_max_unexpected_size(const na_class_t* na_class) {
    return na_class == nullptr ? 0 : core(na_class)->max_message(Lane::unexpected);
}
size_t NA_Msg_get_max_expected_size(const na_class_t* na_class) {
    return na_class == nullptr ? 0 : most_expected(*core(na_class));
}
size_t NA_Msg_get_unexpected_header_size(const na_class_t* na_class) {
    return na_class == nullptr ? 0 : core(na_class)->headroom(Lane::unexpected);
}
size_t NA_Msg_get_expected_header_size(const na_class_t* na_class) {
    (void)na_class;
    return 0;
}
na_tag_t NA_Msg_get_max_tag(const na_class_t* na_class) {
    return na_class == nullptr ? 0 : core(na_class)->caps().max_tag;
}

void* NA_Msg_buf_alloc(na_class_t* na_class, size_t buf_size, unsigned long flags,
                       void** plugin_data_p) {
    if (na_class == nullptr || buf_size == 0 || plugin_data_p == nullptr) {
        NA_LOG_ERROR(msg, "NULL argument or size 0");
        return nullptr;
    }
    try {
        Class& cls = *core(na_class);
        if ((flags & NA_ALLOC_MAX) != 0) {
            buf_size = std::max(
                {buf_size, cls.max_message(Lane::unexpected), cls.max_message(Lane::expected)});
        }
        auto buffer = std::make_unique<MessageBuffer>(cls.allocate_message(buf_size));
        if (buffer->data == nullptr) {
            NA_LOG_ERROR(msg, "no memory for a message buffer of {} bytes", buf_size);
            return nullptr;
        }
        void* data = buffer->data;
        *plugin_data_p = buffer.release();
        return data;
    } catch (const std::bad_alloc&) {
        NA_LOG_ERROR(msg, "out of memory");
        return nullptr;
    }
}

void NA_Msg_buf_free(na_class_t* na_class, void* buf, void* plugin_data) {
    if (na_class == nullptr || buf == nullptr || plugin_data == nullptr) {
        return;
    }
    const std::unique_ptr<MessageBuffer> buffer(static_cast<MessageBuffer*>(plugin_data));
    core(na_class)->free_message(std::move(*buffer));
}

na_return_t NA_Msg_init_unexpected(na_class_t* na_class, void* buf, size_t buf_size) {
    NA_C_REQUIRE(na_class != nullptr, msg, "NULL class");
    return init_message(__func__, core(na_class)->headroom(Lane::unexpected), buf, buf_size);
}

na_return_t NA_Msg_init_expected(na_class_t* na_class, void* buf, size_t buf_size) {
    NA_C_REQUIRE(na_class != nullptr, msg, "NULL class");
    return init_message(__func__, 0, buf, buf_size);
}

na_return_t NA_Msg_send_unexpected(na_class_t* na_class, na_context_t* context, na_cb_t callback,
                                   void* arg, const void* buf, size_t buf_size, void* plugin_data,
                                   na_addr_t* dest_addr, uint8_t dest_id, na_tag_t tag,
                                   na_op_id_t* op_id) {
    NA_C_REQUIRE_POST(dest_addr != nullptr);
    return start(context, callback, arg, op_id, [&](Context& c, Operation& op) {
        return c.send(op, Lane::unexpected, *core(dest_addr), dest_id, tag, buf, buf_size,
                      region_of(plugin_data));
    });
}

na_return_t NA_Msg_send_expected(na_class_t* na_class, na_context_t* context, na_cb_t callback,
                                 void* arg, const void* buf, size_t buf_size, void* plugin_data,
                                 na_addr_t* dest_addr, uint8_t dest_id, na_tag_t tag,
                                 na_op_id_t* op_id) {
    NA_C_REQUIRE_POST(dest_addr != nullptr);
    return start(context, callback, arg, op_id, [&](Context& c, Operation& op) {
        if (buf == nullptr && buf_size != 0) {
            return Status::invalid_arg;
        }
        if (buf_size > most_expected(c.cls())) {
            return too_large(c.cls(), buf_size);
        }
        if (c.cls().headroom(Lane::expected) != 0) {
            return send_framed(c, *op_id, *core(dest_addr), dest_id, tag, buf, buf_size);
        }
        return c.send(op, Lane::expected, *core(dest_addr), dest_id, tag, buf, buf_size,
                      region_of(plugin_data));
    });
}

na_return_t NA_Msg_recv_unexpected(na_class_t* na_class, na_context_t* context, na_cb_t callback,
                                   void* arg, void* buf, size_t buf_size, void* plugin_data,
                                   na_op_id_t* op_id) {
    NA_C_REQUIRE_POST(buf != nullptr);
    return start(context, callback, arg, op_id, [&](Context& c, Operation& op) {
        return c.recv_unexpected(op, buf, buf_size, region_of(plugin_data));
    });
}

na_return_t NA_Msg_multi_recv_unexpected(na_class_t* na_class, na_context_t* context,
                                         na_cb_t callback, void* arg, void* buf, size_t buf_size,
                                         void* plugin_data, na_op_id_t* op_id) {
    NA_C_REQUIRE_POST(buf != nullptr);
    NA_C_REQUIRE(!op_id->records.empty(), op,
                 "multi-receive needs an operation made with NA_OP_MULTI");
    return start(context, callback, arg, op_id, [&](Context& c, Operation& op) {
        return c.recv_multi(op, buf, buf_size, region_of(plugin_data));
    });
}

na_return_t NA_Msg_recv_expected(na_class_t* na_class, na_context_t* context, na_cb_t callback,
                                 void* arg, void* buf, size_t buf_size, void* plugin_data,
                                 na_addr_t* source_addr, uint8_t source_id, na_tag_t tag,
                                 na_op_id_t* op_id) {
    NA_C_REQUIRE_POST(buf != nullptr && source_addr != nullptr);
    return start(context, callback, arg, op_id, [&](Context& c, Operation& op) {
        if (c.cls().headroom(Lane::expected) != 0) {
            return recv_framed(c, *op_id, *core(source_addr), source_id, tag, buf, buf_size);
        }
        return c.recv_expected(op, *core(source_addr), source_id, tag, buf, buf_size,
                               region_of(plugin_data));
    });
}

na_return_t NA_Put(na_class_t* na_class, na_context_t* context, na_cb_t callback, void* arg,
                   na_mem_handle_t* local_mem_handle, na_offset_t local_offset,
                   na_mem_handle_t* remote_mem_handle, na_offset_t remote_offset, size_t data_size,
                   na_addr_t* remote_addr, uint8_t remote_id, na_op_id_t* op_id) {
    NA_C_REQUIRE_POST(local_mem_handle != nullptr && remote_mem_handle != nullptr &&
                      remote_addr != nullptr);
    return start(context, callback, arg, op_id, [&](Context& c, Operation& op) {
        return c.put(op, *core(local_mem_handle), local_offset, *core(remote_mem_handle),
                     remote_offset, data_size, *core(remote_addr), remote_id);
    });
}

na_return_t NA_Get(na_class_t* na_class, na_context_t* context, na_cb_t callback, void* arg,
                   na_mem_handle_t* local_mem_handle, na_offset_t local_offset,
                   na_mem_handle_t* remote_mem_handle, na_offset_t remote_offset, size_t data_size,
                   na_addr_t* remote_addr, uint8_t remote_id, na_op_id_t* op_id) {
    NA_C_REQUIRE_POST(local_mem_handle != nullptr && remote_mem_handle != nullptr &&
                      remote_addr != nullptr);
    return start(context, callback, arg, op_id, [&](Context& c, Operation& op) {
        return c.get(op, *core(local_mem_handle), local_offset, *core(remote_mem_handle),
                     remote_offset, data_size, *core(remote_addr), remote_id);
    });
}

}  // extern "C"
