// SPDX-License-Identifier: BSD-3-Clause
#include "hg/port.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <new>

#include "hg/context.hpp"
#include "na/util/random.hpp"

namespace hg {
namespace {

using na::Lane;

constexpr std::size_t kLine = 64;
constexpr std::size_t kKitsPerSlab = 8;
// Receives beyond the limit of requests, so that further ones can be told. If their answers do not
// leave, what comes then waits with the transport.
constexpr std::int32_t kForRefusals = 16;
// Receives of a class that does not listen, which refuses each request.
constexpr std::int32_t kToRefuse = 2;

// Buffers of a power of two, one behind the other, would all start in the same set of the cache:
// one more line apart.
std::size_t stride(std::size_t size) noexcept {
    return (size + kLine - 1) / kLine * kLine + kLine;
}

}  // namespace

struct Port::Slab {
    explicit Slab(na::Class& c) : cls(c) {}
    Slab(const Slab&) = delete;
    Slab& operator=(const Slab&) = delete;
    ~Slab() {
        for (Kit& kit : kits) {
            cls.destroy_op(kit.send);
            cls.destroy_op(kit.recv);
        }
        cls.free_message(std::move(buffer));
    }

    na::Class& cls;
    na::MessageBuffer buffer;
    Kit kits[kKitsPerSlab];
};

Port::Port(Context& context, bulk::Rail rail, std::unique_ptr<na::Context> na)
    : shares(
          *this,
          {.handles = context.cls().options().request_limit,
           .stall = static_cast<std::int64_t>(context.cls().options().stall_timeout) * 1'000'000},
          context.threaded()),
      context_(context),
      rail_(rail),
      threaded_(context.threaded()),
      codec_flags_(
          static_cast<std::uint8_t>((rail == bulk::Rail::sm ? kCodecSm : 0) |
                                    (context.cls().options().bulk_eager ? kCodecBulkEager : 0))),
      na_(std::move(na)),
      turns_(na_->take_by_turns()),
      budget_(context.cls().listening()
                  ? static_cast<std::int32_t>(context.cls().options().post_init)
                  : kToRefuse),
      increment_(context.cls().listening() ? context.cls().options().post_incr : -1),
      limit_(context.cls().listening()
                 ? static_cast<std::int32_t>(context.cls().options().request_limit)
                 : -1),
      lock_(threaded_) {
    const na::Class& cls = na_->cls();
    for (const Lane lane : {Lane::unexpected, Lane::expected}) {
        size_[index(lane)] = cls.max_message(lane);
        headroom_[index(lane)] = cls.headroom(lane);
        payload_at_[index(lane)] =
            headroom_[index(lane)] +
            (lane == Lane::unexpected ? wire::kRequestSize : wire::kResponseSize);
        room_[index(lane)] = size_[index(lane)] - payload_at_[index(lane)];
    }
    tag_mask_ = na_->bundle_tag();
    if (na_->can_bundle()) {
        // Whether or not we send such ourselves.
        na_->split_bundles();
        const Options& options = context.cls().options();
        gathers_ =
            options.coalesce == Options::Coalesce::always ||
            (options.coalesce == Options::Coalesce::where_it_pays && cls.caps().costly_messages);
        if (gathers_) {
            na_->gather(options.coalesce_limit);
        }
    }
    injects_ = context.cls().checksum_flags() == 0 && cls.caps().inject != 0 && na_->can_bundle();
    plain_ = injects_ && !gathers_ && na_->matches_here();
    tag_step_ = std::uint32_t{1} << std::bit_width(static_cast<unsigned>(cls.contexts() - 1));
    std::array<std::uint64_t, 2> numbers;
    na::util::random_numbers(numbers);
    salt_ = static_cast<std::uint32_t>(numbers[0]);
    tickets_.store((static_cast<std::uint32_t>(numbers[1]) & ~(tag_step_ - 1)) | na_->id(),
                   std::memory_order_relaxed);
}

Port::~Port() {
    na_.reset();  // before the operations that may still be posted there
}

void Port::add_slab() {
    na::Class& cls = na_->cls();
    auto slab = std::make_unique<Slab>(cls);
    const std::size_t input = stride(size(Lane::unexpected));
    const std::size_t output = stride(size(Lane::expected));
    const std::size_t ack = stride(headroom(Lane::expected) + wire::kResponseSize);
    slab->buffer =
        cls.allocate_message(kKitsPerSlab * (input + output + ack), na::Class::Use::lasting);
    if (slab->buffer.data == nullptr) {
        throw std::bad_alloc();
    }
    auto* at = static_cast<std::byte*>(slab->buffer.data);
    for (Kit& kit : slab->kits) {
        kit.port = this;
        kit.send = cls.create_op(false);
        kit.recv = cls.create_op(false);
        kit.region = slab->buffer.region.get();
        kit.input = at;
        kit.output = kit.input + input;
        kit.ack = kit.output + output;
        at = kit.ack + ack;
    }
    slabs_.push_back(std::move(slab));
    for (Kit& kit : slabs_.back()->kits) {
        kit.next = std::exchange(free_, &kit);
    }
}

Kit* Port::take_kit() {
    const std::lock_guard guard(lock_);
    if (free_ == nullptr) {
        add_slab();
    }
    Kit* kit = free_;
    free_ = kit->next;
    return kit;
}

void Port::give_kit(Kit* kit) noexcept {
    if (kit != nullptr) {
        const std::lock_guard guard(lock_);
        kit->next = std::exchange(free_, kit);
    }
}

bool Port::enter_budget() noexcept {
    if (add(active_, 1) < budget_.load(std::memory_order_relaxed)) {
        return true;
    }
    add(active_, -1);
    return false;
}

// So many receives that there are never more refusals at a time than are answered.
std::int32_t Port::most() const noexcept {
    return limit_ + kForRefusals + kept_.load(std::memory_order_relaxed);
}

bool Port::kept_ended() noexcept {
    add(kept_, -1);
    if (budget_.load(std::memory_order_relaxed) <= most()) {
        return true;
    }
    add(budget_, -1);
    return false;
}

bool Port::raise_budget() noexcept {
    const std::int32_t most = this->most();
    const std::int32_t now = budget_.load(std::memory_order_relaxed);
    if (increment_ < 0 || now >= most) {
        return false;
    }
    budget_.store(increment_ < most - now ? now + increment_ : most, std::memory_order_relaxed);
    return true;
}

}  // namespace hg
