// SPDX-License-Identifier: BSD-3-Clause
#include "hg_side.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "targets.hpp"

namespace perf {
namespace {

constexpr unsigned kCallTimeoutMs = 20'000;

const std::map<std::string, na_traffic_class>& traffic_classes() {
    static const std::map<std::string, na_traffic_class> classes = {
        {"", NA_TC_UNSPEC},
        {"unspec", NA_TC_UNSPEC},
        {"best_effort", NA_TC_BEST_EFFORT},
        {"low_latency", NA_TC_LOW_LATENCY},
        {"bulk_data", NA_TC_BULK_DATA},
        {"dedicated_access", NA_TC_DEDICATED_ACCESS},
        {"scavenger", NA_TC_SCAVENGER},
        {"network_ctrl", NA_TC_NETWORK_CTRL},
    };
    return classes;
}

struct Pending {
    bool done = false;
    hg_return_t ret = HG_SUCCESS;
    void* out = nullptr;
};

hg_return_t on_answer(const hg_cb_info* info) {
    auto* pending = static_cast<Pending*>(info->arg);
    pending->ret = info->ret;
    if (info->ret == HG_SUCCESS && pending->out != nullptr) {
        pending->ret = HG_Get_output(info->info.forward.handle, pending->out);
        if (pending->ret == HG_SUCCESS) {
            HG_Free_output(info->info.forward.handle, pending->out);  // plain numbers: nothing goes
        }
    }
    pending->done = true;
    return HG_SUCCESS;
}

}  // namespace

void check_hg(hg_return_t code, const std::string& what) {
    if (code == HG_SUCCESS) {
        return;
    }
    const char* name = HG_Error_to_string(code);
    throw Failure(fmt::format("{}: {}", what, name != nullptr ? name : "unknown code"));
}

bool HgLane::turn(unsigned timeout_ms) {
    HG_Progress(context, timeout_ms);
    unsigned n = 0;
    HG_Trigger(context, 0, 64, &n);
    return n > 0;
}

void HgLane::call(const HgTarget& to, hg_id_t id, void* in, void* out) const {
    hg_handle_t handle = HG_HANDLE_NULL;
    check_hg(HG_Create(context, to.addr, id, &handle), "cannot create a handle");
    HG_Set_target_id(handle, to.context);
    Pending pending;
    pending.out = out;
    hg_return_t ret = HG_Forward(handle, on_answer, &pending, in);
    const std::uint64_t deadline = now_ns() + kCallTimeoutMs * 1'000'000ULL;
    while (ret == HG_SUCCESS && !pending.done) {
        HG_Progress(context, 100);
        unsigned n = 0;
        HG_Trigger(context, 0, 64, &n);
        if (now_ns() > deadline && !pending.done) {
            HG_Cancel(handle);
            while (!pending.done) {
                HG_Progress(context, 100);
                HG_Trigger(context, 0, 64, &n);
            }
            ret = HG_TIMEOUT;
        }
    }
    HG_Destroy(handle);
    check_hg(ret, "cannot ask the server");
    check_hg(pending.ret, "the server did not answer as it should");
}

HgSide::HgSide(const Options& o, bool server, const Handlers& handlers, void* data, unsigned rank)
    : options_(o), rank_(rank) {
    hg_init_info info = HG_INIT_INFO_INITIALIZER;
    std::string key = o.key;
    if (o.key_per_rank) {
        key = std::to_string(std::strtoul(key.c_str(), nullptr, 0) + rank);
    }
    const unsigned lanes = o.classes * o.contexts;
    const bool listen = server || o.self_send;
    info.na_init_info.auth_key = key.empty() ? nullptr : key.c_str();
    info.na_init_info.max_unexpected_size = o.message_size;
    info.na_init_info.max_expected_size = o.message_size;
    info.na_init_info.progress_mode = o.busy ? NA_NO_BLOCK : 0;
    info.na_init_info.max_contexts = static_cast<std::uint8_t>(o.contexts);
    // As much as can be promised: one thread, a thread per context, or any.
    info.na_init_info.thread_mode = o.thread_safe        ? 0
                                    : o.threads == 1     ? NA_THREAD_MODE_SINGLE
                                    : o.threads <= lanes ? NA_THREAD_MODE_SINGLE_CTX
                                                         : 0;
    info.auto_sm = o.auto_sm ? 1 : 0;
    // A description of memory is sent once, and the contents change after that: the contents of a
    // small one would go with it, and no transfer would move anything.
    info.no_bulk_eager = 1;
    info.no_multi_recv = o.no_multi_recv ? 1 : 0;
    info.multi_recv_op_max = o.multi_recv_ops;
    info.request_post_init = o.post_init;
    info.traffic_class = traffic_classes().at(o.traffic_class);
    try {
        for (unsigned c = 0; c < o.classes; ++c) {
            const std::string text = o.info_string(server, c);
            auto& open = *classes_.emplace_back(std::make_unique<OpenClass>());
            open.hg_class = HG_Init_opt2(text.c_str(), listen ? 1 : 0, HG_VERSION(2, 4), &info);
            if (open.hg_class == nullptr) {
                throw Failure(fmt::format("cannot open \"{}\" (hg_info lists what is here)", text));
            }
            open.rpcs = register_rpcs(open.hg_class, handlers);
            HG_Class_set_data(open.hg_class, data, nullptr);
            for (unsigned x = 0; x < o.contexts; ++x) {
                auto lane = std::make_unique<HgLane>();
                lane->hg_class = open.hg_class;
                lane->rpcs = &open.rpcs;
                lane->context = HG_Context_create_id(open.hg_class, static_cast<std::uint8_t>(x));
                if (lane->context == nullptr) {
                    throw Failure(fmt::format("cannot create context {} of \"{}\"", x, text));
                }
                lanes_.push_back(std::move(lane));
            }
            if (o.verbose) {
                notes_.push_back(fmt::format("Class {} using info string: {}", c, text));
            }
        }
        if (o.busy && o.verbose) {
            notes_.emplace_back("busy: no side of this process sleeps");
        }
    } catch (const Failure&) {
        release();
        throw;
    }
}

HgSide::~HgSide() {
    release();
}

void HgSide::release() noexcept {
    for (const auto& lane : lanes_) {
        auto& hg = static_cast<HgLane&>(*lane);
        hg.slots.clear();
        for (const HgTarget& target : hg.targets) {
            HG_Addr_free(hg.hg_class, target.addr);
        }
        HG_Context_destroy(hg.context);
    }
    lanes_.clear();
    for (const auto& open : classes_) {
        if (open->hg_class != nullptr) {
            HG_Finalize(open->hg_class);
        }
    }
    classes_.clear();
}

void HgSide::close() {
    for (const auto& lane : lanes_) {
        auto& hg = static_cast<HgLane&>(*lane);
        hg.slots.clear();
        for (const HgTarget& target : std::exchange(hg.targets, {})) {
            check_hg(HG_Addr_free(hg.hg_class, target.addr), "cannot free an address");
        }
        check_hg(HG_Context_destroy(hg.context), "cannot destroy a context");
    }
    lanes_.clear();
    for (const auto& open : classes_) {
        check_hg(HG_Finalize(std::exchange(open->hg_class, nullptr)), "cannot close a class");
    }
    classes_.clear();
}

std::vector<std::string> HgSide::addresses() const {
    std::vector<std::string> texts;
    for (const auto& open : classes_) {
        hg_addr_t self = HG_ADDR_NULL;
        check_hg(HG_Addr_self(open->hg_class, &self), "no address of one's own");
        std::string text(1024, '\0');
        hg_size_t size = text.size();
        const hg_return_t ret = HG_Addr_to_string(open->hg_class, text.data(), &size, self);
        HG_Addr_free(open->hg_class, self);
        check_hg(ret, "cannot print the address");
        text.resize(text.find('\0'));
        texts.push_back(text);
    }
    return texts;
}

void HgSide::connect(const std::vector<std::string>& addresses) {
    addresses_ = addresses;
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
        HgLane& hg = lane(i);
        const auto number = static_cast<unsigned>(i / options_.contexts);
        if (addresses.empty()) {
            HgTarget& self = hg.targets.emplace_back();
            check_hg(HG_Addr_self(hg.hg_class, &self.addr), "no address of one's own");
            self.context = static_cast<std::uint8_t>(i % options_.contexts);  // it drives itself
            continue;
        }
        for (const std::size_t at : targets_of(options_, rank_, number, addresses.size())) {
            check_hg(HG_Addr_lookup2(hg.hg_class, addresses[at].c_str(),
                                     &hg.targets.emplace_back().addr),
                     addresses[at] + " is no address");
        }
    }
    std::size_t i = 0;
    for (const auto& each : lanes_) {
        auto& hg = static_cast<HgLane&>(*each);
        const std::size_t own = i++ % options_.contexts;
        for (HgTarget& target : hg.targets) {
            Status status;
            hg.call(target, hg.rpcs->status, nullptr, &status);
            target.context = static_cast<std::uint8_t>(own % std::max(status.contexts, 1U));
            target.server = status.server;
        }
    }
}

