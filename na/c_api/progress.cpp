// SPDX-License-Identifier: BSD-3-Clause
// Contexts, operations, progress and trigger of na.h.
#include <mutex>
#include <new>

#include "na/c_api/handles.hpp"
#include "na/core/vacant.hpp"
#include "na/util/ran.hpp"

using namespace na;
using namespace na::c_api;

namespace {

// Messages of one multi-receive that may wait for NA_Trigger at a time.
constexpr std::size_t kMultiRecords = 256;

// The record is free for another message. The last touch of the operation is the credit.
void give_back(na_op_id_t& op, NaRecord& record) {
    Context& context = *op.context;
    {
        const std::lock_guard guard(op.free_lock);
        record.next_free = op.free_records;
        op.free_records = &record;
    }
    context.add_credits(*op.op, 1);
}

void run_callback(NaRecord& record) {
    na_op_id_t* op = record.op;
    const Outcome outcome = record.outcome;
    const na_cb_t callback = op->callback;
    na_cb_info info{};
    info.arg = op->arg;
    info.type = static_cast<na_cb_type_t>(op->op->kind);
    info.ret = code(outcome.status);
    na_addr_t* source = handle(outcome.source);
    switch (op->op->kind) {
        case OpKind::recv_unexpected:
            info.info.recv_unexpected = {outcome.size, source, outcome.tag};
            break;
        case OpKind::multi_recv_unexpected:
            info.info.multi_recv_unexpected = {outcome.size, source, outcome.tag, outcome.data,
                                               outcome.last};
            if (&record != &op->record) {
                give_back(*op, record);
            }
            if (outcome.last) {
                // Other threads may be on their way out of trigger with earlier records of this
                // operation, which from here on is the user's to post again or to destroy.
                while (op->op->credits() != op->records.size()) {
                    util::cpu_relax();
                }
            }
            break;
        case OpKind::recv_expected:
            info.info.recv_expected = {outcome.size};
            break;
        default:
            break;
    }
    if (outcome.last) {
        op->pending.store(false,
                          std::memory_order_release);  // the callback may post the operation again
    }
    if (callback != nullptr) {
        callback(&info);
    } else if (outcome.source != nullptr) {
        outcome.source->unref();
    }
}

// A receive that nothing has come for. Of a multi-receive's messages none may wait for trigger.
bool take_back(na_op_id_t& op) noexcept {
    return !op.cls->inherited() &&
           op.context->withdraw(*op.op, static_cast<std::uint32_t>(op.records.size()));
}

}  // namespace

