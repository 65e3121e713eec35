// SPDX-License-Identifier: BSD-3-Clause
#include "na_side.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "na_service.hpp"
#include "targets.hpp"

namespace perf {
namespace {

constexpr std::uint64_t kAskTimeoutNs = 20'000'000'000ULL;
constexpr const char* kTooSmall =
    "the transport's messages are too small for this tool; -Z makes them larger";

struct Ended {
    bool done = false;
    na_return_t ret = NA_SUCCESS;
    std::size_t bytes = 0;
};

void on_end(const na_cb_info* info) {
    auto* ended = static_cast<Ended*>(info->arg);
    ended->done = true;
    ended->ret = info->ret;
    if (info->type == NA_CB_RECV_EXPECTED) {
        ended->bytes = info->info.recv_expected.actual_buf_size;
    }
}

}  // namespace

void check_na(na_return_t code, const std::string& what) {
    if (code == NA_SUCCESS) {
        return;
    }
    const char* name = NA_Error_to_string(code);
    throw Failure(fmt::format("{}: {}", what, name != nullptr ? name : "unknown code"));
}

NaBuffer::NaBuffer(na_class_t* na_class, Lane lane, unsigned long flags) : class_(na_class) {
    const bool unexpected = lane == Lane::unexpected;
    size = unexpected ? NA_Msg_get_max_unexpected_size(na_class)
                      : NA_Msg_get_max_expected_size(na_class);
    header = unexpected ? NA_Msg_get_unexpected_header_size(na_class)
                        : NA_Msg_get_expected_header_size(na_class);
    data = NA_Msg_buf_alloc(na_class, size, flags, &plugin_data);
    op = NA_Op_create(na_class, NA_OP_SINGLE);
    if (data == nullptr || op == nullptr) {
        throw Failure("no memory for a message");
    }
    check_na(unexpected ? NA_Msg_init_unexpected(na_class, data, size)
                        : NA_Msg_init_expected(na_class, data, size),
             "cannot use a message buffer");
}

NaBuffer::~NaBuffer() {
    NA_Op_destroy(class_, op);
    if (data != nullptr) {
        NA_Msg_buf_free(class_, data, plugin_data);
    }
}

bool NaLane::turn(unsigned timeout_ms) {
    unsigned count = 0;
    if (timeout_ms == 0) {
        NA_Poll(na_class, context, &count);
    } else {
        NA_Poll_wait(na_class, context, timeout_ms, &count);
    }
    unsigned n = 0;
    NA_Trigger(context, 64, &n);
    return n > 0;
}

std::string NaLane::ask(const NaTarget& to, NaRequest request, const void* bytes,
                        std::size_t size) {
    NaBuffer out(na_class, NaBuffer::Lane::unexpected, NA_SEND);
    NaBuffer in(na_class, NaBuffer::Lane::expected, NA_RECV);
    if (size > out.room()) {
        throw Failure(kTooSmall);
    }
    if (size > 0) {
        std::memcpy(out.payload(), bytes, size);
    }
    const na_tag_t tag = NaTag::of(request, id, 0xffff);
    Ended received;
    Ended sent;
    check_na(NA_Msg_recv_expected(na_class, context, on_end, &received, in.data, in.size,
                                  in.plugin_data, to.addr, to.context, tag, in.op),
             "cannot receive");
    sent.ret = NA_Msg_send_unexpected(na_class, context, on_end, &sent, out.data, out.header + size,
                                      out.plugin_data, to.addr, to.context, tag, out.op);
    sent.done = sent.ret != NA_SUCCESS;
    const std::uint64_t deadline = now_ns() + kAskTimeoutNs;
    bool cancelled = false;
    while (!sent.done || !received.done) {
        if (!cancelled && ((sent.done && sent.ret != NA_SUCCESS) || now_ns() > deadline)) {
            cancelled = true;
            NA_Cancel(na_class, context, in.op);
            NA_Cancel(na_class, context, out.op);
        }
        turn(100);
    }
    check_na(sent.ret, "cannot send to the server");
    check_na(received.ret, "the server did not answer (is it a na_perf_server?)");
    return {in.payload(), received.bytes < in.header ? 0 : received.bytes - in.header};
}

NaTarget NaLane::greet(const std::string& address) {
    if (NA_Msg_get_max_expected_size(na_class) <
        NA_Msg_get_expected_header_size(na_class) + sizeof(NaHello)) {
        throw Failure(kTooSmall);
    }
    NaTarget target;
    check_na(NA_Addr_lookup(na_class, address.c_str(), &target.addr), address + " is no address");
    const std::string answer = ask(target, NaRequest::hello, nullptr, 0);
    NaHello hello;
    std::memcpy(&hello, answer.data(), std::min(answer.size(), sizeof hello));
    if (answer.size() != sizeof hello || hello.magic != NaHello::kMagic) {
        throw Failure("who answers at " + address +
                      " is no na_perf_server, or one of another version");
    }
    target.context = static_cast<std::uint8_t>(id % std::max<std::uint64_t>(hello.contexts, 1));
    target.server = hello.server;
    return target;
}

NaSide::NaSide(const Options& o, bool server, unsigned rank) : options_(o), rank_(rank) {
    static const char* const names[] = {"unspec",      "best_effort",      "low_latency",
                                        "bulk_data",   "dedicated_access", "scavenger",
                                        "network_ctrl"};
    na_init_info info = NA_INIT_INFO_INITIALIZER;
    std::string key = o.key;
    if (o.key_per_rank) {
        key = std::to_string(std::strtoul(key.c_str(), nullptr, 0) + rank);
    }
    const unsigned lanes = o.classes * o.contexts;
    info.auth_key = key.empty() ? nullptr : key.c_str();
    info.max_unexpected_size = o.message_size;
    info.max_expected_size = o.message_size;
    info.progress_mode = o.busy ? NA_NO_BLOCK : 0;
    info.max_contexts = static_cast<std::uint8_t>(o.contexts);
    info.thread_mode = o.thread_safe        ? 0
                       : o.threads == 1     ? NA_THREAD_MODE_SINGLE
                       : o.threads <= lanes ? NA_THREAD_MODE_SINGLE_CTX
                                            : 0;
    const auto* const name = std::find(std::begin(names), std::end(names), o.traffic_class);
    info.traffic_class = name == std::end(names)
                             ? NA_TC_UNSPEC
                             : static_cast<na_traffic_class>(name - std::begin(names));
    for (unsigned c = 0; c < o.classes; ++c) {
        const std::string text = o.info_string(server, c);
        na_class_t* na_class =
            NA_Initialize_opt2(text.c_str(), server || o.self_send, NA_VERSION(5, 0), &info);
        if (na_class == nullptr) {
            throw Failure(fmt::format("cannot open \"{}\" (hg_info lists what is here)", text));
        }
        classes_.push_back(na_class);
        for (unsigned x = 0; x < o.contexts; ++x) {
            auto lane = std::make_unique<NaLane>();
            lane->na_class = na_class;
            lane->id = static_cast<std::uint8_t>(x);
            lane->context = NA_Context_create_id(na_class, lane->id);
            if (lane->context == nullptr) {
                throw Failure(fmt::format("cannot create context {} of \"{}\"", x, text));
            }
            lanes_.push_back(std::move(lane));
        }
    }
}

// Only after a failure is there still something: the process ends, and what is in flight may still
// use what it has.
NaSide::~NaSide() = default;

void NaSide::connect(const std::vector<std::string>& addresses) {
    addresses_ = addresses;
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
        NaLane& na = lane(i);
        const auto number = static_cast<unsigned>(i / options_.contexts);
        if (addresses.empty()) {
            NaTarget& self = na.targets.emplace_back();
            check_na(NA_Addr_self(na.na_class, &self.addr), "no address of one's own");
            self.context = na.id;
            continue;
        }
        for (const std::size_t at : targets_of(options_, rank_, number, addresses.size())) {
            na.targets.push_back(na.greet(addresses[at]));
        }
    }
}

