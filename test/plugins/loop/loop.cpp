// SPDX-License-Identifier: BSD-3-Clause
// The reference transport: endpoints of one process exchange messages through mailboxes. Read it
// first: it does all that the contract (include/na/plugin.hpp) asks, in the plainest way. Class
// "loop", protocol "loop", addresses `loop://<name>`; without a name a number is taken.
//
// Messages up to kInstant bytes complete on posting; longer ones when the receiver has taken them,
// so that users meet both. A mailbox holds kCredits messages of each sender: beyond that posts are
// answered `again`.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <new>

#include <sys/eventfd.h>
#include <unistd.h>

#include <fmt/format.h>

#include "na/plugin.hpp"

namespace na::loop {
namespace {

using plugin::Caps;
using plugin::Posted;

constexpr std::size_t kInstant = 1024;
constexpr std::size_t kCredits = 256;
constexpr std::size_t kDefaultMessage = 4096;
constexpr std::size_t kMaxName = 256;
constexpr std::string_view kScheme = "loop://";

struct Mailbox;

struct Message {
    std::uint32_t tag = 0;
    std::vector<std::byte> bytes;
    std::shared_ptr<Mailbox> sender;  // who waits for the acknowledgement; null: nobody
    Op* op = nullptr;                 // the sender's operation
};

// Where other endpoints leave things for one context. Shared, so that a sender never meets a
// dangling one.
struct Mailbox {
    std::array<std::size_t, kLanes> largest{};  // that the owner takes; constant
    std::mutex mutex;
    // Per sender, whom a message that the core refuses holds up, and nobody else. Only the owner
    // removes queues.
    std::array<std::map<std::string, std::deque<Message>>, kLanes> lanes;
    bool fresh = false;  // messages and ends that the owner has not looked at yet
    std::deque<std::pair<Op*, Status>> ended;  // operations of the owner
    // Addresses that closed. Each is told when no expected message of it is left, so that its last
    // answers come before its end, also those that the core refuses for now.
    std::deque<std::string> lost;
    std::vector<std::shared_ptr<Mailbox>> out_of_credit;  // to be signalled when there is room
    bool closed = false;
    bool armed = false;
    bool credit = false;  // posts that were answered `again` may succeed now
    int event = -1;

    Mailbox() : event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
    ~Mailbox() { close(event); }

    // What the core has refused is no work, nor what waits for that: it asks for it again.
    bool idle() const { return !fresh && ended.empty() && !credit; }
    bool answers_of(const std::string& address) const {  // the mutex is held
        const auto& senders = lanes[static_cast<std::size_t>(Lane::expected)];
        const auto it = senders.find(address);
        return it != senders.end() && !it->second.empty();
    }
    void signal() const {  // the mutex is held
        if (armed) {
            const std::uint64_t one = 1;
            [[maybe_unused]] const ssize_t n = write(event, &one, sizeof one);
        }
    }
};

class Domain;

class Region final : public plugin::Region {
 public:
    Region(Domain* owner, std::uint64_t key, std::vector<Segment> list, Access access)
        : segments(std::move(list)), key_(key), owner_(owner), access_(access) {}
    ~Region() override;
    std::size_t encode(std::span<std::byte> out) const override {
        if (out.size() >= sizeof key_) {
            std::memcpy(out.data(), &key_, sizeof key_);
        }
        return sizeof key_;
    }
    std::uint64_t key() const noexcept { return key_; }
    bool permits(Access access, std::uint64_t offset, std::uint64_t size) const noexcept {
        std::uint64_t length = 0;
        for (const Segment& s : segments) {
            length += s.length;
        }
        return allows(access_, access) && offset <= length && size <= length - offset;
    }

    const std::vector<Segment> segments;  // empty: decoded

