// SPDX-License-Identifier: BSD-3-Clause
#include "crash/na_side.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <sched.h>

#include "support/options.hpp"
#include "support/payload.hpp"
#include "support/rest.hpp"

namespace crash {

using support::until;

namespace {

constexpr std::size_t kPingBytes = 100;
constexpr unsigned kReceives = 8;

[[noreturn]] void failed(const std::string& what, na_return_t ret) {
    throw std::runtime_error(what + ": " + NA_Error_to_string(ret) + " (" + NA_Get_last_error() +
                             ")");
}
void check(na_return_t ret, const char* what) {
    if (ret != NA_SUCCESS) {
        failed(what, ret);
    }
}

}  // namespace

// --- NaSide --------------------------------------------------------------------------------------

NaSide::NaSide(const Options& options) : waiting_(options.waiting) {
    na_init_info info = NA_INIT_INFO_INITIALIZER;
    info.progress_mode = options.waiting == Waiting::busy ? NA_NO_BLOCK : 0;
    info.max_unexpected_size = options.max_message;
    info.max_expected_size = options.max_message;
    std::string where = support::options().protocol;
    if (!options.name.empty()) {
        where += "://" + options.name;
    }
    cls_ = NA_Initialize_opt2(where.c_str(), options.listen, NA_VERSION(5, 0), &info);
    context_ = cls_ != nullptr ? NA_Context_create(cls_) : nullptr;
    if (context_ == nullptr) {
        NA_Finalize(cls_);
        throw std::runtime_error(where + " cannot be opened: " + NA_Get_last_error());
    }
}

NaSide::~NaSide() {
    if (cls_ != nullptr) {
        release_all();
        for (na_addr_t* a : addresses_) {
            NA_Addr_free(cls_, a);
        }
        NA_Context_destroy(cls_, context_);
        NA_Finalize(cls_);
    }
}

void NaSide::release_all() {
    for (Resource* r : std::exchange(resources_, {})) {
        r->release();
        r->side_ = nullptr;
    }
}

void NaSide::close() {
    release_all();
    for (na_addr_t* a : std::exchange(addresses_, {})) {
        NA_Addr_free(cls_, a);
    }
    check(NA_Context_destroy(cls_, context_), "NA_Context_destroy");
    check(NA_Finalize(cls_), "NA_Finalize");
    cls_ = nullptr;
}

std::string NaSide::uri() const {
    na_addr_t* self = nullptr;
    check(NA_Addr_self(cls_, &self), "NA_Addr_self");
    char text[256];
    std::size_t size = sizeof text;
    const na_return_t ret = NA_Addr_to_string(cls_, text, &size, self);
    NA_Addr_free(cls_, self);
    check(ret, "NA_Addr_to_string");
    return text;
}

na_addr_t* NaSide::peer(const std::string& uri) {
    na_addr_t* address = nullptr;
    check(NA_Addr_lookup(cls_, uri.c_str(), &address), "NA_Addr_lookup");
    addresses_.push_back(address);
    return address;
}

void NaSide::forget(na_addr_t* address) {
    addresses_.erase(std::find(addresses_.begin(), addresses_.end(), address));
    NA_Addr_free(cls_, address);
}

void NaSide::turn(unsigned timeout_ms) {
    support::rest_point();
    unsigned ready = 0;
    if (waiting_ == Waiting::blocking) {
        const na_return_t ret = NA_Poll_wait(cls_, context_, timeout_ms, &ready);
        if (ret != NA_SUCCESS && ret != NA_TIMEOUT) {
            failed("NA_Poll_wait", ret);
        }
        if (ret == NA_TIMEOUT) {
            slept_in_vain(timeout_ms);
        }
    } else {
        if (waiting_ == Waiting::events && timeout_ms != 0 && NA_Poll_try_wait(cls_, context_)) {
            sleep_on(NA_Poll_get_fd(cls_, context_), timeout_ms);
        }
        check(NA_Poll(cls_, context_, &ready), "NA_Poll");
    }
    check(NA_Trigger(context_, 1000, &ready), "NA_Trigger");
    if (waiting_ == Waiting::busy && ready == 0) {
        sched_yield();
    }
    if (!failure_.empty()) {
        throw std::runtime_error(std::exchange(failure_, {}));
    }
}

NaSide::Resource::~Resource() {
    if (side_ != nullptr) {
        std::erase(side_->resources_, this);
    }
}

// --- Message -------------------------------------------------------------------------------------

Message::Message(NaSide& side, std::size_t bytes) : Resource(side), size(bytes) {
    na_class_t* cls = side.cls();
    buffer = NA_Msg_buf_alloc(cls, bytes, NA_SEND | NA_RECV, &plugin_data);
    PARTY_REQUIRE(buffer != nullptr);
    header = std::max(NA_Msg_get_unexpected_header_size(cls), NA_Msg_get_expected_header_size(cls));
    check(NA_Msg_init_unexpected(cls, buffer, bytes), "NA_Msg_init_unexpected");
    check(NA_Msg_init_expected(cls, buffer, bytes), "NA_Msg_init_expected");
}

Message::~Message() {
    if (side_ != nullptr) {
        release();
    }
}

void Message::release() {
    NA_Msg_buf_free(side_->cls(), buffer, plugin_data);
}

std::uint64_t Message::number() const noexcept {
    std::uint64_t n = 0;
    std::memcpy(&n, static_cast<const std::byte*>(buffer) + header, sizeof n);
    return n;
}

void Message::set_number(std::uint64_t n) noexcept {
    std::memcpy(static_cast<std::byte*>(buffer) + header, &n, sizeof n);
}

// --- NaOp ----------------------------------------------------------------------------------------

NaOp::NaOp(NaSide& side) : Resource(side), id_(NA_Op_create(side.cls(), NA_OP_SINGLE)) {
    PARTY_REQUIRE(id_ != nullptr);
}

NaOp::~NaOp() {
    if (side_ != nullptr) {
        release();
    }
}

void NaOp::release() {
    drop_source();
    NA_Op_destroy(side_->cls(), id_);
}

void NaOp::drop_source() {
    if (na_addr_t* s = std::exchange(source, nullptr)) {
        NA_Addr_free(side_->cls(), s);
    }
}

na_return_t NaOp::posted(na_return_t answer) {
    if (answer == NA_SUCCESS) {
        ++posts_;
    } else {
        ret = answer;
    }
    return answer;
}

void NaOp::ended(const na_cb_info* info) {
    auto& op = *static_cast<NaOp*>(info->arg);
    try {
        op.end(*info);
    } catch (const std::exception& e) {
        op.side_->fail(e.what());
    }
}

void NaOp::end(const na_cb_info& info) {
    PARTY_REQUIRE(ends_ < posts_);  // else: a second end of one post
    ++ends_;
    ret = info.ret;
    drop_source();
    if (info.type == NA_CB_RECV_UNEXPECTED) {
        size = info.info.recv_unexpected.actual_buf_size;
        tag = info.info.recv_unexpected.tag;
        source = info.info.recv_unexpected.source;
        PARTY_REQUIRE((source != nullptr) == (ret == NA_SUCCESS));
    } else if (info.type == NA_CB_RECV_EXPECTED) {
        size = info.info.recv_expected.actual_buf_size;
    }
    if (then) {
        then(*this);
    }
}

na_return_t NaOp::send_unexpected(const Message& m, std::size_t bytes, na_addr_t* to,
                                  na_tag_t with_tag) {
    return posted(NA_Msg_send_unexpected(side_->cls(), side_->context(), ended, this, m.buffer,
                                         bytes, m.plugin_data, to, 0, with_tag, id_));
}
na_return_t NaOp::send_expected(const Message& m, std::size_t bytes, na_addr_t* to,
                                na_tag_t with_tag) {
    return posted(NA_Msg_send_expected(side_->cls(), side_->context(), ended, this, m.buffer, bytes,
                                       m.plugin_data, to, 0, with_tag, id_));
}
na_return_t NaOp::receive_unexpected(const Message& m) {
    return posted(NA_Msg_recv_unexpected(side_->cls(), side_->context(), ended, this, m.buffer,
                                         m.size, m.plugin_data, id_));
}
na_return_t NaOp::receive_expected(const Message& m, na_addr_t* from, na_tag_t with_tag) {
    return posted(NA_Msg_recv_expected(side_->cls(), side_->context(), ended, this, m.buffer,
                                       m.size, m.plugin_data, from, 0, with_tag, id_));
}
na_return_t NaOp::put(na_mem_handle_t* local, na_mem_handle_t* remote, std::size_t bytes,
                      na_addr_t* to) {
    return posted(NA_Put(side_->cls(), side_->context(), ended, this, local, 0, remote, 0, bytes,
                         to, 0, id_));
}
na_return_t NaOp::get(na_mem_handle_t* local, na_mem_handle_t* remote, std::size_t bytes,
                      na_addr_t* from) {
    return posted(NA_Get(side_->cls(), side_->context(), ended, this, local, 0, remote, 0, bytes,
                         from, 0, id_));
}

void NaOp::cancel() {
    check(NA_Cancel(side_->cls(), side_->context(), id_), "NA_Cancel");
}

bool all_ended(const NaOps& ops) {
    return std::none_of(ops.begin(), ops.end(), [](const auto& op) { return op->in_flight(); });
}

std::size_t count(const NaOps& ops, na_return_t ret) {
    return static_cast<std::size_t>(
        std::count_if(ops.begin(), ops.end(), [&](const auto& op) { return op->ret == ret; }));
}

// --- MemoryHandle --------------------------------------------------------------------------------

MemoryHandle::MemoryHandle(NaSide& side, std::span<std::byte> memory) : cls_(side.cls()) {
    check(NA_Mem_handle_create(cls_, memory.data(), memory.size(), NA_MEM_READWRITE, &handle_),
          "NA_Mem_handle_create");
    check(NA_Mem_register(cls_, handle_, NA_MEM_TYPE_HOST, 0), "NA_Mem_register");
}

MemoryHandle::MemoryHandle(NaSide& side, const std::vector<std::byte>& serialized)
    : cls_(side.cls()) {
    check(NA_Mem_handle_deserialize(cls_, &handle_, serialized.data(), serialized.size()),
          "NA_Mem_handle_deserialize");
}

MemoryHandle::~MemoryHandle() {
    NA_Mem_handle_free(cls_, handle_);
}

std::vector<std::byte> MemoryHandle::serialize() const {
    std::vector<std::byte> bytes(NA_Mem_handle_get_serialize_size(cls_, handle_));
    check(NA_Mem_handle_serialize(cls_, bytes.data(), bytes.size(), handle_),
          "NA_Mem_handle_serialize");
    return bytes;
}

// --- Inbox ---------------------------------------------------------------------------------------

Inbox::Inbox(NaSide& side, std::size_t max_message, Deliver deliver)
    : side_(side), deliver_(std::move(deliver)) {
    for (unsigned i = 0; i < kReceives; ++i) {
        receives_.push_back(std::make_unique<Receive>(side, max_message));
        Receive& r = *receives_.back();
        r.op.then = [this, &r](NaOp&) { received(r); };
        check(r.op.receive_unexpected(r.message), "NA_Msg_recv_unexpected");
    }
}

void Inbox::received(Receive& r) {
    if (r.op.ret == NA_CANCELED && closing_) {
        return;
    }
    if (r.op.ret == NA_HOSTUNREACH) {
        ++broken_;
    } else if (r.op.ret != NA_SUCCESS) {
        failed("a receive of unexpected messages", r.op.ret);
    } else if (r.op.tag == kPing) {
        ++pings_;
        answer(r);
    } else if (deliver_) {
        deliver_(side_, r.op.tag, r.message.bytes(r.op.size), r.op.source);
    }
    if (!closing_) {
        check(r.op.receive_unexpected(r.message), "NA_Msg_recv_unexpected");
    }
}

void Inbox::answer(const Receive& r) {
    const auto idle = std::find_if(replies_.begin(), replies_.end(),
                                   [](const auto& reply) { return !reply->op.in_flight(); });
    Reply& reply = idle != replies_.end()
                       ? **idle
                       : *replies_.emplace_back(std::make_unique<Reply>(side_, kPingBytes + 64));
    std::memcpy(reply.message.buffer, r.message.buffer, std::min(r.op.size, reply.message.size));
    const na_return_t ret =
        reply.op.send_expected(reply.message, std::min(r.op.size, reply.message.size), r.op.source,
                               static_cast<na_tag_t>(r.message.number()));
    // Who asked may be dead by now.
    PARTY_REQUIRE(ret == NA_SUCCESS || ret == NA_HOSTUNREACH);
}

void Inbox::close() {
    closing_ = true;
    for (const auto& r : receives_) {
        if (r->op.in_flight()) {
            r->op.cancel();
        }
    }
    const auto idle = [](const auto& member) { return !member->op.in_flight(); };
    PARTY_REQUIRE(until(
        [&] {
            return std::all_of(receives_.begin(), receives_.end(), idle) &&
                   std::all_of(replies_.begin(), replies_.end(), idle);
        },
        [&] { side_.turn(); }));
    receives_.clear();
    replies_.clear();
}

void ping(NaSide& side, na_addr_t* to, std::uint64_t number, unsigned patience_ms) {
    Message request(side, kPingBytes);
    Message response(side, kPingBytes);
    support::fill(request.bytes(request.size), number);
    request.set_number(number);
    NaOp receive(side);
    NaOp send(side);
    const auto tag = static_cast<na_tag_t>(number);
    check(receive.receive_expected(response, to, tag), "NA_Msg_recv_expected");
    check(send.send_unexpected(request, request.size, to, Inbox::kPing), "NA_Msg_send_unexpected");
    PARTY_REQUIRE(until([&] { return !send.in_flight() && !receive.in_flight(); },
                        [&] { side.turn(patience_ms); }));
    check(send.ret, "a ping");
    check(receive.ret, "the answer to a ping");
    PARTY_REQUIRE(receive.size == request.size);
    PARTY_REQUIRE(std::ranges::equal(request.bytes(request.size), response.bytes(request.size)));
}

}  // namespace crash
