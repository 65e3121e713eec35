/* SPDX-License-Identifier: BSD-3-Clause */
/* Bulk descriptors by themselves: memory of the library's, pieces of a range, what is serialised
 * with which flags, transfers whose descriptors are given back before they end, ids that are
 * canceled too late, descriptors that know whose they are. */
#include <mercury.h>
#include <mercury_bulk.h>
#include <mercury_proc_bulk.h>

#include "pair.h"

struct moved {
    int count;
    hg_return_t ret;
    hg_bulk_op_t op;
    hg_size_t size;
    hg_size_t origin_size;
    hg_size_t local_size;
};

static hg_return_t on_moved(const struct hg_cb_info* info) {
    struct moved* m = (struct moved*)info->arg;

    EXPECT(info->type == HG_CB_BULK);
    m->count++;
    m->ret = info->ret;
    m->op = info->info.bulk.op;
    m->size = info->info.bulk.size;
    m->origin_size = HG_Bulk_get_size(info->info.bulk.origin_handle);
    m->local_size = HG_Bulk_get_size(info->info.bulk.local_handle);
    return HG_SUCCESS;
}

/* A descriptor of a side's memory, as another side gets it. */
static hg_bulk_t sent_to(const struct side* side, hg_bulk_t bulk, unsigned long flags) {
    const hg_size_t size = HG_Bulk_get_serialize_size(bulk, flags);
    hg_bulk_t got = HG_BULK_NULL;
    char* bytes = (char*)malloc(size + 16); /* more room than needed */

    EXPECT(bytes != NULL && size > 0);
    EXPECT(HG_Bulk_serialize(bytes, size - 1, flags, bulk) == HG_OVERFLOW);
    EXPECT(HG_Bulk_serialize(bytes, size + 16, flags, bulk) == HG_SUCCESS);
    EXPECT(HG_Bulk_deserialize(side->hg_class, &got, bytes, size) == HG_SUCCESS);
    free(bytes);
    return got;
}

static char* pieces_of(hg_bulk_t bulk, uint32_t piece) {
    void* at[3] = {NULL, NULL, NULL};
    hg_size_t sizes[3] = {0, 0, 0};
    uint32_t n = 0;

    EXPECT(HG_Bulk_access(bulk, 0, HG_Bulk_get_size(bulk), HG_BULK_READWRITE, 3, at, sizes, &n) ==
           HG_SUCCESS);
    EXPECT(piece < n);
    return (char*)at[piece];
}

/* ---- memory of the library's ---- */

static void own_memory(void) {
    const hg_size_t sizes[3] = {100, 0, 60};
    void* at[3];
    hg_size_t lengths[3];
    uint32_t n = 99;
    hg_bulk_t bulk = HG_BULK_NULL;

    EXPECT(HG_Bulk_create(origin.hg_class, 3, NULL, sizes, HG_BULK_READ_ONLY, &bulk) == HG_SUCCESS);
    EXPECT(HG_Bulk_get_size(bulk) == 160 && HG_Bulk_get_segment_count(bulk) == 3);
    EXPECT(HG_Bulk_get_flags(bulk) == HG_BULK_READ_ONLY);
    EXPECT(HG_Bulk_access(bulk, 0, 160, HG_BULK_READ_ONLY, 1, at, lengths, &n) == HG_SUCCESS);
    EXPECT(n == 1 && lengths[0] == 100); /* as many as asked for */
    EXPECT(HG_Bulk_access(bulk, 90, 20, HG_BULK_READ_ONLY, 3, at, lengths, &n) == HG_SUCCESS);
    EXPECT(n == 2 && lengths[0] == 10 && lengths[1] == 10);
    EXPECT((char*)at[0] == pieces_of(bulk, 0) + 90 && at[1] == pieces_of(bulk, 1));
    EXPECT(HG_Bulk_access(bulk, 100, 60, HG_BULK_READ_ONLY, 3, at, lengths, &n) == HG_SUCCESS);
    EXPECT(n == 1 && lengths[0] == 60 && at[0] == pieces_of(bulk, 1));
    EXPECT(HG_Bulk_access(bulk, 0, 0, HG_BULK_READ_ONLY, 3, NULL, NULL, NULL) == HG_SUCCESS);
    /* Nothing to give: the outputs keep their values, which callers set beforehand. */
    for (int none = 0; none < 2; ++none) {
        void* kept = &n;
        hg_size_t kept_size = 77;
        uint32_t kept_count = 5;
        EXPECT(HG_Bulk_access(bulk, 0, none == 0 ? 0 : 10, HG_BULK_READ_ONLY, none == 0 ? 1 : 0,
                              &kept, &kept_size, &kept_count) == HG_SUCCESS);
        EXPECT(kept == &n && kept_size == 77 && kept_count == 5);
    }
    EXPECT(HG_Bulk_access(bulk, 0, 161, HG_BULK_READ_ONLY, 3, at, lengths, &n) == HG_INVALID_ARG);
    EXPECT(HG_Bulk_ref_incr(bulk) == HG_SUCCESS && HG_Bulk_free(bulk) == HG_SUCCESS);
    memset(pieces_of(bulk, 0), 1, 100); /* still there */
    EXPECT(HG_Bulk_free(bulk) == HG_SUCCESS);
}

