/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls and transfers from user-level threads, whose stacks are small: 16 KiB, the default of
 * Argobots. Below each is a page that may not be touched. */
#include <mercury.h>
#include <mercury_bulk.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "pair.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STACK 262144 /* frames are larger */
#else
#define STACK 16384
#endif
#define PAGE 4096
#define SIZE 100000
#define SEGMENTS 200

static ucontext_t here;
static ucontext_t there;

static void on_small_stack(void (*body)(void)) {
    void* memory = NULL;

    EXPECT(posix_memalign(&memory, PAGE, STACK + PAGE) == 0);
    EXPECT(mprotect(memory, PAGE, PROT_NONE) == 0);
    EXPECT(getcontext(&there) == 0);
    there.uc_stack.ss_sp = (char*)memory + PAGE;
    there.uc_stack.ss_size = STACK;
    there.uc_link = &here;
    makecontext(&there, body, 0);
    EXPECT(swapcontext(&here, &there) == 0);
    EXPECT(mprotect(memory, PAGE, PROT_READ | PROT_WRITE) == 0);
    free(memory);
}

static hg_bulk_t remote;
static hg_bulk_t local;
static hg_bulk_op_t operation;
static struct ended transferred;
static struct ended called;
static hg_handle_t handle;

static hg_return_t on_transferred(const struct hg_cb_info* info) {
    EXPECT(info->type == HG_CB_BULK);
    transferred.count++;
    transferred.ret = info->ret;
    return HG_SUCCESS;
}

static void transfer(void) {
    EXPECT(HG_Bulk_transfer(origin.context, on_transferred, NULL, operation, to_target, remote, 0,
                            local, 0, SIZE, HG_OP_ID_IGNORE) == HG_SUCCESS);
}

static void forward(void) {
    EXPECT(HG_Forward(handle, on_end, &called, NULL) == HG_SUCCESS);
}

static hg_return_t on_call(hg_handle_t h) {
    EXPECT(HG_Respond(h, NULL, NULL, NULL) == HG_SUCCESS);
    return HG_Destroy(h);
}

/* Of many small segments. */
static hg_bulk_t memory_of(hg_class_t* hg_class, char* bytes, int segments) {
    void* addresses[SEGMENTS];
    hg_size_t sizes[SEGMENTS];
    hg_bulk_t bulk = HG_BULK_NULL;
    int i;

    for (i = 0; i < segments; i++) {
        addresses[i] = bytes + (SIZE / segments) * i;
        sizes[i] = (hg_size_t)(SIZE / segments);
    }
    EXPECT(HG_Bulk_create(hg_class, (hg_uint32_t)segments, addresses, sizes, HG_BULK_READWRITE,
                          &bulk) == HG_SUCCESS);
    return bulk;
}

static void transfers(int segments) {
    static char theirs[SIZE];
    static char ours[SIZE];
    static char text[65536];
    hg_bulk_t described = memory_of(target.hg_class, theirs, segments);
    hg_size_t size = HG_Bulk_get_serialize_size(described, 0);
    int round;

    local = memory_of(origin.hg_class, ours, 1);
    EXPECT(size <= sizeof text && HG_Bulk_serialize(text, size, 0, described) == HG_SUCCESS);
    EXPECT(HG_Bulk_deserialize(origin.hg_class, &remote, text, size) == HG_SUCCESS);
    for (round = 0; round < 4; round++) {
        memset(theirs, 'a' + round, SIZE);
        memset(ours, 'A' + round, SIZE);
        operation = round % 2 == 0 ? HG_BULK_PULL : HG_BULK_PUSH;
        transferred.count = 0;
        on_small_stack(transfer);
        while (transferred.count == 0)
            turn();
        EXPECT(transferred.ret == HG_SUCCESS);
        EXPECT(memcmp(theirs, ours, SIZE) == 0);
        EXPECT(ours[SIZE / 2] == (round % 2 == 0 ? 'a' : 'A') + round);
    }
    EXPECT(HG_Bulk_free(remote) == HG_SUCCESS && HG_Bulk_free(local) == HG_SUCCESS);
    EXPECT(HG_Bulk_free(described) == HG_SUCCESS);
}

static void calls(void) {
    hg_id_t id = HG_Register_name(target.hg_class, "call", NULL, NULL, on_call);
    int round;

    EXPECT(HG_Register_name(origin.hg_class, "call", NULL, NULL, NULL) == id);
    EXPECT(HG_Create(origin.context, to_target, id, &handle) == HG_SUCCESS);
    for (round = 0; round < 3; round++) {
        called.count = 0;
        on_small_stack(forward);
        while (called.count == 0)
            on_small_stack(turn);
        EXPECT(called.ret == HG_SUCCESS);
    }
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
}

int main(int argc, char** argv) {
    open_pair(protocol_of(argc, argv), NULL);
    transfers(1);
    transfers(SEGMENTS);
    calls();
    close_pair();
    return 0;
}