extern "C" {

na_context_t* NA_Context_create(na_class_t* na_class) {
    return NA_Context_create_id(na_class, 0);
}

na_context_t* NA_Context_create_id(na_class_t* na_class, uint8_t id) {
    if (na_class == nullptr) {
        NA_LOG_ERROR(ctx, "NULL class");
        return nullptr;
    }
    try {
        auto context = open_with_id(*core(na_class), id, [&](std::uint8_t any) {
            return Context::open(*core(na_class), any);
        });
        if (!context) {
            NA_LOG_ERROR(ctx, "cannot create context {}: {}", id, context.error().message);
            return nullptr;
        }
        return handle(context->release());
    } catch (const std::bad_alloc&) {
        NA_LOG_ERROR(ctx, "out of memory");
        return nullptr;
    }
}

na_return_t NA_Context_destroy(na_class_t* na_class, na_context_t* context) {
    if (context == nullptr) {
        return NA_SUCCESS;
    }
    NA_C_REQUIRE(na_class != nullptr, ctx, "NULL class");
    NA_C_REQUIRE(&core(context)->cls() == core(na_class), ctx, "the context is of another class");
    if (core(na_class)->inherited()) {
        return NA_SUCCESS;
    }
    util::Gate& gate = core(context)->gate();
    if (!gate.close()) {
        core(context)->wake();
        NA_LOG_ERROR(ctx,
                     "a thread is in NA_Progress or NA_Trigger of the context, or this is one of "
                     "its callbacks: let them return first");
        return NA_BUSY;
    }
    try {
        if (const auto can = core(context)->closable(); !can) {
            gate.reopen();
            return failed<log::Outlet::ctx>(can.error());
        }
    } catch (const std::bad_alloc&) {
        gate.reopen();
        return NA_NOMEM;  // for the text of the refusal
    }
    gate.drain();
    delete core(context);
    return NA_SUCCESS;
}

unsigned int NA_Context_get_completion_count(const na_context_t* context) {
    return context == nullptr ? 0 : const_cast<Context*>(core(context))->completions().count();
}

na_op_id_t* NA_Op_create(na_class_t* na_class, unsigned long flags) {
    if (na_class == nullptr) {
        NA_LOG_ERROR(op, "NULL class");
        return nullptr;
    }
    try {
        auto op = std::make_unique<na_op_id_t>();
        const bool multi = (flags & NA_OP_MULTI) != 0;
        op->cls = core(na_class);
        if (multi) {
            op->records = std::vector<NaRecord>(kMultiRecords);
            for (NaRecord& r : op->records) {
                r.next_free = std::exchange(op->free_records, &r);
            }
        }
        op->op = core(na_class)->create_op(multi);
        op->op->add_credits(static_cast<std::uint32_t>(op->records.size()));
        return op.release();
    } catch (const std::bad_alloc&) {
        NA_LOG_ERROR(op, "out of memory");
        return nullptr;
    }
}

void NA_Op_destroy(na_class_t* na_class, na_op_id_t* op_id) {
    if (na_class == nullptr || op_id == nullptr) {
        return;
    }
    if (op_id->pending.load(std::memory_order_acquire)) {
        if (!take_back(*op_id)) {
            NA_LOG_WARNING(op,
                           "an operation that has not completed is kept: cancel it and trigger its "
                           "callback first");
            return;
        }
        NA_LOG_WARNING(op,
                       "a receive that was posted is destroyed, its callback will not run: cancel "
                       "it and trigger its callback first");
    }
    core(na_class)->destroy_op(op_id->op);
    delete op_id;
}

int NA_Poll_get_fd(na_class_t* na_class, na_context_t* context) {
    return na_class == nullptr || context == nullptr ? -1 : core(context)->wait_fd();
}

bool NA_Poll_try_wait(na_class_t* na_class, na_context_t* context) {
    return na_class != nullptr && context != nullptr && core(context)->arm();
}

na_return_t NA_Poll(na_class_t* na_class, na_context_t* context, unsigned int* count_p) {
    NA_C_REQUIRE(na_class != nullptr && context != nullptr, poll, "NULL argument");
    const util::Inside inside(core(context)->gate());
    if (!inside) {
        return NA_BUSY;
    }
    core(context)->poll();
    core(context)->leave();
    if (count_p != nullptr) {
        *count_p = core(context)->completions().count();
    }
    return NA_SUCCESS;
}

na_return_t NA_Poll_wait(na_class_t* na_class, na_context_t* context, unsigned int timeout_ms,
                         unsigned int* count_p) {
    NA_C_REQUIRE(na_class != nullptr && context != nullptr, poll, "NULL argument");
    util::Gate& gate = core(context)->gate();
    const std::uint32_t asked = gate.asked();  // before it is inside: who finds it there asks
    const util::Inside inside(gate);
    if (!inside) {
        return NA_BUSY;
    }
    Status s = core(context)->wait(timeout_ms, [&] { return gate.asked() != asked; });
    if (ok(s) && core(context)->completions().empty()) {
        s = Status::timeout;  // it was woken by who wants to destroy the context
    }
    if (count_p != nullptr) {
        *count_p = core(context)->completions().count();
    }
    return code(s);
}

na_return_t NA_Progress(na_class_t* na_class, na_context_t* context, unsigned int timeout_ms) {
    return NA_Poll_wait(na_class, context, timeout_ms, nullptr);
}

na_return_t NA_Trigger(na_context_t* context, unsigned int max_count, unsigned int* actual_count) {
    NA_C_REQUIRE(context != nullptr, op, "NULL context");
    util::Ran ran(actual_count);
    const util::Inside inside(core(context)->gate());
    if (!inside) {
        return NA_BUSY;
    }
    while (ran.number < max_count) {
        auto* record = static_cast<NaRecord*>(core(context)->completions().pop());
        if (record == nullptr) {
            break;
        }
        ++ran.number;
        run_callback(*record);
    }
    return NA_SUCCESS;
}

na_return_t NA_Cancel(na_class_t* na_class, na_context_t* context, na_op_id_t* op_id) {
    NA_C_REQUIRE(na_class != nullptr && context != nullptr && op_id != nullptr, op,
                 "NULL argument");
    if (!op_id->pending.load(std::memory_order_acquire)) {
        return NA_SUCCESS;  // completed, its callback has run or is running
    }
    NA_C_REQUIRE(op_id->context == core(context), op,
                 "the operation was posted on another context");
    core(context)->cancel(*op_id->op);
    return NA_SUCCESS;
}

void NA_Diag_dump_counters(void) {
    Class::dump_counters();
}

}  // extern "C"