/* ---- what is serialised ---- */

static void serialised(void) {
    char memory[300];
    void* at = memory;
    const hg_size_t size = sizeof memory;
    const hg_size_t none = 0;
    hg_bulk_t readable = HG_BULK_NULL;
    hg_bulk_t writable = HG_BULK_NULL;
    hg_bulk_t empty = HG_BULK_NULL;
    hg_bulk_t got;
    hg_bulk_t again;

    memset(memory, 'a', sizeof memory);
    EXPECT(HG_Bulk_create(origin.hg_class, 1, &at, &size, HG_BULK_READ_ONLY, &readable) ==
           HG_SUCCESS);
    EXPECT(HG_Bulk_create(origin.hg_class, 1, &at, &size, HG_BULK_WRITE_ONLY, &writable) ==
           HG_SUCCESS);
    EXPECT(HG_Bulk_create(origin.hg_class, 1, &at, &none, HG_BULK_READWRITE, &empty) == HG_SUCCESS);
    EXPECT(HG_Bulk_get_serialize_size(readable, 0) < sizeof memory);
    EXPECT(HG_Bulk_get_serialize_size(readable, HG_BULK_EAGER) >= sizeof memory);
    EXPECT(HG_Bulk_get_serialize_size(writable, HG_BULK_EAGER) ==
           HG_Bulk_get_serialize_size(writable, 0)); /* nobody may read it */
    EXPECT(HG_Bulk_get_serialize_size(readable, HG_BULK_SM) ==
           HG_Bulk_get_serialize_size(readable, 0)); /* without auto_sm */

    /* Contents are those of the moment, and outlive the memory's descriptor. */
    got = sent_to(&target, readable, HG_BULK_EAGER);
    memset(memory, 'b', sizeof memory);
    EXPECT(HG_Bulk_get_size(got) == sizeof memory && HG_Bulk_get_segment_count(got) == 1);
    EXPECT(HG_Bulk_get_flags(got) == HG_BULK_READ_ONLY && HG_Bulk_get_addr(got) == HG_ADDR_NULL);
    EXPECT(pieces_of(got, 0)[0] == 'a' && pieces_of(got, 0)[299] == 'a');
    EXPECT(HG_Bulk_free(got) == HG_SUCCESS);

    /* Passed on twice, it is still the same memory. */
    got = sent_to(&target, readable, 0);
    again = sent_to(&origin, got, 0);
    EXPECT(HG_Bulk_get_size(again) == sizeof memory);
    EXPECT(HG_Bulk_get_flags(again) == HG_BULK_READ_ONLY);
    EXPECT(HG_Bulk_free(got) == HG_SUCCESS && HG_Bulk_free(again) == HG_SUCCESS);

    got = sent_to(&target, empty, HG_BULK_EAGER);
    EXPECT(HG_Bulk_get_size(got) == 0 && HG_Bulk_get_segment_count(got) == 1);
    EXPECT(HG_Bulk_free(got) == HG_SUCCESS && HG_Bulk_free(empty) == HG_SUCCESS);
    EXPECT(HG_Bulk_free(readable) == HG_SUCCESS && HG_Bulk_free(writable) == HG_SUCCESS);
}

