// SPDX-License-Identifier: BSD-3-Clause
// Sessions over reliable datagrams: what every transport needs whose library moves messages of
// bounded size between addresses, and neither tells from whom they are, nor bounds what a receiver
// keeps, nor says that a peer went. A transport derives its Context from Engine and does what only
// its library can: the hooks below.
//
//   engine.cpp     life, progress, sleep            handshake.cpp  who is who (wire.hpp)
//   links.cpp      the table of links, strangers    message.cpp    messages and flow control
//   liveness.cpp   peers that die                  ask.cpp        contexts that may not be there
//   shortage.cpp   descriptors run out
//
// Why the seam is where it is:
//   - The engine decides what is sent to whom and when, and that is all that it asks for: one
//     virtual call per message (transmit). What comes in is handed to arrived(), which is none.
//   - The library's completions are the transport's, because it alone knows what a completion is.
//     So requests, and what puts and gets are made of, are its own; the engine ends operations of
//     messages, which it knows by the list in each link.
//   - How a peer is reached is the transport's: transmit() takes a way when there is none, leave()
//     gives it up. The engine says leave() whenever a session ends, and never asks.
//   - Constants are data (Traits), as in the contract of plugins.
//
// The core serialises all calls (na/plugin.hpp), and with them all hooks. Hooks are called where
// the text says so; those that are marked "in a post" may find the core in a post, and must not end
// operations there: doom() does that later.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "na/plugin.hpp"
#include "na/session/clock.hpp"
#include "na/session/link.hpp"
#include "na/session/local.hpp"
#include "na/session/wire.hpp"
#include "na/util/fd.hpp"

namespace na::session {

inline constexpr std::int64_t kMs = 1'000'000;    // ns
inline constexpr std::int64_t kLook = 5 * kMs;    // between looks at watched links
inline constexpr std::int64_t kCall = 300 * kMs;  // between checks of a silent peer
// Greetings that nobody answers for so long: whether there is such a context is asked (ask.cpp).
inline constexpr std::int64_t kDoubt = 200 * kMs;

// What an engine has to know of its transport; constant.
struct Traits {
    // Addresses are IP endpoints that take TCP connections: where one is refused, nobody lives. So
    // silent peers are probed.
    bool port_is_tcp = false;
    // Posts do not wait for a connection. Else may_connect() tries the peer's port before.
    bool connects_aside = true;
    // Two processes have one connection: who is connected under one name is not reached under
    // another, and nobody says so.
    bool connects_once = false;
    bool looks = false;  // look() is wanted though no link is watched
    // The library's descriptor, readable when poll() has something to do; -1: none, it is polled
    // from time to time.
    int library_fd = -1;
    // Between looks at descriptors of watch_fd(), while nobody sleeps; ns.
    std::int64_t fd_interval = 0;
    // Links to peers that have said hello and nothing more: what each costs is the transport's to
    // know.
    std::size_t max_strangers = 1024;
    // Descriptors that are kept back: a newcomer that greets while there are fewer is told so. 0:
    // the transport decides about newcomers by itself.
    std::size_t reserve = 0;
    // Its connections may break, and be made anew, without a word, and what was in them is lost.
    // Messages may overtake another one for that long; one that is missing longer is lost; ns.
    // 0: the transport tells by itself when it has lost something.
    std::int64_t overtaking = 0;
};

// Has a descriptor that watch_fd() knows.
class Watcher {
 public:
    // In progress(). May end links, and unwatch any descriptor, its own as well.
    virtual void ready(std::uint32_t events) = 0;

 protected:
    ~Watcher() = default;
};

class Engine : public plugin::Context {
 public:
    plugin::Posted send(Op& op) final;
    bool inject(plugin::Peer& to, plugin::Destination where, std::uint32_t tag,
                std::span<std::byte> bytes) final;
    // Of messages; transports override it for the rest.
    void cancel(Op& op) override;
    void withdrawn(Op& op) noexcept final;
    std::size_t progress() final;
    int wait_fd() final {
        return traits_.library_fd >= 0 && set_ ? traits_.library_fd : set_.get();
    }
    int side_fd() final { return traits_.library_fd >= 0 ? set_.get() : -1; }
    bool arm() final;
    void awaits(Op& op, bool begins) final;
    void disconnect(plugin::Peer& peer) final;
    void drop(plugin::Peer& peer) final;
    bool undelivered(const void* message, std::uint32_t tag) const noexcept final;
    // Those of sessions; transports append theirs.
    void stats(std::vector<plugin::Stat>& list) const override;

