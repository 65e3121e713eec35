/* SPDX-License-Identifier: BSD-3-Clause */
/* C99, as users of the C API write it. */
#include "gen_types.h"

hg_return_t c_proc_outer(hg_proc_t proc, void* data) {
    return hg_proc_outer_t(proc, data);
}

/* A proc written with the step macros, as some programs do. */
hg_return_t c_proc_point_by_steps(hg_proc_t proc, void* data) {
    point_t* point = (point_t*)data;
    hg_return_t ret = HG_SUCCESS;

    HG_PROC_TYPE(proc, int32_t, &point->x, done, ret);
    HG_PROC_BYTES(proc, &point->y, sizeof(point->y), done, ret);
    HG_PROC_CHECKSUM_UPDATE(proc, &point->y, sizeof(point->y));
done:
    return ret;
}

hg_id_t c_register(hg_class_t* hg_class, hg_rpc_cb_t callback) {
    return MERCURY_REGISTER(hg_class, "both", outer_t, single_t, callback);
}

hg_id_t c_register_void(hg_class_t* hg_class) {
    return MERCURY_REGISTER(hg_class, "none", void, void, NULL);
}
