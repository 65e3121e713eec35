// SPDX-License-Identifier: BSD-3-Clause
// Every function with null arguments: a code or the "nothing" value, never a crash.
#include "common.hpp"

using namespace na_test;

TEST_CASE("class functions take null arguments", "[null]") {
    const Quiet quiet;
    CHECK_FALSE(NA_Has_opt_feature(nullptr, NA_OPT_MULTI_RECV));
    CHECK(NA_Get_class_name(nullptr) == nullptr);
    CHECK(NA_Get_class_protocol(nullptr) == nullptr);
    CHECK_FALSE(NA_Is_listening(nullptr));
    CHECK(NA_Finalize(nullptr) == NA_SUCCESS);
    CHECK(NA_Context_create(nullptr) == nullptr);
    CHECK(NA_Context_create_id(nullptr, 1) == nullptr);
    CHECK(NA_Context_destroy(nullptr, nullptr) == NA_SUCCESS);
    CHECK(NA_Context_get_completion_count(nullptr) == 0);
    CHECK(NA_Op_create(nullptr, NA_OP_SINGLE) == nullptr);
    NA_Op_destroy(nullptr, nullptr);
    Endpoint e;
    CHECK(NA_Context_destroy(nullptr, e.context()) == NA_INVALID_ARG);
    na_op_id_t* op = NA_Op_create(e.cls(), NA_OP_SINGLE);
    NA_Op_destroy(nullptr, op);
    NA_Op_destroy(e.cls(), op);
}

TEST_CASE("address functions take null arguments", "[null]") {
    const Quiet quiet;
    Endpoint e;
    Addr self(e, e.uri());
    na_addr_t* addr = nullptr;
    char text[64];
    std::size_t size = sizeof text;
    std::byte bytes[256];
    CHECK(NA_Addr_lookup(nullptr, "x", &addr) == NA_INVALID_ARG);
    CHECK(NA_Addr_lookup(e.cls(), nullptr, &addr) == NA_INVALID_ARG);
    CHECK(NA_Addr_lookup(e.cls(), e.uri().c_str(), nullptr) == NA_INVALID_ARG);
    NA_Addr_free(nullptr, nullptr);
    NA_Addr_free(e.cls(), nullptr);
    CHECK(NA_Addr_set_remove(nullptr, self) == NA_INVALID_ARG);
    CHECK(NA_Addr_set_remove(e.cls(), nullptr) == NA_INVALID_ARG);
    CHECK(NA_Addr_self(nullptr, &addr) == NA_INVALID_ARG);
    CHECK(NA_Addr_self(e.cls(), nullptr) == NA_INVALID_ARG);
    CHECK(NA_Addr_dup(nullptr, self, &addr) == NA_INVALID_ARG);
    CHECK(NA_Addr_dup(e.cls(), nullptr, &addr) == NA_INVALID_ARG);
    CHECK(NA_Addr_dup(e.cls(), self, nullptr) == NA_INVALID_ARG);
    CHECK_FALSE(NA_Addr_cmp(nullptr, self, self));
    CHECK_FALSE(NA_Addr_is_self(nullptr, self));
    CHECK_FALSE(NA_Addr_is_self(e.cls(), nullptr));
    CHECK(NA_Addr_to_string(nullptr, text, &size, self) == NA_INVALID_ARG);
    CHECK(NA_Addr_to_string(e.cls(), text, nullptr, self) == NA_INVALID_ARG);
    CHECK(NA_Addr_to_string(e.cls(), text, &size, nullptr) == NA_INVALID_ARG);
    CHECK(NA_Addr_get_serialize_size(nullptr, self) == 0);
    CHECK(NA_Addr_get_serialize_size(e.cls(), nullptr) == 0);
    CHECK(NA_Addr_serialize(nullptr, bytes, sizeof bytes, self) == NA_INVALID_ARG);
    CHECK(NA_Addr_serialize(e.cls(), nullptr, sizeof bytes, self) == NA_INVALID_ARG);
    CHECK(NA_Addr_serialize(e.cls(), bytes, 0, self) == NA_INVALID_ARG);
    CHECK(NA_Addr_serialize(e.cls(), bytes, sizeof bytes, nullptr) == NA_INVALID_ARG);
    CHECK(NA_Addr_deserialize(nullptr, &addr, bytes, sizeof bytes, 0) == NA_INVALID_ARG);
    CHECK(NA_Addr_deserialize(e.cls(), nullptr, bytes, sizeof bytes, 0) == NA_INVALID_ARG);
    CHECK(NA_Addr_deserialize(e.cls(), &addr, nullptr, sizeof bytes, 0) == NA_INVALID_ARG);
    CHECK(NA_Addr_deserialize(e.cls(), &addr, bytes, 0, 0) == NA_INVALID_ARG);
    CHECK(addr == nullptr);
}

