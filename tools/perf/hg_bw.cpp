// SPDX-License-Identifier: BSD-3-Clause
// hg_bw: bulk data that a server reads (write: it pulls) or writes (read: it pushes), and large
// arguments.
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "hg_args.hpp"
#include "memory.hpp"
#include "pattern.hpp"

namespace perf {
namespace {

// The memory of one handle in flight.
class BulkSlot final : public Slot {
 public:
    BulkSlot(const Options& options, const HgLane& lane, const HgTarget& target,
             std::uint64_t client, std::uint64_t seed)
        : options_(options),
          lane_(lane),
          target_(target),
          sizes_(options.buffers, options.max_size) {
        buffers_.resize(options.buffers);
        if (!options.library_memory) {
            pages_ = Pages(options.max_size * options.buffers);
            for (std::size_t i = 0; i < buffers_.size(); ++i) {
                buffers_[i] = pages_.data() + i * options.max_size;
            }
        }
        check_hg(HG_Bulk_create(lane.hg_class, options.buffers,
                                options.library_memory ? nullptr : buffers_.data(), sizes_.data(),
                                HG_BULK_READWRITE, &bulk_.value),
                 "cannot register memory");
        if (options.library_memory) {
            for (std::size_t i = 0; i < buffers_.size(); ++i) {
                hg_size_t got = 0;
                std::uint32_t pieces = 0;
                HG_Bulk_access(bulk_.value, i * options.max_size, options.max_size,
                               HG_BULK_READWRITE, 1, &buffers_[i], &got, &pieces);
                std::memset(buffers_[i], 1, got);
            }
        }
        BulkOpen wanted{client, options.buffers, options.max_size,
                        static_cast<std::uint8_t>(options.library_memory ? 1 : 0), bulk_.value};
        Number session;
        lane.call(target, lane.rpcs->bulk_open, &wanted, &session);
        if (session.value == 0) {
            throw Failure("the server refuses so much memory (it says why)");
        }
        if (options.force_register) {
            // Each operation registers: not on top of a registration that is still there.
            HG_Bulk_free(std::exchange(bulk_.value, HG_BULK_NULL));
        }
        fresh_.move.session = session.value;
        fresh_.move.push = options.operation == "read" ? 1 : 0;
        fresh_.move.verify = options.verify ? 1 : 0;
        fresh_.move.buffers = options.buffers;
        fresh_.move.seed = seed;
        check_hg(
            HG_Create(lane.context, target.addr,
                      options.force_register ? lane.rpcs->bulk_move_fresh : lane.rpcs->bulk_move,
                      &handle_),
            "cannot create a handle");
        HG_Set_target_id(handle_, target.context);
    }
    ~BulkSlot() override {
        HG_Destroy(handle_);
        HG_Bulk_free(fresh_.bulk);
    }

    void resize(std::uint64_t size) {
        fresh_.move.size = size;
        if (options_.force_register) {
            sizes_.assign(sizes_.size(), size);
        }
    }
    std::uint64_t wrong() const noexcept { return wrong_; }

    // The server forgets the session, so that it lets go of our memory before we do.
    void leave() const {
        Number number{fresh_.move.session};
        lane_.call(target_, lane_.rpcs->bulk_close, &number, nullptr);
    }

 private:
    Outcome start() override {
        if (options_.verify) {
            ++fresh_.move.seed;
            for (std::size_t i = 0; i < buffers_.size(); ++i) {
                if (fresh_.move.push == 0) {
                    fill_pattern(buffers_[i], fresh_.move.size, seed_of(i));
                } else {
                    std::memset(buffers_[i], 0, fresh_.move.size);
                }
            }
        }
        if (!options_.force_register) {
            return outcome_of(HG_Forward(handle_, on_answer, this, &fresh_.move));
        }
        const hg_return_t ret = timed(registering_ns_, [this] {
            return HG_Bulk_create(lane_.hg_class, options_.buffers, buffers_.data(), sizes_.data(),
                                  HG_BULK_READWRITE, &fresh_.bulk);
        });
        return outcome_of(ret != HG_SUCCESS ? ret : HG_Forward(handle_, on_answer, this, &fresh_));
    }

    static hg_return_t on_answer(const hg_cb_info* info) {
        auto* slot = static_cast<BulkSlot*>(info->arg);
        slot->finished(info->ret == HG_SUCCESS ? slot->answered() : outcome_of(info->ret));
        return HG_SUCCESS;
    }

