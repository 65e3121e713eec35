// SPDX-License-Identifier: BSD-3-Clause
// Every option of na_init_info has its effect, or the class does not open and the log names the
// option. Nothing is ignored but the traffic class, which is a hint.
#include "common.hpp"
#include "na/domain.hpp"

using namespace na_test;

namespace {

na_class_t* open_with(const na_init_info& init) {
    return NA_Initialize_opt2(options().protocol.c_str(), true, NA_VERSION(5, 0), &init);
}

bool log_names(const char* option) {
    return std::string(NA_Get_last_error()).find(option) != std::string::npos;
}

// The address of a class that is closed again; empty: refused.
std::string address_with(const na_init_info& init) {
    na_class_t* cls = open_with(init);
    if (cls == nullptr) {
        return {};
    }
    na_addr_t* self = nullptr;
    char text[256] = {};
    std::size_t size = sizeof text;
    REQUIRE(NA_Addr_self(cls, &self) == NA_SUCCESS);
    CHECK(NA_Addr_to_string(cls, text, &size, self) == NA_SUCCESS);
    NA_Addr_free(cls, self);
    CHECK(NA_Finalize(cls) == NA_SUCCESS);
    return text;
}

}  // namespace

TEST_CASE("a key that the transport does not check opens nothing", "[open][effect]") {
    const Quiet quiet;  // no transport of this suite has keys
    na_init_info init = NA_INIT_INFO_INITIALIZER;
    init.auth_key = "open sesame";
    CHECK(open_with(init) == nullptr);
    CHECK(log_names("auth_key"));
    CHECK_FALSE(log_names("sesame"));  // it is a secret

    na::InitInfo same;
    same.auth_key = "open sesame";
    for (const auto& domain : {na::Domain::listen(options().protocol, same),
                               na::Domain::open(options().protocol, same)}) {
        REQUIRE_FALSE(domain);
        CHECK(domain.status() == na::Status::opnotsupported);
    }
    init.auth_key = "";  // none
    na_class_t* cls = open_with(init);
    CHECK(cls != nullptr);
    CHECK(NA_Finalize(cls) == NA_SUCCESS);
}

TEST_CASE("a subnet decides on the address, or opens nothing", "[open][effect]") {
    const Quiet quiet;
    na_init_info init = NA_INIT_INFO_INITIALIZER;
    init.ip_subnet = "127.0.0.0/8";
    const std::string address = address_with(init);
    INFO(address);
    if (address.empty()) {
        CHECK(log_names("ip_subnet"));
    } else {
        CHECK(address.find("://127.") != std::string::npos);
    }
    init.ip_subnet = "203.0.113.0/24";  // for documents: no machine is there
    CHECK(address_with(init).empty());
    CHECK(log_names("ip_subnet"));
}

TEST_CASE("a family of addresses decides on the address, or opens nothing", "[open][effect]") {
    const Quiet quiet;
    for (const na_addr_format format : {NA_ADDR_IPV4, NA_ADDR_IPV6}) {
        na_init_info init = NA_INIT_INFO_INITIALIZER;
        init.addr_format = format;
        const std::string address = address_with(init);
        INFO(address);
        if (address.empty()) {  // or this machine has no such address
            CHECK(
                (log_names("addr_format") || log_names(format == NA_ADDR_IPV4 ? "IPv4" : "IPv6")));
        } else {
            CHECK((address.find("://[") != std::string::npos) == (format == NA_ADDR_IPV6));
        }
    }
    na_init_info init = NA_INIT_INFO_INITIALIZER;
    init.addr_format = NA_ADDR_NATIVE;
    CHECK_FALSE(address_with(init).empty());
}

TEST_CASE("device memory is taken, or opens nothing", "[open][effect][memory]") {
    const Quiet quiet;
    na_init_info init = NA_INIT_INFO_INITIALIZER;
    init.request_mem_device = true;
    na_class_t* cls = open_with(init);
    if (cls == nullptr) {
        CHECK(log_names("request_mem_device"));
        return;
    }
    // The memory is the host's: a transport that knows devices says so, or takes it.
    std::vector<std::byte> memory(100);
    bool known = false;
    for (const na_mem_type type : {NA_MEM_TYPE_CUDA, NA_MEM_TYPE_ROCM, NA_MEM_TYPE_ZE}) {
        na_mem_handle_t* handle = nullptr;
        REQUIRE(NA_Mem_handle_create(cls, memory.data(), memory.size(), NA_MEM_READWRITE,
                                     &handle) == NA_SUCCESS);
        known = known || NA_Mem_register(cls, handle, type, 0) != NA_OPNOTSUPPORTED;
        NA_Mem_handle_free(cls, handle);
    }
    CHECK(known);
    CHECK(NA_Finalize(cls) == NA_SUCCESS);
}

TEST_CASE("flags that do not exist open nothing", "[open][effect]") {
    const Quiet quiet;
    for (unsigned bit = 0; bit < 8; ++bit) {
        const auto flag = static_cast<std::uint8_t>(1U << bit);
        INFO(unsigned{flag});
        na_init_info init = NA_INIT_INFO_INITIALIZER;
        init.progress_mode = flag;
        CHECK(address_with(init).empty() == (bit >= 2));
        CHECK((bit < 2 || log_names("progress_mode")));
        init = NA_INIT_INFO_INITIALIZER;
        init.thread_mode = flag;
        CHECK(address_with(init).empty() == (bit >= 2));
        CHECK((bit < 2 || log_names("thread_mode")));
    }
}

TEST_CASE("a traffic class is a hint, and one that does not exist opens nothing",
          "[open][effect]") {
    const Quiet quiet;
    for (int value = NA_TC_UNSPEC; value <= NA_TC_NETWORK_CTRL; ++value) {
        na_init_info init = NA_INIT_INFO_INITIALIZER;
        std::memcpy(&init.traffic_class, &value, sizeof value);
        CHECK_FALSE(address_with(init).empty());
    }
    for (const int value : {7, 255, 256, -1}) {
        na_init_info init = NA_INIT_INFO_INITIALIZER;
        std::memcpy(&init.traffic_class, &value, sizeof value);
        CHECK(address_with(init).empty());
        CHECK(log_names("traffic_class"));
    }
}

TEST_CASE("sizes of messages are those that were asked for, or open nothing", "[open][effect]") {
    const Quiet quiet;
    for (const std::size_t size : {std::size_t{1}, std::size_t{100}, std::size_t{1} << 20,
                                   std::size_t{1} << 40, std::size_t{SIZE_MAX}}) {
        INFO(size);
        na_init_info init = NA_INIT_INFO_INITIALIZER;
        init.max_unexpected_size = init.max_expected_size = size;
        if (na_class_t* cls = open_with(init)) {
            CHECK(NA_Msg_get_max_unexpected_size(cls) == size);
            CHECK(NA_Msg_get_max_expected_size(cls) == size);
            CHECK(NA_Finalize(cls) == NA_SUCCESS);
        } else {
            CHECK(std::strlen(NA_Get_last_error()) > 10);
        }
    }
}
