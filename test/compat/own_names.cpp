// SPDX-License-Identifier: BSD-3-Clause
// A C++ program with classes of its own in a namespace `hg`, as wrappers of Mercury have it: the
// library never takes them for its own of that name.
#include <mercury.h>

#include "expect.h"

namespace hg {

int used = 0;  // by this program, or else by the library

class Handle {
 public:
    Handle(hg_context_t* context, hg_addr_t addr, hg_id_t id);
    ~Handle();
    void cancel();
    hg_handle_t handle = HG_HANDLE_NULL;
};

class Class {
 public:
    explicit Class(const char* info);
    ~Class();
    hg_class_t* hg_class;
};

Handle::Handle(hg_context_t* context, hg_addr_t addr, hg_id_t id) {
    EXPECT(HG_Create(context, addr, id, &handle) == HG_SUCCESS);
}
Handle::~Handle() {
    ++used;
    HG_Destroy(handle);
}
void Handle::cancel() {
    ++used;
    EXPECT(HG_Cancel(handle) == HG_SUCCESS);
}
Class::Class(const char* info) : hg_class(HG_Init(info, HG_TRUE)) {
    EXPECT(hg_class != nullptr);
}
Class::~Class() {
    ++used;
    EXPECT(HG_Finalize(hg_class) == HG_SUCCESS);
}

}  // namespace hg

static hg_return_t on_call(hg_handle_t handle) {
    HG_Respond(handle, nullptr, nullptr, nullptr);
    return HG_Destroy(handle);
}

static hg_return_t on_end(const struct hg_cb_info* info) {
    *static_cast<hg_return_t*>(info->arg) = info->ret;
    return HG_SUCCESS;
}

int main() {
    {
        hg::Class own("na+sm");
        hg_context_t* context = HG_Context_create(own.hg_class);
        EXPECT(context != nullptr);
        hg_addr_t self = HG_ADDR_NULL;
        EXPECT(HG_Addr_self(own.hg_class, &self) == HG_SUCCESS);
        const hg_id_t id = HG_Register_name(own.hg_class, "call", nullptr, nullptr, on_call);
        for (int round = 0; round < 2; ++round) {
            const bool canceled = round == 0;
            hg::Handle call(context, self, id);
            hg_return_t ret = HG_RETURN_MAX;
            EXPECT(HG_Forward(call.handle, on_end, &ret, nullptr) == HG_SUCCESS);
            if (canceled) {
                call.cancel();
            }
            while (ret == HG_RETURN_MAX) {
                HG_Progress(context, 1);
                HG_Trigger(context, 0, 16, nullptr);
            }
            EXPECT(ret == (canceled ? HG_CANCELED : HG_SUCCESS));
        }
        EXPECT(HG_Addr_free(own.hg_class, self) == HG_SUCCESS);
        EXPECT(HG_Context_destroy(context) == HG_SUCCESS);
    }
    EXPECT(hg::used == 4);
    return 0;
}
