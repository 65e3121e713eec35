// SPDX-License-Identifier: BSD-3-Clause
// A decorator over any transport that makes go wrong what a real one lets go wrong once a year: see
// plan.hpp.
//
// Peers and regions are the inner transport's own, and so are addresses ("fault+sm://..." is an
// address of fault+na+sm): only posts, completions and arrivals pass through here. An Op is handed
// on as it is; this plugin's state is behind the inner transport's scratch.
#include <deque>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "na/plugin.hpp"
#include "na/plugin_table.hpp"
#include "na/util/intrusive_list.hpp"
#include "plugins/fault/plan.hpp"
#include "support/payload.hpp"

namespace na::fault {
namespace {

using plugin::Arrival;
using plugin::Caps;
using plugin::Completion;
using plugin::Posted;

constexpr std::uint64_t kLongestDelay = 4;    // progress calls
constexpr std::size_t kSpoiledBeyond = 1024;  // what is shorter has more to say than bytes

// Behind the inner transport's scratch; zeroed at creation, which is its valid first state.
struct OpState {
    util::ListHook hook;  // posted to the inner transport
    Op* op;
    bool doomed;  // its peer has been lost: it ends with hostunreach, not canceled
    bool spared;  // nothing goes wrong with it; the inner transport had no room yet, and is asked
                  // again
};

class Context final : public plugin::Context, private plugin::Sink {
 public:
    Context(const Plan& plan, std::uint8_t id, std::size_t state_at, plugin::Sink& core)
        : plan_(plan), state_at_(state_at), core_(core), random_(plan.seed * 1000 + id) {}
    ~Context() override {
        inner_.reset();
        for (const Event& e : events_) {
            if (e.what == Event::What::finish) {
                core_.finish(e.arrival, Status::canceled);
            }
        }
        close(event_);
        close(set_);
    }
    Status open(plugin::Domain& domain, std::uint8_t id, Error& error) {
        auto inner = domain.open_context(id, *this);
        if (!inner) {
            error = std::move(inner).error();
            return error.status;
        }
        inner_ = std::move(*inner);
        if (inner_->wait_fd() < 0) {
            return Status::success;
        }
        // The inner transport's descriptor, and one for what is held back here.
        set_ = epoll_create1(EPOLL_CLOEXEC);
        event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        for (const int fd : {inner_->wait_fd(), inner_->side_fd(), event_}) {
            epoll_event wanted{};
            wanted.events = EPOLLIN;
            if (fd < 0 && fd != event_) {
                continue;
            }
            if (set_ < 0 || epoll_ctl(set_, EPOLL_CTL_ADD, fd, &wanted) != 0) {
                error = Error{Status::nomem, "no descriptor to wait on"};
                return error.status;
            }
        }
        return Status::success;
    }

    Posted send(Op& op) override {
        if (const auto answer = before(op)) {
            return *answer;
        }
        if (!state(op).spared && chance(plan_.drop)) {
            if (random_.below(2) == 0) {
                return Posted::done();
            }
            later({.what = Event::What::complete,
                   .op = &op,
                   .how = {.status = Status::success, .size = op.length}});
            return Posted::pending();
        }
        return posted(op, [&] { return inner_->send(op); });
    }
    Posted put(Op& op) override {
        return transfer(op, [&] { return inner_->put(op); });
    }
    Posted get(Op& op) override {
        return transfer(op, [&] { return inner_->get(op); });
    }
    Posted recv(Op& op) override {
        return chance(plan_.again) ? again() : posted(op, [&] { return inner_->recv(op); });
    }
    Posted recv_multi(Op& op) override {
        return chance(plan_.again) ? again() : posted(op, [&] { return inner_->recv_multi(op); });
    }

    void withdrawn(Op& op) noexcept override {
        state(op).spared = false;
        inner_->withdrawn(op);
    }
    void cancel(Op& op) override {
        if (!state(op).hook.linked()) {
            return;  // its completion is on the way
        }
        if (chance(plan_.late_cancel)) {
            later({.what = Event::What::cancel, .op = &op});
            return;
        }
        inner_->cancel(op);
    }

