// SPDX-License-Identifier: BSD-3-Clause
// C++ programs that put Mercury's headers into an extern "C" of their own: nothing that they
// include may need C++ linkage.
extern "C" {
#include <mercury.h>
#include <mercury_atomic_queue.h>
#include <mercury_bulk.h>
#include <mercury_core.h>
#include <mercury_core_header.h>
#include <mercury_dl.h>
#include <mercury_event.h>
#include <mercury_hash_string.h>
#include <mercury_hash_table.h>
#include <mercury_header.h>
#include <mercury_list.h>
#include <mercury_log.h>
#include <mercury_macros.h>
#include <mercury_mem.h>
#include <mercury_mem_pool.h>
#include <mercury_poll.h>
#include <mercury_proc_string.h>
#include <mercury_request.h>
#include <mercury_thread_pool.h>
#include <mercury_thread_rwlock.h>
#include <mercury_thread_spin.h>
#include <na.h>
#include <na_sm.h>
}
#include <string>
#include <vector>

#include "expect.h"

MERCURY_GEN_PROC(read_in_t, ((int32_t)(input_val))((hg_bulk_t)(bulk_handle))((int64_t)(offset)))
MERCURY_GEN_PROC(open_in_t, ((hg_string_t)(path)))

static hg_return_t serve(hg_handle_t handle) {
    return HG_Destroy(handle);
}

int main() {
    hg_class_t* hg_class = HG_Init("na+sm", HG_TRUE);
    EXPECT(hg_class != nullptr);
    EXPECT(MERCURY_REGISTER(hg_class, "read", read_in_t, void, serve) != 0);
    EXPECT(MERCURY_REGISTER(hg_class, "open", open_in_t, void, serve) != 0);
    const std::vector<std::string> names{HG_Class_get_name(hg_class),
                                         HG_Class_get_protocol(hg_class)};
    EXPECT(names[0] == "na" && names[1] == "sm");
    EXPECT(HG_Finalize(hg_class) == HG_SUCCESS);
    return 0;
}
