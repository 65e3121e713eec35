// SPDX-License-Identifier: BSD-3-Clause
// na_lat: a message to the server and one back; half of that is what it takes.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "na_side.hpp"
#include "pattern.hpp"

namespace perf {
namespace {

class BounceSlot final : public Slot {
 public:
    BounceSlot(const Options& options, const NaLane& lane, unsigned number, std::uint64_t seed)
        : options_(options),
          lane_(lane),
          target_(lane.target(number)),
          tag_(NaTag::of(options.verify ? NaRequest::bounce_bytes : NaRequest::bounce, lane.id,
                         number)),
          out_(lane.na_class, NaBuffer::Lane::unexpected, NA_SEND),
          in_(lane.na_class, NaBuffer::Lane::expected, NA_RECV),
          seed_(seed) {}

    void resize(std::uint64_t size) {
        size_ = size;
        fill_pattern(out_.payload(), size, seed_);
    }
    std::uint64_t wrong() const noexcept { return wrong_; }

 private:
    Outcome start() override {
        if (options_.verify) {
            fill_pattern(out_.payload(), size_, ++seed_);
        }
        pending_.store(2);
        outcome_.store(nullptr);
        const na_return_t posted = NA_Msg_recv_expected(
            lane_.na_class, lane_.context, on_received, this, in_.data, in_.size, in_.plugin_data,
            target_.addr, target_.context, tag_, in_.op);
        if (posted != NA_SUCCESS) {
            return outcome_of(posted);
        }
        const na_return_t sent = NA_Msg_send_unexpected(
            lane_.na_class, lane_.context, on_sent, this, out_.data, out_.header + size_,
            out_.plugin_data, target_.addr, target_.context, tag_, out_.op);
        if (sent == NA_SUCCESS) {
            return nullptr;  // both may be over already, and the next operation under way
        }
        // The receive ends the operation, unless another thread has seen it end before.
        note(outcome_of(sent));
        NA_Cancel(lane_.na_class, lane_.context, in_.op);
        return pending_.fetch_sub(1) == 1 ? outcome_.load() : nullptr;
    }

    static void on_sent(const na_cb_info* info) {
        auto* slot = static_cast<BounceSlot*>(info->arg);
        if (info->ret != NA_SUCCESS) {
            NA_Cancel(slot->lane_.na_class, slot->lane_.context, slot->in_.op);
        }
        slot->one_over(outcome_of(info->ret));
    }
    static void on_received(const na_cb_info* info) {
        auto* slot = static_cast<BounceSlot*>(info->arg);
        if (info->ret == NA_SUCCESS && slot->options_.verify) {
            const std::size_t got = info->info.recv_expected.actual_buf_size - slot->in_.header;
            slot->wrong_ +=
                got != slot->size_ ? 1U : count_wrong(slot->in_.payload(), got, slot->seed_);
        }
        slot->one_over(outcome_of(info->ret));
    }
    // What failed first is the cause; the other half is canceled then. Where several threads drive
    // the context both halves may end at once.
    void note(Outcome outcome) {
        Outcome none = nullptr;
        if (outcome != nullptr) {
            outcome_.compare_exchange_strong(none, outcome);
        }
    }
    void one_over(Outcome outcome) {
        note(outcome);
        if (pending_.fetch_sub(1) == 1) {
            finished(outcome_.load());
        }
    }

    const Options& options_;
    const NaLane& lane_;
    const NaTarget& target_;
    na_tag_t tag_;
    NaBuffer out_;
    NaBuffer in_;
    std::size_t size_ = 0;
    std::atomic<unsigned> pending_{0};
    std::atomic<Outcome> outcome_{nullptr};
    std::uint64_t seed_;  // of the operation
    std::uint64_t wrong_ = 0;
};

class LatencyClient final : public NaClient {
 public:
    LatencyClient(const Options& options, const std::vector<std::string>& addresses, unsigned index)
        : NaClient(options, addresses, index) {
        for (std::size_t i = 0; i < side_.lanes().size(); ++i) {
            for (unsigned x = 0; x < options.handles; ++x) {
                side_.lane(i).slots.push_back(std::make_unique<BounceSlot>(
                    options, side_.lane(i), x, first_seed(index, i * options.handles + x)));
            }
        }
    }
    std::uint64_t max_size() const override {
        const na_class_t* c = side_.lane(0).na_class;
        return std::min(NA_Msg_get_max_unexpected_size(c) - NA_Msg_get_unexpected_header_size(c),
                        NA_Msg_get_max_expected_size(c) - NA_Msg_get_expected_header_size(c));
    }
    void prepare(std::uint64_t size) override {
        each([size](BounceSlot& slot) { slot.resize(size); });
    }
    void check(std::uint64_t size) override {
        each([size](BounceSlot& slot) {
            if (slot.wrong() != 0) {
                throw Failure(fmt::format("{} wrong bytes came back at {} B", slot.wrong(), size));
            }
        });
    }

 private:
    template <typename Function>
    void each(Function&& function) {
        for (const auto& lane : side_.lanes()) {
            for (const auto& slot : lane->slots) {
                function(static_cast<BounceSlot&>(*slot));
            }
        }
    }
};

}  // namespace
}  // namespace perf

int main(int argc, char** argv) {
    const perf::Options options =
        perf::parse("na_lat", argc, argv,
                    {.description = "Latency of messages: half of the time there and back",
                     .min_size = 1,
                     .max_size = 1ULL << 30});
    return perf::run_tool(options,
                          {.measure = perf::Measure::one_way,
                           .server = "na_perf_server",
                           .open = [](const auto& o, const auto& addresses, unsigned index) {
                               return std::make_unique<perf::LatencyClient>(o, addresses, index);
                           }});
}