TEST_CASE("message functions take null arguments", "[null]") {
    const Quiet quiet;
    Endpoint e;
    Addr self(e, e.uri());
    Buffer buffer(e);
    na_class_t* cls = e.cls();
    na_context_t* context = e.context();
    na_op_id_t* op = NA_Op_create(cls, NA_OP_SINGLE);
    na_op_id_t* multi = NA_Op_create(cls, NA_OP_MULTI);
    void* data = buffer.data();
    const std::size_t size = buffer.size();
    void* plugin_data = nullptr;

    CHECK(NA_Msg_get_max_unexpected_size(nullptr) == 0);
    CHECK(NA_Msg_get_max_expected_size(nullptr) == 0);
    CHECK(NA_Msg_get_unexpected_header_size(nullptr) == 0);
    CHECK(NA_Msg_get_expected_header_size(nullptr) == 0);
    CHECK(NA_Msg_get_max_tag(nullptr) == 0);
    CHECK(NA_Msg_buf_alloc(nullptr, 10, 0, &plugin_data) == nullptr);
    CHECK(NA_Msg_buf_alloc(cls, 0, 0, &plugin_data) == nullptr);
    CHECK(NA_Msg_buf_alloc(cls, 10, 0, nullptr) == nullptr);
    CHECK(NA_Msg_buf_alloc(cls, ~std::size_t{0}, 0, &plugin_data) == nullptr);
    CHECK(NA_Msg_buf_alloc(cls, ~std::size_t{0} / 2, 0, &plugin_data) == nullptr);
    NA_Msg_buf_free(nullptr, nullptr, nullptr);
    NA_Msg_buf_free(cls, nullptr, nullptr);
    CHECK(NA_Msg_init_unexpected(nullptr, data, size) == NA_INVALID_ARG);
    CHECK(NA_Msg_init_unexpected(cls, nullptr, size) == NA_INVALID_ARG);
    CHECK(NA_Msg_init_expected(nullptr, data, size) == NA_INVALID_ARG);
    CHECK(NA_Msg_init_expected(cls, nullptr, size) == NA_INVALID_ARG);

    using Send = na_return_t (*)(na_class_t*, na_context_t*, na_cb_t, void*, const void*, size_t,
                                 void*, na_addr_t*, uint8_t, na_tag_t, na_op_id_t*);
    for (const Send send : {&NA_Msg_send_unexpected, &NA_Msg_send_expected}) {
        CHECK(send(nullptr, context, nullptr, nullptr, data, size, nullptr, self, 0, 0, op) ==
              NA_INVALID_ARG);
        CHECK(send(cls, nullptr, nullptr, nullptr, data, size, nullptr, self, 0, 0, op) ==
              NA_INVALID_ARG);
        CHECK(send(cls, context, nullptr, nullptr, nullptr, size, nullptr, self, 0, 0, op) ==
              NA_INVALID_ARG);
        CHECK(send(cls, context, nullptr, nullptr, data, size, nullptr, nullptr, 0, 0, op) ==
              NA_INVALID_ARG);
        CHECK(send(cls, context, nullptr, nullptr, data, size, nullptr, self, 0, 0, nullptr) ==
              NA_INVALID_ARG);
    }
    const auto recv = [&](na_class_t* c, na_context_t* x, void* b, na_op_id_t* o) {
        return NA_Msg_recv_unexpected(c, x, nullptr, nullptr, b, size, nullptr, o);
    };
    CHECK(recv(nullptr, context, data, op) == NA_INVALID_ARG);
    CHECK(recv(cls, nullptr, data, op) == NA_INVALID_ARG);
    CHECK(recv(cls, context, nullptr, op) == NA_INVALID_ARG);
    CHECK(recv(cls, context, data, nullptr) == NA_INVALID_ARG);
    const auto recv_multi = [&](na_class_t* c, na_context_t* x, void* b, na_op_id_t* o) {
        return NA_Msg_multi_recv_unexpected(c, x, nullptr, nullptr, b, size, nullptr, o);
    };
    CHECK(recv_multi(nullptr, context, data, multi) == NA_INVALID_ARG);
    CHECK(recv_multi(cls, nullptr, data, multi) == NA_INVALID_ARG);
    CHECK(recv_multi(cls, context, nullptr, multi) == NA_INVALID_ARG);
    CHECK(recv_multi(cls, context, data, nullptr) == NA_INVALID_ARG);
    const auto recv_expected = [&](na_class_t* c, na_context_t* x, void* b, na_addr_t* from,
                                   na_op_id_t* o) {
        return NA_Msg_recv_expected(c, x, nullptr, nullptr, b, size, nullptr, from, 0, 0, o);
    };
    CHECK(recv_expected(nullptr, context, data, self, op) == NA_INVALID_ARG);
    CHECK(recv_expected(cls, nullptr, data, self, op) == NA_INVALID_ARG);
    CHECK(recv_expected(cls, context, nullptr, self, op) == NA_INVALID_ARG);
    CHECK(recv_expected(cls, context, data, nullptr, op) == NA_INVALID_ARG);
    CHECK(recv_expected(cls, context, data, self, nullptr) == NA_INVALID_ARG);

    // Context and operation of another class.
    Endpoint other;
    CHECK(recv(other.cls(), context, data, op) == NA_INVALID_ARG);
    CHECK(recv(cls, other.context(), data, op) == NA_INVALID_ARG);
    na_op_id_t* foreign = NA_Op_create(other.cls(), NA_OP_SINGLE);
    CHECK(recv(cls, context, data, foreign) == NA_INVALID_ARG);
    CHECK(NA_Cancel(cls, context, foreign) != NA_BUSY);
    NA_Op_destroy(other.cls(), foreign);

    // None of these left an operation in use.
    Op real(e);
    CHECK(real.recv_unexpected(buffer) == NA_SUCCESS);
    NA_Op_destroy(cls, op);
    NA_Op_destroy(cls, multi);
}

