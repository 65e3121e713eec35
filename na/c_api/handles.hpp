// SPDX-License-Identifier: BSD-3-Clause
// The objects behind the opaque types of na.h, and the way between them and the core.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "na.h"
#include "na/core/class.hpp"
#include "na/core/context.hpp"
#include "na/session/wire.hpp"
#include "na/util/log.hpp"

namespace na::c_api {

inline Class* core(na_class_t* c) noexcept {
    return reinterpret_cast<Class*>(c);
}
inline const Class* core(const na_class_t* c) noexcept {
    return reinterpret_cast<const Class*>(c);
}
inline Context* core(na_context_t* c) noexcept {
    return reinterpret_cast<Context*>(c);
}
inline const Context* core(const na_context_t* c) noexcept {
    return reinterpret_cast<const Context*>(c);
}
inline Address* core(na_addr_t* a) noexcept {
    return reinterpret_cast<Address*>(a);
}
inline Memory* core(na_mem_handle_t* m) noexcept {
    return reinterpret_cast<Memory*>(m);
}
inline na_class_t* handle(Class* c) noexcept {
    return reinterpret_cast<na_class_t*>(c);
}
inline na_context_t* handle(Context* c) noexcept {
    return reinterpret_cast<na_context_t*>(c);
}
inline na_addr_t* handle(Address* a) noexcept {
    return reinterpret_cast<na_addr_t*>(a);
}
inline na_mem_handle_t* handle(Memory* m) noexcept {
    return reinterpret_cast<na_mem_handle_t*>(m);
}

inline na_return_t code(Status s) noexcept {
    return static_cast<na_return_t>(s);
}

// Records the error for NA_Get_last_error(), logs it, answers its code.
template <log::Outlet outlet>
na_return_t failed(const Error& error) noexcept {
    NA_LOG_AT(outlet, log::Level::error, "{}", error.message);
    return code(error.status);
}

// Null or otherwise unusable arguments; `what` names which.
#define NA_C_REQUIRE(condition, outlet, what)               \
    do {                                                    \
        if (!(condition)) [[unlikely]] {                    \
            NA_LOG_ERROR(outlet, "{}: {}", __func__, what); \
            return NA_INVALID_ARG;                          \
        }                                                   \
    } while (0)

// What a program has written there, which need not be a value of the enumeration, for a narrower
// one of ours: what is outside must not come to mean another value.
template <typename To, typename From>
To value_of(const From& from) noexcept {
    static_assert(sizeof(From) == sizeof(unsigned) && sizeof(To) == 1);
    unsigned value = 0;
    std::memcpy(&value, &from, sizeof value);
    return static_cast<To>(std::min(value, unsigned{UINT8_MAX}));
}

// What expected messages are larger by than users of na.h see: the transport's header, or, where it
// has none, what was added for it to the size that the user has asked for.
constexpr std::size_t kMostOverhead = session::Header::kSize;
inline std::size_t overhead(const Class& cls) noexcept {
    const std::size_t head = cls.headroom(Lane::expected);
    return head != 0 ? head : cls.info().expected_spare;
}

// Builds the options from whatever layout the caller has. Errors: invalid_arg for flags that do not
// exist.
Result<InitInfo> init_info(const struct na_init_info_4_0& info);
Result<InitInfo> init_info(const struct na_init_info& info);

}  // namespace na::c_api

// A completion on its way to NA_Trigger.
struct NaRecord : na::CompletionQueue::Node {
    na_op_id_t* op = nullptr;
    na::Outcome outcome;
    NaRecord* next_free = nullptr;
};

struct na_op_id {
    na::Class* cls = nullptr;
    na::Operation* op = nullptr;
    na::Context* context = nullptr;
    na_cb_t callback = nullptr;
    void* arg = nullptr;
    // From the post to the moment before the callback.
    std::atomic<bool> pending{false};
    // Expected messages, where the transport has a header of its own: what na.h does not show.
    std::unique_ptr<std::byte[]> frame;
    std::size_t frame_bytes = 0;
    void* into = nullptr;  // a receive's: where the user wants it
    NaRecord record;
    // Multi-receive: as many outcomes may wait for trigger.
    std::vector<NaRecord> records;
    NaRecord* free_records = nullptr;  // guarded by free_lock
    na::util::OptionalLock free_lock{true};
};
