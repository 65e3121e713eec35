/* SPDX-License-Identifier: BSD-3-Clause */
/* Libraries that close what they have opened when the process ends (in a destructor, as those do
 * that are preloaded), and use it until then: what this library needs for that is still there. */
#include <mercury.h>

#include "pair.h"

static const char* protocol;
static char name[ADDRESS_MAX];
static int known;

static int count_known(void) {
    struct na_protocol_info* list = NULL;
    struct na_protocol_info* next;
    int count = 0;

    EXPECT(HG_Get_na_protocol_info(NULL, &list) == HG_SUCCESS);
    for (next = list; next != NULL; next = next->next)
        count++;
    HG_Free_na_protocol_info(list);
    return count;
}

/* What has been given back meanwhile is somebody else's. */
static void fill_heap(void) {
    static void* blocks[256];
    size_t i;

    for (i = 0; i < 256; i++) {
        blocks[i] = malloc(16 + i % 64);
        EXPECT(blocks[i] != NULL);
        memset(blocks[i], 'J', 16 + i % 64);
    }
}

__attribute__((destructor)) static void finish(void) {
    struct side late;
    char again[ADDRESS_MAX];
    hg_addr_t same = HG_ADDR_NULL;

    if (origin.hg_class == NULL)
        return; /* skipped */
    fill_heap();
    name_of(target.hg_class, again, sizeof again);
    if (strcmp(again, name) != 0) {
        printf("FAILED: the address was %s, and is %s\n", name, again);
        fflush(stdout);
        _exit(1);
    }
    if (HG_Addr_lookup2(origin.hg_class, name, &same) != HG_SUCCESS ||
        !HG_Addr_cmp(origin.hg_class, same, to_target) || count_known() != known) {
        printf("FAILED: %s\n", HG_Get_last_error());
        fflush(stdout);
        _exit(1);
    }
    HG_Addr_free(origin.hg_class, same);
    late.hg_class = HG_Init(protocol, HG_TRUE);
    late.context = late.hg_class == NULL ? NULL : HG_Context_create(late.hg_class);
    if (late.context == NULL) {
        printf("FAILED: %s\n", HG_Get_last_error());
        fflush(stdout);
        _exit(1);
    }
    end(late.context);
    HG_Cleanup();
    close_pair();
    printf("closed at the end\n");
    fflush(stdout);
}

int main(int argc, char** argv) {
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;

    protocol = protocol_of(argc, argv);
    info.auto_sm = HG_TRUE;
    open_pair(protocol, &info);
    name_of(target.hg_class, name, sizeof name);
    known = count_known();
    return 0;
}
