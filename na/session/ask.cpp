// SPDX-License-Identifier: BSD-3-Clause
// Contexts that may not be there.
//
// Each card tells which contexts its sender's class has, and is as old as the session. Ports are
// taken in a row, so where a context would be another program may listen, that answers nothing, or
// is never through with what it takes for a call of its own. So a context that the peer has not
// told of is asked for, over any session with the peer, before it is greeted; and one that does not
// answer its greetings is asked for while they go on.
//
// A question has a number, which the answer repeats. What was posted before the question left has
// its answer in it: whoever has heard, in whatever way, that a context is there, reaches it. A
// refusal is for one post: those behind it ask for themselves. It takes a card that answers, and
// does not name the context, whatever other cards have said: at a context's place anybody may
// listen, and tell what he likes in the name of the class.
#include <utility>

#include "na/session/engine.hpp"
#include "na/util/log.hpp"

namespace na::session {
namespace {

constexpr std::int64_t kAskAgain = 1000 * kMs;  // a question that was not answered
// All that could answer stand still: the context itself may not.
constexpr std::int64_t kAlone = 1000 * kMs;
// A greeting without an answer, and no session to ask over: until context 0 is greeted for that.
constexpr std::int64_t kStrange = 2000 * kMs;
// Context 0 is not there, or the last session with the peer was lost, and what is known of it does
// not say that the one that is greeted is not there: it may stand still, as long as a host that
// vanishes is waited for.
constexpr std::int64_t kNobody = 12'000 * kMs;

}  // namespace

void Engine::no_question(Link& link) noexcept {
    link.asker = nullptr;
    link.denied = false;
    link.asked = 0;
}

void Engine::withdrawn(Op& op) noexcept {
    if (op.peer == nullptr) {
        return;
    }
    Link* link = static_cast<Peer&>(*op.peer).links(id_).to(op.target_id);
    if (link != nullptr && link->asker == &op) {
        no_question(*link);
    }
}

// A post to a context without a session. done: it is to be greeted. In a post.
plugin::Posted Engine::find_out(Link& link, const Op& op) noexcept {
    if (link.address.identity() == local_.address.identity()) {
        return local_.roster.told().open.has(link.target)
                   ? plugin::Posted::done()
                   : plugin::Posted::failed(Status::hostunreach);
    }
    if (link.peer->has_context(link.target) || !other_link_up(link)) {
        return plugin::Posted::done();
    }
    const std::int64_t now = now_ns();
    // One question at a time, whoever it is for: two posts that come in turn would otherwise each
    // take the other's answer away.
    const bool unanswered = link.asker != nullptr && link.asked != 0;
    if (link.asker == &op && !unanswered && !link.denied) {
        no_question(link);  // it is there, whatever somebody else said of it since
        return plugin::Posted::done();
    }
    if (link.asker != &op && !unanswered) {
        no_question(link);
        link.asker = &op;
        link.asked_at = now;
        link.next_ask = now + kAskAgain;
        ask_about(link);
    } else if (link.denied) {
        NA_LOG_INFO(addr, "{} has no context {}", link.address, link.target);
        no_question(link);
        return plugin::Posted::failed(Status::hostunreach);
    } else if (now - link.asked_at >= kAlone && traits_.connects_aside) {
        return plugin::Posted::done();
    } else if (now >= link.next_ask) {
        link.next_ask = now + kAskAgain;
        ask_about(link);
    }
    return again(link);
}

// Over all sessions with the peer, as some of its contexts may stand still. In a post.
void Engine::ask_about(Link& link) noexcept {
    ++asks_;
    if (link.asked == 0) {
        link.asked = asks_;
    }
    const Peer::Links& links = link.peer->links(id_);
    for (std::size_t i = 0; i <= links.others.size(); ++i) {
        Link* other = links.to(static_cast<std::uint8_t>(i));
        if (other != nullptr && other != &link && other->state == Link::State::up && !other->self) {
            other->due |= Link::kAsk;
            flush(*other);
        }
    }
}

// Nobody has answered its greetings for a while.
void Engine::doubt(Link& link, std::int64_t now) {
    link.next_ask = now + kAskAgain;
    if (link.peer == nullptr) {
        return;
    }
    if (traits_.connects_once && now - link.asked_at >= kStrange) {
        if (const Link* other = under_another_name(link)) {
            NA_LOG_WARNING(addr,
                           "{} cannot be reached: that is {} by its own account, which is "
                           "connected, and {} connects two processes under one name only; call it "
                           "by that, or let it listen at one address",
                           link.address, other->address, local_.name);
            lost(link, Status::hostunreach);
            return;
        }
    }
    if (other_link_up(link)) {
        ask_about(link);
        return;
    }
    if (link.bereaved && now - link.asked_at >= kNobody) {
        lost(link, Status::hostunreach);
        return;
    }
    if (link.target == 0 || now - link.asked_at < kStrange) {
        return;
    }
    Link& first = link_to(*link.peer, 0);
    if (first.state == Link::State::idle && !first.self) {
        ask_about(link);
        greet(first);
        first.inquires = true;
    }
}

// Context 0 is not there either. What the peer said when it was last heard is all there will be.
void Engine::nobody_to_ask(Peer& peer, Status why, std::int64_t now) {
    const Peer::Links& links = peer.links(id_);
    for (std::size_t i = 1; i <= links.others.size(); ++i) {
        Link* link = links.to(static_cast<std::uint8_t>(i));
        if (link != nullptr && link->state == Link::State::greeting && link->asked != 0 &&
            (!peer.has_context(link->target) || now - link->asked_at >= kNobody)) {
            lost(*link, why);
        }
    }
}

// By an answer to what was asked while it was greeted.
void Engine::denied(Link& link) {
    NA_LOG_INFO(addr, "{} has no context {}", link.address, link.target);
    if (!link.wants) {
        lost(link, Status::hostunreach);
        return;
    }
    // Posts that wait may have come after the question, by somebody who knows better: they ask for
    // themselves.
    end_operations(link, Status::hostunreach);  // copies of greetings
    forget_session(link);
    link.refuted = true;
}

void Engine::on_ask(const Header& h, const Card& card) {
    Link* link = with_cookie(h.cookie);
    if (link == nullptr) {
        refer(h, card);
        return;
    }
    link->news_number = card.number;
    link->due |= Link::kNews;
    flush(*link);
}

void Engine::on_news(Link* link, const Card& card) {
    if (link == nullptr || link->state != Link::State::up || link->identity() != card.identity ||
        link->target != card.context || card.number > asks_) {
        malformed("news that nobody has asked for");
        return;
    }
    if (link->peer == nullptr) {
        return;
    }
    Peer& peer = *link->peer;
    const Peer::Links& links = peer.links(id_);
    bool answers = false;
    for (std::size_t i = 0; i <= links.others.size(); ++i) {
        const Link* other = links.to(static_cast<std::uint8_t>(i));
        answers |= other != nullptr && other->asked != 0 && card.number >= other->asked;
    }
    if (!answers) {
        peer.learn(card.contexts);  // another one's answer was here before
        return;
    }
    peer.hears(card.contexts);
    for (std::size_t i = 0; i <= links.others.size(); ++i) {
        Link* other = links.to(static_cast<std::uint8_t>(i));
        if (other == nullptr || other->asked == 0 || card.number < other->asked) {
            continue;
        }
        other->asked = 0;
        if (card.contexts.open.has(other->target)) {
            continue;  // its next post, or its greeting, goes on
        }
        if (other->state == Link::State::greeting) {
            denied(*other);
        } else {
            other->denied = other->asker != nullptr;
        }
    }
}

}  // namespace na::session
