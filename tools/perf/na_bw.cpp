// SPDX-License-Identifier: BSD-3-Clause
// na_bw: puts or gets between registered memory, several in flight.
#include <fmt/format.h>

#include <cstring>
#include <string_view>

#include "memory.hpp"
#include "na_side.hpp"
#include "pattern.hpp"

namespace perf {
namespace {

// What describes memory of ours to the transport.
class Description {
 public:
    explicit Description(na_class_t* na_class) : class_(na_class) {}
    Description(const Description&) = delete;
    Description& operator=(const Description&) = delete;
    ~Description() { forget(); }

    na_return_t make(char* data, std::size_t bytes) {
        na_return_t ret = NA_Mem_handle_create(class_, data, bytes, NA_MEM_READWRITE, &handle_);
        if (ret == NA_SUCCESS) {
            ret = NA_Mem_register(class_, handle_, NA_MEM_TYPE_HOST, 0);
            registered_ = ret == NA_SUCCESS;
        }
        return ret;
    }
    void forget() {
        if (registered_) {
            NA_Mem_deregister(class_, handle_);
        }
        if (handle_ != nullptr) {
            NA_Mem_handle_free(class_, handle_);
        }
        handle_ = nullptr;
        registered_ = false;
    }
    na_mem_handle_t* handle() const noexcept { return handle_; }

 private:
    na_class_t* class_;
    na_mem_handle_t* handle_ = nullptr;
    bool registered_ = false;
};

// The memory of the handles of one context that go to the same target: ours, and the server's for
// it.
class Window {
 public:
    Window(const Options& options, NaLane& lane, const NaTarget& target, std::size_t bytes)
        : lane_(lane), target_(target), pages_(bytes), local_(lane.na_class) {
        if (!options.force_register) {
            check_na(local_.make(pages_.data(), bytes), "cannot register memory");
        }
        const NaOpen wanted{bytes};
        const std::string answer = lane.ask(target, NaRequest::open, &wanted, sizeof wanted);
        NaOpened opened;
        std::memcpy(&opened, answer.data(), std::min(answer.size(), sizeof opened));
        if (answer.size() >= sizeof opened && opened.session == 0) {
            throw Failure("the server refuses so much memory (it says why)");
        }
        if (answer.size() < sizeof opened + opened.handle_bytes) {
            throw Failure(
                "a memory handle does not fit into the transport's messages; -Z makes "
                "them larger");
        }
        session_ = opened.session;
        check_na(NA_Mem_handle_deserialize(lane.na_class, &remote_, answer.data() + sizeof opened,
                                           opened.handle_bytes),
                 "the server's memory handle is no good");
    }
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;
    ~Window() { NA_Mem_handle_free(lane_.na_class, remote_); }
    void leave() { lane_.ask(target_, NaRequest::close, &session_, sizeof session_); }

    char* at(std::size_t offset) const noexcept { return pages_.data() + offset; }
    // From or to the beginning of `fresh`, which describes the memory at that offset, if it is of
    // this operation only.
    na_return_t move(bool put, na_cb_t callback, void* arg, na_mem_handle_t* fresh,
                     std::size_t offset, std::size_t size, na_op_id_t* op) const {
        na_mem_handle_t* const local = fresh != nullptr ? fresh : local_.handle();
        const std::size_t local_offset = fresh != nullptr ? 0 : offset;
        return (put ? NA_Put : NA_Get)(lane_.na_class, lane_.context, callback, arg, local,
                                       local_offset, remote_, offset, size, target_.addr,
                                       target_.context, op);
    }
    NaLane& lane() const noexcept { return lane_; }
    std::uint64_t session() const noexcept { return session_; }

 private:
    NaLane& lane_;
    const NaTarget& target_;
    Pages pages_;
    Description local_;
    na_mem_handle_t* remote_ = nullptr;
    std::uint64_t session_ = 0;
};

class MoveSlot final : public Slot {
 public:
    MoveSlot(const Options& options, const Window& window, std::size_t offset, std::uint64_t seed)
        : window_(window),
          offset_(offset),
          put_(options.operation == "put"),
          verify_(options.verify),
          force_register_(options.force_register),
          local_(window.lane().na_class),
          op_(NA_Op_create(window.lane().na_class, NA_OP_SINGLE)),
          seed_(seed) {
        if (op_ == nullptr) {
            throw Failure("no memory for an operation");
        }
    }
    ~MoveSlot() override { NA_Op_destroy(window_.lane().na_class, op_); }

    void resize(std::uint64_t size) { size_ = size; }

    std::uint64_t wrong() const noexcept { return wrong_; }