 private:
    const std::uint64_t key_;
    Domain* const owner_;  // null: decoded
    const Access access_;
};

class Peer final : public plugin::Peer {
 public:
    explicit Peer(std::string address) : address_(std::move(address)) {}
    std::string uri() const override { return std::string(kScheme) + address_; }
    std::size_t encode(std::span<std::byte> out) const override {
        if (out.size() >= address_.size()) {
            std::memcpy(out.data(), address_.data(), address_.size());
        }
        return address_.size();
    }
    const std::string& address() const noexcept { return address_; }

 private:
    const std::string address_;
};

// All endpoints and regions of the process.
struct World {
    std::mutex mutex;
    std::map<std::pair<std::string, std::uint8_t>, std::shared_ptr<Mailbox>> boxes;
    std::map<std::string, Domain*> domains;
    std::map<std::uint64_t, Region*> regions;
    std::uint64_t next = 1;

    std::shared_ptr<Mailbox> find(const std::string& address, std::uint8_t id) {
        const std::lock_guard guard(mutex);
        const auto it = boxes.find({address, id});
        return it == boxes.end() ? nullptr : it->second;
    }
};

World& world() {
    static World& w = *new World;
    return w;
}

// Copies between a range of segments and plain memory.
void copy_segments(const std::vector<Segment>& segments, std::uint64_t offset, std::byte* memory,
                   std::size_t length, bool out) {
    for (const Segment& s : segments) {
        if (offset >= s.length) {
            offset -= s.length;
            continue;
        }
        const std::size_t n = std::min(length, s.length - static_cast<std::size_t>(offset));
        std::byte* at = static_cast<std::byte*>(s.base) + offset;
        std::memcpy(out ? memory : at, out ? at : memory, n);
        memory += n;
        length -= n;
        offset = 0;
        if (length == 0) {
            return;
        }
    }
}

class Context final : public plugin::Context {
 public:
    Context(const plugin::Caps& caps, std::uint8_t id, std::string address, plugin::Sink& sink);
    ~Context() override;

    Posted send(Op& op) override {
        const std::shared_ptr<Mailbox> box =
            world().find(static_cast<Peer*>(op.peer)->address(), op.target_id);
        if (box == nullptr) {
            return Posted::failed(Status::hostunreach);
        }
        if (op.length > box->largest[static_cast<std::size_t>(op.lane())]) {
            return Posted::failed(Status::msgsize);
        }
        const bool instant = op.length <= kInstant;
        const auto* bytes = static_cast<const std::byte*>(op.buffer);
        const std::scoped_lock guard(box->mutex);
        if (box->closed) {
            return Posted::failed(Status::hostunreach);
        }
        auto& queue = box->lanes[static_cast<std::size_t>(op.lane())][address_];
        if (queue.size() >= kCredits) {
            auto& waiting = box->out_of_credit;
            if (std::find(waiting.begin(), waiting.end(), box_) == waiting.end()) {
                waiting.push_back(box_);
            }
            return Posted::full();
        }
        queue.push_back(Message{.tag = op.tag,
                                .bytes = std::vector<std::byte>(bytes, bytes + op.length),
                                .sender = instant ? nullptr : box_,
                                .op = instant ? nullptr : &op});
        box->fresh = true;
        box->signal();
        return instant ? Posted::done() : Posted::pending();
    }

    Posted put(Op& op) override { return transfer(op, true); }
    Posted get(Op& op) override { return transfer(op, false); }

    void cancel(Op& op) override {
        if (op.kind == OpKind::put || op.kind == OpKind::get) {
            return;  // has been done: the completion waits for progress()
        }
        if (const auto box = world().find(static_cast<Peer*>(op.peer)->address(), op.target_id)) {
            std::unique_lock guard(box->mutex);
            auto& queue = box->lanes[static_cast<std::size_t>(op.lane())][address_];
            const auto it = std::find_if(queue.begin(), queue.end(),
                                         [&](const Message& m) { return m.op == &op; });
            if (it != queue.end()) {
                queue.erase(it);
                guard.unlock();
                sink_.complete(op, {.status = Status::canceled});
            }
        }
    }

