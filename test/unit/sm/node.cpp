// SPDX-License-Identifier: BSD-3-Clause
#include "unit/sm/node.hpp"

#include <cstring>

namespace sm_test {

TestContext::TestContext(Node& node_, std::uint8_t id) : node(node_) {
    auto made = node.domain->open_context(id, *this);
    if (!made) {
        throw std::runtime_error(made.error().message);
    }
    plugin = std::move(*made);
}

na::plugin::Arrival* TestContext::arrive(Lane lane, na::plugin::Peer& source, std::uint32_t tag,
                                         std::size_t size) {
    if (on_arrive) {
        on_arrive();
    }
    if (refuse) {
        return nullptr;
    }
    auto* l = new Landing;
    l->message = {
        lane,           source.uri(), &source, tag, std::vector<std::byte>(skip_data ? 0 : size),
        Status::success};
    l->data = skip_data ? nullptr : l->message.data.data();
    ++landing;
    return l;
}

void TestContext::finish(na::plugin::Arrival* arrival, Status status) {
    std::unique_ptr<Landing> l(static_cast<Landing*>(arrival));
    --landing;
    l->message.status = status;
    messages.push_back(std::move(l->message));
}

na::plugin::Peer* TestContext::source(std::span<const std::byte> identity) {
    if (node.full) {
        return nullptr;
    }
    const std::string key(reinterpret_cast<const char*>(identity.data()), identity.size());
    Node::Known& known = node.peers[key];
    if (known.peer == nullptr) {
        auto made = node.domain->decode_peer(identity);
        if (!made) {
            node.peers.erase(key);
            return nullptr;
        }
        known.peer = std::move(*made);
    }
    ++known.references;
    return known.peer.get();
}

void TestContext::release(na::plugin::Peer& peer) {
    for (auto& [key, known] : node.peers) {
        if (known.peer.get() == &peer) {
            known.dead = --known.references == 0 && !known.looked_up;
            return;
        }
    }
    throw std::logic_error("release of an unknown peer");
}

std::uint64_t TestContext::stat(const std::string& name) const {
    std::vector<na::plugin::Stat> list;
    plugin->stats(list);
    for (const auto& s : list) {
        if (name == s.name) {
            return s.value;
        }
    }
    throw std::logic_error("no counter " + name);
}

Node::Node(const na::plugin::OpenSpec& s) {
    auto made = na::sm::Domain::open(s);
    if (!made) {
        throw std::runtime_error(made.error().message);
    }
    domain = std::move(*made);
    open(0);
}

Node::~Node() {
    contexts.clear();
    peers.clear();
}

na::plugin::Peer& Node::peer(const std::string& uri) {
    const std::string key = uri.substr(std::string("sm://").size());
    Known& known = peers[key];
    if (known.peer == nullptr) {
        auto made = domain->connect(uri);
        if (!made) {
            peers.erase(key);
            throw std::runtime_error(made.error().message);
        }
        known.peer = std::move(*made);
    }
    known.looked_up = true;
    return *known.peer;
}

void Node::poll() {
    for (auto& c : contexts) {
        c->poll();
    }
    for (auto it = peers.begin(); it != peers.end();) {
        const auto known = it++;
        if (known->second.dead && known->second.references == 0 && !known->second.looked_up) {
            drop("sm://" + known->first);
        }
    }
}

void Node::drop(const std::string& uri) {
    const std::string key = uri.substr(std::string("sm://").size());
    Known& known = peers.at(key);
    known.looked_up = false;
    if (known.references == 0) {
        for (auto& c : contexts) {
            c->plugin->drop(*known.peer);
        }
        peers.erase(key);
    }
}

Posted Node::try_send(TestOp& op, const std::string& to, Lane lane, std::uint32_t tag,
                      const void* data, std::size_t size, std::uint8_t target,
                      std::size_t context) {
    op.kind = lane == Lane::unexpected ? OpKind::send_unexpected : OpKind::send_expected;
    op.target_id = target;
    op.tag = tag;
    op.buffer = const_cast<void*>(data);
    op.length = size;
    op.peer = &peer(to);
    op.ended = 0;
    op.posted = contexts.at(context)->plugin->send(op);
    if (op.posted.what == Posted::What::done) {
        op.ended = 1;
        op.how = {};
    }
    return op.posted;
}

void Node::send(TestOp& op, Node& to, Lane lane, std::uint32_t tag, const void* data,
                std::size_t size, std::uint8_t target, std::size_t context) {
    const bool ok = settle(
        [&] {
            return try_send(op, to.uri(), lane, tag, data, size, target, context).what !=
                   Posted::What::again;
        },
        *this, to);
    if (!ok || op.posted.what == Posted::What::failed) {
        throw std::runtime_error(std::string("send: ") + na::to_string(op.posted.status));
    }
}

Posted Node::transfer(TestOp& op, OpKind kind, const std::string& to, na::plugin::Region& local,
                      std::uint64_t local_offset, na::plugin::Region& remote,
                      std::uint64_t remote_offset, std::uint64_t size, std::uint8_t target) {
    op.kind = kind;
    op.target_id = target;
    op.length = size;
    op.peer = &peer(to);
    op.local = &local;
    op.remote = &remote;
    op.local_offset = local_offset;
    op.remote_offset = remote_offset;
    op.ended = 0;
    auto& p = *contexts.front()->plugin;
    op.posted = kind == OpKind::put ? p.put(op) : p.get(op);
    if (op.posted.what == Posted::What::done) {
        op.ended = 1;
        op.how = {};
    }
    return op.posted;
}

std::unique_ptr<na::plugin::Region> Node::region(void* base, std::size_t size, Access access) {
    return region({na::Segment{base, size}}, access);
}

std::unique_ptr<na::plugin::Region> Node::region(const std::vector<na::Segment>& segments,
                                                 Access access) {
    auto made = domain->register_memory(segments, access, na::MemoryKind::host, 0);
    if (!made) {
        throw std::runtime_error(made.error().message);
    }
    return std::move(*made);
}

std::unique_ptr<na::plugin::Region> Node::decode(const na::plugin::Region& theirs,
                                                 std::uint64_t length) {
    std::vector<std::byte> bytes(theirs.encode({}));
    theirs.encode(bytes);
    auto made = domain->decode_region(bytes, length);
    if (!made) {
        throw std::runtime_error(made.error().message);
    }
    return std::move(*made);
}

}  // namespace sm_test