 protected:
    // Looking one up takes no memory.
    struct KeyHash : std::hash<std::string_view> {
        using is_transparent = void;
    };
    using Links = std::unordered_map<std::string, std::unique_ptr<Link>, KeyHash, std::equal_to<>>;

    // `local` and `sink` outlive it.
    Engine(const Local& local, std::uint8_t id, plugin::Sink& sink, const Traits& traits);
    // Before anything else. Errors: nomem, io_error.
    Error open();
    ~Engine() override { local_.roster.closes(id_); }
    // A transport's destructor calls both: the first while it can still transmit, the second before
    // it closes what its links have with the library (links() live longer than its own members).
    void say_goodbye() noexcept;
    void release_peers() noexcept;

    // --- What a transport has to do.

    virtual std::unique_ptr<Link> make_link(Address address, std::uint8_t target) = 0;

    // Sends `bytes`, which are not touched after the return, to the peer's context; connects before
    // that if need be, and never waits for it. In a post.
    //   done     the library has its own copy, and will send it
    //   pending  a request has it: start(), then `op` ends with it (without an operation as `done`)
    //   again    not now. Either blocked() or retry_soon() was called, or the transport will wake
    //            the sleeper by a descriptor when it is worth another try
    //   failed   hostunreach: nobody is there; anything else fails this message. Logged here, once
    virtual plugin::Posted transmit(Link& link, std::span<const std::byte> bytes,
                                    Op* op) noexcept = 0;
    // The same where there is a way, and the library takes the message at once: `done`. False:
    // nothing has happened, or it is not so (transmit() is next, and its answer counts).
    virtual bool transmit_at_once(Link&, std::span<const std::byte>) noexcept { return false; }

    // Gives up the way to the peer, if there is one: its connections and what watches it. What the
    // library still works on goes on; its requests are unlinked after this, or later, by the
    // engine. In a post.
    virtual void leave(Link& link) noexcept = 0;

    // The session is over: ends the puts and gets with this peer with `why`, and unlinks their
    // requests. May call leave(), which comes after it anyway. In progress().
    virtual void end_transfers(Link& link, Status why) = 0;

    // Reads the library's completions: arrived(), ended(), lost(); goes on with transfers, as far
    // as their link is up. Returns how many things it did.
    virtual std::size_t poll() = 0;

    // The core is about to sleep. Calls retry_soon() or wake_within() if it needs that.
    enum class Rest : std::uint8_t {
        watched,    // Traits::library_fd, and those of watch_fd(), will tell
        unwatched,  // nothing tells: sleep shortly, longer when nothing comes
        no,         // poll first
    };
    virtual Rest rest() noexcept = 0;

    // --- What a transport may want to do.

    // A session is about to be made, or there. In a post.
    virtual void meets(Link&) noexcept {}
    // The peer has answered a check: what was sent to it before has come there.
    virtual void answered(Link&) {}
    // Whether nobody is at the other end any more, as the system says; asked in progress() about
    // watched links.
    virtual bool gone(Link&) noexcept { return false; }
    // Every few milliseconds in progress(), while a link is watched or Traits::looks.
    virtual void look() {}

    // --- What it can rely on.