    // Both sides forget what they have sent each other; the peer hears of it as of a death.
    void disconnect(plugin::Peer& peer) override {
        const std::string& address = static_cast<Peer&>(peer).address();
        for (unsigned id = 0; id <= UINT8_MAX; ++id) {
            if (const auto box = world().find(address, static_cast<std::uint8_t>(id));
                box != nullptr && box != box_) {
                part(*box, address_);
            }
        }
        part(*box_, address);
    }

    std::size_t progress() override {
        std::size_t events = 0;
        std::unique_lock guard(box_->mutex);
        box_->credit = false;
        if (box_->armed) {
            box_->armed = false;
            std::uint64_t count = 0;
            [[maybe_unused]] const ssize_t n = read(box_->event, &count, sizeof count);
        }
        box_->fresh = false;
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            auto& senders = box_->lanes[lane];
            for (auto it = senders.begin(); it != senders.end();) {
                auto& [source, queue] = *it;
                for (std::size_t n = queue.size(); n != 0 && !queue.empty(); --n) {
                    Message m = std::move(queue.front());
                    queue.pop_front();
                    guard.unlock();
                    const bool taken = deliver(static_cast<Lane>(lane), source, m);
                    guard.lock();
                    if (!taken) {
                        queue.push_front(std::move(m));
                        break;
                    }
                    ++events;
                }
                it = queue.empty() ? senders.erase(it) : std::next(it);
            }
        }
        for (const auto& waiting : std::exchange(box_->out_of_credit, {})) {
            if (waiting == box_) {
                continue;
            }
            guard.unlock();
            {
                const std::lock_guard other(waiting->mutex);
                waiting->credit = true;
                waiting->signal();
            }
            guard.lock();
        }
        while (!box_->ended.empty()) {
            const auto [op, status] = box_->ended.front();
            box_->ended.pop_front();
            guard.unlock();
            sink_.complete(*op, {.status = status, .size = op->length});
            guard.lock();
            ++events;
        }
        for (std::size_t i = 0; i < box_->lost.size();) {
            const std::string address = box_->lost[i];
            if (box_->answers_of(address)) {
                ++i;
                continue;
            }
            box_->lost.erase(box_->lost.begin() + static_cast<std::ptrdiff_t>(i));
            guard.unlock();
            if (plugin::Peer* peer = sink_.source(std::as_bytes(std::span(address)))) {
                sink_.peer_lost(*peer, Status::hostunreach);
                sink_.release(*peer);
            }
            guard.lock();
            ++events;
        }
        return events;
    }

    int wait_fd() override { return box_->event; }

    bool arm() override {
        const std::lock_guard guard(box_->mutex);
        box_->armed = true;
        return box_->idle();
    }

 private:
    bool deliver(Lane lane, const std::string& source, Message& m) {
        plugin::Peer* const peer = sink_.source(std::as_bytes(std::span(source)));
        if (peer == nullptr) {
            return false;  // there is no room to know the sender now: the message waits
        }
        const bool taken = sink_.deliver(lane, *peer, m.tag, m.bytes);
        sink_.release(*peer);
        if (!taken) {
            return false;
        }
        if (m.sender != nullptr) {
            const std::lock_guard guard(m.sender->mutex);
            if (!m.sender->closed) {
                m.sender->ended.emplace_back(m.op, Status::success);
                m.sender->signal();
            }
        }
        return true;
    }

    // What `sender` has left in the mailbox goes, and the owner is told that it is lost.
    static void part(Mailbox& box, const std::string& sender) {
        std::vector<Message> gone;
        {
            const std::lock_guard guard(box.mutex);
            for (auto& senders : box.lanes) {
                if (const auto it = senders.find(sender); it != senders.end()) {
                    std::move(it->second.begin(), it->second.end(), std::back_inserter(gone));
                    it->second.clear();
                }
            }
            box.lost.push_back(sender);
            box.fresh = true;
            box.signal();
        }
        for (const Message& m : gone) {
            if (m.sender != nullptr) {
                const std::lock_guard guard(m.sender->mutex);
                m.sender->ended.emplace_back(m.op, Status::hostunreach);
                m.sender->signal();
            }
        }
    }