    std::size_t progress() override {
        ++tick_;
        look_again_ = false;
        if (std::exchange(signaled_, false)) {
            std::uint64_t count = 0;
            [[maybe_unused]] const ssize_t n = read(event_, &count, sizeof count);
        }
        armed_ = false;
        std::size_t events = inner_->progress();
        while (!events_.empty() && events_.front().due <= tick_) {
            const Event event = events_.front();
            events_.pop_front();
            happen(event);
            ++events;
        }
        return events;
    }

    int wait_fd() override { return set_; }
    // What is held back must not be slept over.
    bool arm() override {
        armed_ = true;
        return events_.empty() && !look_again_ && inner_->arm();
    }

    void awaits(Op& op, bool begins) override { inner_->awaits(op, begins); }
    bool undelivered(const void* message, std::uint32_t tag) const noexcept override {
        return inner_->undelivered(message, tag);
    }

    void disconnect(plugin::Peer& peer) override { inner_->disconnect(peer); }
    void drop(plugin::Peer& peer) override {
        lost_.erase(&peer);
        inner_->drop(peer);
    }
    void stats(std::vector<plugin::Stat>& list) const override {
        inner_->stats(list);
        list.push_back({"faults", faults_});
    }

 private:
    // Something that happens some progress calls later. One queue for all, so that nothing
    // overtakes.
    struct Event {
        enum class What : std::uint8_t { complete, finish, cancel, lose };
        What what;
        std::uint64_t due = 0;
        Op* op = nullptr;
        Completion how = {};
        Arrival* arrival = nullptr;
        Status status = Status::success;
        plugin::Peer* peer = nullptr;
    };
    using Ops = util::IntrusiveList<OpState, &OpState::hook>;

    OpState& state(Op& op) const noexcept {
        return *reinterpret_cast<OpState*>(static_cast<std::byte*>(op.scratch) + state_at_);
    }
    bool chance(double probability) noexcept {
        const bool yes = probability > 0 && random_.unit() < probability;
        faults_ += yes ? 1 : 0;
        return yes;
    }
    Posted again() noexcept {
        look_again_ = true;  // the post may succeed next time: nobody may sleep until then
        return Posted::again();
    }
    void later(Event event) {
        event.due = tick_ + 1 + random_.below(kLongestDelay);
        events_.push_back(event);
        if (armed_ && event_ >= 0) {  // somebody may be asleep: this comes from a post or a cancel
            const std::uint64_t one = 1;
            [[maybe_unused]] const ssize_t n = write(event_, &one, sizeof one);
            signaled_ = true;
        }
    }

    // What goes wrong before the inner transport sees a send or transfer.
    std::optional<Posted> before(Op& op) {
        if (lost_.contains(op.peer)) {
            return Posted::failed(Status::hostunreach);
        }
        if (chance(plan_.again)) {
            return again();
        }
        if (state(op).spared) {
            return std::nullopt;
        }
        if (++posts_ == plan_.lose_peer_at) {
            lost_.insert(op.peer);
            later({.what = Event::What::lose, .op = &op, .peer = op.peer});
            return Posted::pending();
        }
        if (chance(plan_.fail)) {
            if (random_.below(2) == 0) {
                return Posted::failed(Status::io_error);
            }
            later({.what = Event::What::complete, .op = &op, .how = {.status = Status::io_error}});
            return Posted::pending();
        }
        return std::nullopt;
    }

    // Spoiled, it moves a byte less than it should: what was there before stays.
    template <typename Post>
    Posted transfer(Op& op, Post&& post) {
        if (const auto answer = before(op)) {
            return *answer;
        }
        const bool spoiled = op.length > kSpoiledBeyond && chance(plan_.spoil);
        op.length -= spoiled ? 1 : 0;
        const Posted answer = posted(op, post);
        if (spoiled && answer.what != Posted::What::pending) {
            op.length += 1;
        }
        return answer;
    }

    template <typename Post>
    Posted posted(Op& op, Post&& post) {
        const Posted answer = post();
        state(op).spared = answer.what == Posted::What::again;
        if (answer.what == Posted::What::pending) {
            OpState& s = state(op);
            s.op = &op;
            s.doomed = false;
            posted_.push_back(s);
        } else if (answer.what == Posted::What::done && chance(plan_.delay)) {
            later({.what = Event::What::complete,
                   .op = &op,
                   .how = {.status = Status::success, .size = op.length}});
            return Posted::pending();
        }
        return answer;
    }