    // A message came; in poll(). What is wrong with it is dropped.
    void arrived(std::span<const std::byte> bytes) noexcept;
    // Something malformed came that arrived() never sees, or that the library could not receive.
    void malformed(const char* what) noexcept {
        ++stats_.bad_input;
        sink_.dropped(what);
    }
    // The library has the request now.
    void start(Request& r, Link& link) noexcept {
        r.link = &link;
        link.requests.push_back(r);
        ++link.request_count;
        watch(link);
    }
    // The library is done with it: belongs to no link or operation any more. Answers the operation
    // that ends with it, if one still waits: the caller completes it. Then the request may go back
    // to its pool.
    static Op* ended(Request& r) noexcept {
        if (r.hook.linked()) {
            util::IntrusiveList<Request, &Request::hook>::remove(r);
            --r.link->request_count;
            r.link->retry_at = 0;  // there may be room
        }
        r.link = nullptr;
        Op* op = r.op;
        r.op = nullptr;
        return op;
    }
    // The session that stands and whose peer writes this cookie, for what comes beside arrived().
    // Null: none.
    Link* with_cookie(std::uint64_t cookie) noexcept {
        const auto it = cookies_.find(cookie);
        return it == cookies_.end() || it->second->state != Link::State::up ? nullptr : it->second;
    }
    void complete(Op& op, Status status) {
        sink_.complete(op, {.status = status, .size = op.length});
    }

    // The peer died, or lost its memory of us. Everything towards it ends. In progress().
    void lost(Link& link, Status why);
    // The same where the peer has gone, or the library gives the way to it up, and nothing more
    // comes: its answers that wait for room come first.
    void parted(Link& link);
    // The code of a peer that the transport does not reach: addrnotavail where this host has no way
    // to it, which says nothing about the peer.
    Status unreached(const Link& link) const noexcept;
    // The same where nobody is at the other end any more, as the system says: what was sent before
    // that may be here, unread, and is read first.
    void departed(Link& link) noexcept {
        if (!link.departing.linked()) {
            departing_.push_back(link);
            last_words_ = 0;
        }
    }
    // The way to the peer came to nothing before it carried more than greetings: they begin once
    // more over a new one, if that was soon, and the first time. False: the session is lost. In
    // progress().
    bool begins_anew(Link& link);
    // lost(), in the next progress().
    void doom(Link& link, Status why = Status::hostunreach) noexcept {
        link.doomed = true;
        link.fate = why;
        work(link);
    }

    // For posts of puts and gets, as send() has it: the link to the operation's target, with a
    // session. Null: not now; then `instead` is the answer to the post.
    Link* session(Op& op, plugin::Posted& instead) noexcept;
    // The answer to a post that found no room: at all, or over a session that stands.
    plugin::Posted again(Link& link) noexcept;
    plugin::Posted full(Link& link) noexcept {
        (void)again(link);
        return plugin::Posted::full();
    }
    // The peer's death matters, at least until the next look finds that nothing depends on it.
    void watch(Link& link) noexcept;

    // The library does not take what is for this peer: after a while that is suspect.
    void blocked(Link& link) noexcept;
    // The same, and each further try waits a quarter of the time that all have taken, up to that:
    // what a library does for each (a connection to somebody who takes it and hangs up) costs both.
    static constexpr std::int64_t kLongestPause = 250 * kMs;
    void put_off(Link& link) noexcept;
    bool pauses(const Link& link) noexcept {
        return link.retry_at != 0 && still_pauses(link.retry_at);
    }
    // It does.
    static void unblocked(Link& link) noexcept { link.blocked_since = link.retry_at = 0; }
    // Whether this process has `count` descriptors for a way to the peer. `wait`: not now, and
    // put_off() was called. `none`: not for a while; logged here. In a post.
    enum class Files : std::uint8_t { enough, wait, none };
    Files files_for(Link& link, std::size_t count) noexcept;
    // Something of the transport is used up that comes back without notice: no long sleep.
    void retry_soon() noexcept { full_ = true; }
    // The sleep that begins or lasts ends within that time, ns.
    void wake_within(std::int64_t ns) noexcept { set_timer(now_ns() + ns); }
    // Whether a post may now be handed over that connects. In a post.
    bool may_connect(Link& link) noexcept { return traits_.connects_aside || may_wait(link); }

