// SPDX-License-Identifier: BSD-3-Clause
// Sessions: how two contexts come to know each other (wire.hpp has the messages), and how that
// ends.
#include <algorithm>
#include <cstring>
#include <utility>

#include "na/util/log.hpp"
#include "plugins/ofi/context.hpp"

namespace na::ofi {
namespace {

// Links to peers that said hello and nothing more.
constexpr std::size_t kMaxStrangers = 1024;
// Until a hello is repeated, doubling: it may have gone into a connection of which only the other
// end knows that it is dead.
constexpr std::int64_t kFirstCall = 10'000'000;  // ns
constexpr std::int64_t kYield =
    300'000'000;  // ns: how long another one's hello has time to lead to a session
constexpr std::uint8_t kAnswers = 3;           // to checks, while a transfer made no step
constexpr std::int64_t kAbsent = 200'000'000;  // ns

bool has_transfers(Link& link) noexcept {
    for (Request* r = link.requests.front(); r != nullptr; r = link.requests.next(*r)) {
        if (r->transfer != nullptr) {
            return true;
        }
    }
    return false;
}

}  // namespace

// --- the table of links
// ----------------------------------------------------------------------------------------------

Link* Context::find_link(std::string_view identity, std::uint8_t target) noexcept {
    const auto it = links_.find(link_key(identity, target));
    return it == links_.end() ? nullptr : it->second.get();
}

Link& Context::link_to(Peer& peer, std::uint8_t target) {
    const std::string key = link_key(peer.address().identity(), target);
    auto& slot = links_[key];
    if (slot == nullptr) {
        slot = std::make_unique<Link>(peer.address(), target);
        slot->self = target == id_ && peer.address().identity() == domain_.address().identity();
    }
    Link& link = *slot;
    link.peer = &peer;
    peer.links(id_).set(target, &link);
    if (link.age.linked()) {
        util::IntrusiveList<Link, &Link::age>::remove(link);
        --stranger_count_;
    }
    return link;
}

// The link to who sent this card, which may be anybody who claims to be. Null: the card makes no
// sense.
Link* Context::stranger(const Card& card) {
    if (Link* known = find_link(card.identity, card.context)) {
        return known;
    }
    auto address = Address::decode(domain_.provider().naming, domain_.format(),
                                   std::as_bytes(std::span(card.identity)));
    if (!address || (card.context == id_ && card.identity == domain_.address().identity()) ||
        (address->naming() == Naming::ip && address->ip().port + card.context > UINT16_MAX)) {
        ++stats_.bad_input;
        sink_.dropped("a greeting with an address that cannot be");
        return nullptr;
    }
    if (stranger_count_ >= kMaxStrangers) {
        Link& oldest = *strangers_.front();
        util::IntrusiveList<Link, &Link::age>::remove(oldest);
        --stranger_count_;
        forget_session(oldest);
        oldest.due = 0;
        remove_if_idle(oldest);
    }
    auto link = std::make_unique<Link>(std::move(*address), card.context);
    Link& made = *link;
    links_.emplace(link_key(card.identity, card.context), std::move(link));
    strangers_.push_back(made);
    ++stranger_count_;
    return &made;
}

// Makes the core know the peer of a session, which stays known as long as the session.
bool Context::attach(Link& link) {
    const std::string& id = link.address.identity();
    auto* peer = static_cast<Peer*>(sink_.source(std::as_bytes(std::span(id))));
    if (peer == nullptr) {
        return false;
    }
    if (link.holds_source) {
        sink_.release(*peer);
    }
    link.holds_source = true;
    link.peer = peer;
    peer->links(id_).set(link.target, &link);
    return true;
}

void Context::drop(plugin::Peer& dropped) {
    auto& peer = static_cast<Peer&>(dropped);
    Peer::Links& links = peer.links(id_);
    for (std::size_t i = 0; i <= links.others.size(); ++i) {
        Link* link = links.to(static_cast<std::uint8_t>(i));
        if (link == nullptr) {
            continue;
        }
        links.set(static_cast<std::uint8_t>(i), nullptr);
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
void Context::remove_if_idle(Link& link) {
    if (link.peer == nullptr && link.state == Link::State::idle && !link.holding() &&
        link.due == 0 && !link.age.linked() && !link.dying) {
        link.dying = true;
        dead_.push_back(&link);
    }
}

void Context::bury_dead() {
    for (Link* link : dead_) {
        link->dying = false;
        if (link->peer != nullptr || link->state != Link::State::idle || link->due != 0 ||
            link->holding()) {
            continue;  // it lives again
        }
        leave(*link);
        while (Request* r = link->requests.front()) {
            util::IntrusiveList<Request, &Request::hook>::remove(*r);
            r->link = nullptr;
            r->op = nullptr;
        }
        for (auto* hook : {&link->work, &link->watched}) {
            if (hook->linked()) {
                hook == &link->work ? util::IntrusiveList<Link, &Link::work>::remove(*link)
                                    : util::IntrusiveList<Link, &Link::watched>::remove(*link);
            }
        }
        if (link->age.linked()) {
            util::IntrusiveList<Link, &Link::age>::remove(*link);
            --stranger_count_;
        }
        if (link->turn.linked()) {
            util::IntrusiveList<Link, &Link::turn>::remove(*link);
        }
        if (last_ == link) {
            last_ = nullptr;
        }
        links_.erase(link_key(link->address.identity(), link->target));
    }
    dead_.clear();
}

// --- sessions
// --------------------------------------------------------------------------------------------------------

void Context::set_cookie(Link& link, std::uint64_t cookie) {
    if (link.in_cookie != 0) {
        cookies_.erase(link.in_cookie);
    }
    link.in_cookie = 0;
    if (cookie != 0) {
        cookies_[cookie] = &link;
        link.in_cookie = cookie;
    }
}

// Back to the beginning. The address is given up too.
void Context::forget_session(Link& link) noexcept {
    if (link.in_cookie != 0) {
        cookies_.erase(link.in_cookie);
        link.in_cookie = 0;
    }
    link.state = Link::State::idle;
    link.offer = link.their_offer = link.out_cookie = 0;
    link.blocked_since = link.probe_end = link.next_probe = 0;
    link.probe.reset();
    link.answered = false;
    unwatch_process(link);
    link.due &= static_cast<std::uint8_t>(
        ~(Link::kHello | Link::kConfirm | Link::kCheck | Link::kCredit | Link::kBye));
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        link.sent[lane] = link.acked[lane] = link.taken[lane] = link.told[lane] = 0;
    }
    leave(link);
    if (last_ == &link) {
        last_ = nullptr;
    }
}

void Context::greet(Link& link) noexcept {
    link.absent_until = 0;
    try {
        link.offer = session::random_number();
        set_cookie(link, link.offer);
    } catch (const std::bad_alloc&) {
        return;
    }
    if (link.self) {
        link.out_cookie = link.offer;
        link.window = window_;
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            link.max_message[lane] = static_cast<std::uint32_t>(domain_.caps().max_message[lane]);
        }
        link.state = Link::State::up;
        return;
    }
    link.state = Link::State::greeting;
    link.due |= Link::kHello;
    link.call_interval = kFirstCall;
    link.next_call = now_ns() + kFirstCall;
    greeting_ = true;
    watch(link);
    watch_process(link);
    flush(link);
    if (link.due != 0) {
        work(link);
    }
}

// The peer died, or lost its memory of us. Everything towards it ends.
void Context::lost(Link& link, Status why) {
    ++stats_.lost;
    NA_LOG_INFO(addr, "the session with {} ended", link.address.text());
    if (process_gone(link)) {
        remove_left(link);
    }
    leave(link);
    // Copied messages are the provider's; the operations are over. Pieces of transfers end with
    // their transfer.
    while (Request* r = link.requests.front()) {
        util::IntrusiveList<Request, &Request::hook>::remove(*r);
        r->link = nullptr;
        if (Transfer* t = std::exchange(r->transfer, nullptr)) {
            --t->pieces;
            t->status = why;
            t->stopped = true;
            end_if_done(*t);
        } else if (Op* op = std::exchange(r->op, nullptr)) {
            sink_.complete(*op, {.status = why, .size = op->length});
        }
    }
    for (Transfer* t = transfers_.front(); t != nullptr;) {
        Transfer* next = transfers_.next(*t);
        if (t->link == &link) {
            util::IntrusiveList<Transfer, &Transfer::hook>::remove(*t);
            t->status = why;
            t->stopped = true;
            end_if_done(*t);
        }
        t = next;
    }
    const bool was_up = link.state == Link::State::up;
    forget_session(link);
    link.due = 0;
    link.wants = false;
    link.doomed = false;
    link.audited = false;
    if (link.peer != nullptr && !was_up && other_link_up(link)) {
        // Not the peer is gone, this context of it never was there: what is posted to it fails for
        // a while.
        link.absent_until = now_ns() + kAbsent;
    } else if (link.peer != nullptr) {
        sink_.peer_lost(*link.peer, why);
        if (std::exchange(link.holds_source, false)) {
            sink_.release(*link.peer);
        }
    }
    remove_if_idle(link);
}

void Context::knows(Link& link) noexcept {
    if (!link.turn.linked()) {
        audit_some();
        known_.push_back(link);
    }
}

bool Context::other_link_up(const Link& link) const noexcept {
    const Peer::Links& links = link.peer->links(id_);
    const auto up = [&](const Link* l) {
        return l != nullptr && l != &link && l->state == Link::State::up;
    };
    return up(links.first) || std::any_of(links.others.begin(), links.others.end(), up);
}

// --- messages of our own
// ---------------------------------------------------------------------------------------------

bool Context::send_control(Link& link, Kind kind, std::uint64_t cookie,
                           std::uint64_t number) noexcept {
    std::byte bytes[kMaxControl];
    Header{.cookie = cookie,
           .kind = kind,
           .target = link.target,
           .taken = {link.taken[0], link.taken[1]}}
        .write(bytes);
    std::size_t size = Header::kSize;
    if (kind != Kind::credit && kind != Kind::bye) {
        const plugin::Caps& caps = domain_.caps();
        size += Card{.number = number,
                     .max_message = {static_cast<std::uint32_t>(caps.max_message[0]),
                                     static_cast<std::uint32_t>(caps.max_message[1])},
                     .window = window_,
                     .context = id_,
                     .contexts = domain_.contexts(),
                     .identity = domain_.address().identity()}
                    .write(std::span(bytes).subspan(Header::kSize));
    }
    bool pending = false;
    const ssize_t rc = transmit(link, bytes, size, nullptr, pending);
    if (rc == -FI_EAGAIN) {
        return false;
    }
    ++stats_.control;
    NA_LOG_DEBUG(addr, "context {} sent {} to {}", id_, to_string(kind), link.address.text());
    if (rc != 0) {
        NA_LOG_INFO(addr, "cannot reach {}: {}", link.address.text(),
                    fi_strerror(static_cast<int>(-rc)));
        link.doomed = true;  // the core may be in a post: it hears of it in progress()
        work(link);
    }
    return true;
}

// Sends what is due; false: not all of it yet.
bool Context::flush(Link& link) noexcept {
    const auto send = [&](Link::Due bit, Kind kind, std::uint64_t cookie, std::uint64_t number) {
        if ((link.due & bit) == 0) {
            return true;
        }
        if (!send_control(link, kind, cookie, number)) {
            work(link);
            return false;
        }
        link.due &= static_cast<std::uint8_t>(~bit);
        return true;
    };
    if (!send(Link::kReset, Kind::reset, link.reset_cookie, 0) ||
        !send(Link::kWelcome, Kind::welcome, link.welcome_offer,
              domain_.secret().hash(link.address.identity(), link.target, link.welcome_offer)) ||
        !send(Link::kHello, Kind::hello, 0, link.offer) ||
        !send(Link::kConfirm, Kind::confirm, link.out_cookie, link.offer) ||
        !send(Link::kCheck, Kind::check, link.out_cookie, 0)) {
        return false;
    }
    if ((link.due & Link::kCredit) != 0) {
        const std::uint16_t taken[] = {link.taken[0], link.taken[1]};
        if (!send(Link::kCredit, Kind::credit, link.out_cookie, 0)) {
            return false;
        }
        link.told[0] = taken[0];
        link.told[1] = taken[1];
    }
    return send(Link::kBye, Kind::bye, link.out_cookie, 0);
}

void Context::arrived_control(const Header& h, std::span<const std::byte> rest) {
    ++stats_.control;
    NA_LOG_DEBUG(addr, "context {} got {}", id_, to_string(h.kind));
    const auto it = cookies_.find(h.cookie);
    Link* link = it == cookies_.end() ? nullptr : it->second;
    if (link != nullptr && link->state == Link::State::up) {
        link->heard = 0;
        for (std::size_t l = 0; l < kLanes; ++l) {
            if (h.kind >= Kind::check &&
                static_cast<std::uint16_t>(h.taken[l] - link->acked[l]) <=
                    static_cast<std::uint16_t>(link->sent[l] - link->acked[l])) {
                link->acked[l] = h.taken[l];
            }
        }
    }
    if (h.kind == Kind::credit || h.kind == Kind::bye) {
        if (h.kind == Kind::credit && link != nullptr && !domain_.provider().rma_errors &&
            ++link->rma_answers >= kAnswers) {
            link->rma_answers = 0;
            if (has_transfers(*link)) {
                fail_forgotten(*link);
            }
        }
        if (h.kind == Kind::bye && link != nullptr && link->state == Link::State::up &&
            !link->self) {
            lost(*link, Status::hostunreach);
        }
        return;
    }
    Card card;
    if (!card.read(rest)) {
        ++stats_.bad_input;
        sink_.dropped("a malformed greeting");
        return;
    }
    switch (h.kind) {
        case Kind::hello:
            on_hello(card);
            break;
        case Kind::welcome:
            if (link != nullptr && link->address.identity() == card.identity &&
                link->target == card.context) {
                on_welcome(*link, card);
            }
            break;
        case Kind::confirm:
            on_confirm(h, card);
            break;
        case Kind::check:
            on_check(h, card);
            break;
        case Kind::reset:
            on_reset(h, card);
            break;
        default:
            break;
    }
}

void Context::on_hello(const Card& card) {
    Link* link = stranger(card);
    if (link == nullptr) {
        return;
    }
    link->met = true;
    if (link->state == Link::State::greeting) {
        // Both say hello: the smaller one's is answered.
        const bool ours_first = link_key(domain_.address().identity(), id_) <
                                link_key(link->address.identity(), link->target);
        if (ours_first) {
            link->due |= Link::kHello;
            work(*link);
            return;
        }
        set_cookie(*link, 0);
        link->offer = 0;
        link->due &= static_cast<std::uint8_t>(~Link::kHello);
        link->next_call = now_ns() + kYield;
    }
    link->welcome_offer = card.number;
    link->due |= Link::kWelcome;
    flush(*link);
}

void Context::on_welcome(Link& link, const Card& card) noexcept {
    if (link.state != Link::State::greeting || link.offer == 0) {
        return;
    }
    ++stats_.sessions;
    link.met = true;
    link.state = Link::State::up;
    knows(link);
    link.out_cookie = card.number;
    link.window = card.window;
    if (link.peer != nullptr) {
        link.peer->set_contexts(card.contexts);
    }
    link.max_message[0] = card.max_message[0];
    link.max_message[1] = card.max_message[1];
    link.heard = 0;
    link.due &= static_cast<std::uint8_t>(~Link::kHello);
    link.due |= Link::kConfirm;
    flush(link);
}

void Context::on_confirm(const Header& h, const Card& card) {
    if (domain_.secret().hash(card.identity, card.context, card.number) != h.cookie) {
        ++stats_.bad_input;
        sink_.dropped("a confirmation that does not fit");
        return;
    }
    Link* link = stranger(card);
    if (link == nullptr || (link->state == Link::State::up && link->their_offer == card.number)) {
        return;
    }
    if (link->state == Link::State::up) {
        lost(*link, Status::hostunreach);  // another process, or one that gave the old session up
    }
    set_cookie(*link, h.cookie);
    if (link->peer == nullptr || !link->holds_source) {
        if (!attach(*link)) {
            set_cookie(*link, 0);
            link->state = Link::State::idle;
            if (!std::exchange(link->refused, true)) {
                sink_.dropped("a peer that there is no room to know");
            }
            return;
        }
    }
    if (link->age.linked()) {
        util::IntrusiveList<Link, &Link::age>::remove(*link);
        --stranger_count_;
    }
    ++stats_.sessions;
    link->met = true;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        link->sent[lane] = link->acked[lane] = link->taken[lane] = link->told[lane] = 0;
        link->max_message[lane] = card.max_message[lane];
    }
    link->offer = 0;
    link->their_offer = card.number;
    link->out_cookie = card.number;
    link->window = card.window;
    link->peer->set_contexts(card.contexts);
    link->state = Link::State::up;
    knows(*link);
    link->heard = 0;
    link->due &= static_cast<std::uint8_t>(~(Link::kHello | Link::kConfirm));
    watch_process(*link);
}

void Context::on_check(const Header& h, const Card& card) {
    const auto it = cookies_.find(h.cookie);
    if (it != cookies_.end() && it->second->state == Link::State::up) {
        it->second->due |= Link::kCredit;
        flush(*it->second);
        return;
    }
    if (Link* link = stranger(card)) {
        link->met = true;
        link->reset_cookie = h.cookie;
        link->due |= Link::kReset;
        flush(*link);
    }
}

void Context::on_reset(const Header& h, const Card& card) {
    Link* link = find_link(card.identity, card.context);
    if (link != nullptr && link->state == Link::State::up && link->out_cookie == h.cookie &&
        !link->self) {
        lost(*link, Status::hostunreach);
    }
}

}  // namespace na::ofi
