// SPDX-License-Identifier: BSD-3-Clause
#include "crash/hg_side.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include <sched.h>

#include "crash/residue.hpp"
#include "mercury_proc.h"
#include "mercury_proc_bulk.h"
#include "support/options.hpp"
#include "support/payload.hpp"
#include "support/rest.hpp"

namespace crash {

using support::until;

namespace {

// Beyond any eager size, in several pieces of any pipeline.
constexpr std::size_t kLong = 100'000;
constexpr std::size_t kMemory = std::size_t{1} << 20;
// How much of a transfer is looked at, at either end: all of it would take longer than the
// transfer.
constexpr std::size_t kLook = 2000;

[[noreturn]] void failed(const std::string& what, hg_return_t ret) {
    throw std::runtime_error(what + ": " + HG_Error_to_string(ret) + " (" + HG_Get_last_error() +
                             ")");
}
void check(hg_return_t ret, const char* what) {
    if (ret != HG_SUCCESS) {
        failed(what, ret);
    }
}

hg_return_t proc_payload(hg_proc_t proc, void* data) {
    auto& p = *static_cast<Payload*>(data);
    std::uint64_t bytes = p.data.size();
    for (std::uint64_t* number : {&p.number, &p.size, &bytes}) {
        if (const hg_return_t ret = hg_proc_uint64_t(proc, number); ret != HG_SUCCESS) {
            return ret;
        }
    }
    if (hg_proc_get_op(proc) == HG_DECODE) {
        if (bytes > hg_proc_get_size_left(proc)) {
            return HG_OVERFLOW;
        }
        p.data.resize(bytes);
    }
    if (const hg_return_t ret = hg_proc_bytes(proc, p.data.data(), p.data.size());
        ret != HG_SUCCESS) {
        return ret;
    }
    return hg_proc_hg_bulk_t(proc, &p.memory);
}

// The first and the last bytes of payload `seed`.
void fill_ends(std::span<std::byte> bytes, std::uint64_t seed) {
    support::fill(bytes.first(kLook), seed);
    support::fill(bytes.last(kLook), seed + 1);
}
bool ends_match(std::span<const std::byte> bytes, std::uint64_t seed) {
    return support::mismatch(bytes.first(kLook), seed) == -1 &&
           support::mismatch(bytes.last(kLook), seed + 1) == -1;
}

std::span<std::byte> contents(hg_bulk_t memory) {
    void* base = nullptr;
    hg_size_t size = 0;
    check(HG_Bulk_access(memory, 0, HG_Bulk_get_size(memory), HG_BULK_READWRITE, 1, &base, &size,
                         nullptr),
          "HG_Bulk_access");
    return {static_cast<std::byte*>(base), size};
}

bool one_way(Kind kind) {
    return kind == Kind::note || kind == Kind::long_note;
}

}  // namespace

const char* to_string(Kind kind) {
    static constexpr const char* kNames[] = {"echo", "hold", "input", "output",
                                             "pull", "push", "note",  "long note"};
    return kNames[index(kind)];
}

// --- HgSide --------------------------------------------------------------------------------------

HgSide::HgSide(const Options& options)
    : waiting_(options.waiting), origins_give_up_(options.origins_give_up) {
    hg_init_info info = HG_INIT_INFO_INITIALIZER;
    info.na_init_info.progress_mode = options.waiting == Waiting::busy ? NA_NO_BLOCK : 0;
    info.na_init_info.ip_subnet = options.subnet.empty() ? nullptr : options.subnet.c_str();
    info.request_post_init = 32;  // the default is for servers that stay
    info.request_post_incr = 32;
    std::string where = support::options().protocol;
    if (!options.name.empty()) {
        where += "://" + options.name;
    }
    cls_ = HG_Init_opt2(where.c_str(), options.listen ? 1 : 0, HG_VERSION(2, 4), &info);
    context_ = cls_ != nullptr ? HG_Context_create(cls_) : nullptr;
    if (context_ == nullptr) {
        const std::string why = HG_Get_last_error();
        HG_Finalize(cls_);
        throw std::runtime_error(where + " cannot be opened: " + why);
    }
    check(HG_Class_set_data(cls_, this, nullptr), "HG_Class_set_data");
    for (const Kind kind : kKinds) {
        const hg_id_t id =
            HG_Register_name(cls_, to_string(kind), proc_payload, proc_payload, on_request);
        PARTY_REQUIRE(id != 0);
        if (one_way(kind)) {
            check(HG_Registered_disable_response(cls_, id, 1), "HG_Registered_disable_response");
        }
        ids_[index(kind)] = id;
    }
}

HgSide::~HgSide() {
    if (cls_ != nullptr) {
        for (const hg_addr_t a : addresses_) {
            HG_Addr_free(cls_, a);
        }
        HG_Context_destroy(context_);
        HG_Finalize(cls_);
    }
}

void HgSide::close() {
    release();
    const Stopwatch since;
    PARTY_REQUIRE(until([&] { return pending_ == 0 && active() == 0; }, [&] { turn(1); }));
    for (const hg_addr_t a : std::exchange(addresses_, {})) {
        check(HG_Addr_free(cls_, a), "HG_Addr_free");
    }
    // Requests of the dead may still be on their way to a callback: HG_BUSY, which is logged.
    hg_return_t ret = HG_SUCCESS;
    HG_Set_log_level("none");
    PARTY_REQUIRE(until([&] { return (ret = HG_Context_destroy(context_)) != HG_BUSY; },
                        [&] {
                            turn();
                            release();
                        }));
    HG_Set_log_level("error");
    check(ret, "HG_Context_destroy");
    check(HG_Finalize(cls_), "HG_Finalize");
    cls_ = nullptr;
    PARTY_REQUIRE(since.elapsed() < kNotice);
}

std::string HgSide::uri() const {
    hg_addr_t self = HG_ADDR_NULL;
    check(HG_Addr_self(cls_, &self), "HG_Addr_self");
    char text[256];
    hg_size_t size = sizeof text;
    const hg_return_t ret = HG_Addr_to_string(cls_, text, &size, self);
    HG_Addr_free(cls_, self);
    check(ret, "HG_Addr_to_string");
    return text;
}

hg_addr_t HgSide::peer(const std::string& uri) {
    hg_addr_t address = HG_ADDR_NULL;
    check(HG_Addr_lookup2(cls_, uri.c_str(), &address), "HG_Addr_lookup2");
    addresses_.push_back(address);
    return address;
}

void HgSide::forget(hg_addr_t address) {
    addresses_.erase(std::find(addresses_.begin(), addresses_.end(), address));
    check(HG_Addr_free(cls_, address), "HG_Addr_free");
}

void HgSide::look() {
    const hg_return_t ret = HG_Progress(context_, 1);  // who is about to sleep looks at everything
    if (ret != HG_SUCCESS && ret != HG_TIMEOUT) {
        failed("HG_Progress", ret);
    }
    turn();
}

void HgSide::turn(unsigned timeout_ms) {
    support::rest_point();
    if (waiting_ == Waiting::events) {
        if (timeout_ms != 0 && !HG_Event_ready(context_)) {
            sleep_on(HG_Event_get_wait_fd(context_), timeout_ms);
        }
        unsigned ready = 0;
        check(HG_Event_progress(context_, &ready), "HG_Event_progress");
        check(HG_Event_trigger(context_, ready, &ready), "HG_Event_trigger");
    } else {
        const bool busy = waiting_ == Waiting::busy;
        const hg_return_t ret = HG_Progress(context_, busy ? 0 : timeout_ms);
        if (busy && ret == HG_TIMEOUT) {
            sched_yield();
        } else if (ret == HG_TIMEOUT) {
            slept_in_vain(timeout_ms);
        }
        if (ret != HG_SUCCESS && ret != HG_TIMEOUT) {
            failed("HG_Progress", ret);
        }
        const hg_return_t ran = HG_Trigger(context_, 0, 1000, nullptr);
        if (ran != HG_SUCCESS && ran != HG_TIMEOUT) {
            failed("HG_Trigger", ran);
        }
    }
    if (!failure_.empty()) {
        throw std::runtime_error(std::exchange(failure_, {}));
    }
}

std::uint64_t HgSide::requests() const noexcept {
    return std::accumulate(std::begin(requests_), std::end(requests_), std::uint64_t{0});
}

std::uint64_t HgSide::active() const {
    hg_diag_counters counters{};
    check(HG_Class_get_counters(cls_, &counters), "HG_Class_get_counters");
    return counters.rpc_req_recv_active_count;
}

// --- target --------------------------------------------------------------------------------------

hg_return_t HgSide::on_request(hg_handle_t handle) {
    auto& side = *static_cast<HgSide*>(HG_Class_get_data(HG_Get_info(handle)->hg_class));
    try {
        side.serve(handle);
    } catch (const std::exception& e) {
        side.fail(e.what());
    }
    return HG_SUCCESS;
}

void HgSide::serve(hg_handle_t handle) {
    const hg_id_t id = HG_Get_info(handle)->id;
    const auto kind = static_cast<Kind>(std::find(std::begin(ids_), std::end(ids_), id) - ids_);
    Payload in;
    check(HG_Get_input(handle, &in), "HG_Get_input");
    ++requests_[index(kind)];
    Payload out;
    out.number = in.number + 1;
    switch (kind) {
        case Kind::echo:
            respond(handle, out);
            break;
        case Kind::hold:
            held_.emplace_back(handle, in.number);
            break;
        case Kind::input:
            PARTY_REQUIRE(in.data.size() == in.size);
            PARTY_REQUIRE(support::mismatch(in.data, in.number) == -1);
            respond(handle, out);
            break;
        case Kind::output:
            out.data = support::payload(in.size, in.number);
            respond(handle, out);
            break;
        case Kind::pull:
            transfer(handle, in, HG_BULK_PULL);
            break;
        case Kind::push:
            transfer(handle, in, HG_BULK_PUSH);
            break;
        case Kind::note:
        case Kind::long_note:
            PARTY_REQUIRE(support::mismatch(in.data, in.number) == -1);
            check(HG_Destroy(handle), "HG_Destroy");
            break;
    }
    check(HG_Free_input(handle, &in), "HG_Free_input");
}

// Of a bulk transfer: what it moves and for which request.
struct HgSide::Transfer {
    HgSide& side;
    hg_handle_t handle;
    std::uint64_t number;
    hg_bulk_t local;
};

void HgSide::transfer(hg_handle_t handle, const Payload& in, hg_bulk_op_t op) {
    auto t = std::make_unique<Transfer>(Transfer{*this, handle, in.number, HG_BULK_NULL});
    const hg_size_t size = in.size;
    check(HG_Bulk_create(cls_, 1, nullptr, &size, HG_BULK_READWRITE, &t->local), "HG_Bulk_create");
    if (op == HG_BULK_PUSH) {
        fill_ends(contents(t->local), in.number);
    }
    const auto ended = [](const hg_cb_info* info) {
        const std::unique_ptr<Transfer> own(static_cast<Transfer*>(info->arg));
        HgSide& side = own->side;
        try {
            side.transferred(*own, info->ret);
        } catch (const std::exception& e) {
            side.fail(e.what());
        }
        return HG_SUCCESS;
    };
    const hg_return_t ret =
        HG_Bulk_transfer(context_, ended, t.get(), op, HG_Get_info(handle)->addr, in.memory, 0,
                         t->local, 0, size, HG_OP_ID_IGNORE);
    if (ret == HG_SUCCESS) {
        ++pending_;
        [[maybe_unused]] Transfer* until_ended = t.release();
    } else {
        ++pending_;  // transferred() counts it down
        transferred(*t, ret);
    }
}

void HgSide::transferred(Transfer& t, hg_return_t ret) {
    --pending_;
    const hg_id_t id = HG_Get_info(t.handle)->id;
    const bool intact =
        ret != HG_SUCCESS || id != this->id(Kind::pull) || ends_match(contents(t.local), t.number);
    check(HG_Bulk_free(t.local), "HG_Bulk_free");
    if (ret == HG_SUCCESS) {
        PARTY_REQUIRE(intact);
        Payload out;
        out.number = t.number + 1;
        respond(t.handle, out);
        return;
    }
    // Who asked is dead, or told so as a server would.
    (void)HG_Respond_error(t.handle, nullptr, nullptr, ret);
    check(HG_Destroy(t.handle), "HG_Destroy");
    const bool refused = ret == HG_PERMISSION || ret == HG_FAULT;
    if (ret != HG_HOSTUNREACH && !(refused && origins_give_up_)) {
        failed("a bulk transfer", ret);
    }
}

void HgSide::respond(hg_handle_t handle, const Payload& out) {
    const hg_return_t ret = HG_Respond(handle, on_responded, this, const_cast<Payload*>(&out));
    if (ret == HG_SUCCESS) {
        ++pending_;
    } else {
        failed("HG_Respond", ret);
    }
    check(HG_Destroy(handle), "HG_Destroy");
}

hg_return_t HgSide::on_responded(const hg_cb_info* info) {
    auto& side = *static_cast<HgSide*>(info->arg);
    --side.pending_;
    if (info->ret != HG_SUCCESS && info->ret != HG_HOSTUNREACH) {
        side.fail(std::string("a response ended with ") + HG_Error_to_string(info->ret));
    }
    return HG_SUCCESS;
}

void HgSide::release() {
    for (const auto& [handle, number] : std::exchange(held_, {})) {
        Payload out;
        out.number = number + 1;
        respond(handle, out);
    }
}

// --- Call ----------------------------------------------------------------------------------------

Call::Call(HgSide& side, hg_addr_t to, Kind kind_, std::uint64_t number)
    : kind(kind_), side_(side) {
    in_.number = number;
    switch (kind) {
        case Kind::echo:
        case Kind::hold:
            break;
        case Kind::note:
            in_.data = support::payload(number % 100, number);
            break;
        case Kind::input:
        case Kind::long_note:
            in_.size = kLong + number % 1000;
            in_.data = support::payload(in_.size, number);
            break;
        case Kind::output:
            in_.size = kLong + number % 1000;
            break;
        case Kind::pull:
        case Kind::push: {
            hg_size_t size = in_.size = kMemory + number % 1000;
            void* base = nullptr;
            if (number % 2 == 0) {
                memory_.resize(size);
                base = memory_.data();
            }
            check(HG_Bulk_create(side.cls(), 1, base != nullptr ? &base : nullptr, &size,
                                 kind == Kind::pull ? HG_BULK_READ_ONLY : HG_BULK_WRITE_ONLY,
                                 &in_.memory),
                  "HG_Bulk_create");
            if (kind == Kind::pull) {
                fill_ends(contents(in_.memory), number);
            }
            break;
        }
    }
    check(HG_Create(side.context(), to, side.id(kind), &handle_), "HG_Create");
}

Call::~Call() {
    HG_Destroy(handle_);
    HG_Bulk_free(in_.memory);
}

hg_return_t Call::forward() {
    if (kind == Kind::push) {
        const std::span<std::byte> memory = contents(in_.memory);
        memory.front() = memory.back() = std::byte{};
    }
    const hg_return_t answer = HG_Forward(handle_, ended, this, &in_);
    if (answer == HG_SUCCESS) {
        ++forwards_;
    } else {
        ret = answer;
    }
    return answer;
}

void Call::cancel() {
    check(HG_Cancel(handle_), "HG_Cancel");
}

hg_return_t Call::ended(const hg_cb_info* info) {
    auto& call = *static_cast<Call*>(info->arg);
    try {
        call.end(*info);
    } catch (const std::exception& e) {
        call.side_.fail(e.what());
    }
    return HG_SUCCESS;
}

void Call::end(const hg_cb_info& info) {
    PARTY_REQUIRE(ends_ < forwards_);  // else: a second end of one forward
    ++ends_;
    ret = info.ret;
    if (ret == HG_SUCCESS && !one_way(kind)) {
        check_output();
    }
    if (then) {
        then(*this);
    }
}

void Call::check_output() {
    Payload out;
    check(HG_Get_output(handle_, &out), "HG_Get_output");
    const bool right = out.number == in_.number + 1 &&
                       out.data.size() == (kind == Kind::output ? in_.size : 0) &&
                       support::mismatch(out.data, in_.number) == -1 &&
                       (kind != Kind::push || ends_match(contents(in_.memory), in_.number));
    check(HG_Free_output(handle_, &out), "HG_Free_output");
    PARTY_REQUIRE(right);
}

bool all_ended(const Calls& calls) {
    return std::none_of(calls.begin(), calls.end(), [](const auto& c) { return c->in_flight(); });
}

std::size_t count(const Calls& calls, hg_return_t ret) {
    return static_cast<std::size_t>(
        std::count_if(calls.begin(), calls.end(), [&](const auto& c) { return c->ret == ret; }));
}

std::string describe(const Calls& calls) {
    std::string text;
    for (const auto& c : calls) {
        const char* ret = HG_Error_to_string(c->ret);
        text += std::string(to_string(c->kind)) + ": " + (c->in_flight() ? "in flight" : "ended") +
                ", last " + (ret != nullptr ? ret : "-") + "\n";
    }
    return text;
}

void call(HgSide& side, hg_addr_t to, Kind kind, std::uint64_t number, unsigned patience_ms) {
    Call one(side, to, kind, number);
    check(one.forward(), "HG_Forward");
    PARTY_REQUIRE(until([&] { return !one.in_flight(); }, [&] { side.turn(patience_ms); }));
    check(one.ret, to_string(kind));
}

}  // namespace crash