    Outcome answered() {
        BulkMoved answer;
        if (const hg_return_t ret = HG_Get_output(handle_, &answer); ret != HG_SUCCESS) {
            return outcome_of(ret);
        }
        HG_Free_output(handle_, &answer);
        if (options_.force_register) {
            timed(deregistering_ns_,
                  [this] { return HG_Bulk_free(std::exchange(fresh_.bulk, HG_BULK_NULL)); });
        }
        if (answer.code != HG_SUCCESS) {
            return outcome_of(static_cast<hg_return_t>(answer.code));
        }
        return options_.verify ? verified(answer) : nullptr;
    }

    Outcome verified(const BulkMoved& answer) {
        Digest ours;
        for (std::size_t i = 0; i < buffers_.size(); ++i) {
            if (fresh_.move.push != 0) {
                wrong_ += count_wrong(buffers_[i], fresh_.move.size, seed_of(i));
            } else {
                ours.add(buffers_[i], fresh_.move.size);
            }
        }
        return ours == answer.digest ? nullptr : "the server read other bytes than are there";
    }
    std::uint64_t seed_of(std::size_t buffer) const noexcept {
        return buffer_seed(fresh_.move.seed, buffer);
    }

    const Options& options_;
    const HgLane& lane_;
    const HgTarget& target_;
    Pages pages_;
    std::vector<void*> buffers_;
    std::vector<hg_size_t> sizes_;  // of what is registered
    // Freed, too, when the server refuses and this is never made.
    struct Description {
        hg_bulk_t value = HG_BULK_NULL;
        ~Description() { HG_Bulk_free(value); }
    } bulk_;
    hg_handle_t handle_ = HG_HANDLE_NULL;
    BulkMoveFresh fresh_;
    std::uint64_t wrong_ = 0;
};

class BulkClient final : public HgClient {
 public:
    BulkClient(const Options& options, const std::vector<std::string>& addresses, unsigned index)
        : HgClient(options, addresses, index) {
        need_memory({options.max_size, options.buffers, options.handles, side_.lanes().size(),
                     options.clients},
                    "buffers");
        const std::uint64_t client = random_id();
        for (std::size_t i = 0; i < side_.lanes().size(); ++i) {
            for (unsigned x = 0; x < options.handles; ++x) {
                side_.lane(i).slots.push_back(
                    std::make_unique<BulkSlot>(options, side_.lane(i), side_.lane(i).target(x),
                                               client, first_seed(index, i * options.handles + x)));
            }
        }
    }

    void prepare(std::uint64_t size) override {
        each([size](BulkSlot& slot) { slot.resize(size); });
    }
    void check(std::uint64_t size) override {
        HgClient::check(size);
        each([size](BulkSlot& slot) {
            if (slot.wrong() != 0) {
                throw Failure(fmt::format("{} wrong bytes came at {} B", slot.wrong(), size));
            }
        });
    }
    void leave() override {
        each([](BulkSlot& slot) { slot.leave(); });
    }

 private:
    template <typename Function>
    void each(Function&& function) {
        for (const auto& lane : side_.lanes()) {
            for (const auto& slot : lane->slots) {
                function(static_cast<BulkSlot&>(*slot));
            }
        }
    }
};

std::unique_ptr<Client> open_bulk(const Options& options, const std::vector<std::string>& addresses,
                                  unsigned index) {
    return std::make_unique<BulkClient>(options, addresses, index);
}

// The names of Mercury's tools say what they do.
std::vector<std::string> operations_of(std::string_view name) {
    std::vector<std::string> all = {"write", "read", "args"};
    if (name.ends_with("_read")) {
        std::swap(all[0], all[1]);
    }
    return all;
}

}  // namespace
}  // namespace perf

int main(int argc, char** argv) {
    const perf::Options options =
        perf::parse("hg_bw", argc, argv,
                    {.description = "Bandwidth of bulk data (write: the server pulls, read: it "
                                    "pushes) and of large arguments",
                     .buffers = true,
                     .min_size = 4096,
                     .max_size = 1 << 24,
                     .operations = perf::operations_of(argv[0]),
                     .rpc = true});
    perf::Task task{
        .measure = perf::Measure::bandwidth, .server = "hg_perf_server", .least_size = 1};
    if (options.operation == "args") {
        task.open = perf::open_args;
    } else {
        task.open = perf::open_bulk;
        task.transfers = options.buffers;
    }
    return perf::run_tool(options, task);
}
