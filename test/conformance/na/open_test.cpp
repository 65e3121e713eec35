// SPDX-License-Identifier: BSD-3-Clause
// Info strings, options in all their versions, contexts, what the library says about itself.
#include "common.hpp"

using namespace na_test;

TEST_CASE("a class opens, tells what it is, and closes", "[open]") {
    for (const bool listen : {false, true}) {
        na_class_t* cls = NA_Initialize(options().protocol.c_str(), listen);
        REQUIRE(cls != nullptr);
        CHECK(options().protocol.starts_with(std::string(NA_Get_class_name(cls)) + "+"));
        CHECK(options().protocol ==
              std::string(NA_Get_class_name(cls)) + "+" + NA_Get_class_protocol(cls));
        CHECK(NA_Is_listening(cls) == listen);
        CHECK(NA_Msg_get_max_unexpected_size(cls) >= 4096);
        CHECK(NA_Msg_get_max_expected_size(cls) >= 4096);
        CHECK(NA_Msg_get_max_tag(cls) >= 0xffff);
        CHECK(NA_Mem_handle_get_max_segments(cls) >= 1);
        CHECK(NA_Finalize(cls) == NA_SUCCESS);
    }
}

TEST_CASE("a class tells the name that it was asked for and its addresses the usual one",
          "[open]") {
    for (const std::string& name : support::other_names()) {
        Endpoint::Settings settings;
        settings.info = name;
        Endpoint e(settings);
        CHECK(NA_Get_class_protocol(e.cls()) == name.substr(name.find('+') + 1));
        CHECK(e.uri().starts_with(std::string(NA_Get_class_name(e.cls())) + "+"));
        Addr self(e, e.uri());
        CHECK(NA_Addr_is_self(e.cls(), self));
    }
}

TEST_CASE("a host part may be empty", "[open]") {
    for (const char* tail : {":", "://"}) {
        na_class_t* cls = NA_Initialize((options().protocol + tail).c_str(), true);
        CHECK(cls != nullptr);
        CHECK(NA_Finalize(cls) == NA_SUCCESS);
    }
}

TEST_CASE("malformed info strings are refused with a reason", "[open]") {
    const Quiet quiet;
    const std::string cls = options().protocol.substr(0, options().protocol.find('+'));
    const std::string bad[] = {
        "",
        ":",
        "://",
        "+",
        "+sm",
        cls + "+",
        "foo",
        "foo+bar",
        "no_such_protocol",
        cls + "+no_such_protocol",
        cls + "+" + std::string(2000, 'x'),
        std::string(5000, '+'),
        "tcp//x",
        options().protocol + ":/x",
        options().protocol + ":x",
        options().protocol + "://with blank",
        options().protocol + "://\x01",
        options().protocol + "://" + std::string(3000, 'n'),
        "\xff\xfe",
    };
    for (const std::string& text : bad) {
        INFO(text.substr(0, 100));
        CHECK(NA_Initialize(text.c_str(), true) == nullptr);
        CHECK(std::strlen(NA_Get_last_error()) > 10);
        CHECK(NA_Initialize_opt(text.c_str(), false, nullptr) == nullptr);
    }
    CHECK(NA_Initialize(nullptr, true) == nullptr);
    CHECK(NA_Initialize_opt(nullptr, true, nullptr) == nullptr);
    CHECK(NA_Initialize_opt2(nullptr, true, NA_VERSION(5, 0), nullptr) == nullptr);
}

TEST_CASE("a value of addr_format that there is not is refused", "[open]") {
    const Quiet quiet;
    // The last two would be one that there is, in a narrower type.
    for (const int value : {4, 5, 255, 256, 258}) {
        INFO(value);
        na_init_info init = NA_INIT_INFO_INITIALIZER;
        std::memcpy(&init.addr_format, &value, sizeof value);
        CHECK(NA_Initialize_opt2(options().protocol.c_str(), true, NA_VERSION(5, 0), &init) ==
              nullptr);
        CHECK(std::string(NA_Get_last_error()).find("addr_format") != std::string::npos);
    }
}

