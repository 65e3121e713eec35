/* SPDX-License-Identifier: BSD-3-Clause */
/* An origin and a target in one process, each a class of its own, for programs that look at what
 * belongs to whom: they see both ends at any moment. */
#ifndef COMPAT_PAIR_H
#define COMPAT_PAIR_H

#include "two.h"

struct side {
    hg_class_t* hg_class;
    hg_context_t* context;
};

static struct side origin;
static struct side target;
static hg_addr_t to_target; /* in the origin's class */

/* info NULL: all options at their defaults. */
static inline void open_side(struct side* side, const char* protocol,
                             const struct hg_init_info* info) {
    side->hg_class =
        HG_Init_opt2(protocol, HG_TRUE, HG_VERSION(HG_VERSION_MAJOR, HG_VERSION_MINOR), info);
    EXPECT(side->hg_class != NULL);
    side->context = HG_Context_create(side->hg_class);
    EXPECT(side->context != NULL);
}

static inline void name_of(hg_class_t* hg_class, char* text, hg_size_t room) {
    hg_addr_t self = HG_ADDR_NULL;

    EXPECT(HG_Addr_self(hg_class, &self) == HG_SUCCESS);
    EXPECT(HG_Addr_to_string(hg_class, text, &room, self) == HG_SUCCESS);
    EXPECT(HG_Addr_free(hg_class, self) == HG_SUCCESS);
}

/* The protocol that the program is called with; ends it where that is not there. */
static inline const char* protocol_of(int argc, char** argv) {
    const char* protocol = argc > 1 ? argv[1] : "na+sm";
    struct na_protocol_info* known = NULL;

    alarm(120);
    if (HG_Get_na_protocol_info(protocol, &known) != HG_SUCCESS || known == NULL)
        exit(77);
    HG_Free_na_protocol_info(known);
    return protocol;
}

static inline void open_pair(const char* protocol, const struct hg_init_info* info) {
    char name[ADDRESS_MAX];

    open_side(&origin, protocol, info);
    open_side(&target, protocol, info);
    name_of(target.hg_class, name, sizeof name);
    EXPECT(HG_Addr_lookup2(origin.hg_class, name, &to_target) == HG_SUCCESS);
}

static inline void close_pair(void) {
    EXPECT(HG_Addr_free(origin.hg_class, to_target) == HG_SUCCESS);
    end(origin.context);
    end(target.context);
}

static inline void turn(void) {
    pump(origin.context, 0);
    pump(target.context, 0);
}

/* Forwards and waits; the code of the callback. */
static inline hg_return_t call(hg_handle_t handle, void* in) {
    struct ended e = {0, HG_OTHER_ERROR};

    EXPECT(HG_Forward(handle, on_end, &e, in) == HG_SUCCESS);
    while (e.count == 0)
        turn();
    EXPECT(e.count == 1);
    return e.ret;
}

#endif /* COMPAT_PAIR_H */
