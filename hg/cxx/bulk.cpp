// SPDX-License-Identifier: BSD-3-Clause
// hg::Bulk: descriptors of bulk/ in the C++ API, and one transfer from start to end.
#include "hg/bulk.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "bulk/transfer.hpp"
#include "bulk/wire.hpp"
#include "hg/cxx/engine_core.hpp"

namespace hg::detail {
namespace {

static_assert(static_cast<int>(Share::read) == static_cast<int>(::bulk::Access::read) &&
              static_cast<int>(Share::write) == static_cast<int>(::bulk::Access::write));

std::vector<std::byte> encoded(const Address& address, bool with_sm) {
    std::vector<std::byte> bytes(address.encoded_size(with_sm));
    (void)address.encode(bytes, with_sm);  // as long as it said
    return bytes;
}

void fill(::bulk::Owner& owner, AddressRef address) {
    owner.address = encoded(*address, false);
    if (address->sm() != nullptr && address->net() != nullptr) {
        owner.address_with_sm = encoded(*address, true);
    }
    owner.resolved = address.release();
    owner.release = [](void* a) noexcept { AddressRef::adopt(static_cast<Address*>(a)).reset(); };
}

Result<BulkRef> made(EngineCore& engine, Result<::bulk::BulkRef> bulk) {
    if (!bulk) {
        return std::move(bulk).error();
    }
    engine.ref();
    return BulkRef(bulk->release(), &engine);
}

}  // namespace

// --- descriptors
// -----------------------------------------------------------------------------------------------------

BulkRef::BulkRef(const BulkRef& other) noexcept
    : bulk_(other.bulk_), engine_(other.engine_), peer_(other.peer_), context_(other.context_) {
    if (bulk_ != nullptr) {
        bulk_->ref();
    }
    if (engine_ != nullptr) {
        engine_->ref();
    }
    if (peer_ != nullptr) {
        ref(peer_);
    }
}

BulkRef::~BulkRef() {
    if (bulk_ != nullptr) {
        bulk_->unref();
    }
    if (peer_ != nullptr) {
        unref(peer_);
    }
    if (engine_ != nullptr) {
        engine_->unref();
    }
}

EngineCore* BulkRef::engine() const noexcept {
    return peer_ != nullptr ? &peer_->engine() : engine_;
}

std::uint64_t BulkRef::size() const noexcept {
    return bulk_ == nullptr ? 0 : bulk_->size();
}

Share BulkRef::share() const noexcept {
    return static_cast<Share>(bulk_->access());
}

std::size_t BulkRef::segments() const noexcept {
    return bulk_ == nullptr ? 0 : bulk_->segments().size();
}

std::span<std::byte> BulkRef::first_segment() const noexcept {
    if (bulk_ == nullptr || !bulk_->is_local() || bulk_->segments().empty()) {
        return {};
    }
    const na::Segment& first = bulk_->segments().front();
    return {static_cast<std::byte*>(first.base), static_cast<std::size_t>(first.length)};
}

Result<BulkRef> expose(EngineCore& engine, std::span<const std::span<std::byte>> segments,
                       Share share, std::shared_ptr<void> kept) {
    std::vector<na::Segment> list;
    list.reserve(segments.size());
    for (const std::span<std::byte> s : segments) {
        list.push_back({s.data(), s.size()});
    }
    auto bulk =
        ::bulk::Bulk::create(engine.cls().space(), list, static_cast<::bulk::Access>(share));
    if (bulk && kept != nullptr) {
        (*bulk)->keep(std::move(kept));
    }
    return made(engine, std::move(bulk));
}

Result<BulkRef> allocate(EngineCore& engine, std::size_t bytes, Share share) {
    const std::uint64_t size = bytes;
    return made(engine, ::bulk::Bulk::allocate(engine.cls().space(), {&size, 1},
                                               static_cast<::bulk::Access>(share)));
}

void bind(const BulkRef& bulk) {
    if (!bulk) {
        throw Exception(Status::invalid_arg, "no memory to bind");
    }
    if (bulk.bulk()->owner() == nullptr) {
        auto owner = std::make_unique<::bulk::Owner>();
        fill(*owner, bulk.engine()->cls().self());
        (void)bulk.bulk()->bind(std::move(owner));  // another thread was faster: to the same
    }
}

// --- what a call shows

struct Shown::Node {
    BulkRef bulk;
    Node* next = nullptr;