/* ---- transfers ---- */

static void transfers(void) {
    const hg_size_t size = 200000;
    hg_addr_t to_origin = HG_ADDR_NULL;
    hg_bulk_t memory = HG_BULK_NULL;
    hg_bulk_t local = HG_BULK_NULL;
    hg_bulk_t kept;
    hg_bulk_t remote;
    char name[ADDRESS_MAX];
    struct moved m = {0, HG_RETURN_MAX, HG_BULK_PUSH, 0, 0, 0};
    hg_op_id_t id = HG_OP_ID_NULL;

    name_of(origin.hg_class, name, sizeof name);
    EXPECT(HG_Addr_lookup2(target.hg_class, name, &to_origin) == HG_SUCCESS);
    EXPECT(HG_Bulk_create(origin.hg_class, 1, NULL, &size, HG_BULK_READWRITE, &memory) ==
           HG_SUCCESS);
    memset(pieces_of(memory, 0), 'x', size);
    EXPECT(HG_Bulk_create(target.hg_class, 1, NULL, &size, HG_BULK_READWRITE, &local) ==
           HG_SUCCESS);
    kept = local;
    EXPECT(HG_Bulk_ref_incr(kept) == HG_SUCCESS);
    remote = sent_to(&target, memory, 0);

    /* Both descriptors and the address are given back at once; the callback still has them. */
    EXPECT(HG_Bulk_transfer(target.context, on_moved, &m, HG_BULK_PULL, to_origin, remote, 1000,
                            local, 500, 100000, &id) == HG_SUCCESS);
    EXPECT(id != HG_OP_ID_NULL && m.count == 0);
    EXPECT(HG_Bulk_free(remote) == HG_SUCCESS && HG_Bulk_free(local) == HG_SUCCESS);
    EXPECT(HG_Addr_free(target.hg_class, to_origin) == HG_SUCCESS);
    while (m.count == 0)
        turn();
    EXPECT(m.ret == HG_SUCCESS && m.op == HG_BULK_PULL && m.size == 100000);
    EXPECT(m.origin_size == size && m.local_size == size);
    EXPECT(pieces_of(kept, 0)[499] == 0 && pieces_of(kept, 0)[500] == 'x');
    EXPECT(pieces_of(kept, 0)[100499] == 'x' && pieces_of(kept, 0)[100500] == 0);
    EXPECT(HG_Bulk_cancel(id) == HG_SUCCESS); /* of what is over */
    turn();
    EXPECT(m.count == 1);

    /* Nothing to move, without a callback, and with an id that is not wanted. */
    remote = sent_to(&target, memory, 0);
    EXPECT(HG_Addr_lookup2(target.hg_class, name, &to_origin) == HG_SUCCESS);
    EXPECT(HG_Bulk_transfer(target.context, on_moved, &m, HG_BULK_PUSH, to_origin, remote, size,
                            kept, size, 0, HG_OP_ID_IGNORE) == HG_SUCCESS);
    EXPECT(HG_Bulk_transfer(target.context, NULL, NULL, HG_BULK_PUSH, to_origin, remote, 0, kept, 0,
                            10, NULL) == HG_SUCCESS);
    EXPECT(m.count == 1); /* from HG_Trigger only */
    while (m.count == 1 || pieces_of(memory, 0)[0] == 'x')
        turn();
    EXPECT(m.ret == HG_SUCCESS && m.op == HG_BULK_PUSH && m.size == 0);

    /* What is refused says so at once, and leaves the id alone. */
    id = HG_OP_ID_NULL;
    EXPECT(HG_Bulk_transfer(target.context, on_moved, &m, HG_BULK_PULL, to_origin, remote, 1, kept,
                            0, size, &id) == HG_INVALID_ARG);
    EXPECT(HG_Bulk_transfer(target.context, on_moved, &m, HG_BULK_PULL, HG_ADDR_NULL, remote, 0,
                            kept, 0, size, &id) == HG_INVALID_ARG);
    EXPECT(HG_Bulk_bind_transfer(target.context, on_moved, &m, HG_BULK_PULL, remote, 0, kept, 0,
                                 size, &id) == HG_INVALID_ARG);
    EXPECT(HG_Bulk_cancel(HG_OP_ID_NULL) == HG_INVALID_ARG);
    EXPECT(id == HG_OP_ID_NULL && m.count == 2);
    EXPECT(HG_Bulk_free(remote) == HG_SUCCESS && HG_Bulk_free(memory) == HG_SUCCESS);
    EXPECT(HG_Bulk_free(kept) == HG_SUCCESS);
    EXPECT(HG_Addr_free(target.hg_class, to_origin) == HG_SUCCESS);
}

