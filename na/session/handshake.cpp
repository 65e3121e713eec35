// SPDX-License-Identifier: BSD-3-Clause
// How two contexts come to know each other (wire.hpp has the messages), and how that ends.
#include <algorithm>
#include <new>
#include <utility>

#include "na/session/engine.hpp"
#include "na/util/log.hpp"

namespace na::session {
namespace {

// Until a hello is repeated, doubling: it may have gone into a connection of which only the other
// end knows that it is dead.
constexpr std::int64_t kFirstCall = 10'000'000;  // ns
constexpr std::int64_t kYield =
    300'000'000;  // ns: how long another one's hello has time to lead to a session
constexpr std::int64_t kSoon = 1'000'000'000;       // ns: while a greeting may begin anew
constexpr std::uint32_t kWelcomeLife = 60'000'000;  // us: how long a welcome may be confirmed

// Whose hello is answered when both say hello: the smaller one's.
bool comes_first(const Address& a, std::uint8_t a_context, const Address& b,
                 std::uint8_t b_context) {
    const int order = a.identity().compare(b.identity());
    return order != 0 ? order < 0 : a_context < b_context;
}

}  // namespace

// Out of memory: nothing has changed.
void Engine::set_cookie(Link& link, std::uint64_t cookie) {
    if (cookie != 0) {
        cookies_[cookie] = &link;
    }
    if (link.in_cookie != 0 && link.in_cookie != cookie) {
        cookies_.erase(link.in_cookie);
    }
    link.in_cookie = cookie;
}

// Back to the beginning. The address is given up too.
void Engine::forget_session(Link& link) noexcept {
    if (link.in_cookie != 0) {
        cookies_.erase(link.in_cookie);
        link.in_cookie = 0;
    }
    link.state = Link::State::idle;
    link.offer = link.their_offer = link.out_cookie = 0;
    link.gave_way = false;
    link.short_since = 0;
    link.blocked_since = link.retry_at = link.probe_end = link.next_probe = link.probe_interval = 0;
    link.no_way.end();
    link.vacant.end();
    link.fading = link.said_bye = link.refuted = link.bereaved = false;
    link.alias.clear();
    link.end_probe();
    link.answered = link.hurried = false;
    no_question(link);
    link.due &=
        static_cast<std::uint16_t>(~(Link::kHello | Link::kConfirm | Link::kCheck | Link::kCredit |
                                     Link::kBye | Link::kAsk | Link::kNews | Link::kFull));
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        link.forget_counts(lane);
        leave_over(link, lane);
    }
    leave(link);
    if (link.departing.linked()) {
        util::IntrusiveList<Link, &Link::departing>::remove(link);
    }
    if (last_ == &link) {
        last_ = nullptr;
    }
}

void Engine::greet(Link& link) noexcept {
    no_question(link);
    const std::uint64_t offer = random_number();
    try {
        set_cookie(link, offer);
    } catch (const std::bad_alloc&) {
        return;
    }
    link.offer = offer;
    if (link.self) {
        link.out_cookie = link.offer;
        link.window = local_.window;
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            link.max_message[lane] = static_cast<std::uint32_t>(local_.caps.max_message[lane]);
        }
        link.state = Link::State::up;
        return;
    }
    link.state = Link::State::greeting;
    link.gave_way = link.anew = link.refuted = link.bereaved = false;
    link.due |= Link::kHello;
    link.call_interval = kFirstCall;
    link.asked_at = now_ns();
    link.next_ask = link.asked_at + kDoubt;
    link.next_call = link.asked_at + kFirstCall;
    greeting_ = true;
    watch(link);
    meets(link);
    flush(link);
    if (link.due != 0) {
        work(link);
    }
}