std::vector<Status> HgSide::status() const {
    std::vector<Status> all;
    std::set<std::uint64_t> asked;
    for (const auto& each : lanes_) {
        const auto& hg = static_cast<const HgLane&>(*each);
        for (const HgTarget& target : hg.targets) {
            if (asked.insert(target.server).second) {
                hg.call(target, hg.rpcs->status, nullptr, &all.emplace_back());
            }
        }
    }
    return all;
}

void HgSide::shut_down() const {
    const HgLane& hg = lane(0);
    // The classes of a server end together: it is told once. Before the first is, all are known.
    std::map<std::uint64_t, HgTarget> servers;
    const auto forget = [&hg, &servers] {
        for (const auto& [server, target] : servers) {
            HG_Addr_free(hg.hg_class, target.addr);
        }
    };
    try {
        for (const std::string& address : addresses_) {
            HgTarget target;
            check_hg(HG_Addr_lookup2(hg.hg_class, address.c_str(), &target.addr),
                     address + " is no address");
            Status status;
            hg.call(target, hg.rpcs->status, nullptr, &status);
            if (!servers.emplace(status.server, target).second) {
                HG_Addr_free(hg.hg_class, target.addr);
            }
        }
        for (const auto& [server, target] : servers) {
            hg.call(target, hg.rpcs->done, nullptr, nullptr);
        }
    } catch (...) {
        forget();
        throw;
    }
    forget();
}