    Posted transfer(Op& op, bool put) {
        if (world().find(static_cast<Peer*>(op.peer)->address(), op.target_id) == nullptr) {
            return Posted::failed(Status::hostunreach);
        }
        {
            World& w = world();
            const std::lock_guard guard(w.mutex);  // the region stays while it is used
            const auto it = w.regions.find(static_cast<Region*>(op.remote)->key());
            if (it == w.regions.end()) {
                return Posted::failed(Status::fault);
            }
            std::vector<std::byte> staging(op.length);
            const auto& local = static_cast<Region*>(op.local)->segments;
            const auto& remote = it->second->segments;
            // The core has checked what the descriptor claims: here against what it stands for.
            if (!it->second->permits(put ? Access::write : Access::read, op.remote_offset,
                                     op.length)) {
                return Posted::failed(Status::permission);
            }
            copy_segments(put ? local : remote, put ? op.local_offset : op.remote_offset,
                          staging.data(), op.length, true);
            copy_segments(put ? remote : local, put ? op.remote_offset : op.local_offset,
                          staging.data(), op.length, false);
        }
        const std::lock_guard guard(box_->mutex);
        box_->ended.emplace_back(&op, Status::success);
        box_->signal();
        return Posted::pending();
    }

    const std::uint8_t id_;
    const std::string address_;
    plugin::Sink& sink_;
    const std::shared_ptr<Mailbox> box_ = std::make_shared<Mailbox>();
};

Context::Context(const plugin::Caps& caps, std::uint8_t id, std::string address, plugin::Sink& sink)
    : id_(id), address_(std::move(address)), sink_(sink) {
    std::copy_n(std::begin(caps.max_message), kLanes, box_->largest.begin());
    const std::lock_guard guard(world().mutex);
    world().boxes[{address_, id_}] = box_;
}

Context::~Context() {
    {
        const std::lock_guard guard(world().mutex);
        world().boxes.erase({address_, id_});
    }
    decltype(box_->lanes) left;
    {
        const std::lock_guard guard(box_->mutex);
        box_->closed = true;
        left = std::move(box_->lanes);
    }
    for (auto& lane : left) {
        for (auto& [source, queue] : lane) {
            for (Message& m : queue) {
                if (m.sender != nullptr && m.sender != box_) {
                    const std::lock_guard guard(m.sender->mutex);
                    if (!m.sender->closed) {
                        m.sender->ended.emplace_back(m.op, Status::hostunreach);
                        m.sender->signal();
                    }
                }
            }
        }
    }
}

class Domain final : public plugin::Domain {
 public:
    Domain(std::string address, const InitInfo& info) : address_(std::move(address)) {
        caps_.protocol = "loop";
        caps_.max_message[0] = info.max_unexpected == 0 ? kDefaultMessage : info.max_unexpected;
        caps_.max_message[1] = info.max_expected == 0 ? kDefaultMessage : info.max_expected;
        caps_.max_segments = 64;
        caps_.wakes_on_credit = true;
    }
    ~Domain() override {
        World& w = world();
        std::vector<std::shared_ptr<Mailbox>> others;
        {
            const std::lock_guard guard(w.mutex);
            w.domains.erase(address_);
            for (const auto& [key, box] : w.boxes) {
                others.push_back(box);
            }
        }
        for (const auto& box : others) {
            const std::lock_guard guard(box->mutex);
            box->lost.push_back(address_);
            box->fresh = true;
            box->signal();
        }
    }

    const Caps& caps() const noexcept override { return caps_; }
    std::string self_uri() const override { return std::string(kScheme) + address_; }