// What libraries have of a connection to somebody who was at this place before may end together
// with the greeting that goes into it; and UCX gives up connections that both sides make at once.
bool Engine::begins_anew(Link& link) {
    const std::int64_t now = now_ns();
    if (link.state != Link::State::greeting || link.anew || now - link.asked_at > kSoon) {
        return false;
    }
    NA_LOG_DEBUG(addr, "context {} greets {} anew", id_, link.address);
    link.anew = true;
    link.doomed = false;                        // a further greeting may have met the same end
    end_operations(link, Status::hostunreach);  // copies of greetings
    leave(link);
    unblocked(link);
    link.due |= Link::kHello;
    work(link);
    watch(link);
    return true;
}

// Its answers came before that, and so end the operations that wait for them. What goes to it has
// no end but this one.
void Engine::parted(Link& link) {
    const bool known = link.parting;
    link.parting = !link.held[static_cast<std::size_t>(Lane::expected)].empty();
    if (!link.parting) {
        lost(link, link.state == Link::State::greeting ? unreached(link) : Status::hostunreach);
    } else if (!known) {
        end_operations(link, Status::hostunreach);
    }
}

void Engine::end_operations(Link& link, Status why) {
    end_transfers(link, why);
    // Copies of messages are the library's; the operations are over.
    while (Request* r = link.requests.front()) {
        if (Op* op = ended(*r)) {
            complete(*op, why);
        }
    }
}

// The peer died, or lost its memory of us, or closed this context of several. Everything towards it
// ends.
void Engine::lost(Link& link, Status why) {
    ++stats_.lost;
    NA_LOG_INFO(addr, "the session with {} ended", link.address);
    end_operations(link, why);
    // Nobody wants anything of a context that was greeted for a question only, and that is not
    // there.
    const bool nobodys = std::exchange(link.inquires, false) && link.state != Link::State::up;
    const bool closed = link.said_bye;
    forget_session(link);
    link.due = 0;
    link.wants = false;
    link.doomed = false;
    link.ousted = false;
    link.fate = Status::hostunreach;
    link.parting = false;
    link.audited = false;
    if (link.peer != nullptr) {
        const bool others = other_link_up(link);
        if (nobodys && !others) {
            nobody_to_ask(*link.peer, why, now_ns());
        } else if (others || other_link_greets(link, closed)) {
            sink_.context_lost(*link.peer, link.target, why);
        } else {
            sink_.peer_lost(*link.peer, why);
        }
        if (std::exchange(link.holds_source, false)) {
            sink_.release(*link.peer);
        }
    }
    remove_if_idle(link);
}

void Engine::knows(Link& link) noexcept {
    if (!link.turn.linked()) {
        audit_some();
        known_.push_back(link);
    }
}

bool Engine::other_link_up(const Link& link) const noexcept {
    const Peer::Links& links = link.peer->links(id_);
    const auto up = [&](const Link* l) {
        return l != nullptr && l != &link && l->state == Link::State::up;
    };
    return up(links.first) || std::any_of(links.others.begin(), links.others.end(), up);
}

// For messages to it, and not only to ask for another. What is greeted has its own fate: all that
// happened to the link may be that this context of several closed. Where it was not said that it
// does, they may as well all be gone, and a greeting has an end.
bool Engine::other_link_greets(const Link& link, bool closed) noexcept {
    bool any = false;
    const auto look = [&](Link* l) {
        if (l != nullptr && l != &link && l->state == Link::State::greeting && !l->inquires) {
            l->bereaved |= !closed;
            any = true;
        }
    };
    const Peer::Links& links = link.peer->links(id_);
    look(links.first);
    std::for_each(links.others.begin(), links.others.end(), look);
    return any;
}

// --- messages of our own

