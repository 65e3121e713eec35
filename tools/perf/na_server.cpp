// SPDX-License-Identifier: BSD-3-Clause
// na_perf_server: the other side of na_lat and na_bw.
#include <fmt/format.h>
#include <signal.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "memory.hpp"
#include "na_side.hpp"
#include "pattern.hpp"
#include "processes.hpp"

namespace perf {
namespace {

std::atomic<bool> g_stop{false};

// Memory that clients put to and get from.
class Memories {
 public:
    // The answer to a client's wish.
    std::string open(na_class_t* na_class, const NaOpen& wanted) {
        NaOpened opened;
        auto memory = std::make_unique<Memory>();
        memory->na_class = na_class;
        try {
            need_memory(wanted.bytes, "a client's buffers");
            memory->pages = Pages(wanted.bytes);
        } catch (const std::exception& e) {
            fmt::print(stderr, "na_perf_server: {}\n", e.what());
            return bytes_of(opened, {});
        }
        fill_pattern(memory->pages.data(), wanted.bytes, 0);
        if (NA_Mem_handle_create(na_class, memory->pages.data(), wanted.bytes, NA_MEM_READWRITE,
                                 &memory->handle) != NA_SUCCESS ||
            NA_Mem_register(na_class, memory->handle, NA_MEM_TYPE_HOST, 0) != NA_SUCCESS) {
            return bytes_of(opened, {});
        }
        std::string handle(NA_Mem_handle_get_serialize_size(na_class, memory->handle), '\0');
        if (NA_Mem_handle_serialize(na_class, handle.data(), handle.size(), memory->handle) !=
            NA_SUCCESS) {
            return bytes_of(opened, {});
        }
        const std::lock_guard lock(mutex_);
        opened.session = ++last_;
        opened.handle_bytes = handle.size();
        memories_.emplace(opened.session, std::move(memory));
        return bytes_of(opened, handle);
    }
    void close(std::uint64_t session) {
        const std::lock_guard lock(mutex_);
        memories_.erase(session);
    }
    void clear() { memories_.clear(); }

 private:
    struct Memory {
        na_class_t* na_class = nullptr;
        Pages pages;
        na_mem_handle_t* handle = nullptr;
        ~Memory() { NA_Mem_handle_free(na_class, handle); }
    };
    static std::string bytes_of(const NaOpened& opened, const std::string& handle) {
        std::string all(reinterpret_cast<const char*>(&opened), sizeof opened);
        return all + handle;
    }

    std::mutex mutex_;
    std::uint64_t last_ = 0;
    std::map<std::uint64_t, std::unique_ptr<Memory>> memories_;
};

// A receive, and the answer to what it received.
class Receiver {
 public:
    Receiver(NaLane& lane, const Options& options, Memories& memories)
        : lane_(lane),
          options_(options),
          memories_(memories),
          in_(lane.na_class, NaBuffer::Lane::unexpected, NA_RECV),
          out_(lane.na_class, NaBuffer::Lane::expected, NA_SEND) {}

    void post() {
        posted_ = NA_Msg_recv_unexpected(lane_.na_class, lane_.context, on_request, this, in_.data,
                                         in_.size, in_.plugin_data, in_.op) == NA_SUCCESS;
    }
    void cancel() {
        if (posted_) {
            NA_Cancel(lane_.na_class, lane_.context, in_.op);
        }
    }
    bool idle() const noexcept { return !posted_ && !answering_; }

 private:
    static void on_request(const na_cb_info* info) {
        auto* receiver = static_cast<Receiver*>(info->arg);
        receiver->posted_ = false;
        if (info->ret != NA_SUCCESS) {
            if (info->ret != NA_CANCELED) {
                receiver->post();
            }
            return;
        }
        const auto& got = info->info.recv_unexpected;
        receiver->answer(got);
        NA_Addr_free(receiver->lane_.na_class, got.source);
        if (!receiver->answering_ && !g_stop.load()) {
            receiver->post();
        }
    }

    void answer(const na_cb_info_recv_unexpected& got) {
        const std::size_t size =
            got.actual_buf_size < in_.header ? 0 : got.actual_buf_size - in_.header;
        std::size_t answer_size = 0;
        std::string text;
        stops_ = false;
        switch (NaTag::request(got.tag)) {
            case NaRequest::contexts: {
                const std::uint32_t contexts = options_.contexts;
                text.assign(reinterpret_cast<const char*>(&contexts), sizeof contexts);
                break;
            }
            case NaRequest::bounce:
                answer_size = std::min(size, out_.room());
                if (options_.verify) {
                    std::memcpy(out_.payload(), in_.payload(), answer_size);
                }
                break;
            case NaRequest::open: {
                NaOpen wanted;
                std::memcpy(&wanted, in_.payload(), std::min(size, sizeof wanted));
                text = memories_.open(lane_.na_class, wanted);
                break;
            }
            case NaRequest::close: {
                std::uint64_t session = 0;
                std::memcpy(&session, in_.payload(), std::min(size, sizeof session));
                memories_.close(session);
                break;
            }
            case NaRequest::done:
                stops_ = !options_.no_shutdown;
                break;
            default:
                return;
        }
        if (!text.empty()) {
            answer_size = std::min(text.size(), out_.room());
            std::memcpy(out_.payload(), text.data(), answer_size);
        }
        answering_ =
            NA_Msg_send_expected(lane_.na_class, lane_.context, on_answered, this, out_.data,
                                 out_.header + answer_size, out_.plugin_data, got.source,
                                 NaTag::context(got.tag), got.tag, out_.op) == NA_SUCCESS;
    }

    static void on_answered(const na_cb_info* info) {
        auto* receiver = static_cast<Receiver*>(info->arg);
        receiver->answering_ = false;
        if (receiver->stops_) {
            g_stop.store(true);
        }
        if (!g_stop.load()) {
            receiver->post();
        }
    }

    NaLane& lane_;
    const Options& options_;
    Memories& memories_;
    NaBuffer in_;
    NaBuffer out_;
    bool posted_ = false;
    bool answering_ = false;
    bool stops_ = false;
};

void run(const Options& options) {
    Driving driving;
    driving.threads = options.threads;
    driving.busy = options.busy;
    driving.cpus = options.cpus;
    pin(driving.cpus, 0);
    NaSide side(options, true);
    Memories memories;
    std::vector<std::unique_ptr<Receiver>> receivers;
    for (std::size_t i = 0; i < side.lanes().size(); ++i) {
        for (unsigned n = 0; n < (options.post_init != 0 ? options.post_init : 64); ++n) {
            receivers.push_back(std::make_unique<Receiver>(side.lane(i), options, memories));
            receivers.back()->post();
        }
    }
    announce(options, side.addresses());
    serve(side.lanes(), driving, g_stop);
    for (const auto& receiver : receivers) {
        receiver->cancel();
    }
    for (const auto& receiver : receivers) {
        while (!receiver->idle()) {
            for (const auto& lane : side.lanes()) {
                lane->turn(0);
            }
        }
    }
    receivers.clear();
    memories.clear();
    side.close();
}

}  // namespace
}  // namespace perf

int main(int argc, char** argv) {
    const perf::Options options =
        perf::parse("na_perf_server", argc, argv,
                    {.description = "Server of na_lat and na_bw", .server = true});
    const auto stop = [](int) { perf::g_stop.store(true); };
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    try {
        perf::run(options);
        return 0;
    } catch (const std::exception& failure) {
        return perf::report_failure(options, failure.what());
    }
}