    void happen(const Event& event) {
        switch (event.what) {
            case Event::What::complete:
                core_.complete(*event.op, event.how);
                return;
            case Event::What::finish:
                core_.finish(event.arrival, event.status);
                return;
            case Event::What::cancel:
                // Unless it has completed, and perhaps been posted again, meanwhile.
                if (event.op != nullptr) {
                    inner_->cancel(*event.op);
                }
                return;
            case Event::What::lose:
                lose(event);
                return;
        }
    }

    // The peer dies: what is on its way to it ends, then the core hears of it.
    void lose(const Event& event) {
        for (OpState* s = posted_.front(); s != nullptr;) {
            OpState* next = posted_.next(*s);
            if (s->op->peer == event.peer) {
                s->doomed = true;
                inner_->cancel(*s->op);  // may complete it, and no other
            }
            s = next;
        }
        core_.peer_lost(*event.peer, Status::hostunreach);
        core_.complete(*event.op, {.status = Status::hostunreach});
    }

    // Sink
    void complete(Op& op, const Completion& inner_how) override {
        Completion how = inner_how;
        OpState& s = state(op);
        if (how.last) {
            if (s.hook.linked()) {
                Ops::remove(s);
            }
            if (s.doomed && how.status == Status::canceled) {
                how.status = Status::hostunreach;
            }
            for (Event& e : events_) {
                if (e.what == Event::What::cancel && e.op == &op) {
                    e.op = nullptr;
                }
            }
        }
        // A completion that names a source is passed on: the source may be gone later.
        if (how.source == nullptr && chance(plan_.delay)) {
            later({.what = Event::What::complete, .op = &op, .how = how});
            return;
        }
        core_.complete(op, how);
    }
    Arrival* arrive(Lane lane, plugin::Peer& source, std::uint32_t tag, std::size_t size) override {
        if (lost_.contains(&source)) {
            return &discard_;
        }
        if (lane == Lane::expected && chance(plan_.deaf)) {
            return nullptr;  // for good: the sender's credit is not given back
        }
        if (chance(plan_.delay / 2)) {
            look_again_ = true;
            return nullptr;  // as if the core had no room
        }
        return spoiled(core_.arrive(lane, source, tag, size), size);
    }
    Arrival* arrive_in_parts(Lane lane, plugin::Peer& source, std::uint32_t tag,
                             std::size_t size) override {
        return lost_.contains(&source)
                   ? &discard_
                   : spoiled(core_.arrive_in_parts(lane, source, tag, size), size);
    }
    // Notes which byte of it is to be another one when it is there.
    Arrival* spoiled(Arrival* arrival, std::size_t size) {
        if (arrival != nullptr && arrival->data != nullptr && size > kSpoiledBeyond &&
            chance(plan_.spoil)) {
            spoiled_[arrival] = static_cast<std::byte*>(arrival->data) + size - 1;
        }
        return arrival;
    }
    void finish(Arrival* arrival, Status status) override {
        if (arrival == &discard_) {
            return;
        }
        if (const auto found = spoiled_.find(arrival); found != spoiled_.end()) {
            if (status == Status::success) {
                // There and back again it is not what it was.
                *found->second =
                    static_cast<std::byte>(std::to_integer<unsigned>(*found->second) + 85);
            }
            spoiled_.erase(found);
        }
        // Not before others: messages of one peer end in order.
        if (!events_.empty() || chance(plan_.delay)) {
            later({.what = Event::What::finish, .arrival = arrival, .status = status});
            return;
        }
        core_.finish(arrival, status);
    }
    plugin::Peer* source(std::span<const std::byte> identity) override {
        return core_.source(identity);
    }
    void release(plugin::Peer& peer) override { core_.release(peer); }
    void peer_lost(plugin::Peer& peer, Status why) override {
        hold_nothing_back();
        core_.peer_lost(peer, why);
    }
    void context_lost(plugin::Peer& peer, std::uint8_t context, Status why) override {
        hold_nothing_back();
        core_.context_lost(peer, context, why);
    }
    bool awaited(plugin::Peer& peer) override { return !events_.empty() || core_.awaited(peer); }
    // What the lost one has sent comes before its end; and that is told at once: later it would
    // end what is posted meanwhile to who has come in its place.
    void hold_nothing_back() {
        for (std::size_t i = 0; i < events_.size();) {
            const Event event = events_[i];
            if (event.what == Event::What::complete || event.what == Event::What::finish) {
                events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(i));
                happen(event);
            } else {
                ++i;
            }
        }
    }
    void dropped(const char* what) override { core_.dropped(what); }