TEST_CASE("memory functions take null arguments", "[null]") {
    const Quiet quiet;
    Endpoint e;
    Addr self(e, e.uri());
    na_class_t* cls = e.cls();
    std::byte memory[64];
    std::byte bytes[64];
    na_mem_handle_t* handle = nullptr;
    CHECK(NA_Mem_handle_create(nullptr, memory, 64, NA_MEM_READWRITE, &handle) == NA_INVALID_ARG);
    na_segment segment = {memory, 64};
    CHECK(NA_Mem_handle_create_segments(nullptr, &segment, 1, NA_MEM_READWRITE, &handle) ==
          NA_INVALID_ARG);
    CHECK(NA_Mem_handle_create_segments(cls, &segment, 1, NA_MEM_READWRITE, nullptr) ==
          NA_INVALID_ARG);
    NA_Mem_handle_free(nullptr, nullptr);
    NA_Mem_handle_free(cls, nullptr);
    CHECK(NA_Mem_handle_get_max_segments(nullptr) == 0);
    REQUIRE(NA_Mem_handle_create(cls, memory, 64, NA_MEM_READWRITE, &handle) == NA_SUCCESS);
    NA_Mem_handle_free(nullptr, handle);
    CHECK(NA_Mem_register(nullptr, handle, NA_MEM_TYPE_HOST, 0) == NA_INVALID_ARG);
    CHECK(NA_Mem_register(cls, nullptr, NA_MEM_TYPE_HOST, 0) == NA_INVALID_ARG);
    CHECK(NA_Mem_deregister(nullptr, handle) == NA_INVALID_ARG);
    CHECK(NA_Mem_deregister(cls, nullptr) == NA_INVALID_ARG);
    CHECK(NA_Mem_handle_get_serialize_size(nullptr, handle) == 0);
    CHECK(NA_Mem_handle_get_serialize_size(cls, nullptr) == 0);
    CHECK(NA_Mem_handle_serialize(nullptr, bytes, 64, handle) == NA_INVALID_ARG);
    CHECK(NA_Mem_handle_serialize(cls, nullptr, 64, handle) == NA_INVALID_ARG);
    CHECK(NA_Mem_handle_serialize(cls, bytes, 0, handle) == NA_INVALID_ARG);
    CHECK(NA_Mem_handle_serialize(cls, bytes, 64, nullptr) == NA_INVALID_ARG);
    na_mem_handle_t* copy = nullptr;
    CHECK(NA_Mem_handle_deserialize(nullptr, &copy, bytes, 64) == NA_INVALID_ARG);
    CHECK(NA_Mem_handle_deserialize(cls, nullptr, bytes, 64) == NA_INVALID_ARG);
    CHECK(NA_Mem_handle_deserialize(cls, &copy, nullptr, 64) == NA_INVALID_ARG);
    CHECK(NA_Mem_handle_deserialize(cls, &copy, bytes, 0) == NA_INVALID_ARG);

    na_op_id_t* op = NA_Op_create(cls, NA_OP_SINGLE);
    using Transfer =
        na_return_t (*)(na_class_t*, na_context_t*, na_cb_t, void*, na_mem_handle_t*, na_offset_t,
                        na_mem_handle_t*, na_offset_t, size_t, na_addr_t*, uint8_t, na_op_id_t*);
    for (const Transfer transfer : {&NA_Put, &NA_Get}) {
        const auto call = [&](na_class_t* c, na_context_t* x, na_mem_handle_t* l,
                              na_mem_handle_t* r, na_addr_t* a, na_op_id_t* o) {
            return transfer(c, x, nullptr, nullptr, l, 0, r, 0, 8, a, 0, o);
        };
        CHECK(call(nullptr, e.context(), handle, handle, self, op) == NA_INVALID_ARG);
        CHECK(call(cls, nullptr, handle, handle, self, op) == NA_INVALID_ARG);
        CHECK(call(cls, e.context(), nullptr, handle, self, op) == NA_INVALID_ARG);
        CHECK(call(cls, e.context(), handle, nullptr, self, op) == NA_INVALID_ARG);
        CHECK(call(cls, e.context(), handle, handle, nullptr, op) == NA_INVALID_ARG);
        CHECK(call(cls, e.context(), handle, handle, self, nullptr) == NA_INVALID_ARG);
    }
    NA_Op_destroy(cls, op);
    NA_Mem_handle_free(cls, handle);
}

