// SPDX-License-Identifier: BSD-3-Clause
// An sm endpoint without the core: a Domain, its contexts, and a Sink that records what it is told.
// One thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "na/plugin.hpp"
#include "plugins/sm/context.hpp"
#include "plugins/sm/domain.hpp"
#include "plugins/sm/plugin.hpp"
#include "support/payload.hpp"
#include "support/until.hpp"

namespace sm_test {

using na::Access;
using na::Lane;
using na::Op;
using na::OpKind;
using na::Status;
using na::plugin::Posted;

inline const na::plugin::OpenSpec kDefaults{
    .protocol = "sm", .host = "", .listen = true, .info = {}};

inline na::plugin::OpenSpec spec(std::size_t max_message = 0, std::uint8_t contexts = 1) {
    na::plugin::OpenSpec s = kDefaults;
    s.info.max_unexpected = s.info.max_expected = max_message;
    s.info.max_contexts = contexts;
    return s;
}

// An operation, and how it ended.
struct TestOp : Op {
    TestOp() { scratch = room; }
    alignas(16) std::byte room[64] = {};
    int ended = 0;
    na::plugin::Completion how;
    Posted posted{Posted::What::failed, Status::success};
    bool done() const { return ended == 1; }
};

class Node;

struct Message {
    Lane lane;
    std::string source;
    na::plugin::Peer* peer;
    std::uint32_t tag;
    std::vector<std::byte> data;
    Status status;
};

class TestContext final : public na::plugin::Sink {
 public:
    TestContext(Node& node, std::uint8_t id);
    ~TestContext() { plugin.reset(); }

    void complete(Op& op, const na::plugin::Completion& how) override {
        auto& t = static_cast<TestOp&>(op);
        ++t.ended;
        t.how = how;
    }
    na::plugin::Arrival* arrive(Lane lane, na::plugin::Peer& source, std::uint32_t tag,
                                std::size_t size) override;
    void finish(na::plugin::Arrival* arrival, Status status) override;
    na::plugin::Peer* source(std::span<const std::byte> identity) override;
    void release(na::plugin::Peer& peer) override;
    void peer_lost(na::plugin::Peer& peer, Status why) override {
        lost.emplace_back(peer.uri(), why);
    }
    void context_lost(na::plugin::Peer& peer, std::uint8_t context, Status) override {
        contexts_lost.emplace_back(peer.uri(), context);
    }
    bool awaited(na::plugin::Peer&) override { return awaits; }
    void dropped(const char* what) override { complaints.emplace_back(what); }

    std::size_t poll() { return plugin->progress(); }
    std::uint64_t stat(const std::string& name) const;

    Node& node;
    std::deque<Message> messages;
    std::vector<std::pair<std::string, Status>> lost;
    std::vector<std::pair<std::string, unsigned>> contexts_lost;
    std::vector<std::string> complaints;
    bool refuse = false;  // arrive() answers null
    bool awaits = false;  // what awaited() answers
    std::function<void()> on_arrive;
    bool skip_data = false;  // arrive() gives no memory
    int landing = 0;
    std::unique_ptr<na::plugin::Context> plugin;

 private:
    struct Landing : na::plugin::Arrival {
        Message message;
    };
};

class Node {
 public:
    explicit Node(const na::plugin::OpenSpec& s = kDefaults);
    ~Node();

    na::plugin::Peer& peer(const std::string& uri);  // looked up, kept until drop()
    void drop(const std::string& uri);
    std::string uri() const { return domain->self_uri(); }
    TestContext& open(std::uint8_t id) {
        contexts.push_back(std::make_unique<TestContext>(*this, id));
        return *contexts.back();
    }
    TestContext& operator*() { return *contexts.front(); }
    TestContext* operator->() { return contexts.front().get(); }
    // Then drops the peers that nobody refers to any more.
    void poll();

    // Posts; `again` is tried again until it is something else.
    void send(TestOp& op, Node& to, Lane lane, std::uint32_t tag, const void* data,
              std::size_t size, std::uint8_t target = 0, std::size_t context = 0);
    Posted try_send(TestOp& op, const std::string& to, Lane lane, std::uint32_t tag,
                    const void* data, std::size_t size, std::uint8_t target = 0,
                    std::size_t context = 0);
    Posted transfer(TestOp& op, OpKind kind, const std::string& to, na::plugin::Region& local,
                    std::uint64_t local_offset, na::plugin::Region& remote,
                    std::uint64_t remote_offset, std::uint64_t size, std::uint8_t target = 0);
    std::unique_ptr<na::plugin::Region> region(void* base, std::size_t size,
                                               Access access = Access::read_write);
    std::unique_ptr<na::plugin::Region> region(const std::vector<na::Segment>& segments,
                                               Access access = Access::read_write);
    // As this node sees another's region.
    std::unique_ptr<na::plugin::Region> decode(const na::plugin::Region& theirs,
                                               std::uint64_t length);

    struct Known {
        std::unique_ptr<na::plugin::Peer> peer;
        int references = 0;  // of contexts
        bool looked_up = false;
        bool dead = false;  // released by the last context
    };
    std::map<std::string, Known> peers;  // by identity
    std::unique_ptr<na::plugin::Domain> domain;
    std::vector<std::unique_ptr<TestContext>> contexts;
    bool full = false;  // source() answers null
};

template <typename Done, typename... Nodes>
bool settle(Done&& done, Nodes&... nodes) {
    return support::until(done, [&] { (nodes.poll(), ...); });
}

}  // namespace sm_test