/* ---- descriptors that know whose they are ---- */

static void bound(void) {
    const hg_size_t size = 5000;
    hg_bulk_t memory = HG_BULK_NULL;
    hg_bulk_t local = HG_BULK_NULL;
    hg_bulk_t remote;
    hg_addr_t self = HG_ADDR_NULL;
    struct moved m = {0, HG_RETURN_MAX, HG_BULK_PUSH, 0, 0, 0};

    EXPECT(HG_Bulk_create(origin.hg_class, 1, NULL, &size, HG_BULK_READ_ONLY, &memory) ==
           HG_SUCCESS);
    memset(pieces_of(memory, 0), 'y', size);
    EXPECT(HG_Bulk_get_addr(memory) == HG_ADDR_NULL && HG_Bulk_get_context_id(memory) == 0);
    EXPECT(HG_Bulk_bind(memory, origin.context) == HG_SUCCESS);
    EXPECT(HG_Addr_self(origin.hg_class, &self) == HG_SUCCESS);
    EXPECT(HG_Addr_cmp(origin.hg_class, HG_Bulk_get_addr(memory), self) == HG_TRUE);
    EXPECT(HG_Addr_free(origin.hg_class, self) == HG_SUCCESS);
    remote = sent_to(&target, memory, 0);
    EXPECT(HG_Bulk_get_addr(remote) != HG_ADDR_NULL);
    EXPECT(HG_Bulk_create(target.hg_class, 1, NULL, &size, HG_BULK_WRITE_ONLY, &local) ==
           HG_SUCCESS);
    EXPECT(HG_Bulk_bind_transfer(target.context, on_moved, &m, HG_BULK_PUSH, remote, 0, local, 0,
                                 size, NULL) == HG_PERMISSION);
    EXPECT(HG_Bulk_bind_transfer(target.context, on_moved, &m, HG_BULK_PULL, remote, 0, local, 0,
                                 size, NULL) == HG_SUCCESS);
    EXPECT(HG_Bulk_free(remote) == HG_SUCCESS);
    while (m.count == 0)
        turn();
    EXPECT(m.ret == HG_SUCCESS && pieces_of(local, 0)[size - 1] == 'y');
    EXPECT(HG_Bulk_free(local) == HG_SUCCESS && HG_Bulk_free(memory) == HG_SUCCESS);
}

int main(int argc, char** argv) {
    open_pair(protocol_of(argc, argv), NULL);
    own_memory();
    serialised();
    transfers();
    bound();
    close_pair();
    return 0;
}