TEST_CASE("options come in the layout of their version", "[open]") {
    const char* info = options().protocol.c_str();
    na_init_info now = NA_INIT_INFO_INITIALIZER;
    now.max_contexts = 12;
    now.traffic_class = NA_TC_LOW_LATENCY;
    na_init_info_4_0 old = NA_INIT_INFO_INITIALIZER_4_0;
    old.max_contexts = 10;

    const auto contexts = [](na_class_t* cls) {
        REQUIRE(cls != nullptr);
        const Quiet quiet;
        std::vector<na_context_t*> open;
        for (std::uint8_t id = 0; id < 20; ++id) {
            if (na_context_t* context = NA_Context_create_id(cls, id)) {
                open.push_back(context);
            }
        }
        for (na_context_t* context : open) {
            CHECK(NA_Context_destroy(cls, context) == NA_SUCCESS);
        }
        CHECK(NA_Finalize(cls) == NA_SUCCESS);
        return open.size();
    };
    const auto* as_now = reinterpret_cast<const na_init_info*>(&old);
    // Who asks for none may have a few, as far as there is room.
    const auto a_few = [](std::size_t n) { return n >= 1 && n <= 8; };
    CHECK(a_few(contexts(NA_Initialize(info, false))));
    CHECK(a_few(contexts(NA_Initialize_opt(info, false, nullptr))));
    CHECK(contexts(NA_Initialize_opt(info, false, as_now)) == 10);
    CHECK(contexts(NA_Initialize_opt2(info, false, NA_VERSION(4, 0), as_now)) == 10);
    CHECK(contexts(NA_Initialize_opt2(info, false, NA_VERSION(4, 99), as_now)) == 10);
    CHECK(contexts(NA_Initialize_opt2(info, false, NA_VERSION(5, 0), &now)) == 12);
    CHECK(contexts(NA_Initialize_opt2(info, false, NA_VERSION(77, 1), &now)) == 12);
    CHECK(a_few(contexts(NA_Initialize_opt2(info, false, 0, nullptr))));
    now.max_contexts = 0;  // counts as 1
    CHECK(a_few(contexts(NA_Initialize_opt2(info, false, NA_VERSION(5, 0), &now))));
    const Quiet quiet;
    CHECK(NA_Initialize_opt2(info, false, 0, &now) == nullptr);
}

TEST_CASE("strings of the options are borrowed for the call only", "[open]") {
    std::string subnet = "127.0.0.0/8";
    na_init_info init = NA_INIT_INFO_INITIALIZER;
    init.ip_subnet = subnet.c_str();
    {
        const Quiet quiet;
        na_class_t* cls =
            NA_Initialize_opt2(options().protocol.c_str(), true, NA_VERSION(5, 0), &init);
        if (cls == nullptr) {
            support::skip("the transport has no subnets");
            return;
        }
        CHECK(NA_Finalize(cls) == NA_SUCCESS);
    }
    Endpoint::Settings settings;
    settings.init = init;
    Endpoint e(settings);
    subnet.assign(subnet.size(), 'x');
    e.pump();
}

TEST_CASE("message sizes can be asked for", "[open]") {
    for (const std::size_t size : {std::size_t{1024}, std::size_t{65536}}) {
        Endpoint::Settings settings;
        settings.init.max_unexpected_size = size;
        settings.init.max_expected_size = size * 2;
        Endpoint e(settings);
        CHECK(e.max_message(false) == size);
        CHECK(e.max_message(true) == size * 2);
    }
}

TEST_CASE("contexts have ids", "[open]") {
    Endpoint::Settings settings;
    settings.contexts = 2;
    Endpoint e(settings);
    const Quiet quiet;
    CHECK(NA_Context_create_id(e.cls(), 1) == nullptr);   // taken
    CHECK(NA_Context_create_id(e.cls(), 99) == nullptr);  // too large
    CHECK(NA_Context_create_id(e.cls(), NA_CONTEXT_ID_MAX) == nullptr);
    CHECK(NA_Context_get_completion_count(e.context(0)) == 0);
}

