// SPDX-License-Identifier: BSD-3-Clause
// Memory handle functions of na.h.
#include <new>
#include <vector>

#include "na/c_api/handles.hpp"

using namespace na;
using namespace na::c_api;

extern "C" {

na_return_t NA_Mem_handle_create(na_class_t* na_class, void* buf, size_t buf_size,
                                 unsigned long flags, na_mem_handle_t** mem_handle_p) {
    na_segment segment = {buf, buf_size};
    return NA_Mem_handle_create_segments(na_class, &segment, 1, flags, mem_handle_p);
}

na_return_t NA_Mem_handle_create_segments(na_class_t* na_class, struct na_segment* segments,
                                          size_t segment_count, unsigned long flags,
                                          na_mem_handle_t** mem_handle_p) {
    NA_C_REQUIRE(na_class != nullptr && segments != nullptr && mem_handle_p != nullptr, mem,
                 "NULL argument");
    NA_C_REQUIRE(flags >= NA_MEM_READ_ONLY && flags <= NA_MEM_READWRITE, mem,
                 "flags must be NA_MEM_READ_ONLY, NA_MEM_WRITE_ONLY or NA_MEM_READWRITE");
    NA_C_REQUIRE(segment_count <= core(na_class)->caps().max_segments, mem,
                 "more segments than NA_Mem_handle_get_max_segments()");
    try {
        std::vector<Segment> list;
        list.reserve(segment_count);
        for (size_t i = 0; i < segment_count; ++i) {
            list.push_back({segments[i].base, segments[i].len});
        }
        auto memory = Memory::create(*core(na_class), list, static_cast<Access>(flags));
        if (!memory) {
            return failed<log::Outlet::mem>(memory.error());
        }
        *mem_handle_p = handle(memory->release());
        return NA_SUCCESS;
    } catch (const std::bad_alloc&) {
        NA_LOG_ERROR(mem, "out of memory");
        return NA_NOMEM;
    }
}

void NA_Mem_handle_free(na_class_t* na_class, na_mem_handle_t* mem_handle) {
    if (na_class != nullptr) {
        delete core(mem_handle);
    }
}

size_t NA_Mem_handle_get_max_segments(const na_class_t* na_class) {
    return na_class == nullptr ? 0 : core(na_class)->caps().max_segments;
}

na_return_t NA_Mem_register(na_class_t* na_class, na_mem_handle_t* mem_handle,
                            enum na_mem_type mem_type, uint64_t device) {
    NA_C_REQUIRE(na_class != nullptr && mem_handle != nullptr, mem, "NULL argument");
    NA_C_REQUIRE(mem_type < NA_MEM_TYPE_MAX, mem, "unknown mem_type");
    try {
        auto region = core(mem_handle)->register_memory(static_cast<MemoryKind>(mem_type), device);
        return region ? NA_SUCCESS : failed<log::Outlet::mem>(region.error());
    } catch (const std::bad_alloc&) {
        NA_LOG_ERROR(mem, "out of memory");
        return NA_NOMEM;
    }
}

na_return_t NA_Mem_deregister(na_class_t* na_class, na_mem_handle_t* mem_handle) {
    NA_C_REQUIRE(na_class != nullptr && mem_handle != nullptr, mem, "NULL argument");
    core(mem_handle)->deregister();
    return NA_SUCCESS;
}

size_t NA_Mem_handle_get_serialize_size(na_class_t* na_class, na_mem_handle_t* mem_handle) {
    return na_class == nullptr || mem_handle == nullptr ? 0 : core(mem_handle)->encoded_size();
}

na_return_t NA_Mem_handle_serialize(na_class_t* na_class, void* buf, size_t buf_size,
                                    na_mem_handle_t* mem_handle) {
    NA_C_REQUIRE(na_class != nullptr && buf != nullptr && buf_size != 0 && mem_handle != nullptr,
                 mem, "NULL argument or size 0");
    const Status s = core(mem_handle)->encode({static_cast<std::byte*>(buf), buf_size});
    if (s == Status::overflow) {
        NA_LOG_ERROR(mem, "the handle takes {} bytes, the buffer has {}",
                     core(mem_handle)->encoded_size(), buf_size);
    }
    return code(s);
}

na_return_t NA_Mem_handle_deserialize(na_class_t* na_class, na_mem_handle_t** mem_handle_p,
                                      const void* buf, size_t buf_size) {
    NA_C_REQUIRE(na_class != nullptr && mem_handle_p != nullptr && buf != nullptr && buf_size != 0,
                 mem, "NULL argument or size 0");
    try {
        auto memory =
            Memory::decode(*core(na_class), {static_cast<const std::byte*>(buf), buf_size});
        if (!memory) {
            return failed<log::Outlet::mem>(memory.error());
        }
        *mem_handle_p = handle(memory->release());
        return NA_SUCCESS;
    } catch (const std::bad_alloc&) {
        NA_LOG_ERROR(mem, "out of memory");
        return NA_NOMEM;
    }
}

}  // extern "C"