    const Plan plan_;
    const std::size_t state_at_;
    plugin::Sink& core_;
    support::Random random_;
    std::uint64_t tick_ = 0;
    std::uint64_t posts_ = 0;
    std::uint64_t faults_ = 0;
    bool look_again_ = false;
    bool armed_ = false;
    bool signaled_ = false;
    int set_ = -1;
    int event_ = -1;
    Arrival discard_;
    std::deque<Event> events_;
    Ops posted_;
    std::unordered_set<const plugin::Peer*> lost_;
    std::unordered_map<const Arrival*, std::byte*> spoiled_;
    std::unique_ptr<plugin::Context> inner_;
};

class Domain final : public plugin::Domain {
 public:
    Domain(std::unique_ptr<plugin::Domain> inner, const Target& target)
        : inner_(std::move(inner)), plan_(target.plan) {
        caps_ = inner_->caps();
        caps_.protocol = fmt::format("{}+{}", target.class_name, caps_.protocol);
        state_at_ = (caps_.op_scratch + alignof(std::max_align_t) - 1) / alignof(std::max_align_t) *
                    alignof(std::max_align_t);
        caps_.op_scratch = state_at_ + sizeof(OpState);
    }

    const Caps& caps() const noexcept override { return caps_; }
    std::string self_uri() const override { return inner_->self_uri(); }
    Result<std::unique_ptr<plugin::Peer>> connect(std::string_view uri) override {
        return inner_->connect(inner_address(uri));
    }
    Result<std::unique_ptr<plugin::Peer>> decode_peer(
        std::span<const std::byte> identity) override {
        return inner_->decode_peer(identity);
    }
    Result<std::unique_ptr<plugin::Region>> register_memory(std::span<const Segment> segments,
                                                            Access access, MemoryKind kind,
                                                            std::uint64_t device) override {
        return inner_->register_memory(segments, access, kind, device);
    }
    Result<std::unique_ptr<plugin::Region>> decode_region(std::span<const std::byte> encoded,
                                                          std::uint64_t length) override {
        return inner_->decode_region(encoded, length);
    }
    Result<std::unique_ptr<plugin::Context>> open_context(std::uint8_t id,
                                                          plugin::Sink& sink) override {
        auto context = std::make_unique<Context>(plan_, id, state_at_, sink);
        Error error;
        if (const Status s = context->open(*inner_, id, error); !ok(s)) {
            return error;
        }
        return std::unique_ptr<plugin::Context>(std::move(context));
    }
    void* allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
    void deallocate(void* memory, std::size_t bytes) override { inner_->deallocate(memory, bytes); }
    void retire(void* memory, std::size_t bytes) override { inner_->retire(memory, bytes); }

 private:
    std::unique_ptr<plugin::Domain> inner_;
    const Plan plan_;
    Caps caps_;
    std::size_t state_at_ = 0;
};

class Plugin final : public plugin::Plugin {
 public:
    std::string_view class_name() const noexcept override { return "fault"; }
    std::vector<plugin::ProtocolInfo> protocols() override { return {}; }
    bool accepts(std::string_view) override { return true; }  // open() says what is wrong with it
    Result<std::unique_ptr<plugin::Domain>> open(const plugin::OpenSpec& spec) override {
        auto target = parse_target(spec.protocol);
        if (!target) {
            return std::move(target).error();
        }
        auto inner = find_plugin(target->class_name, target->protocol);
        if (!inner) {
            return std::move(inner).error();
        }
        plugin::OpenSpec inner_spec = spec;
        inner_spec.protocol = target->protocol;
        auto domain = (*inner)->open(inner_spec);
        if (!domain) {
            return std::move(domain).error();
        }
        return std::unique_ptr<plugin::Domain>(
            std::make_unique<Domain>(std::move(*domain), *target));
    }
};

}  // namespace
}  // namespace na::fault

extern "C" const na::plugin::Entry na_plugin_entry;
const na::plugin::Entry na_plugin_entry = {
    .name = "fault",
    .create = []() -> std::unique_ptr<na::plugin::Plugin> {
        return std::make_unique<na::fault::Plugin>();
    },
};