TEST_CASE("a class has contexts that it has not asked for", "[open]") {
    Pair p;
    std::vector<na_context_t*> others;
    for (int i = 0; i < 3; ++i) {
        others.push_back(NA_Context_create(p.a.cls()));
        REQUIRE(others.back() != nullptr);
    }
    {
        const Quiet quiet;
        for (int i = 0; i < 20; ++i) {
            if (na_context_t* another = NA_Context_create(p.a.cls())) {
                others.push_back(another);
            }
        }
        CHECK(others.size() < 20);
        CHECK(std::string(NA_Get_last_error()).find("max_contexts") != std::string::npos);
    }
    for (na_context_t* context : others) {
        CHECK(NA_Context_destroy(p.a.cls(), context) == NA_SUCCESS);
    }
}

TEST_CASE("an id can be used again after its context", "[open]") {
    na_class_t* cls = NA_Initialize(options().protocol.c_str(), true);
    REQUIRE(cls != nullptr);
    for (int i = 0; i < 20; ++i) {
        na_context_t* context = NA_Context_create(cls);
        REQUIRE(context != nullptr);
        CHECK(NA_Context_destroy(cls, context) == NA_SUCCESS);
    }
    CHECK(NA_Finalize(cls) == NA_SUCCESS);
}

TEST_CASE("every thread mode opens and works", "[open]") {
    for (const int mode :
         {0, NA_THREAD_MODE_SINGLE_CLS, NA_THREAD_MODE_SINGLE_CTX, NA_THREAD_MODE_SINGLE}) {
        Endpoint::Settings settings;
        settings.init.thread_mode = static_cast<std::uint8_t>(mode);
        Pair p(settings);
        Buffer out(p.a);
        Buffer in(p.b);
        Op send(p.a);
        Op recv(p.b);
        REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
        REQUIRE(send.send_unexpected(out, fill_message(p.a, out, 100, 1), p.to_b, 5) == NA_SUCCESS);
        REQUIRE(until([&] { return send.done() && recv.done(); }, [&] { p.pump(); }));
        CHECK(recv.result().tag == 5);
        CHECK(holds(p.b, in.data(), recv.result().size, 1));
    }
}

TEST_CASE("a name is an address", "[open]") {
    const std::string name = options().protocol + "://" +
                             support::lasting_host("conformance-" + std::to_string(getpid()));
    na_class_t* cls = NA_Initialize(name.c_str(), true);
    if (cls == nullptr) {
        support::skip("the transport takes no names");
        return;
    }
    {
        const Quiet quiet;
        CHECK(NA_Initialize(name.c_str(), true) == nullptr);  // in use
        CHECK(std::string(NA_Get_last_error()).find("use") != std::string::npos);
    }
    CHECK(NA_Finalize(cls) == NA_SUCCESS);
    cls = NA_Initialize(name.c_str(), true);  // free again
    CHECK(cls != nullptr);
    CHECK(NA_Finalize(cls) == NA_SUCCESS);
}

TEST_CASE("what Mercury recommends no more is named, with what to use instead", "[open]") {
    const Quiet quiet;
    const std::pair<const char*, const char*> names[] = {{"mpi+dynamic", "ofi or ucx"},
                                                         {"bmi+tcp", "ofi+tcp"},
                                                         {"cci+tcp", "ofi+tcp"},
                                                         {"ofi+psm2", "ofi+opx"}};
    for (const auto& [name, instead] : names) {
        INFO(name);
        CHECK(NA_Initialize(name, true) == nullptr);
        const std::string why = NA_Get_last_error();
        CHECK(why.find("deprecated") != std::string::npos);
        CHECK(why.find(instead) != std::string::npos);
    }
}

