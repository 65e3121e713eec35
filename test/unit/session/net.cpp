// SPDX-License-Identifier: BSD-3-Clause
#include "unit/session/net.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace session_test {

Address address_of(std::uint16_t port, std::string_view ip) {
    return Address::of_ip({.address = *na::util::IpAddress::parse(ip), .port = port});
}

bool meet(Node& from, Node& to) {
    TestOp op;
    const std::size_t before = to.messages.size();
    return from.send(op, to, "x") &&
           settle([&] { return op.done && to.messages.size() == before + 1; }, from, to);
}

Bytes control(Kind kind, std::uint64_t cookie, const Card& card, std::uint8_t target,
              std::uint32_t tag) {
    Bytes bytes(na::session::kMaxControl);
    Header{.cookie = cookie, .tag = tag, .kind = kind, .target = target}.write(bytes.data());
    const std::size_t n = card.write(std::span(bytes).subspan(Header::kSize));
    bytes.resize(Header::kSize + n);
    return bytes;
}

// --- the transport

Transport::Transport(Net& net, const Local& local, std::uint8_t id, na::plugin::Sink& sink,
                     const na::session::Traits& traits)
    : Engine(local, id, sink, traits),
      net_(net),
      place_(local.address.raw(id)),
      pool_(local.bounce_bytes()) {
    net_[place_] = this;
    if (!na::ok(open().status)) {
        throw std::bad_alloc();
    }
}

Transport::~Transport() {
    if (!killed) {
        say_goodbye();
    }
    release_peers();
    std::erase_if(net_, [&](const auto& entry) { return entry.second == this; });
}

std::unique_ptr<na::session::Link> Transport::make_link(Address address, std::uint8_t target) {
    return std::make_unique<na::session::Link>(std::move(address), target);
}

Posted Transport::transmit(na::session::Link& link, std::span<const std::byte> bytes,
                           Op* op) noexcept {
    const Lavish all;
    if (refuses) {
        blocked(link);
        return Posted::again();
    }
    unblocked(link);
    if (way_takes.count() != 0) {
        const auto now = std::chrono::steady_clock::now();
        if (now - ways_.try_emplace(&link, now).first->second < way_takes) {
            retry_soon();
            return Posted::again();
        }
    }
    const auto it = net_.find(link.address.raw(link.target));
    if (it == net_.end()) {
        return Posted::failed(Status::hostunreach);
    }
    Header h;
    h.read(bytes);
    ++sent[static_cast<std::size_t>(h.kind)];
    if (loses && loses(h)) {
        return Posted::done();
    }
    if (!copies) {
        it->second->inbox.emplace_back(bytes.begin(), bytes.end());
        return Posted::done();
    }
    Request* r = pool_.take([](std::byte*, std::size_t) -> na::Result<Request::Registration> {
        return Request::Registration{};
    });
    if (r == nullptr) {
        retry_soon();
        return Posted::again();
    }
    std::memcpy(r->bounce, bytes.data(), bytes.size());
    r->size = bytes.size();
    r->to = it->second;
    r->op = op;
    start(*r, link);
    sending_.push_back(r);
    return op == nullptr ? Posted::done() : Posted::pending();
}

std::size_t Transport::poll() {
    std::size_t events = 0;
    for (Request* r : stuck ? std::vector<Request*>{} : std::exchange(sending_, {})) {
        for (auto& [place, to] : net_) {
            if (to == r->to) {
                to->inbox.emplace_back(r->bounce, r->bounce + r->size);
            }
        }
        if (Op* op = ended(*r)) {
            complete(*op, Status::success);
        }
        pool_.put_back(*r);
        ++events;
    }
    while (!inbox.empty()) {
        const Bytes bytes = std::move(inbox.front());  // (a move takes no memory)
        inbox.pop_front();
        arrived(bytes);
        ++events;
    }
    return events;
}

std::uint64_t Transport::stat(std::string_view name) const {
    std::vector<na::plugin::Stat> all;
    stats(all);
    const auto it = std::find_if(all.begin(), all.end(),
                                 [&](const na::plugin::Stat& s) { return s.name == name; });
    return it == all.end() ? UINT64_MAX : it->value;
}

// --- the core's side

