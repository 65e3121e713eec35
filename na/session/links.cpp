// SPDX-License-Identifier: BSD-3-Clause
// The table of links: when there is one, whom it is to, and when it goes.
#include <algorithm>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "na/session/engine.hpp"

namespace na::session {
namespace {

// A stranger has that long to become a peer before others take its place: else a crowd that comes
// at once would only drive each other out.
constexpr std::int64_t kStrangersTime = 100 * kMs;

// Of Links: the identity, and the context.
class Key {
 public:
    Key(std::string_view identity, std::uint8_t target) noexcept
        : size_(std::min(identity.size(), Address::kMaxBytes)) {
        identity.copy(bytes_, size_);
        bytes_[size_++] = static_cast<char>(target);
    }
    std::string_view view() const noexcept { return {bytes_, size_}; }
    std::string text() const { return {bytes_, size_}; }

 private:
    char bytes_[Address::kMaxBytes + 1];
    std::size_t size_;
};

}  // namespace

Link* Engine::find_link(std::string_view identity, std::uint8_t target) noexcept {
    const auto it = links_.find(Key(identity, target).view());
    return it == links_.end() ? nullptr : it->second.get();
}

Link& Engine::link_to(Peer& peer, std::uint8_t target) {
    Link* link = find_link(peer.address().identity(), target);
    if (link == nullptr) {
        auto made = make_link(peer.address(), target);
        made->self = target == id_ && peer.address().identity() == local_.address.identity();
        link = made.get();
        links_.emplace(Key(link->address.identity(), target).text(), std::move(made));
    }
    peer.links(id_).set(target, link);
    link->peer = &peer;
    no_stranger(*link);
    return *link;
}

void Engine::no_stranger(Link& link) noexcept {
    if (link.age.linked()) {
        util::IntrusiveList<Link, &Link::age>::remove(link);
        --stranger_count_;
    }
}

// The link to who sent this card, which may be anybody who claims to be. Null: the card makes no
// sense.
Link* Engine::stranger(const Card& card) {
    if (Link* known = find_link(card.identity, card.context)) {
        return known;
    }
    auto address =
        Address::decode(local_.naming, local_.format, std::as_bytes(std::span(card.identity)));
    if (!address || (card.context == id_ && card.identity == local_.address.identity()) ||
        !address->has_place_for(card.context)) {
        malformed("a greeting with an address that cannot be");
        return nullptr;
    }
    if (stranger_count_ >= traits_.max_strangers) {
        Link& oldest = *strangers_.front();
        if (now_ns() - oldest.met_at < kStrangersTime) {
            ++stats_.turned_away;  // it will greet again
            return nullptr;
        }
        no_stranger(oldest);
        forget_session(oldest);
        oldest.due = 0;
        remove_if_idle(oldest);
    }
    auto link = make_link(std::move(*address), card.context);
    Link& made = *link;
    links_.emplace(Key(card.identity, card.context).text(), std::move(link));
    made.met_at = now_ns();
    strangers_.push_back(made);
    ++stranger_count_;
    return &made;
}

// Makes the core know the peer of a session, which stays known as long as the session.
bool Engine::attach(Link& link) {
    const std::string& id = link.address.identity();
    auto* peer = static_cast<Peer*>(sink_.source(std::as_bytes(std::span(id))));
    if (peer == nullptr) {
        return false;
    }
    try {
        peer->links(id_).set(link.target, &link);
    } catch (const std::bad_alloc&) {
        sink_.release(*peer);
        return false;
    }
    if (link.holds_source) {
        sink_.release(*peer);
    }
    link.holds_source = true;
    link.peer = peer;
    return true;
}

// In the next progress(): what is under way ends there.
void Engine::disconnect(plugin::Peer& given_up) {
    const Peer::Links& links = static_cast<Peer&>(given_up).links(id_);
    for (std::size_t i = 0; i <= links.others.size(); ++i) {
        Link* link = links.to(static_cast<std::uint8_t>(i));
        if (link != nullptr && link->state != Link::State::idle) {
            link->ousted = true;
            doom(*link);
        }
    }
}

void Engine::drop(plugin::Peer& dropped) {
    auto& peer = static_cast<Peer&>(dropped);
    Peer::Links& links = peer.links(id_);
    for (std::size_t i = 0; i <= links.others.size(); ++i) {
        Link* link = links.to(static_cast<std::uint8_t>(i));
        if (link == nullptr) {
            continue;
        }
        links.clear(static_cast<std::uint8_t>(i));
        link->peer = nullptr;
        link->wants = false;
        if (link->state != Link::State::up) {
            // Nobody is waiting for the session any more. One that stands stays: the peer may still
            // use it.
            forget_session(*link);
            link->due = 0;
            remove_if_idle(*link);
        }
    }
    bury_dead();
}

// Marks links that nothing refers to: they are deleted when no caller uses them any more.
void Engine::remove_if_idle(Link& link) noexcept {
    if (link.peer == nullptr && link.state == Link::State::idle && !link.holding() &&
        link.due == 0 && !link.age.linked() && !link.dying.linked()) {
        dead_.push_back(link);
    }
}

void Engine::bury_dead() noexcept {
    while (Link* link = dead_.pop_front()) {
        if (link->peer != nullptr || link->state != Link::State::idle || link->due != 0 ||
            link->holding()) {
            continue;  // it lives again
        }
        leave(*link);
        while (Request* r = link->requests.front()) {
            ended(*r);
        }
        if (link->work.linked()) {
            util::IntrusiveList<Link, &Link::work>::remove(*link);
        }
        if (link->watched.linked()) {
            util::IntrusiveList<Link, &Link::watched>::remove(*link);
        }
        if (link->departing.linked()) {
            util::IntrusiveList<Link, &Link::departing>::remove(*link);
        }
        no_stranger(*link);
        if (link->turn.linked()) {
            util::IntrusiveList<Link, &Link::turn>::remove(*link);
        }
        if (last_ == link) {
            last_ = nullptr;
        }
        links_.erase(links_.find(Key(link->address.identity(), link->target).view()));
    }
}

}  // namespace na::session