    static void* operator new(std::size_t bytes) { return allocate_frame(bytes); }
    static void operator delete(void* place, std::size_t bytes) noexcept {
        free_frame(place, bytes);
    }
};

void Shown::add(const BulkRef& bulk) {
    first_ = new Node{bulk, first_};
}

void Shown::drop() noexcept {
    while (Node* node = first_) {
        first_ = node->next;
        delete node;
    }
}

// --- on the wire
// -----------------------------------------------------------------------------------------------------

void write_bulk(Writer& w, const BulkRef& bulk) {
    if (!bulk) {
        w.size(0);
        return;
    }
    if (w.handle == nullptr) {
        w.fail(Status::invalid_arg, "a bulk descriptor travels in RPCs only");
        return;
    }
    if (!bulk.bulk()->is_local() && bulk.bulk()->owner() == nullptr) {
        w.fail(Status::invalid_arg,
               "memory of another process is passed on only where its owner has bound it "
               "(hg::Bulk::bind)");
        return;
    }
    const Info& info = w.handle->info();
    if (bulk.bulk()->space().owner() != info.cls) {
        w.fail(Status::invalid_arg, "memory that is exposed by another engine");
        return;
    }
    ::bulk::WireOptions options{.eager = info.cls->options().bulk_eager,
                                .sm = info.addr->sm() != nullptr,
                                .self = info.addr->is_self()};
    std::size_t size = ::bulk::encoded_size(*bulk.bulk(), options);
    const std::size_t within = info.cls->contents_within();
    if (options.eager && size > within - std::min(w.written(), within)) {
        options.eager = false;
        size = ::bulk::encoded_size(*bulk.bulk(), options);
    }
    w.size(size);
    std::byte* at = w.reserve(size);
    if (at == nullptr) {
        return;
    }
    if (auto written = ::bulk::encode(*bulk.bulk(), options, {at, size});
        !written || *written != size) {
        w.fail(written ? Status::other_error : written.status(),
               "a bulk descriptor cannot be encoded");
        return;
    }
    if (w.shown != nullptr && bulk.bulk()->is_local()) {
        w.shown->add(bulk);
    }
}

BulkRef read_bulk(Reader& r, Share share) {
    const std::size_t size = r.count(1, 0);
    const std::byte* at = r.view(size);
    if (at == nullptr || size == 0) {
        return {};
    }
    if (r.handle == nullptr) {
        r.fail(Status::invalid_arg, "a bulk descriptor travels in RPCs only");
        return {};
    }
    const Info& info = r.handle->info();
    Class& cls = *info.cls;
    auto decoded = ::bulk::decode(cls.space(), {at, size});
    if (!decoded) {
        r.fail(decoded.status(), "a malformed bulk descriptor");
        return {};
    }
    ::bulk::Bulk& bulk = **decoded;
    if (!allows(static_cast<Share>(bulk.access()), share)) {
        r.fail(Status::permission, "memory that may not be used as the definition says");
        return {};
    }
    // Whose it is: who sent it, unless it says something else.
    Address* address = info.addr;
    std::uint8_t context = info.context_id;
    if (::bulk::Owner* owner = bulk.unresolved_owner(); owner != nullptr) {
        auto resolved = cls.decode_address(owner->address);
        if (!resolved) {
            r.fail(resolved.status(), "a malformed address in a bulk descriptor");
            return {};
        }
        fill(*owner, std::move(*resolved));
        address = static_cast<Address*>(owner->resolved);
        context = owner->context_id;
    }
    auto* engine = static_cast<EngineCore*>(cls.user.data);
    auto* peer = new PeerCore(*engine, AddressRef::share(address));
    return {decoded->release(), peer, context};
}

// --- transfers
// -------------------------------------------------------------------------------------------------------

namespace {

constexpr std::uint8_t kStarting = 0;
constexpr std::uint8_t kStarted = 1;
constexpr std::uint8_t kEnded = 2;

void end(TransferState& t) noexcept {
    (void)t.remote.engine()->timers().remove(t.expiry);
    t.on_stop.reset();
    EngineCore& engine = *t.remote.engine();
    engine.leave(engine.calls);
}

// In bulk::Transfer::user, from the end of the transfer to its continuation.
struct Ended : Completion {
    ::bulk::Transfer* transfer = nullptr;
    Status status = Status::success;
};
static_assert(sizeof(Ended) <= ::bulk::Transfer::kUserBytes);

// In trigger.
void run_ended(Completion& completion) {
    const auto& ended = static_cast<const Ended&>(completion);
    auto& t = *static_cast<TransferState*>(ended.transfer->owner());
    t.status = ended.status;
    ended.transfer->engine().release(*ended.transfer);
    if (t.status == Status::canceled &&
        t.cause.load(std::memory_order_acquire) == CallState::Cause::deadline) {
        t.status = Status::timeout;
    }
    if (t.phase.exchange(kEnded, std::memory_order_acq_rel) == kStarting) {
        return;
    }
    end(t);
    t.next->run(*t.next).resume();
}

// Perhaps inside a handler of NA's.
void on_end(::bulk::Transfer& transfer, Status status) noexcept {
    auto& t = *static_cast<TransferState*>(transfer.owner());
    auto* ended = new (transfer.user) Ended;
    ended->transfer = &transfer;
    ended->status = status;
    ended->run = &run_ended;
    t.remote.engine()->context().complete(*ended);
}

}  // namespace

bool wakes_only(const Completion& completion) noexcept {
    if (completion.run == &run_ended) {
        const auto& ended = static_cast<const Ended&>(completion);
        return static_cast<TransferState*>(ended.transfer->owner())->next->wakes_only;
    }
    const Callback* callback = Handle::forwarded(completion);
    return callback != nullptr && wakes_only(*callback);
}

TransferState::TransferState(TransferState&& other) noexcept
    : remote(std::move(other.remote)),
      local(std::move(other.local)),
      range(other.range),
      options(std::move(other.options)),
      pull(other.pull),
      status(other.status),
      what(other.what) {}

bool TransferState::start(Continuation& continuation) noexcept {
    if (!remote || !local || remote.peer() == nullptr) {
        status = Status::invalid_arg;
        what = "no memory of a peer, or none here";
        return false;
    }
    if (range.remote > remote.size() || range.local > local.size()) {
        status = Status::invalid_arg;
        what = "the range begins beyond the end";
        return false;
    }
    const std::uint64_t size =
        range.size == Range::kRest ? remote.size() - range.remote : range.size;
    if (size > remote.size() - range.remote || size > local.size() - range.local) {
        status = Status::invalid_arg;
        what = "the range goes beyond the end, here or at the peer";
        return false;
    }
    EngineCore& engine = *remote.engine();
    if (!engine.enter(engine.calls)) {
        status = Status::canceled;
        cause = CallState::Cause::closing;
        return false;
    }
    next = &continuation;
    if (options.deadline <= Clock::now()) {
        status = Status::timeout;
        cause = CallState::Cause::deadline;
    } else if (options.deadline != Clock::time_point::max()) {
        expiry.transfer = this;
        expiry.when = options.deadline;
        expiry.fire = [](Timer& timer, bool passed) noexcept {
            TransferState& t = *static_cast<Expiry&>(timer).transfer;
            CallState::Cause none = CallState::Cause::none;
            t.cause.compare_exchange_strong(
                none, passed ? CallState::Cause::deadline : CallState::Cause::closing);
            if (const std::uint64_t started = t.id.load(std::memory_order_seq_cst); started != 0) {
                ::bulk::Engine::cancel_any(started);
            }
        };
        try {
            if (!engine.start_timer(expiry)) {
                status = Status::canceled;
                cause = CallState::Cause::closing;
            }
        } catch (const std::bad_alloc&) {
            status = Status::nomem;
        }
    }
    if (ok(status) && options.stop.stop_possible()) {
        on_stop.emplace(options.stop, Cancel{this});
        if (options.stop.stop_requested()) {
            status = Status::canceled;
        }
    }
    if (ok(status)) {
        const Address& peer = remote.peer()->address();
        const ::bulk::Request request{
            .direction = pull ? ::bulk::Direction::pull : ::bulk::Direction::push,
            .origin = remote.bulk(),
            .origin_offset = range.remote,
            .local = local.bulk(),
            .local_offset = range.local,
            .size = size,
            .peer = {.net = peer.net(), .sm = peer.sm()},
            .origin_context = remote.context(),
            .done = &on_end,
            .owner = this};
        ::bulk::TransferId started = 0;
        if (const Status s = engine.context().bulk().start(request, &started); !ok(s)) {
            status = s;
        } else {
            // Whoever comes from here on cancels it; those who came before found nothing to cancel.
            id.store(started, std::memory_order_seq_cst);
            if (cause.load(std::memory_order_seq_cst) != CallState::Cause::none) {
                ::bulk::Engine::cancel_any(started);
            }
            if (phase.exchange(kStarted, std::memory_order_acq_rel) == kStarting) {
                return true;  // this may be gone
            }
        }
    }
    end(*this);
    return false;
}

void TransferState::Cancel::operator()() const noexcept {
    CallState::Cause none = CallState::Cause::none;
    transfer->cause.compare_exchange_strong(none, CallState::Cause::stop);
    if (const std::uint64_t started = transfer->id.load(std::memory_order_seq_cst); started != 0) {
        ::bulk::Engine::cancel_any(started);
    }
}

Error TransferState::error() const {
    const char* why = what;
    if (*why == 0) {
        switch (cause.load(std::memory_order_acquire)) {
            case CallState::Cause::deadline:
                why = "its deadline has passed";
                break;
            case CallState::Cause::stop:
                why = "a stop was requested";
                break;
            case CallState::Cause::closing:
                why = "the engine is shut down";
                break;
            case CallState::Cause::none:
                why = to_string(status);
                break;
        }
    }
    return {status,
            fmt::format("{} {}: {}", pull ? "pull from" : "push to",
                        remote.peer() == nullptr ? "nobody" : remote.peer()->address().uri(), why)};
}

}  // namespace hg::detail
