// SPDX-License-Identifier: BSD-3-Clause
// Engines of sessions over datagrams in memory, each with a core's side of its own.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "na/session/engine.hpp"
#include "na/session/request.hpp"
#include "support/until.hpp"

namespace session_test {

using na::Lane;
using na::Op;
using na::OpKind;
using na::Status;
using na::plugin::Posted;
using na::session::Address;
using na::session::Card;
using na::session::Header;
using na::session::Kind;
using na::session::Local;

using Bytes = std::vector<std::byte>;
class Transport;

// Memory that the engine may take; the test's own side has as much as it needs.
inline constexpr long kPlenty = -1;
extern thread_local long allocations_left;

class Lavish {
 public:
    Lavish() noexcept : before_(allocations_left) { allocations_left = kPlenty; }
    ~Lavish() { allocations_left = before_; }
    Lavish(const Lavish&) = delete;
    Lavish& operator=(const Lavish&) = delete;

 private:
    const long before_;
};

// What is reached at an address, as Address::raw() has it.
using Net = std::map<std::string, Transport*>;

struct Request : na::session::Request {
    struct Registration {};
    void made(Registration&) noexcept {}
    Transport* to = nullptr;
    std::size_t size = 0;
};

// Datagrams are there with the receiver's next poll(). What is public is for tests to turn.
class Transport final : public na::session::Engine {
 public:
    Transport(Net& net, const Local& local, std::uint8_t id, na::plugin::Sink& sink,
              const na::session::Traits& traits);
    ~Transport() override;

    Posted put(Op&) override { return Posted::failed(Status::opnotsupported); }
    Posted get(Op&) override { return Posted::failed(Status::opnotsupported); }

    std::deque<Bytes> inbox;
    bool refuses = false;                      // posts are answered "again"
    bool copies = false;                       // messages go into requests
    bool stuck = false;                        // the library does not get on with requests
    bool killed = false;                       // it ends without a word
    std::chrono::milliseconds way_takes{0};    // to be made, to each peer
    std::function<bool(const Header&)> loses;  // what leaves here and never arrives
    std::function<bool()> nobody_there;        // at the other end of any link, by the system
    unsigned sent[11] = {};                    // by Kind
    unsigned left = 0;                         // ways given up
    unsigned ends = 0;                         // end_transfers()

    using Engine::begins_anew;
    using Engine::links;
    using Engine::parted;
    using Engine::unwatch_fd;
    using Engine::watch_fd;
    std::uint64_t stat(std::string_view name) const;

 private:
    std::unique_ptr<na::session::Link> make_link(Address address, std::uint8_t target) override;
    Posted transmit(na::session::Link& link, std::span<const std::byte> bytes,
                    Op* op) noexcept override;
    void leave(na::session::Link& link) noexcept override {
        ++left;
        ways_.erase(&link);
    }
    void end_transfers(na::session::Link&, Status) override { ++ends; }
    std::size_t poll() override;
    bool gone(na::session::Link&) noexcept override { return nobody_there && nobody_there(); }
    Rest rest() noexcept override { return inbox.empty() ? Rest::watched : Rest::no; }

    Net& net_;
    const std::string place_;
    na::session::RequestPool<Request> pool_;
    std::vector<Request*> sending_;
    std::map<const na::session::Link*, std::chrono::steady_clock::time_point> ways_;  // begun
};

struct TestOp {
    Op op;
    Bytes buffer;
    bool done = false;
    Status status = Status::success;
};

struct Message {
    Lane lane;
    std::uint32_t tag;
    std::string text;
    std::string source;  // URI
};

// One context of a class, and the core above it.
class Node final : public na::plugin::Sink {
 public:
    Node(Net& net, std::uint16_t port, std::uint8_t id = 0, const na::InitInfo& info = {},
         const na::session::Traits& traits = {}, std::string_view ip = "192.0.2.1");
    Node(Net& net, const Address& address, std::uint8_t id = 0, const na::InitInfo& info = {},
         const na::session::Traits& traits = {});
    // Another context of the same class.
    Node(Node& sibling, std::uint8_t id);
    ~Node();
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;

    Transport* operator->() noexcept { return transport.get(); }
    // The peer that another node is; and that peer's own words of it.
    na::plugin::Peer& peer(const Node& other) { return peer(other.local.address.identity()); }
    na::plugin::Peer& peer(const std::string& identity);

    // Posts once. The operation's buffer has the header's room in front of the text.
    Posted post(TestOp& op, const Node& to, std::string_view text, Lane lane = Lane::unexpected,
                std::uint32_t tag = 0);
    Posted post(TestOp& op, na::plugin::Peer& to, std::string_view text, Lane lane,
                std::uint32_t tag);
    // Posts until it is taken. False: it failed, or was not taken in time.
    bool send(TestOp& op, Node& to, std::string_view text, Lane lane = Lane::unexpected,
              std::uint32_t tag = 0);
    // A receive from a peer that waits.
    void await(TestOp& op, const Node& from);
    void progress() { transport->progress(); }
    bool was_dropped(std::string_view what) const;

    void complete(Op& op, const na::plugin::Completion& how) override;
    na::plugin::Arrival* arrive(Lane lane, na::plugin::Peer& source, std::uint32_t tag,
                                std::size_t size) override;
    void finish(na::plugin::Arrival* arrival, Status status) override;
    na::plugin::Peer* source(std::span<const std::byte> identity) override;
    void release(na::plugin::Peer& peer) override;
    void peer_lost(na::plugin::Peer& peer, Status why) override;
    void context_lost(na::plugin::Peer&, std::uint8_t context, Status) override {
        const Lavish all;
        lost_contexts.push_back(context);
    }
    void dropped(const char* what) override {
        const Lavish all;
        drops.push_back(what);
    }

    Net& net;
    const std::shared_ptr<Local> shared;
    Local& local;
    bool room = true;      // for messages
    bool crowded = false;  // no room for peers
    std::vector<Message> messages;
    std::vector<std::string> lost;  // URIs
    std::vector<std::uint8_t> lost_contexts;
    std::vector<std::string> drops;
    int references = 0;  // from source()
    std::map<std::string, std::unique_ptr<na::plugin::Peer>> peers;
    std::unique_ptr<Transport> transport;

 private:
    na::plugin::Arrival arrival_;
    Bytes landing_;
    Message next_{};
};

// False: not in time.
template <typename Done, typename... Nodes>
bool settle(Done&& done, Nodes&... nodes) {
    return support::until(done, [&] { nodes.progress(); }...);
}

// A message from one to the other opens their session. False: it failed, or did not arrive in time.
bool meet(Node& from, Node& to);

// A message of the engine, as a stranger may make it up.
Bytes control(Kind kind, std::uint64_t cookie, const Card& card, std::uint8_t target = 0,
              std::uint32_t tag = 0);
Address address_of(std::uint16_t port, std::string_view ip = "192.0.2.1");

}  // namespace session_test
