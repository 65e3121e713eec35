// SPDX-License-Identifier: BSD-3-Clause
// Library and class functions of mercury.h.
#include <cstring>

#include "hg/c_api/handles.hpp"
#include "na/c_api/handles.hpp"

using namespace hg;
using hg::c_api::code;
using hg::c_api::core;

namespace {

constexpr unsigned kOldest = HG_VERSION(2, 2);
constexpr unsigned kNewest = HG_VERSION(HG_VERSION_MAJOR, HG_VERSION_MINOR);
constexpr std::uint32_t kDefaultPost = 512;
constexpr unsigned kDefaultMultiRecv = 4;

// Reads the fields that the caller's version of the struct has, and no others: they may be past the
// end of its object.
bool read_options(const hg_init_info& info, unsigned version, Options& options) {
    auto asked = na::c_api::init_info(info.na_init_info);
    if (!asked) {
        NA_LOG_ERROR(cls, "{}", asked.error().message);
        return false;
    }
    options.na = std::move(*asked);
    options.external = na::c_api::core(info.na_class);
    options.post_init = info.request_post_init == 0 ? kDefaultPost : info.request_post_init;
    options.post_incr = info.request_post_incr == 0 ? static_cast<std::int32_t>(kDefaultPost)
                                                    : info.request_post_incr;
    options.auto_sm = info.auto_sm != 0;
    options.sm_name = info.sm_info_string == nullptr ? "" : info.sm_info_string;
    // The caller's, in C: it may be any number.
    unsigned level = 0;
    static_assert(sizeof level == sizeof info.checksum_level);
    std::memcpy(&level, &info.checksum_level, sizeof level);
    if (level > static_cast<unsigned>(ChecksumLevel::payload)) {
        NA_LOG_ERROR(cls, "checksum_level {} of hg_init_info does not exist", level);
        return false;
    }
    options.checksum = static_cast<ChecksumLevel>(level);
    options.bulk_eager = info.no_bulk_eager == 0;
    options.loopback = info.no_loopback == 0;
    options.stats = info.stats != 0;
    if (version >= HG_VERSION(2, 3)) {
        options.release_input_early = info.release_input_early != 0;
    }
    if (version >= HG_VERSION(2, 4)) {
        options.na.traffic_class = na::c_api::value_of<na::TrafficClass>(info.traffic_class);
        options.overflow = !info.no_overflow;
        const unsigned buffers =
            info.multi_recv_op_max == 0 ? kDefaultMultiRecv : info.multi_recv_op_max;
        if (info.multi_recv_copy_threshold > buffers) {
            NA_LOG_ERROR(
                cls, "multi_recv_copy_threshold {} of hg_init_info is above multi_recv_op_max {}",
                info.multi_recv_copy_threshold, buffers);
            return false;
        }
    }
    return true;
}

hg_class_t* open(const char* info_string, bool listen, unsigned version,
                 const hg_init_info* info) noexcept {
    try {
        Options options;
        if (info != nullptr && !read_options(*info, version, options)) {
            return nullptr;
        }
        if (info_string == nullptr && options.external == nullptr) {
            NA_LOG_ERROR(cls, "no info string: give \"[class+]protocol[://address]\"");
            return nullptr;
        }
        const char* name = info_string == nullptr ? "" : info_string;
        auto cls = Class::open(name, listen, std::move(options));
        if (!cls) {
            NA_LOG_ERROR(cls, "cannot open \"{}\": {}", name, cls.error().message);
            return nullptr;
        }
        return c_api::handle(cls->release());
    } catch (const std::bad_alloc&) {
        NA_LOG_ERROR(cls, "cannot open a class: out of memory");
        return nullptr;
    }
}

}  // namespace