    Result<std::unique_ptr<plugin::Peer>> connect(std::string_view uri) override {
        if (!uri.starts_with(kScheme) || uri.size() == kScheme.size() ||
            uri.size() - kScheme.size() > kMaxName) {
            return Error{
                Status::invalid_arg,
                fmt::format(
                    "\"{}\" is no address of this transport: {}<name of up to {} characters>", uri,
                    kScheme, kMaxName)};
        }
        return std::unique_ptr<plugin::Peer>(new Peer(std::string(uri.substr(kScheme.size()))));
    }
    Result<std::unique_ptr<plugin::Peer>> decode_peer(
        std::span<const std::byte> identity) override {
        if (identity.empty() || identity.size() > kMaxName) {
            return Error{Status::protocol_error, "malformed address"};
        }
        return std::unique_ptr<plugin::Peer>(
            new Peer(std::string(reinterpret_cast<const char*>(identity.data()), identity.size())));
    }
    Result<std::unique_ptr<plugin::Region>> register_memory(std::span<const Segment> segments,
                                                            Access access, MemoryKind,
                                                            std::uint64_t) override {
        World& w = world();
        const std::lock_guard guard(w.mutex);
        auto region = std::make_unique<Region>(
            this, w.next++, std::vector<Segment>(segments.begin(), segments.end()), access);
        w.regions[region->key()] = region.get();
        return std::unique_ptr<plugin::Region>(std::move(region));
    }
    Result<std::unique_ptr<plugin::Region>> decode_region(std::span<const std::byte> encoded,
                                                          std::uint64_t) override {
        std::uint64_t key = 0;
        if (encoded.size() != sizeof key) {
            return Error{Status::protocol_error, "malformed region"};
        }
        std::memcpy(&key, encoded.data(), sizeof key);
        return std::unique_ptr<plugin::Region>(new Region(nullptr, key, {}, Access::none));
    }
    Result<std::unique_ptr<plugin::Context>> open_context(std::uint8_t id,
                                                          plugin::Sink& sink) override {
        if (world().find(address_, id) != nullptr) {
            return Error{Status::exist, fmt::format("context {} exists already", id)};
        }
        return std::unique_ptr<plugin::Context>(new Context(caps_, id, address_, sink));
    }

 private:
    const std::string address_;
    Caps caps_;
};

Region::~Region() {
    if (owner_ != nullptr) {
        const std::lock_guard guard(world().mutex);
        world().regions.erase(key_);
    }
}

class Plugin final : public plugin::Plugin {
 public:
    std::string_view class_name() const noexcept override { return "loop"; }
    std::vector<plugin::ProtocolInfo> protocols() override { return {{"loop", "memory"}}; }
    Result<std::unique_ptr<plugin::Domain>> open(const plugin::OpenSpec& spec) override {
        if (spec.protocol != "loop") {
            return Error{Status::protonosupport,
                         fmt::format("class loop has no protocol \"{}\": use loop", spec.protocol)};
        }
        if (spec.host.size() > kMaxName) {
            return Error{Status::invalid_arg, fmt::format("a name of {} characters: {} at most",
                                                          spec.host.size(), kMaxName)};
        }
        World& w = world();
        std::unique_ptr<Domain> domain;  // its destructor takes the lock: it goes after the guard
        const std::lock_guard guard(w.mutex);
        const std::string address = spec.host.empty() ? fmt::format("{}", w.next++) : spec.host;
        if (w.domains.contains(address)) {
            return Error{Status::addrinuse, fmt::format("\"{}\" is in use", address)};
        }
        domain = std::make_unique<Domain>(address, spec.info);
        w.domains[address] = domain.get();
        return std::unique_ptr<plugin::Domain>(std::move(domain));
    }
};

}  // namespace
}  // namespace na::loop

extern "C" const na::plugin::Entry na_plugin_entry;
const na::plugin::Entry na_plugin_entry = {
    .name = "loop",
    .create = []() -> std::unique_ptr<na::plugin::Plugin> {
        return std::make_unique<na::loop::Plugin>();
    },
};