bool Engine::send_control(Link& link, Kind kind, std::uint64_t cookie, std::uint64_t number,
                          std::uint32_t stamp) noexcept {
    std::byte bytes[kMaxControl];
    Header{.cookie = cookie,
           .tag = stamp,
           .kind = kind,
           .target = link.target,
           .taken = {link.taken[0], link.taken[1]},
           .sent = {kind == Kind::reset ? link.reset_first : link.sent[0], link.sent[1]}}
        .write(bytes);
    std::size_t size = Header::kSize;
    if (has_card(kind)) {
        const std::size_t* largest = local_.caps.max_message;
        Contexts contexts = local_.roster.told();
        if (!contexts.open.has(id_)) {
            // It closes, and this is one of its last words: older than all that is told without it.
            contexts.open.add(id_);
            contexts.edition = 0;
        }
        size += Card{.number = number,
                     .max_message = {static_cast<std::uint32_t>(largest[0]),
                                     static_cast<std::uint32_t>(largest[1])},
                     .window = local_.window,
                     .context = id_,
                     .contexts = contexts,
                     .identity = local_.address.identity()}
                    .write(std::span(bytes).subspan(Header::kSize));
    }
    const plugin::Posted posted = transmit(link, {bytes, size}, nullptr);
    if (posted.what == plugin::Posted::What::again) {
        return false;
    }
    ++stats_.control;
    NA_LOG_DEBUG(addr, "context {} sent {} to {}", id_, to_string(kind), link.address);
    if (posted.what == plugin::Posted::What::failed) {
        if (link.state == Link::State::up) {
            fade(link);
        } else {
            // The core may be in a post: it hears of the end in progress(). Causes in this host
            // have codes of their own; that nobody is there is told in many.
            const bool here = posted.status == Status::nomem || posted.status == Status::busy ||
                              posted.status == Status::addrnotavail;
            doom(link, here ? posted.status : Status::hostunreach);
        }
    }
    return true;
}