    // Adds a descriptor to those that end the sleep, and are looked at in progress(); `events` as
    // for epoll, level-triggered. False: that is not possible. The watcher unwatches it before it
    // closes it: closing alone would not do where a forked child has it, too.
    bool watch_fd(int fd, std::uint32_t events, Watcher& who) noexcept;
    void unwatch_fd(int fd) noexcept;

    const Links& links() const noexcept { return links_; }
    const Local& local() const noexcept { return local_; }
    std::uint8_t id() const noexcept { return id_; }
    plugin::Sink& sink() noexcept { return sink_; }

 private:
    static void write_header(const Link& link, std::size_t lane, std::uint32_t tag,
                             std::byte* out) noexcept;
    static void count_sent(Link& link, std::size_t lane) noexcept;
    void end_operations(Link& link, Status why);
    // lost(), in a while.
    void fade(Link& link) noexcept;
    // engine.cpp
    std::size_t do_work();
    std::size_t end_departed(bool quiet);
    void work(Link& link) noexcept {
        if (!link.work.linked()) {
            work_.push_back(link);
        }
    }
    void set_timer(std::int64_t due) noexcept;
    void look_at_fds(std::int64_t now);
    void rest_starved() noexcept;

    // links.cpp
    Link& link_to(Peer& peer, std::uint8_t target);
    Link* find_link(std::string_view identity, std::uint8_t target) noexcept;
    Link* stranger(const Card& card);
    void no_stranger(Link& link) noexcept;
    bool attach(Link& link);
    void remove_if_idle(Link& link) noexcept;
    void bury_dead() noexcept;

    // handshake.cpp
    void greet(Link& link) noexcept;
    void forget_session(Link& link) noexcept;
    void set_cookie(Link& link, std::uint64_t cookie);
    void knows(Link& link) noexcept;
    bool other_link_up(const Link& link) const noexcept;
    bool other_link_greets(const Link& link, bool closed) noexcept;
    bool flush(Link& link) noexcept;
    bool send_control(Link& link, Kind kind, std::uint64_t cookie, std::uint64_t number,
                      std::uint32_t stamp) noexcept;
    void arrived_control(const Header& h, std::span<const std::byte> rest);
    void on_hello(const Card& card);
    bool is_called(Link& link, const Card& card) noexcept;
    const Link* under_another_name(const Link& link) const noexcept;
    void on_welcome(Link& link, const Header& h, const Card& card) noexcept;
    void on_confirm(const Header& h, const Card& card);
    void on_check(const Header& h, const Card& card);
    void on_reset(const Header& h, const Card& card);
    void refer(const Header& h, const Card& card);

    // shortage.cpp
    bool turns_away(Link& link, const Card& card) noexcept;
    void on_full(Link& link);
    void complain(std::int64_t now) noexcept;

    // ask.cpp
    static void no_question(Link& link) noexcept;
    plugin::Posted find_out(Link& link, const Op& op) noexcept;
    void ask_about(Link& link) noexcept;
    void doubt(Link& link, std::int64_t now);
    void nobody_to_ask(Peer& peer, Status why, std::int64_t now);
    void denied(Link& link);
    void on_ask(const Header& h, const Card& card);
    void on_news(Link* link, const Card& card);

    // message.cpp
    plugin::Posted not_up(Link& link, const Op& op) noexcept;
    void sort(std::span<const std::byte> bytes);
    void note_unknown(const Header& h) noexcept;
    void take(Link& link, Lane lane, std::uint32_t tag, std::span<const std::byte> bytes);
    bool deliver(Link& link, Lane lane, std::uint32_t tag, std::span<const std::byte> bytes);
    void deliver_held(Link& link);
    void took(Link& link, std::size_t lane) noexcept;
    void leave_over(Link& link, std::size_t lane) noexcept;
    void note_missing(Link& link, std::size_t lane, std::uint16_t sent) noexcept;
    bool lost_something(Link& link, std::int64_t now) noexcept;
    // Counts that cannot be are not taken.
    static void acknowledged(Link& link, const Header& h) noexcept {
        for (std::size_t l = 0; l < kLanes; ++l) {
            if (static_cast<std::uint16_t>(h.taken[l] - link.acked[l]) <=
                static_cast<std::uint16_t>(link.sent[l] - link.acked[l])) {
                link.acked[l] = h.taken[l];
            }
        }
    }