namespace {

na::plugin::OpenSpec spec_of(const na::InitInfo& info) {
    na::plugin::OpenSpec spec;
    spec.protocol = "mem";
    spec.info = info;
    spec.contexts = 8;  // as the core has it
    return spec;
}

}  // namespace

Node::Node(Net& in, std::uint16_t port, std::uint8_t id, const na::InitInfo& info,
           const na::session::Traits& traits, std::string_view ip)
    : Node(in, address_of(port, ip), id, info, traits) {}

Node::Node(Net& in, const Address& address, std::uint8_t id, const na::InitInfo& info,
           const na::session::Traits& traits)
    : net(in),
      shared(std::make_shared<Local>("test", spec_of(info), na::session::Naming::ip)),
      local(*shared) {
    local.address = address;
    local.format = local.address.ip().address.format();
    transport = std::make_unique<Transport>(net, local, id, *this, traits);
}

Node::Node(Node& sibling, std::uint8_t id)
    : net(sibling.net), shared(sibling.shared), local(*shared) {
    transport = std::make_unique<Transport>(net, local, id, *this, na::session::Traits{});
}

Node::~Node() {
    transport.reset();
}

na::plugin::Peer& Node::peer(const std::string& identity) {
    const Lavish all;
    auto& slot = peers[identity];
    if (slot == nullptr) {
        slot = *local.decode_peer(std::as_bytes(std::span(identity)));
    }
    return *slot;
}

Posted Node::post(TestOp& op, const Node& to, std::string_view text, Lane lane, std::uint32_t tag) {
    return post(op, peer(to), text, lane, tag);
}

Posted Node::post(TestOp& op, na::plugin::Peer& to, std::string_view text, Lane lane,
                  std::uint32_t tag) {
    {
        const Lavish all;
        op.buffer.assign(Header::kSize + text.size(), std::byte{});
    }
    std::memcpy(op.buffer.data() + Header::kSize, text.data(), text.size());
    op.op.kind = lane == Lane::unexpected ? OpKind::send_unexpected : OpKind::send_expected;
    op.op.tag = tag;
    op.op.buffer = op.buffer.data();
    op.op.length = op.buffer.size();
    op.op.peer = &to;
    op.done = false;
    const Posted posted = transport->send(op.op);
    op.done = posted.what == Posted::What::done;
    return posted;
}

bool Node::send(TestOp& op, Node& to, std::string_view text, Lane lane, std::uint32_t tag) {
    Posted posted = Posted::again();
    const bool in_time = settle(
        [&] {
            posted = post(op, to, text, lane, tag);
            return posted.what != Posted::What::again;
        },
        *this, to);
    return in_time && posted.what != Posted::What::failed;
}

void Node::await(TestOp& op, const Node& from) {
    op.op.kind = OpKind::recv_expected;
    op.op.peer = &peer(from);
    transport->awaits(op.op, true);
}

bool Node::was_dropped(std::string_view what) const {
    return std::find(drops.begin(), drops.end(), what) != drops.end();
}

void Node::complete(Op& op, const na::plugin::Completion& how) {
    // The operation is the first member.
    auto& test = reinterpret_cast<TestOp&>(op);
    test.done = true;
    test.status = how.status;
}

na::plugin::Arrival* Node::arrive(Lane lane, na::plugin::Peer& source, std::uint32_t tag,
                                  std::size_t size) {
    const Lavish all;
    if (!room) {
        return nullptr;
    }
    landing_.resize(size);
    arrival_.data = landing_.data();
    next_ = {lane, tag, {}, source.uri()};
    return &arrival_;
}

void Node::finish(na::plugin::Arrival*, Status) {
    const Lavish all;
    next_.text.assign(reinterpret_cast<const char*>(landing_.data()) + Header::kSize,
                      landing_.size() - Header::kSize);
    messages.push_back(next_);
}

na::plugin::Peer* Node::source(std::span<const std::byte> identity) {
    const Lavish all;
    if (crowded) {
        return nullptr;
    }
    ++references;
    return &peer({reinterpret_cast<const char*>(identity.data()), identity.size()});
}

void Node::release(na::plugin::Peer&) {
    --references;
}

void Node::peer_lost(na::plugin::Peer& peer, Status) {
    const Lavish all;
    lost.push_back(peer.uri());
}

}  // namespace session_test