TEST_CASE("a protocol is listed if it opens", "[open]") {
    const Quiet quiet;
    for (const char* name : {"ofi+verbs", "ofi+cxi", "ofi+opx", "ofi+tcp", "ofi+tcp_rxm", "ofi+sm",
                             "ucx+rc", "ucx+tcp", "na+sm"}) {
        INFO(name);
        na_protocol_info* list = nullptr;
        const bool listed = NA_Get_protocol_info(name, &list) == NA_SUCCESS && list != nullptr;
        NA_Free_protocol_info(list);
        na_class_t* cls = NA_Initialize(name, false);
        CHECK(listed == (cls != nullptr));
        CHECK(NA_Finalize(cls) == NA_SUCCESS);
    }
}

TEST_CASE("protocols can be listed", "[open]") {
    const auto count = [](const char* info) {
        na_protocol_info* list = nullptr;
        REQUIRE(NA_Get_protocol_info(info, &list) == NA_SUCCESS);
        int n = 0;
        for (const na_protocol_info* p = list; p != nullptr; p = p->next) {
            CHECK(std::strlen(p->class_name) > 0);
            CHECK(std::strlen(p->protocol_name) > 0);
            CHECK(p->device_name != nullptr);
            ++n;
        }
        NA_Free_protocol_info(list);
        return n;
    };
    CHECK(count(nullptr) >= 1);
    CHECK(count("loop") == 1);
    CHECK(count("loop+loop") == 1);
    CHECK(count("loop+loop://somewhere") == 1);
    CHECK(count("foo+tcp") == 0);  // no plugin of that class
    NA_Free_protocol_info(nullptr);

    const Quiet quiet;
    na_protocol_info row{};
    na_protocol_info* const untouched = &row;
    na_protocol_info* list = untouched;
    CHECK(NA_Get_protocol_info("no_such_protocol", &list) == NA_PROTONOSUPPORT);
    CHECK(NA_Get_protocol_info("loop+no_such_protocol", &list) == NA_PROTONOSUPPORT);
    CHECK(NA_Get_protocol_info("", &list) == NA_INVALID_ARG);
    CHECK(NA_Get_protocol_info(":", &list) == NA_INVALID_ARG);
    CHECK(NA_Get_protocol_info("loop", nullptr) == NA_INVALID_ARG);
    CHECK(list == untouched);
}

TEST_CASE("the library names its version, codes and log levels", "[open]") {
    unsigned major = 99;
    unsigned minor = 99;
    unsigned patch = 99;
    NA_Version_get(&major, &minor, &patch);
    CHECK(NA_VERSION(major, minor) == NA_VERSION(NA_VERSION_MAJOR, NA_VERSION_MINOR));
    CHECK(patch == NA_VERSION_PATCH);
    NA_Version_get(nullptr, nullptr, nullptr);

    CHECK(std::string(NA_Error_to_string(NA_SUCCESS)) == "NA_SUCCESS");
    CHECK(std::string(NA_Error_to_string(NA_HOSTFIREWALL)) == "NA_HOSTFIREWALL");
    CHECK(NA_Error_to_string(NA_RETURN_MAX) == nullptr);
    CHECK(NA_Error_to_string(static_cast<na_return_t>(30)) == nullptr);

    for (const char* level :
         {"none", "fatal", "error", "warning", "min_debug", "info", "debug", "nonsense", ""}) {
        NA_Set_log_level(level);
    }
    NA_Set_log_level(nullptr);
    NA_Set_log_level("error");
    NA_Diag_dump_counters();
}

TEST_CASE("cleaning up leaves the living alone", "[open]") {
    Pair p;
    NA_Cleanup();
    Buffer out(p.a);
    Buffer in(p.b);
    Op send(p.a);
    Op recv(p.b);
    REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    REQUIRE(send.send_unexpected(out, fill_message(p.a, out, 10, 2), p.to_b, 1) == NA_SUCCESS);
    REQUIRE(until([&] { return send.done() && recv.done(); }, [&] { p.pump(); }));
    CHECK(recv.ret() == NA_SUCCESS);
    NA_Cleanup();
}
