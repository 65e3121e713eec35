// SPDX-License-Identifier: BSD-3-Clause
#include "na_service.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "memory.hpp"
#include "pattern.hpp"

namespace perf {

// Memory that clients put to and get from.
class NaService::Memories {
 public:
    // The answer to a client's wish.
    std::string open(na_class_t* na_class, const NaOpen& wanted) {
        NaOpened opened;
        auto memory = std::make_unique<Memory>();
        memory->na_class = na_class;
        std::string handle;
        const std::uint64_t session = last_.fetch_add(1) + 1;
        try {
            need_memory({wanted.bytes}, "a client's buffers");
            memory->pages = Pages(wanted.bytes);
            fill_pattern(memory->pages.data(), wanted.bytes, session);
            check_na(NA_Mem_handle_create(na_class, memory->pages.data(), wanted.bytes,
                                          NA_MEM_READWRITE, &memory->handle),
                     "cannot describe memory for a client");
            check_na(NA_Mem_register(na_class, memory->handle, NA_MEM_TYPE_HOST, 0),
                     "cannot register memory for a client");
            handle.resize(NA_Mem_handle_get_serialize_size(na_class, memory->handle));
            check_na(
                NA_Mem_handle_serialize(na_class, handle.data(), handle.size(), memory->handle),
                "cannot tell a client of its memory");
        } catch (const std::exception& e) {
            fmt::print(stderr, "na_perf_server: {}\n", e.what());
            return bytes_of(opened, {});
        }
        const std::lock_guard lock(mutex_);
        opened.session = session;
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
        ~Memory() {
            if (handle != nullptr) {
                NA_Mem_handle_free(na_class, handle);
            }
        }
    };
    static std::string bytes_of(const NaOpened& opened, const std::string& handle) {
        std::string all(reinterpret_cast<const char*>(&opened), sizeof opened);
        return all + handle;
    }

    std::mutex mutex_;
    std::atomic<std::uint64_t> last_{0};
    std::map<std::uint64_t, std::unique_ptr<Memory>> memories_;
};

// A receive, and the answer to what it received.
class NaService::Receiver {
 public:
    Receiver(NaLane& lane, NaService& service)
        : lane_(lane),
          service_(service),
          in_(lane.na_class, NaBuffer::Lane::unexpected, NA_RECV),
          out_(lane.na_class, NaBuffer::Lane::expected, NA_SEND) {}

    // What is said of the operations is said before they are posted: where several threads drive a
    // context, the callback of one may be over before its post has returned.
    void post() {
        posted_.store(true);
        if (NA_Msg_recv_unexpected(lane_.na_class, lane_.context, on_request, this, in_.data,
                                   in_.size, in_.plugin_data, in_.op) != NA_SUCCESS) {
            posted_.store(false);
        }
    }
    void cancel() {
        if (posted_.load()) {
            NA_Cancel(lane_.na_class, lane_.context, in_.op);
        }
    }
    bool idle() const noexcept { return !posted_.load() && !answering_.load(); }

 private:
    static void on_request(const na_cb_info* info) {
        auto* receiver = static_cast<Receiver*>(info->arg);
        receiver->posted_.store(false);
        if (info->ret != NA_SUCCESS) {
            if (info->ret != NA_CANCELED) {
                receiver->post();
            }
            return;
        }
        const auto& got = info->info.recv_unexpected;
        const bool answered = receiver->answer(got);
        NA_Addr_free(receiver->lane_.na_class, got.source);
        // With an answer under way on_answered posts, perhaps has done so on another thread.
        if (!answered && !receiver->service_.stopped_.load()) {
            receiver->post();
        }
    }

    // true: on_answered follows.
    bool answer(const na_cb_info_recv_unexpected& got) {
        const std::size_t size =
            got.actual_buf_size < in_.header ? 0 : got.actual_buf_size - in_.header;
        std::size_t answer_size = 0;
        std::string text;
        stops_ = false;
        switch (NaTag::request(got.tag)) {
            case NaRequest::hello: {
                NaHello hello;
                hello.server = service_.id_;
                hello.contexts = service_.options_.contexts;
                text.assign(reinterpret_cast<const char*>(&hello), sizeof hello);
                break;
            }
            case NaRequest::bounce:
                answer_size = std::min(size, out_.room());
                break;
            case NaRequest::bounce_bytes:
                answer_size = std::min(size, out_.room());
                std::memcpy(out_.payload(), in_.payload(), answer_size);
                break;
            case NaRequest::open: {
                NaOpen wanted;
                std::memcpy(&wanted, in_.payload(), std::min(size, sizeof wanted));
                text = service_.memories_->open(lane_.na_class, wanted);
                break;
            }
            case NaRequest::close: {
                std::uint64_t session = 0;
                std::memcpy(&session, in_.payload(), std::min(size, sizeof session));
                service_.memories_->close(session);
                break;
            }
            case NaRequest::done:
                stops_ = !service_.options_.no_shutdown;
                break;
            default:
                return false;
        }
        if (!text.empty()) {
            answer_size = std::min(text.size(), out_.room());
            std::memcpy(out_.payload(), text.data(), answer_size);
        }
        answering_.store(true);
        const bool sent =
            NA_Msg_send_expected(lane_.na_class, lane_.context, on_answered, this, out_.data,
                                 out_.header + answer_size, out_.plugin_data, got.source,
                                 NaTag::context(got.tag), got.tag, out_.op) == NA_SUCCESS;
        if (!sent) {
            answering_.store(false);
        }
        return sent;
    }

    static void on_answered(const na_cb_info* info) {
        auto* receiver = static_cast<Receiver*>(info->arg);
        receiver->answering_.store(false);
        if (receiver->stops_) {
            receiver->service_.stop();
        }
        if (!receiver->service_.stopped_.load()) {
            receiver->post();
        }
    }

    NaLane& lane_;
    NaService& service_;
    NaBuffer in_;
    NaBuffer out_;
    std::atomic<bool> posted_{false};
    std::atomic<bool> answering_{false};
    bool stops_ = false;  // said before the answer is sent, looked at when it has been
};

NaService::NaService(const Options& options, const Lanes& lanes)
    : options_(options), id_(random_id()), lanes_(lanes), memories_(std::make_unique<Memories>()) {
    for (const auto& lane : lanes) {
        for (unsigned n = 0; n < (options.post_init != 0 ? options.post_init : 64); ++n) {
            receivers_.push_back(std::make_unique<Receiver>(static_cast<NaLane&>(*lane), *this));
            receivers_.back()->post();
        }
    }
}

NaService::~NaService() = default;

void NaService::close() {
    stopped_.store(true);
    for (const auto& receiver : receivers_) {
        receiver->cancel();
    }
    for (const auto& receiver : receivers_) {
        while (!receiver->idle()) {
            for (const auto& lane : lanes_) {
                lane->turn(0);
            }
        }
    }
    receivers_.clear();
    memories_->clear();
}

}  // namespace perf