 private:
    Outcome start() override {
        if (verify_) {
            if (put_) {
                fill_pattern(window_.at(offset_), size_, ++seed_);
            } else {
                std::memset(window_.at(offset_), 0, size_);
            }
        }
        if (force_register_) {
            const na_return_t ret =
                timed(registering_ns_, [this] { return local_.make(window_.at(offset_), size_); });
            if (ret != NA_SUCCESS) {
                return outcome_of(ret);
            }
        }
        return outcome_of(window_.move(put_, on_moved, this, local_.handle(), offset_, size_, op_));
    }
    static void on_moved(const na_cb_info* info) {
        auto* slot = static_cast<MoveSlot*>(info->arg);
        Outcome outcome = outcome_of(info->ret);
        if (outcome == nullptr && slot->verify_) {
            if (slot->put_) {
                outcome = slot->read_back();
                if (outcome == nullptr) {
                    return;  // another thread may be at it
                }
            } else {
                // The server's memory is one pattern from its beginning.
                slot->wrong_ += count_wrong(slot->window_.at(slot->offset_), slot->size_,
                                            slot->window_.session(), slot->offset_);
            }
        }
        slot->over(outcome);
    }
    void over(Outcome outcome) {
        if (force_register_) {
            timed(deregistering_ns_, [this] { return local_.forget(), 0; });
        }
        finished(outcome);
    }
    // What was put is where it should be if it comes from there.
    Outcome read_back() {
        std::memset(window_.at(offset_), 0, size_);
        return outcome_of(
            window_.move(false, on_read_back, this, local_.handle(), offset_, size_, op_));
    }
    static void on_read_back(const na_cb_info* info) {
        auto* slot = static_cast<MoveSlot*>(info->arg);
        if (info->ret == NA_SUCCESS) {
            slot->wrong_ += count_wrong(slot->window_.at(slot->offset_), slot->size_, slot->seed_);
        }
        slot->over(outcome_of(info->ret));
    }
    const Window& window_;
    std::size_t offset_;
    std::size_t size_ = 0;
    bool put_;
    bool verify_;
    bool force_register_;
    Description local_;  // of this operation only, with -R
    na_op_id_t* op_;
    std::uint64_t seed_;  // of the operation
    std::uint64_t wrong_ = 0;
};

class BandwidthClient final : public NaClient {
 public:
    BandwidthClient(const Options& options, const std::vector<std::string>& addresses,
                    unsigned index)
        : NaClient(options, addresses, index) {
        const std::size_t moves = std::size_t{options.buffers} * options.handles;
        need_memory({options.max_size, moves, side_.lanes().size(), options.clients}, "buffers");
        for (std::size_t i = 0; i < side_.lanes().size(); ++i) {
            NaLane& lane = side_.lane(i);
            std::vector<Window*> windows;
            for (std::size_t t = 0; t < lane.targets.size(); ++t) {
                const std::size_t handles = (options.handles - t - 1) / lane.targets.size() + 1;
                windows_.push_back(std::make_unique<Window>(
                    options, lane, lane.targets[t], options.max_size * options.buffers * handles));
                windows.push_back(windows_.back().get());
            }
            for (std::size_t n = 0; n < moves; ++n) {
                const std::size_t handle = n / options.buffers;
                const std::size_t place =
                    handle / windows.size() * options.buffers + n % options.buffers;
                lane.slots.push_back(std::make_unique<MoveSlot>(
                    options, *windows[handle % windows.size()], place * options.max_size,
                    first_seed(index, i * moves + n)));
            }
        }
    }
    // Slots use windows.
    ~BandwidthClient() override {
        for (const auto& lane : side_.lanes()) {
            lane->slots.clear();
        }
    }
    void prepare(std::uint64_t size) override {
        each([size](MoveSlot& slot) { slot.resize(size); });
    }
    void check(std::uint64_t size) override {
        each([size](const MoveSlot& slot) {
            if (const std::uint64_t n = slot.wrong(); n != 0) {
                throw Failure(fmt::format("{} wrong bytes at {} B", n, size));
            }
        });
    }
    void leave() override {
        for (const auto& lane : side_.lanes()) {
            lane->slots.clear();
        }
        for (const auto& window : windows_) {
            window->leave();
        }
        windows_.clear();
    }

 private:
    template <typename Function>
    void each(Function&& function) {
        for (const auto& lane : side_.lanes()) {
            for (const auto& slot : lane->slots) {
                function(static_cast<MoveSlot&>(*slot));
            }
        }
    }

    std::vector<std::unique_ptr<Window>> windows_;
};

}  // namespace
}  // namespace perf

int main(int argc, char** argv) {
    // The names of Mercury's tools say what they do.
    std::vector<std::string> operations = {"put", "get"};
    if (std::string_view(argv[0]).ends_with("_get")) {
        std::swap(operations[0], operations[1]);
    }
    const perf::Options options = perf::parse("na_bw", argc, argv,
                                              {.description = "Bandwidth of puts and gets",
                                               .buffers = true,
                                               .min_size = 1,
                                               .max_size = 1 << 24,
                                               .operations = operations});
    return perf::run_tool(options,
                          {.measure = perf::Measure::bandwidth,
                           .server = "na_perf_server",
                           .least_size = 1,
                           .open = [](const auto& o, const auto& addresses, unsigned index) {
                               return std::make_unique<perf::BandwidthClient>(o, addresses, index);
                           }});
}
