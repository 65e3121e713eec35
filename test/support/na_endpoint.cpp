// SPDX-License-Identifier: BSD-3-Clause
#include "support/na_endpoint.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "support/until.hpp"

namespace support {
namespace {

[[noreturn]] void fail(const std::string& what) {
    throw std::runtime_error(what + ": " + NA_Get_last_error());
}

[[noreturn]] void left_behind(const char* what) {
    std::fprintf(stderr, "a test left something behind: %s: %s\n", what, NA_Get_last_error());
    std::abort();
}

}  // namespace

// --- Endpoint
// --------------------------------------------------------------------------------------------------------

Endpoint::Endpoint(Settings settings) {
    // Classes of one thread, where the case does not say otherwise: without [threads].
    if (std::getenv("CINNABAR_TEST_SINGLE") != nullptr && settings.init.thread_mode == 0) {
        settings.init.thread_mode = NA_THREAD_MODE_SINGLE;
    }
    settings.init.max_contexts = std::max(settings.init.max_contexts, settings.contexts);
    cls_ = NA_Initialize_opt2(settings.info.c_str(), settings.listen, NA_VERSION(5, 0),
                              &settings.init);
    if (cls_ == nullptr) {
        fail("NA_Initialize \"" + settings.info + "\"");
    }
    for (std::uint8_t id = 0; id < settings.contexts; ++id) {
        contexts_.push_back(NA_Context_create_id(cls_, id));
        if (contexts_.back() == nullptr) {
            fail("NA_Context_create_id");
        }
    }
    na_addr_t* self = nullptr;
    if (NA_Addr_self(cls_, &self) != NA_SUCCESS) {
        fail("NA_Addr_self");
    }
    uri_ = to_string(*this, self);
    NA_Addr_free(cls_, self);
}

Endpoint::~Endpoint() {
    close();
}

void Endpoint::close() {
    if (cls_ == nullptr) {
        return;
    }
    for (na_context_t* context : contexts_) {
        const bool closed = until(
            Deadline(std::chrono::seconds(5), Deadline::Look::late),
            [&] { return NA_Context_destroy(cls_, context) == NA_SUCCESS; },
            [&] {
                NA_Poll(cls_, context, nullptr);
                NA_Trigger(context, 1000, nullptr);
            });
        if (!closed) {
            left_behind("NA_Context_destroy");
        }
    }
    contexts_.clear();
    if (NA_Finalize(std::exchange(cls_, nullptr)) != NA_SUCCESS) {
        left_behind("NA_Finalize");
    }
}

void Endpoint::pump() {
    for (std::size_t id = 0; id < contexts_.size(); ++id) {
        pump(id);
    }
}

void Endpoint::pump(std::size_t id) {
    rest_point();
    NA_Poll(cls_, contexts_[id], nullptr);
    NA_Trigger(contexts_[id], 1000, nullptr);
}

std::size_t Endpoint::max_message(bool expected) const noexcept {
    return expected ? NA_Msg_get_max_expected_size(cls_) : NA_Msg_get_max_unexpected_size(cls_);
}

std::size_t Endpoint::header(bool expected) const noexcept {
    return expected ? NA_Msg_get_expected_header_size(cls_)
                    : NA_Msg_get_unexpected_header_size(cls_);
}

// --- Addr
// ------------------------------------------------------------------------------------------------------------

Addr::Addr(Endpoint& endpoint, const std::string& uri) : cls_(endpoint.cls()) {
    if (NA_Addr_lookup(cls_, uri.c_str(), &addr_) != NA_SUCCESS) {
        fail("NA_Addr_lookup \"" + uri + "\"");
    }
}

Addr::Addr(Addr&& other) noexcept : cls_(other.cls_), addr_(std::exchange(other.addr_, nullptr)) {}

Addr& Addr::operator=(Addr&& other) noexcept {
    if (this != &other) {
        reset();
        cls_ = other.cls_;
        addr_ = std::exchange(other.addr_, nullptr);
    }
    return *this;
}

void Addr::reset() noexcept {
    if (addr_ != nullptr) {
        NA_Addr_free(cls_, std::exchange(addr_, nullptr));
    }
}

std::string to_string(Endpoint& endpoint, na_addr_t* addr) {
    std::size_t size = 0;
    if (NA_Addr_to_string(endpoint.cls(), nullptr, &size, addr) != NA_SUCCESS) {
        fail("NA_Addr_to_string");
    }
    std::string text(size, '\0');
    if (NA_Addr_to_string(endpoint.cls(), text.data(), &size, addr) != NA_SUCCESS) {
        fail("NA_Addr_to_string");
    }
    text.resize(size - 1);
    return text;
}

// --- Buffer
// ----------------------------------------------------------------------------------------------------------

Buffer::Buffer(Endpoint& endpoint, std::size_t size, unsigned long flags)
    : endpoint_(endpoint), size_(size) {
    if ((flags & NA_ALLOC_MAX) != 0) {
        size_ = std::max({size, endpoint.max_message(false), endpoint.max_message(true)});
    }
    data_ = static_cast<std::byte*>(NA_Msg_buf_alloc(endpoint.cls(), size_, flags, &plugin_data_));
    if (data_ == nullptr) {
        fail("NA_Msg_buf_alloc");
    }
    if (size_ >= endpoint.header(false) &&
        NA_Msg_init_unexpected(endpoint.cls(), data_, size_) != NA_SUCCESS) {
        fail("NA_Msg_init_unexpected");
    }
}

Buffer::~Buffer() {
    NA_Msg_buf_free(endpoint_.cls(), data_, plugin_data_);
}

// --- Op
// --------------------------------------------------------------------------------------------------------------

Op::Op(Endpoint& endpoint, unsigned long flags, std::size_t context)
    : endpoint_(endpoint),
      context_(endpoint.context(context)),
      id_(NA_Op_create(endpoint.cls(), flags)) {
    if (id_ == nullptr) {
        fail("NA_Op_create");
    }
}

Op::~Op() {
    on_result = nullptr;
    if (pending_ && endpoint_.cls() != nullptr) {
        NA_Cancel(endpoint_.cls(), context_, id_);
        if (!until([this] { return !pending_; }, [this] { endpoint_.pump(); })) {
            left_behind("an operation that does not end after NA_Cancel");
        }
    }
    results_.clear();
    NA_Op_destroy(endpoint_.cls(), id_);
}

void Op::reset() {
    results_.clear();
    count_ = 0;
}

const Result& Op::result() const {
    if (results_.size() != 1) {
        throw std::runtime_error(std::to_string(results_.size()) + " callbacks instead of one");
    }
    return results_.front();
}

void Op::callback(const na_cb_info* info) {
    Op& op = *static_cast<Op*>(info->arg);
    Result r;
    r.ret = info->ret;
    r.type = info->type;
    switch (info->type) {
        case NA_CB_RECV_UNEXPECTED:
            r.size = info->info.recv_unexpected.actual_buf_size;
            r.tag = info->info.recv_unexpected.tag;
            r.source = Addr(op.endpoint_, info->info.recv_unexpected.source);
            break;
        case NA_CB_MULTI_RECV_UNEXPECTED:
            r.size = info->info.multi_recv_unexpected.actual_buf_size;
            r.tag = info->info.multi_recv_unexpected.tag;
            r.source = Addr(op.endpoint_, info->info.multi_recv_unexpected.source);
            r.data = info->info.multi_recv_unexpected.actual_buf;
            r.last = info->info.multi_recv_unexpected.last;
            break;
        case NA_CB_RECV_EXPECTED:
            r.size = info->info.recv_expected.actual_buf_size;
            break;
        default:
            break;
    }
    if (r.last) {
        op.pending_ = false;
    }
    op.results_.push_back(std::move(r));
    // Whoever waits for the count may end the operation's life, unless it has asked to be told.
    const bool tell = static_cast<bool>(op.on_result);
    op.count_.fetch_add(1, std::memory_order_release);
    if (tell) {
        // By index: the callee may post again, and trigger more results from there on.
        op.on_result(op, op.results_.back());
    }
}

template <typename Post>
na_return_t Op::post(Post&& post) {
    const bool before = pending_.exchange(true);
    const na_return_t r = post();
    if (r != NA_SUCCESS) {
        pending_ = before;
    }
    return r;
}

na_return_t Op::send_unexpected(const Buffer& buffer, std::size_t size, na_addr_t* to, na_tag_t tag,
                                std::uint8_t to_id) {
    return post([&] {
        return NA_Msg_send_unexpected(endpoint_.cls(), context_, callback, this, buffer.data(),
                                      size, buffer.plugin_data(), to, to_id, tag, id_);
    });
}

na_return_t Op::send_expected(const Buffer& buffer, std::size_t size, na_addr_t* to, na_tag_t tag,
                              std::uint8_t to_id) {
    return post([&] {
        return NA_Msg_send_expected(endpoint_.cls(), context_, callback, this, buffer.data(), size,
                                    buffer.plugin_data(), to, to_id, tag, id_);
    });
}

na_return_t Op::recv_unexpected(const Buffer& buffer, std::size_t size) {
    return post([&] {
        return NA_Msg_recv_unexpected(endpoint_.cls(), context_, callback, this, buffer.data(),
                                      size, buffer.plugin_data(), id_);
    });
}

na_return_t Op::multi_recv(const Buffer& buffer, std::size_t size) {
    return post([&] {
        return NA_Msg_multi_recv_unexpected(endpoint_.cls(), context_, callback, this,
                                            buffer.data(), size, buffer.plugin_data(), id_);
    });
}

na_return_t Op::recv_expected(const Buffer& buffer, std::size_t size, na_addr_t* from, na_tag_t tag,
                              std::uint8_t from_id) {
    return post([&] {
        return NA_Msg_recv_expected(endpoint_.cls(), context_, callback, this, buffer.data(), size,
                                    buffer.plugin_data(), from, from_id, tag, id_);
    });
}

na_return_t Op::put(na_mem_handle_t* local, std::uint64_t local_offset, na_mem_handle_t* remote,
                    std::uint64_t remote_offset, std::size_t size, na_addr_t* to,
                    std::uint8_t to_id) {
    return post([&] {
        return NA_Put(endpoint_.cls(), context_, callback, this, local, local_offset, remote,
                      remote_offset, size, to, to_id, id_);
    });
}

na_return_t Op::get(na_mem_handle_t* local, std::uint64_t local_offset, na_mem_handle_t* remote,
                    std::uint64_t remote_offset, std::size_t size, na_addr_t* from,
                    std::uint8_t from_id) {
    return post([&] {
        return NA_Get(endpoint_.cls(), context_, callback, this, local, local_offset, remote,
                      remote_offset, size, from, from_id, id_);
    });
}

na_return_t Op::cancel() {
    return NA_Cancel(endpoint_.cls(), context_, id_);
}

// --- Mem
// -------------------------------------------------------------------------------------------------------------

Mem::Mem(Endpoint& endpoint, void* data, std::size_t size, unsigned long flags)
    : cls_(endpoint.cls()) {
    if (NA_Mem_handle_create(cls_, data, size, flags, &handle_) != NA_SUCCESS) {
        fail("NA_Mem_handle_create");
    }
    if (NA_Mem_register(cls_, handle_, NA_MEM_TYPE_HOST, 0) != NA_SUCCESS) {
        fail("NA_Mem_register");
    }
}

Mem::Mem(Endpoint& endpoint, std::vector<na_segment> segments, unsigned long flags)
    : cls_(endpoint.cls()) {
    if (NA_Mem_handle_create_segments(cls_, segments.data(), segments.size(), flags, &handle_) !=
        NA_SUCCESS) {
        fail("NA_Mem_handle_create_segments");
    }
    if (NA_Mem_register(cls_, handle_, NA_MEM_TYPE_HOST, 0) != NA_SUCCESS) {
        fail("NA_Mem_register");
    }
}

Mem::Mem(Endpoint& endpoint, std::span<const std::byte> serialized) : cls_(endpoint.cls()) {
    if (NA_Mem_handle_deserialize(cls_, &handle_, serialized.data(), serialized.size()) !=
        NA_SUCCESS) {
        fail("NA_Mem_handle_deserialize");
    }
}

Mem::~Mem() {
    if (handle_ != nullptr) {
        NA_Mem_handle_free(cls_, handle_);
    }
}

std::vector<std::byte> Mem::serialize() const {
    std::vector<std::byte> bytes(NA_Mem_handle_get_serialize_size(cls_, handle_));
    if (bytes.empty() ||
        NA_Mem_handle_serialize(cls_, bytes.data(), bytes.size(), handle_) != NA_SUCCESS) {
        fail("NA_Mem_handle_serialize");
    }
    return bytes;
}

}  // namespace support