// Sends what is due; false: not all of it yet.
bool Engine::flush(Link& link) noexcept {
    const auto send = [&](Link::Due bit, Kind kind, std::uint64_t cookie, std::uint64_t number,
                          std::uint32_t stamp = 0) {
        if ((link.due & bit) == 0) {
            return true;
        }
        if (!send_control(link, kind, cookie, number, stamp)) {
            work(link);
            return false;
        }
        link.due &= static_cast<std::uint16_t>(~bit);
        return true;
    };
    const auto now = static_cast<std::uint32_t>(now_us());
    // A confirmation before a welcome: a peer that hears both takes the session that stands here.
    if (!send(Link::kReset, Kind::reset, link.reset_cookie, 0, link.reset_tells ? kTells : 0) ||
        !send(Link::kConfirm, Kind::confirm, link.out_cookie, link.offer, link.stamp) ||
        !send(Link::kWelcome, Kind::welcome, link.welcome_offer,
              welcome_cookie(local_.secret, link.address.identity(), link.target,
                             link.welcome_offer, now),
              now) ||
        !send(Link::kFull, Kind::full, link.welcome_offer, 0) ||
        !send(Link::kHello, Kind::hello, 0, link.offer) ||
        !send(Link::kCheck, Kind::check, link.out_cookie, 0) ||
        !send(Link::kAsk, Kind::ask, link.out_cookie, asks_) ||
        !send(Link::kNews, Kind::news, link.out_cookie, link.news_number)) {
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

void Engine::arrived_control(const Header& h, std::span<const std::byte> rest) {
    ++stats_.control;
    NA_LOG_DEBUG(addr, "context {} got {}", id_, to_string(h.kind));
    const auto it = cookies_.find(h.cookie);
    Link* link = it == cookies_.end() ? nullptr : it->second;
    if (link != nullptr && link->state == Link::State::up) {
        link->heard = 0;
        if (h.kind >= Kind::check) {
            acknowledged(*link, h);
            if (h.kind != Kind::reset) {  // (whose counts are those of another link)
                note_missing(*link, 0, h.sent[0]);
                note_missing(*link, 1, h.sent[1]);
            }
        }
    }
    if (!has_card(h.kind)) {
        if (h.kind == Kind::credit && link != nullptr) {
            answered(*link);
        }
        if (h.kind == Kind::full && link != nullptr && link->state == Link::State::greeting &&
            link->offer != 0) {
            on_full(*link);
        } else if (h.kind == Kind::bye && link != nullptr && link->state == Link::State::up &&
                   !link->self) {
            link->said_bye = true;
            parted(*link);
        }
        return;
    }
    Card card;
    if (!card.read(rest)) {
        malformed("a malformed greeting");
        return;
    }
    char here[Address::kMaxBytes];
    card.identity = local_.seen_from_here(card.identity, here);
    switch (h.kind) {
        case Kind::hello:
            on_hello(card);
            break;
        case Kind::welcome:
            if (link != nullptr && link->state == Link::State::greeting && link->offer != 0 &&
                link->target == card.context && is_called(*link, card)) {
                on_welcome(*link, h, card);
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
        case Kind::ask:
            on_ask(h, card);
            break;
        case Kind::news:
            on_news(link, card);
            break;
        default:
            break;
    }
}

// A welcome repeats our offer, so it is from whoever is at the link's address. Who listens at all
// addresses of its machine tells one of them.
bool Engine::is_called(Link& link, const Card& card) noexcept {
    if (link.identity() == card.identity) {
        return true;
    }
    try {
        if (link.address.identity() == card.identity) {
            link.alias.clear();
            return true;
        }
        const auto own =
            Address::decode(local_.naming, local_.format, std::as_bytes(std::span(card.identity)));
        if (!own || local_.naming != Naming::ip || own->ip().port != link.address.ip().port ||
            card.identity == local_.address.identity()) {
            malformed("a welcome in another name");
            return false;
        }
        link.alias = card.identity;
        aliases_ = true;
        NA_LOG_INFO(addr, "{} calls itself {}", link.address, own->text());
    } catch (const std::bad_alloc&) {
        return false;  // it will be welcomed again
    }
    return true;
}

// A session with the same context, as far as it says: who listens at all addresses has many names.
const Link* Engine::under_another_name(const Link& link) const noexcept {
    if (!aliases_) {
        return nullptr;
    }
    const auto it = std::find_if(links_.begin(), links_.end(), [&](const auto& entry) {
        const Link& other = *entry.second;
        return &other != &link && other.state == Link::State::up && other.target == link.target &&
               other.identity() == link.identity();
    });
    return it == links_.end() ? nullptr : it->second.get();
}

void Engine::on_hello(const Card& card) {
    Link* link = stranger(card);
    if (link == nullptr) {
        return;
    }
    link->met = true;
    if (turns_away(*link, card)) [[unlikely]] {
        return;
    }
    if (link->state == Link::State::greeting) {
        if (comes_first(local_.address, id_, link->address, link->target)) {
            link->due |= Link::kHello;
            work(*link);
            return;
        }
        // Once, and our own greeting counts nevertheless: anybody may greet in the peer's name.
        if (!std::exchange(link->gave_way, true)) {
            link->due &= static_cast<std::uint16_t>(~Link::kHello);
            link->next_call = now_ns() + kYield;
        }
    }
    link->welcome_offer = card.number;
    link->due |= Link::kWelcome;
    link->retry_at = 0;  // it has made a connection, perhaps
    flush(*link);
}

void Engine::on_welcome(Link& link, const Header& h, const Card& card) noexcept {
    if (const Link* other = under_another_name(link)) [[unlikely]] {
        NA_LOG_WARNING(addr,
                       "{} and {} call themselves alike, as one process does that listens at all "
                       "addresses: then the session under the former name ends that under the "
                       "latter; call it by one name, or let it listen at one address",
                       link.address, other->address);
    }
    ++stats_.sessions;
    link.met = true;
    link.state = Link::State::up;
    knows(link);
    link.begun = now_us();
    link.stamp = h.tag;
    link.out_cookie = card.number;
    link.window = card.window;
    if (link.peer != nullptr) {
        link.peer->learn(card.contexts);
    }
    link.max_message[0] = card.max_message[0];
    link.max_message[1] = card.max_message[1];
    link.heard = 0;
    link.due &= static_cast<std::uint16_t>(~Link::kHello);
    link.due |= Link::kConfirm;
    if (std::exchange(link.inquires, false)) {
        link.due |= Link::kAsk;
    }
    flush(link);
}

void Engine::on_confirm(const Header& h, const Card& card) {
    if (welcome_cookie(local_.secret, card.identity, card.context, card.number, h.tag) !=
        h.cookie) {
        malformed("a confirmation that does not fit");
        return;
    }
    Link* link = stranger(card);
    if (link == nullptr || (link->state == Link::State::up && link->their_offer == card.number)) {
        return;
    }
    const std::int64_t now = now_us();
    const std::uint32_t age = static_cast<std::uint32_t>(now) - h.tag;
    if (age > kWelcomeLife || now - age <= link->begun) {
        malformed("a confirmation that comes too late");
        link->reset_cookie = h.cookie;  // who sent it in good faith believes in a session
        link->reset_tells = false;
        link->due |= Link::kReset;
        flush(*link);
        return;
    }
    if (link->state == Link::State::up) {
        lost(*link, Status::hostunreach);  // another process, or one that gave the old session up
    }
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
    set_cookie(*link, h.cookie);
    no_stranger(*link);
    ++stats_.sessions;
    link->met = true;
    link->begun = now;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        link->forget_counts(lane);
        link->max_message[lane] = card.max_message[lane];
    }
    link->offer = 0;
    link->their_offer = card.number;
    link->out_cookie = card.number;
    link->window = card.window;
    link->peer->learn(card.contexts);
    link->state = Link::State::up;
    knows(*link);
    link->heard = 0;
    link->due &= static_cast<std::uint16_t>(~(Link::kHello | Link::kConfirm));
    meets(*link);
}

void Engine::on_check(const Header& h, const Card& card) {
    const auto it = cookies_.find(h.cookie);
    if (it != cookies_.end() && it->second->state == Link::State::up) {
        it->second->due |= Link::kCredit;
        flush(*it->second);
        return;
    }
    refer(h, card);
}

// Knows no such session.
void Engine::refer(const Header& h, const Card& card) {
    if (Link* link = stranger(card)) {
        link->met = true;
        link->reset_cookie = h.cookie;
        const auto it = std::find_if(unknown_.begin(), unknown_.end(),
                                     [&](const Unknown& u) { return u.cookie == h.cookie; });
        // What was sent before the question came here if all of it did from some message on. What
        // was sent after it comes here, too.
        const bool whole = it != unknown_.end() && it->count != 0 &&
                           static_cast<std::uint16_t>(it->first + it->count) == h.sent[0];
        link->reset_tells = true;
        link->reset_first = whole ? it->first : h.sent[0];
        link->due |= Link::kReset;
        flush(*link);
    }
}

void Engine::on_reset(const Header& h, const Card& card) {
    const auto fits = [&](const Link& link) {
        return link.state == Link::State::up && link.out_cookie == h.cookie && !link.self;
    };
    Link* link = find_link(card.identity, card.context);
    if (aliases_ && (link == nullptr || !fits(*link))) {
        const auto it = std::find_if(links_.begin(), links_.end(), [&](const auto& entry) {
            const Link& other = *entry.second;
            return other.alias == card.identity && other.target == card.context && fits(other);
        });
        link = it == links_.end() ? nullptr : it->second.get();
    }
    if (link != nullptr && fits(*link)) {
        // What the library still has may have been given to the old process: that ends first.
        end_operations(*link, Status::hostunreach);
        if (h.tag == kTells) {
            undelivered_ = {h.cookie, h.sent[0], link->sent[0]};
        }
        try {
            lost(*link, Status::hostunreach);
        } catch (...) {
            undelivered_ = {};
            throw;
        }
        undelivered_ = {};
    }
}

}  // namespace na::session
