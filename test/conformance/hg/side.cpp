// SPDX-License-Identifier: BSD-3-Clause
#include "conformance/hg/side.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "support/payload.hpp"
#include "support/until.hpp"

namespace hgtest {
namespace {

[[noreturn]] void failed(const std::string& what) {
    throw std::runtime_error(what + ": " + HG_Get_last_error());
}

Side& side_of(hg_handle_t h) {
    return *static_cast<Side*>(HG_Class_get_data(HG_Get_info(h)->hg_class));
}

std::uint64_t number_of(hg_handle_t h) {
    std::uint64_t n = 0;
    if (HG_Get_input(h, &n) != HG_SUCCESS) {
        return UINT64_MAX;
    }
    HG_Free_input(h, &n);
    return n;
}

hg_id_t add(hg_class_t* cls, const char* name, hg_proc_cb_t in, hg_proc_cb_t out, hg_rpc_cb_t rpc) {
    const hg_id_t id = HG_Register_name(cls, name, in, out, rpc);
    if (id == 0) {
        failed(name);
    }
    return id;
}

}  // namespace

hg_return_t proc_blob(hg_proc_t proc, void* data) {
    auto* b = static_cast<Blob*>(data);
    std::uint64_t size = b->bytes.size();
    hg_return_t ret = hg_proc_uint64_t(proc, &b->number);
    if (ret != HG_SUCCESS) {
        return ret;
    }
    ret = hg_proc_uint64_t(proc, &size);
    if (ret != HG_SUCCESS) {
        return ret;
    }
    if (hg_proc_get_op(proc) == HG_FREE) {
        b->bytes.clear();
        return HG_SUCCESS;
    }
    if (hg_proc_get_op(proc) == HG_DECODE) {
        if (size > hg_proc_get_size_left(proc)) {
            return HG_OVERFLOW;
        }
        b->bytes.resize(size);
    }
    return size == 0 ? HG_SUCCESS : hg_proc_bytes(proc, b->bytes.data(), size);
}

Blob blob(std::uint64_t number, std::size_t size) {
    return {number, support::payload(size, number)};
}

bool is_blob(const Blob& b, std::uint64_t number, std::size_t size, std::uint64_t seed) {
    return b.number == number && b.bytes.size() == size && support::mismatch(b.bytes, seed) == -1;
}

// --- Side
// ------------------------------------------------------------------------------------------------------------

Side::Side(Settings settings) {
    auto& na = settings.init.na_init_info;
    // Classes of one thread, where the case does not say otherwise: without [threads].
    if (std::getenv("CINNABAR_TEST_SINGLE") != nullptr && na.thread_mode == 0) {
        na.thread_mode = NA_THREAD_MODE_SINGLE;
    }
    settings.init.na_init_info.max_contexts =
        std::max(settings.init.na_init_info.max_contexts, settings.contexts);
    cls_ = HG_Init_opt2(settings.info.c_str(), settings.listen ? 1 : 0, HG_VERSION(2, 4),
                        &settings.init);
    if (cls_ == nullptr) {
        failed("HG_Init_opt2");
    }
    HG_Class_set_data(cls_, this, nullptr);
    echo = add(cls_, "test_echo", proc_blob, proc_blob, on_echo);
    grow = add(cls_, "test_grow", hg_proc_uint64_t, proc_blob, on_grow);
    fail = add(cls_, "test_fail", hg_proc_uint64_t, nullptr, on_fail);
    drop = add(cls_, "test_drop", hg_proc_uint64_t, nullptr, on_drop);
    hold = add(cls_, "test_hold", hg_proc_uint64_t, proc_blob, on_hold);
    note = add(cls_, "test_note", proc_blob, nullptr, on_note);
    empty = add(cls_, "test_empty", nullptr, nullptr, on_empty);
    unserved = add(cls_, "test_unserved", nullptr, nullptr, nullptr);
    HG_Registered_disable_response(cls_, note, 1);
    for (std::uint8_t id = 0; id < settings.contexts; ++id) {
        hg_context_t* context = HG_Context_create_id(cls_, id);
        if (context == nullptr) {
            failed("HG_Context_create_id");
        }
        contexts_.push_back(context);
    }
    hg_addr_t self = HG_ADDR_NULL;
    if (HG_Addr_self(cls_, &self) != HG_SUCCESS) {
        failed("HG_Addr_self");
    }
    const Addr owner(*this, self);
    uri_ = to_string(*this, self);
}

Side::~Side() {
    end(nullptr);
}

void Side::end(Side* beside) noexcept {
    try {
        close(beside);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        std::abort();
    }
}

void Side::close(Side* beside) {
    for (const hg_handle_t h : held_) {
        (void)HG_Respond_error(h, nullptr, nullptr, HG_OTHER_ERROR);  // unless it was answered
        HG_Destroy(h);
    }
    held_.clear();
    for (hg_context_t*& context : contexts_) {
        // What is in flight gets its callback, then the context can go.
        hg_return_t ret = context == nullptr ? HG_SUCCESS : HG_BUSY;
        (void)support::until([&] { return ret != HG_BUSY; },
                             [&] {
                                 ret = HG_Context_destroy(context);
                                 if (ret == HG_BUSY) {
                                     pump();
                                 }
                                 if (beside != nullptr) {
                                     beside->pump();
                                 }
                             });
        if (ret != HG_SUCCESS) {
            failed("HG_Context_destroy");
        }
        context = nullptr;
    }
    contexts_.clear();
    if (cls_ != nullptr && HG_Finalize(cls_) != HG_SUCCESS) {
        failed("HG_Finalize");
    }
    cls_ = nullptr;
}

void Side::pump() {
    support::rest_point();
    for (hg_context_t* context : contexts_) {
        if (context != nullptr) {
            HG_Progress(context, 0);
            unsigned n = 0;
            while (HG_Trigger(context, 0, 16, &n) == HG_SUCCESS && n != 0) {
            }
        }
    }
}

struct hg_diag_counters Side::counters() const {
    struct hg_diag_counters c = {};
    HG_Class_get_counters(cls_, &c);
    return c;
}

hg_return_t Side::on_echo(hg_handle_t h) {
    Side& side = side_of(h);
    Blob b;
    const hg_return_t ret = HG_Get_input(h, &b);
    if (ret == HG_SUCCESS) {
        side.last_number = b.number;
        side.last_bytes = b.bytes.size();
        side.last_bytes_good = support::mismatch(b.bytes, b.number) == -1;
        if (side.on_served) {
            side.on_served(b.number);
        }
        Blob out{b.number + 1, b.bytes};
        HG_Free_input(h, &b);
        ++side.served;
        HG_Respond(h, nullptr, nullptr, &out);
    }
    HG_Destroy(h);
    return ret;
}

hg_return_t Side::on_grow(hg_handle_t h) {
    Side& side = side_of(h);
    const std::uint64_t n = number_of(h);
    Blob out = blob(n, n);
    ++side.served;
    const hg_return_t ret = HG_Respond(h, nullptr, nullptr, &out);
    HG_Destroy(h);
    return ret;
}

hg_return_t Side::on_fail(hg_handle_t h) {
    const auto ret = static_cast<hg_return_t>(number_of(h));
    ++side_of(h).served;
    HG_Destroy(h);
    return ret;
}

hg_return_t Side::on_drop(hg_handle_t h) {
    ++side_of(h).served;
    HG_Destroy(h);
    HG_Destroy(h);
    return HG_SUCCESS;
}

hg_return_t Side::on_hold(hg_handle_t h) {
    Side& side = side_of(h);
    side.last_number = number_of(h);
    ++side.served;
    side.held_.push_back(h);
    return HG_SUCCESS;
}

hg_return_t Side::on_note(hg_handle_t h) {
    Side& side = side_of(h);
    Blob b;
    if (HG_Get_input(h, &b) == HG_SUCCESS) {
        side.last_number = b.number;
        side.last_bytes = b.bytes.size();
        side.last_bytes_good = support::mismatch(b.bytes, b.number) == -1;
        HG_Free_input(h, &b);
        ++side.notes;
    }
    HG_Destroy(h);
    return HG_SUCCESS;
}

hg_return_t Side::on_empty(hg_handle_t h) {
    ++side_of(h).served;
    HG_Respond(h, nullptr, nullptr, nullptr);
    HG_Destroy(h);
    return HG_SUCCESS;
}

// --- Addr
// ------------------------------------------------------------------------------------------------------------

Addr::Addr(Side& side, const std::string& uri) : side_(side) {
    if (HG_Addr_lookup2(side.cls(), uri.c_str(), &addr_) != HG_SUCCESS) {
        failed("HG_Addr_lookup2");
    }
}

Addr::~Addr() {
    HG_Addr_free(side_.cls(), addr_);
}

std::string to_string(Side& side, hg_addr_t addr) {
    hg_size_t size = 0;
    if (HG_Addr_to_string(side.cls(), nullptr, &size, addr) != HG_SUCCESS) {
        failed("HG_Addr_to_string");
    }
    std::string text(size, '\0');
    if (HG_Addr_to_string(side.cls(), text.data(), &size, addr) != HG_SUCCESS) {
        failed("HG_Addr_to_string");
    }
    text.resize(size - 1);
    return text;
}

// --- Call
// ------------------------------------------------------------------------------------------------------------

Call::Call(Side& side, hg_addr_t to, hg_id_t id, std::size_t context) {
    if (HG_Create(side.context(context), to, id, &handle_) != HG_SUCCESS) {
        failed("HG_Create");
    }
    decode_output = id == side.echo || id == side.grow || id == side.hold;
}

Call::~Call() {
    HG_Destroy(handle_);
}

hg_return_t Call::forward(void* in) {
    const hg_return_t ret = HG_Forward(handle_, callback, this, in);
    return ret;
}

hg_return_t Call::callback(const struct hg_cb_info* info) {
    auto& call = *static_cast<Call*>(info->arg);
    call.ret_ = info->type == HG_CB_FORWARD && info->info.forward.handle != HG_HANDLE_NULL
                    ? info->ret
                    : HG_OTHER_ERROR;
    if (info->ret == HG_SUCCESS && call.decode_output) {
        Blob b;
        call.ret_ = HG_Get_output(info->info.forward.handle, &b);
        if (call.ret_ == HG_SUCCESS) {
            call.out_ = b;
            HG_Free_output(info->info.forward.handle, &b);
        }
    }
    // Whoever waits for the count may destroy the call as soon as it is there.
    const auto then = call.on_done;
    call.count_.fetch_add(1, std::memory_order_release);
    if (then) {
        then(call);
    }
    return HG_SUCCESS;
}

hg_return_t Call::ret() const {
    if (count() != 1) {
        throw std::runtime_error("callbacks of one RPC: " + std::to_string(count()));
    }
    return ret_;
}

// --- Pair
// ------------------------------------------------------------------------------------------------------------

hg_return_t Pair::wait(Call& call) {
    if (!support::until([&] { return call.done(); }, [&] { pump(); })) {
        throw std::runtime_error("an RPC did not end");
    }
    const hg_return_t ret = call.ret();
    call.reset();
    return ret;
}

hg_return_t Pair::run(Call& call, Blob& in) {
    const hg_return_t ret = call.forward(in);
    return ret == HG_SUCCESS ? wait(call) : ret;
}

hg_return_t Pair::run(Call& call, std::uint64_t number) {
    const hg_return_t ret = call.forward(number);
    return ret == HG_SUCCESS ? wait(call) : ret;
}

hg_return_t Pair::run(Call& call) {
    const hg_return_t ret = call.forward();
    return ret == HG_SUCCESS ? wait(call) : ret;
}

}  // namespace hgtest