void NaSide::shut_down() {
    NaLane& na = lane(0);
    // The classes of a server end together: it is told once. Before the first is, all are known.
    std::map<std::uint64_t, NaTarget> servers;
    for (const std::string& address : addresses_) {
        const NaTarget target = na.greet(address);
        if (!servers.emplace(target.server, target).second) {
            NA_Addr_free(na.na_class, target.addr);
        }
    }
    for (const auto& [server, target] : servers) {
        na.ask(target, NaRequest::done, nullptr, 0);
        NA_Addr_free(na.na_class, target.addr);
    }
}

std::vector<std::string> NaSide::addresses() const {
    std::vector<std::string> texts;
    for (na_class_t* na_class : classes_) {
        na_addr_t* self = nullptr;
        check_na(NA_Addr_self(na_class, &self), "no address of one's own");
        std::string text(1024, '\0');
        std::size_t size = text.size();
        const na_return_t ret = NA_Addr_to_string(na_class, text.data(), &size, self);
        NA_Addr_free(na_class, self);
        check_na(ret, "cannot print the address");
        text.resize(text.find('\0'));
        texts.push_back(text);
    }
    return texts;
}

void NaSide::close() {
    for (const auto& each : lanes_) {
        auto& na = static_cast<NaLane&>(*each);
        na.slots.clear();
        for (const NaTarget& target : std::exchange(na.targets, {})) {
            NA_Addr_free(na.na_class, target.addr);
        }
        check_na(NA_Context_destroy(na.na_class, na.context), "cannot destroy a context");
    }
    lanes_.clear();
    for (na_class_t* na_class : std::exchange(classes_, {})) {
        check_na(NA_Finalize(na_class), "cannot close a class");
    }
}

NaClient::NaClient(const Options& options, const std::vector<std::string>& addresses,
                   unsigned index)
    : options_(options), side_(options, false, index) {
    if (options.self_send) {
        self_ = std::make_unique<NaService>(options, side_.lanes());
    }
    side_.connect(addresses);
}

// After a failure receives are still posted: what they would write to stays.
NaClient::~NaClient() {
    (void)self_.release();
}

void NaClient::shut_down() {
    if (!self_) {
        side_.shut_down();
    }
}

void NaClient::close() {
    if (self_) {
        self_->close();
        self_.reset();
    }
    side_.close();
}

}  // namespace perf