TEST_CASE("progress functions take null arguments", "[null]") {
    const Quiet quiet;
    Endpoint e;
    unsigned n = 7;
    CHECK(NA_Poll_get_fd(nullptr, e.context()) == -1);
    CHECK(NA_Poll_get_fd(e.cls(), nullptr) == -1);
    CHECK_FALSE(NA_Poll_try_wait(nullptr, e.context()));
    CHECK_FALSE(NA_Poll_try_wait(e.cls(), nullptr));
    CHECK(NA_Poll(nullptr, e.context(), &n) == NA_INVALID_ARG);
    CHECK(NA_Poll(e.cls(), nullptr, &n) == NA_INVALID_ARG);
    CHECK(NA_Poll_wait(nullptr, e.context(), 0, &n) == NA_INVALID_ARG);
    CHECK(NA_Poll_wait(e.cls(), nullptr, 0, &n) == NA_INVALID_ARG);
    CHECK(NA_Progress(nullptr, e.context(), 0) == NA_INVALID_ARG);
    CHECK(NA_Progress(e.cls(), nullptr, 0) == NA_INVALID_ARG);
    CHECK(NA_Trigger(nullptr, 1, &n) == NA_INVALID_ARG);
    CHECK(n == 7);
    CHECK(NA_Trigger(e.context(), 1, nullptr) == NA_SUCCESS);
    na_op_id_t* op = NA_Op_create(e.cls(), NA_OP_SINGLE);
    CHECK(NA_Cancel(nullptr, e.context(), op) == NA_INVALID_ARG);
    CHECK(NA_Cancel(e.cls(), nullptr, op) == NA_INVALID_ARG);
    CHECK(NA_Cancel(e.cls(), e.context(), nullptr) == NA_INVALID_ARG);
    NA_Op_destroy(e.cls(), op);
}