HgClient::HgClient(const Options& options, const std::vector<std::string>& addresses,
                   unsigned index)
    : options_(options),
      self_(options.self_send ? std::make_unique<HgService>(options) : nullptr),
      side_(options, false, self_ ? HgService::handlers() : Handlers{}, self_.get(), index) {
    side_.connect(addresses);
    bad_before_ = bad_requests();
}

std::uint64_t HgClient::bad_requests() const {
    std::uint64_t all = 0;
    for (const Status& status : side_.status()) {
        all += status.bad;
    }
    return all;
}

void HgClient::check(std::uint64_t size) {
    if (const std::uint64_t bad = bad_requests() - bad_before_; bad != 0) {
        throw Failure(fmt::format(
            "the server could not read {} requests, this client's of {} B or others'", bad, size));
    }
}

void HgClient::finish(Report& report) {
    if (options_.idle_seconds <= 0) {
        return;
    }
    const Status before = side_.status().front();
    const std::uint64_t cpu = cpu_ns();
    const std::uint64_t start = now_ns();
    const auto end = start + static_cast<std::uint64_t>(options_.idle_seconds * 1e9);
    for (std::uint64_t now = start; now < end; now = now_ns()) {
        side_.lane(0).turn(static_cast<unsigned>((end - now) / 1'000'000 + 1));
    }
    const double elapsed = static_cast<double>(now_ns() - start);
    const std::uint64_t used = cpu_ns() - cpu;
    const Status after = side_.status().front();
    report.figure("idle client", static_cast<double>(used) / elapsed * 100, "% of a processor");
    report.figure("idle server", static_cast<double>(after.cpu_ns - before.cpu_ns) / elapsed * 100,
                  "% of a processor");
}

void HgClient::shut_down() {
    if (!options_.self_send) {
        side_.shut_down();
    }
}

void HgClient::close() {
    if (self_) {
        self_->clear();
    }
    side_.close();
}

}  // namespace perf
