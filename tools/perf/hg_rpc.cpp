// SPDX-License-Identifier: BSD-3-Clause
#include "hg_rpc.hpp"

#include "processes.hpp"

namespace perf {
namespace {

// Members one after the other; the first that fails ends it.
template <typename... Steps>
hg_return_t all(Steps... steps) {
    hg_return_t ret = HG_SUCCESS;
    (void)((ret = steps(), ret == HG_SUCCESS) && ...);
    return ret;
}

}  // namespace

hg_return_t proc_bytes(hg_proc_t proc, void* data) {
    auto* bytes = static_cast<Bytes*>(data);
    switch (hg_proc_get_op(proc)) {
        case HG_ENCODE:
            return hg_proc_memcpy(proc, bytes->data, bytes->size);
        case HG_DECODE:
            if (!bytes->in_place) {
                return hg_proc_memcpy(proc, bytes->data, bytes->size);
            }
            bytes->data = hg_proc_save_ptr(proc, bytes->size);
            return bytes->data != nullptr || bytes->size == 0 ? HG_SUCCESS : HG_OVERFLOW;
        case HG_FREE:
            break;
    }
    return HG_SUCCESS;
}

hg_return_t proc_status(hg_proc_t proc, void* data) {
    auto* s = static_cast<Status*>(data);
    return all([&] { return hg_proc_uint32_t(proc, &s->contexts); },
               [&] { return hg_proc_uint64_t(proc, &s->server); },
               [&] { return hg_proc_uint64_t(proc, &s->bad); },
               [&] { return hg_proc_uint64_t(proc, &s->cpu_ns); });
}

hg_return_t proc_bulk_open(hg_proc_t proc, void* data) {
    auto* o = static_cast<BulkOpen*>(data);
    return all([&] { return hg_proc_uint64_t(proc, &o->client); },
               [&] { return hg_proc_uint32_t(proc, &o->buffers); },
               [&] { return hg_proc_uint64_t(proc, &o->size); },
               [&] { return hg_proc_uint8_t(proc, &o->library_memory); },
               [&] { return hg_proc_hg_bulk_t(proc, &o->bulk); });
}

hg_return_t proc_bulk_move(hg_proc_t proc, void* data) {
    auto* m = static_cast<BulkMove*>(data);
    return all([&] { return hg_proc_uint64_t(proc, &m->session); },
               [&] { return hg_proc_uint64_t(proc, &m->size); },
               [&] { return hg_proc_uint32_t(proc, &m->buffers); },
               [&] { return hg_proc_uint8_t(proc, &m->push); },
               [&] { return hg_proc_uint8_t(proc, &m->verify); },
               [&] { return hg_proc_uint64_t(proc, &m->seed); });
}

hg_return_t proc_bulk_move_fresh(hg_proc_t proc, void* data) {
    auto* m = static_cast<BulkMoveFresh*>(data);
    return all([&] { return proc_bulk_move(proc, &m->move); },
               [&] { return hg_proc_hg_bulk_t(proc, &m->bulk); });
}

hg_return_t proc_bulk_moved(hg_proc_t proc, void* data) {
    auto* m = static_cast<BulkMoved*>(data);
    return all([&] { return hg_proc_uint64_t(proc, &m->code); },
               [&] { return proc_digest(proc, &m->digest); });
}

hg_return_t proc_digest(hg_proc_t proc, void* data) {
    auto* d = static_cast<Digest*>(data);
    return all([&] { return hg_proc_uint64_t(proc, &d->size); },
               [&] { return hg_proc_uint64_t(proc, &d->sum); });
}

hg_return_t proc_number(hg_proc_t proc, void* data) {
    return hg_proc_uint64_t(proc, &static_cast<Number*>(data)->value);
}

Rpcs register_rpcs(hg_class_t* c, const Handlers& h) {
    Rpcs r;
    r.rate = HG_Register_name(c, "perf_rate", proc_bytes, nullptr, h.rate);
    r.digest = HG_Register_name(c, "perf_digest", proc_bytes, proc_digest, h.digest);
    r.echo = HG_Register_name(c, "perf_echo", proc_bytes, proc_bytes, h.echo);
    r.status = HG_Register_name(c, "perf_status", nullptr, proc_status, h.status);
    r.bulk_open = HG_Register_name(c, "perf_bulk_open", proc_bulk_open, proc_number, h.bulk_open);
    r.bulk_close = HG_Register_name(c, "perf_bulk_close", proc_number, nullptr, h.bulk_close);
    r.bulk_move =
        HG_Register_name(c, "perf_bulk_move", proc_bulk_move, proc_bulk_moved, h.bulk_move);
    r.bulk_move_fresh = HG_Register_name(c, "perf_bulk_move_fresh", proc_bulk_move_fresh,
                                         proc_bulk_moved, h.bulk_move_fresh);
    r.done = HG_Register_name(c, "perf_done", nullptr, nullptr, h.done);
    for (const hg_id_t id : {r.rate, r.digest, r.echo, r.status, r.bulk_open, r.bulk_close,
                             r.bulk_move, r.bulk_move_fresh, r.done}) {
        if (id == 0) {
            throw Failure("cannot register an RPC");
        }
    }
    return r;
}

}  // namespace perf