    // liveness.cpp
    void look_around(std::int64_t now);
    void audit_some() noexcept;
    void broke(Link& link);
    void end_doomed(Link& link);
    void tell_reset(Link& link, std::uint64_t cookie) noexcept;
    void check_link(Link& link, std::int64_t now);
    void probe(Link& link, std::int64_t now);
    bool means_gone(Link& link, int error, std::int64_t now);
    int begin_probe(Link& link, std::int64_t now);
    int look_at_probe(Link& link, std::int64_t now) noexcept;
    void ask_again(Link& link, std::int64_t now) noexcept;
    int look_at_held(Link& link, std::int64_t now);
    bool may_wait(Link& link) noexcept;
    bool still_pauses(std::int64_t until) noexcept;

    const Local& local_;
    const std::uint8_t id_;
    plugin::Sink& sink_;
    const Traits traits_;

    Links links_;                                       // by identity and context
    bool aliases_ = false;                              // some link has, or had, one
    std::unordered_map<std::uint64_t, Link*> cookies_;  // those that peers write
    Link* last_ = nullptr;                              // the link of the last message
    util::IntrusiveList<Link, &Link::work> work_;
    util::IntrusiveList<Link, &Link::watched> watched_;
    util::IntrusiveList<Link, &Link::age> strangers_;  // never were up
    util::IntrusiveList<Link, &Link::turn> known_;     // were up; next to be audited first
    std::size_t stranger_count_ = 0;
    std::uint64_t asks_ = 0;  // the number of the last
    util::IntrusiveList<Link, &Link::dying> dead_;
    util::IntrusiveList<Link, &Link::departing> departing_;
    unsigned last_words_ = 0;  // polls since the last of those came

    // Unexpected messages of sessions that there are not (any more), the last of them: which was
    // the first, and how many came in a row. 0: none.
    struct Unknown {
        std::uint64_t cookie = 0;
        std::uint16_t first = 0;
        std::uint16_t count = 0;
    };
    std::array<Unknown, 16> unknown_;
    std::size_t next_unknown_ = 0;
    // While a session ends that the peer knows nothing of: that and further ones it was not given.
    struct Undelivered {
        std::uint64_t cookie = 0;  // 0: nothing is known
        std::uint16_t first = 0;
        std::uint16_t end = 0;
    };
    Undelivered undelivered_;

    util::UniqueFd set_;  // epoll: the timer, the next
    util::UniqueFd fds_;  // epoll: those of watch_fd(); made with the first
    util::UniqueFd timer_;
    std::int64_t timer_due_ = 0;  // 0: not set
    std::int64_t next_look_ = 0;
    std::int64_t next_fd_look_ = 0;
    std::int64_t idle_nap_ = 0;  // Rest::unwatched: how long this time
    std::int64_t held_nap_ = 0;  // waiting for room in the core: likewise
    std::size_t fd_count_ = 0;
    std::uint32_t polls_ = 0;
    std::size_t held_ = 0;             // probes that stay, at the last look
    bool greeting_ = false;            // some link waits for an answer to its hello
    std::int64_t next_complaint_ = 0;  // about descriptors
    unsigned vain_arms_ = 0;           // since something came, or the last look at descriptors
    bool starved_ = false;             // there was none left then
    bool armed_ = false;
    bool full_ = false;  // retry_soon()
    bool busy_ = false;  // something came since the last arm()

    struct {
        std::uint64_t received = 0;
        std::uint64_t held = 0;
        std::uint64_t control = 0;
        std::uint64_t blocked = 0;
        std::uint64_t no_credit = 0;
        std::uint64_t sessions = 0;
        std::uint64_t lost = 0;
        std::uint64_t broken = 0;
        std::uint64_t probes = 0;
        std::uint64_t checks = 0;
        std::uint64_t bad_input = 0;
        std::uint64_t turned_away = 0;
        std::uint64_t no_files = 0;
    } stats_;
};

}  // namespace na::session