extern "C" {

hg_return_t HG_Version_get(unsigned int* major_p, unsigned int* minor_p, unsigned int* patch_p) {
    if (major_p != nullptr) {
        *major_p = HG_VERSION_MAJOR;
    }
    if (minor_p != nullptr) {
        *minor_p = HG_VERSION_MINOR;
    }
    if (patch_p != nullptr) {
        *patch_p = HG_VERSION_PATCH;
    }
    return HG_SUCCESS;
}

const char* HG_Error_to_string(hg_return_t errnum) {
#define X(a) #a,
    static const char* const names[] = {HG_RETURN_VALUES};
#undef X
    const auto i = static_cast<unsigned>(errnum);
    return i < static_cast<unsigned>(HG_RETURN_MAX) ? names[i] : nullptr;
}

hg_return_t HG_Get_na_protocol_info(const char* info_string,
                                    struct na_protocol_info** na_protocol_info_p) {
    HG_C_REQUIRE(na_protocol_info_p != nullptr, cls, "na_protocol_info_p is NULL");
    return static_cast<hg_return_t>(NA_Get_protocol_info(info_string, na_protocol_info_p));
}

void HG_Free_na_protocol_info(struct na_protocol_info* na_protocol_info) {
    NA_Free_protocol_info(na_protocol_info);
}

// --- class
// -----------------------------------------------------------------------------------------------------------

hg_class_t* HG_Init(const char* na_info_string, uint8_t na_listen) {
    return open(na_info_string, na_listen != 0, kNewest, nullptr);
}

hg_class_t* HG_Init_opt(const char* na_info_string, uint8_t na_listen,
                        const struct hg_init_info* hg_init_info) {
    return open(na_info_string, na_listen != 0, kOldest, hg_init_info);
}

hg_class_t* HG_Init_opt2(const char* na_info_string, uint8_t na_listen, unsigned int version,
                         const struct hg_init_info* hg_init_info) {
    if (HG_VERSION_LT(kNewest, version)) {
        NA_LOG_ERROR(
            cls,
            "the program was compiled for HG {}.{}, this library has {}.{}: update the library",
            HG_MAJOR(version), HG_MINOR(version), HG_VERSION_MAJOR, HG_VERSION_MINOR);
        return nullptr;
    }
    if (hg_init_info != nullptr && version == 0) {
        NA_LOG_ERROR(cls,
                     "hg_init_info is given without its version: pass HG_VERSION(major, minor)");
        return nullptr;
    }
    return open(na_info_string, na_listen != 0, version, hg_init_info);
}

hg_return_t HG_Finalize(hg_class_t* hg_class) {
    Class* cls = core(hg_class);
    if (cls == nullptr) {
        return HG_SUCCESS;
    }
    if (cls->inherited()) {
        return HG_SUCCESS;
    }
    try {
        if (auto closable = cls->closable(); !closable) {
            return c_api::failed<na::log::Outlet::cls>(closable.error());
        }
    } catch (const std::bad_alloc&) {
        return HG_NOMEM;
    }
    delete cls;
    return HG_SUCCESS;
}

void HG_Cleanup(void) {
    NA_Cleanup();
}

const char* HG_Class_get_name(const hg_class_t* hg_class) {
    return hg_class == nullptr ? nullptr : core(hg_class)->net().class_name().c_str();
}

const char* HG_Class_get_protocol(const hg_class_t* hg_class) {
    return hg_class == nullptr ? nullptr : core(hg_class)->net().protocol().c_str();
}

bool HG_Class_is_listening(const hg_class_t* hg_class) {
    return hg_class != nullptr && core(hg_class)->listening();
}

hg_size_t HG_Class_get_input_eager_size(const hg_class_t* hg_class) {
    return hg_class == nullptr ? 0 : core(hg_class)->eager_size(na::Lane::unexpected);
}

hg_size_t HG_Class_get_output_eager_size(const hg_class_t* hg_class) {
    return hg_class == nullptr ? 0 : core(hg_class)->eager_size(na::Lane::expected);
}

hg_return_t HG_Class_set_input_offset(hg_class_t* hg_class, hg_size_t offset) {
    HG_C_REQUIRE(hg_class != nullptr, cls, "hg_class is NULL");
    return code(core(hg_class)->set_offset(na::Lane::unexpected, offset));
}

hg_return_t HG_Class_set_output_offset(hg_class_t* hg_class, hg_size_t offset) {
    HG_C_REQUIRE(hg_class != nullptr, cls, "hg_class is NULL");
    return code(core(hg_class)->set_offset(na::Lane::expected, offset));
}

hg_return_t HG_Class_set_data(hg_class_t* hg_class, void* data, void (*free_callback)(void*)) {
    HG_C_REQUIRE(hg_class != nullptr, cls, "hg_class is NULL");
    core(hg_class)->user = {.data = data, .release = free_callback};
    return HG_SUCCESS;
}

void* HG_Class_get_data(const hg_class_t* hg_class) {
    return hg_class == nullptr ? nullptr : core(hg_class)->user.data;
}

hg_return_t HG_Class_get_counters(const hg_class_t* hg_class,
                                  struct hg_diag_counters* diag_counters) {
    HG_C_REQUIRE(hg_class != nullptr, cls, "hg_class is NULL");
    HG_C_REQUIRE(diag_counters != nullptr, cls, "diag_counters is NULL");
    try {
        const Counters::Values v = core(hg_class)->counters();
        *diag_counters = {};
        diag_counters->rpc_req_sent_count = v.requests_sent;
        diag_counters->rpc_req_recv_count = v.requests_received;
        diag_counters->rpc_resp_sent_count = v.responses_sent;
        diag_counters->rpc_resp_recv_count = v.responses_received;
        diag_counters->rpc_req_extra_count = v.requests_overflow;
        diag_counters->rpc_resp_extra_count = v.responses_overflow;
        diag_counters->rpc_req_recv_active_count = v.requests_active;
        diag_counters->bulk_count = v.bulk_transfers;
    } catch (const std::bad_alloc&) {
        return HG_NOMEM;
    }
    return HG_SUCCESS;
}

void HG_Diag_dump_counters(void) {
    try {
        Class::log_all_counters();
    } catch (const std::bad_alloc&) {
        // Nothing to print it with.
    }
}

hg_return_t HG_Class_set_handle_create_callback(hg_class_t* hg_class,
                                                hg_return_t (*callback)(hg_handle_t, void*),
                                                void* arg) {
    HG_C_REQUIRE(hg_class != nullptr, cls, "hg_class is NULL");
    if (callback == nullptr) {
        core(hg_class)->set_handle_create({});
        return HG_SUCCESS;
    }
    core(hg_class)->set_handle_create(
        {.hook = [](Handle& h, void (*user)(), void* a) -> na::Status {
             return c_api::status(
                 reinterpret_cast<hg_return_t (*)(hg_handle_t, void*)>(user)(c_api::handle(&h), a));
         },
         .user = reinterpret_cast<void (*)()>(callback),
         .arg = arg});
    return HG_SUCCESS;
}

}  // extern "C"
