// SPDX-License-Identifier: BSD-3-Clause
// Structures of generated procs of the C API, with real bulk descriptors; the first byte chooses
// the transport. Leaks are the address sanitizer's matter.
#include <vector>

#include "mercury_bulk.h"
#include "mercury_macros.h"
#include "mercury_proc_string.h"
#include "target.hpp"

namespace {

MERCURY_GEN_PROC(leaf_t, ((hg_string_t)(text))((hg_bulk_t)(bulk)))
MERCURY_GEN_PROC(branch_t, ((leaf_t)(left))((uint16_t)(between))((leaf_t)(right)))
MERCURY_GEN_PROC(tree_t, ((hg_id_t)(id))((branch_t)(branch))((hg_string_object_t)(object))(
                             (hg_const_string_t)(name))((hg_bulk_t)(bulk))((hg_bool_t)(last)))

hg_class_t* rpc_class_for(std::uint8_t choice) {
    static hg_class_t* const loop =
        (HG_Set_log_level("none"), NA_Set_log_level("none"), HG_Init("loop+loop", 0));
    static hg_class_t* const sm = HG_Init("na+sm", 0);
    return choice % 2 == 0 ? loop : sm;
}

hg_return_t run(hg_class_t* cls, void* bytes, std::size_t size, hg_proc_op_t op, tree_t& tree,
                std::size_t& used) {
    hg_proc_t proc = HG_PROC_NULL;
    fuzz::require(hg_proc_create_set(cls, bytes, size, op, HG_NOHASH, &proc) == HG_SUCCESS,
                  "a proc is made");
    const hg_return_t ret = hg_proc_tree_t(proc, &tree);
    used = static_cast<std::size_t>(hg_proc_get_size_used(proc));
    hg_proc_free(proc);
    return ret;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) {
        return 0;
    }
    hg_class_t* cls = rpc_class_for(data[0]);
    if (cls == nullptr) {
        return 0;
    }
    std::vector<std::uint8_t> bytes(data + 1, data + size);
    tree_t tree;
    std::memset(static_cast<void*>(&tree), 0xa5, sizeof tree);
    std::size_t used = 0;
    if (run(cls, bytes.data(), bytes.size(), HG_DECODE, tree, used) != HG_SUCCESS) {
        return 0;
    }
    // What was accepted is encoded again, to no more bytes, and accepted again; but for descriptors
    // of another protocol that came with their contents, which are passed on without.
    std::vector<std::uint8_t> again(used);
    std::size_t encoded = 0;
    fuzz::require(run(cls, again.data(), again.size(), HG_ENCODE, tree, encoded) == HG_SUCCESS,
                  "what was decoded can be encoded");
    fuzz::require(encoded <= used, "no more bytes than it came in");
    tree_t copy;
    std::size_t decoded = 0;
    std::size_t freed = 0;
    const hg_return_t ret = run(cls, again.data(), encoded, HG_DECODE, copy, decoded);
    fuzz::require(ret == HG_SUCCESS ? decoded == encoded : ret == HG_PROTONOSUPPORT,
                  "what was encoded can be decoded");
    if (ret == HG_SUCCESS) {
        fuzz::require(run(cls, nullptr, 0, HG_FREE, copy, freed) == HG_SUCCESS, "it can be freed");
    }
    fuzz::require(run(cls, nullptr, 0, HG_FREE, tree, freed) == HG_SUCCESS, "it can be freed");
    return 0;
}
