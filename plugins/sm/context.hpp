// SPDX-License-Identifier: BSD-3-Clause
// The progress engine of the sm transport.
//
// A poll looks at the few hot rings, at one word of the ready map, and at nothing else unless one
// of them has something: it costs the same with one peer and with a thousand. Sockets (new peers,
// hang-ups, knocks) are looked at when a clock says so: every millisecond under traffic, more often
// when idle, and always after sleeping.
//
// All functions are called by the core under its lock, or by Connection inside such a call.
//
//   context.cpp   open, close              progress.cpp  one poll
//   connect.cpp   out-going connections    accept.cpp    in-coming connections
//   events.cpp    what sockets say         end.cpp       the end of connections
//   sleep.cpp     arm                      rma.cpp, rma_attach.cpp, rma_shared.cpp  puts and gets
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "na/plugin.hpp"
#include "plugins/sm/connection.hpp"
#include "plugins/sm/domain.hpp"
#include "plugins/sm/peer.hpp"
#include "plugins/sm/rendezvous.hpp"

namespace na::sm {

// Counters; only the serialised calls touch them.
struct Stats {
    std::uint64_t inline_messages = 0;
    std::uint64_t injected = 0;
    std::uint64_t attached_messages = 0;  // iov
    std::uint64_t bounced = 0;
    std::uint64_t received = 0;
    std::uint64_t knocks = 0;        // system calls that wake a sleeping peer
    std::uint64_t system_calls = 0;  // made by progress() for events
    std::uint64_t ready_polls = 0;   // polls that found a bit in the ready map
    std::uint64_t rma_local = 0;
    std::uint64_t rma_shared = 0;
    std::uint64_t rma_attached = 0;
    std::uint64_t rma_bounced = 0;
    std::uint64_t bad_input = 0;
    std::uint64_t connected = 0;
    std::uint64_t accepted = 0;
    std::uint64_t refused = 0;
    std::uint64_t lost = 0;
    std::uint64_t replies_waiting = 0;  // for room in the sockets, now
};

class Context final : public plugin::Context {
 public:
    static Result<std::unique_ptr<plugin::Context>> open(Domain& domain, std::uint8_t id,
                                                         plugin::Sink& sink);
    ~Context() override;

    plugin::Posted send(Op& op) override;
    bool inject(plugin::Peer& to, plugin::Destination where, std::uint32_t tag,
                std::span<std::byte> bytes) override;
    plugin::Posted put(Op& op) override { return transfer(op); }
    plugin::Posted get(Op& op) override { return transfer(op); }
    bool copy_now(plugin::Peer& peer, std::uint8_t context, std::span<const std::byte> region,
                  std::uint64_t length, std::uint64_t offset,
                  std::span<std::byte> to) noexcept override;
    void cancel(Op& op) override;
    std::size_t progress() override;
    int wait_fd() override { return epoll_.get(); }
    bool arm() override;
    void disconnect(plugin::Peer& peer) override;
    void drop(plugin::Peer& peer) override;
    void stats(std::vector<plugin::Stat>& out) const override;

    // --- for Connection ---
    plugin::Sink& sink() noexcept { return sink_; }
    Domain& domain() noexcept { return domain_; }
    std::uint8_t id() const noexcept { return id_; }
    std::size_t max_message(Lane lane) const noexcept {
        return max_message_[static_cast<std::size_t>(lane)];
    }
    Stats& counters() noexcept { return stats_; }

    // Its ring is to be looked at in the next progress().
    void look_again(Connection& connection) noexcept;
    // Messages were taken from its ring: that is what says that there are more.
    void watch(Connection& connection, const Connection::Watch& next) noexcept {
        if (connection.hot_index >= 0) {
            Hot& hot = hot_[connection.hot_index];
            hot.word = next.word;
            hot.expected = next.expected;
            hot.with = connection.with(next);
        }
    }
    // pump() has something to do.
    void add_work(Connection& connection) noexcept;
    // A post was answered `again` for want of credits.
    void add_starved(Connection& connection) noexcept;
    // The core has no room for its next message: to be announced again in every progress().
    void add_refused(Connection& connection) noexcept;
    // The peer broke the protocol: counted, and the connection ends. `what` is a literal.
    void fail(Connection& connection, const char* what) noexcept;
    // The peer is gone, or never let us in.
    void hang_up(Connection& connection, Status why) noexcept;
    // A connection whose peer was dropped here has one again, because a message came.
    bool adopted(Connection& connection, Lane lane) noexcept;
    // Copies from the peer's memory by cross-memory attach.
    Status read_peer(Connection& connection, void* to, std::uint64_t address,
                     std::size_t bytes) noexcept;
    // Look at the sockets at the next chance.
    void events_soon() noexcept {
        next_events_ = 0;
        countdown_ = 1;
    }
    // Ends the pending transfers over this connection.
    void end_copies(Connection& connection, Status why, bool complete) noexcept;

 private:
    friend struct ContextProbe;  // unit tests
    static constexpr std::uint32_t kHot = 4;
    static constexpr unsigned kBudget =
        32;  // messages of one ring before the others get their turn
    // Polls that find nothing after one that has found something, and pause: each look at a line
    // takes it from the peer that is about to write there, and the next message seldom comes at
    // once. Beyond that whoever polls this context may have others to poll.
    static constexpr std::uint32_t kPauses = 16;
    static constexpr std::size_t kMaxGreetings = 128;
    static constexpr std::size_t kMaxOrphans = 64;
    enum Chore : std::uint32_t { kArmed = 1, kWork = 2, kCopies = 4, kDying = 8, kRefused = 16 };
    enum class Event : std::uint32_t { listener = 1, greeting, connection, timer };
    struct Hot {
        const std::atomic<std::uint32_t>* word;
        std::uint32_t expected;
        std::uint32_t used;  // polls() when it last had something
        const void* with;    // Connection::with()
        Connection* connection;
    };
    struct Greeting {
        UniqueFd socket;
        Credentials process;
        std::uint64_t since = 0;
    };

    Context(Domain& domain, std::uint8_t id, plugin::Sink& sink);
    plugin::Posted send_other(Op& op) noexcept;
    Status set_up(Error& error);

    // progress.cpp
    std::size_t full_poll() noexcept;
    std::size_t busy_poll(Hot* from) noexcept;
    // Polls so far, about.
    std::uint32_t polls() const noexcept { return polls_ + (clock_every_ - countdown_); }
    std::size_t receive_hot(Hot* from) noexcept;
    std::size_t receive_from(Hot& hot) noexcept;
    std::size_t look_at_cooled() noexcept;
    std::size_t receive_cold(Connection& connection) noexcept;
    std::size_t receive_ready() noexcept;
    std::size_t sweep(std::uint32_t count) noexcept;
    void heat(Connection& connection) noexcept;
    void cool(Connection& connection) noexcept;
    void cool_idle() noexcept;
    std::size_t chores() noexcept;
    std::size_t tick() noexcept;

    // sleep.cpp
    void disarm() noexcept;
    void stand_down() noexcept;
    void wake_self() noexcept;
    bool anything_ready() noexcept;

    // end.cpp
    void close_connection(Connection& connection) noexcept;
    std::size_t drain(Connection& connection) noexcept;
    std::size_t bury() noexcept;
    void bury(Connection& connection) noexcept;
    bool say_goodbye(Connection& connection) noexcept;
    void mourn(Peer& peer, const Connection& connection) noexcept;
    bool end_predecessor(Peer& peer, pid_t process) noexcept;

    // events.cpp
    std::size_t handle_events() noexcept;
    std::size_t on_socket(Connection& connection) noexcept;
    void on_message(Connection& connection, Received& message) noexcept;
    void on_answer(Connection& connection, Received& message) noexcept;
    void on_bye(Connection& connection) noexcept;
    bool watch(int fd, Event event, std::uint32_t index) noexcept;
    void wait_for_room(Connection& connection) noexcept;
    void go_on_sending(Connection& connection) noexcept;
    void set_timer(std::int64_t ns) noexcept;
    static std::int64_t now() noexcept;  // ns

    // accept.cpp
    std::size_t on_listener() noexcept;
    bool refuse_for_lack_of_files() noexcept;
    static void refuse(UniqueFd socket, Verdict verdict) noexcept;
    void mute_listener(bool mute) noexcept;
    int send_answer(Connection& connection) noexcept;  // 0, or an errno value
    void answer_late() noexcept;
    void on_greeting(std::uint32_t index) noexcept;
    void greet(UniqueFd socket, const Credentials& process, Received& message) noexcept;
    Verdict accept(UniqueFd& socket, const Credentials& process, Received& message,
                   const char*& why);
    Verdict check_identity(const std::string& name, std::uint8_t context,
                           const Credentials& process, const char*& why) const;
    static bool owns(const std::string& name, std::uint8_t context, pid_t process) noexcept;

    // connect.cpp
    // The connection to a context of the peer, made where there is none. Null: `answer` says why.
    Connection* reach(Peer& peer, std::uint8_t target, plugin::Posted& answer) noexcept;
    bool replace_unanswered(Peer& peer, Connection& connection) noexcept;
    plugin::Posted connect(Peer& peer, std::uint8_t target, Connection*& made) noexcept;
    plugin::Posted try_connect(Peer& peer, std::uint8_t target, Connection*& made);
    // Why nobody listens at the peer's name: a living peer may be the reason.
    static Error why_refused(const Peer& peer);
    // Remembers the error for the caller, and logs the first of each status: a program that keeps
    // trying would fill the log.
    void explain(std::string_view name, const Error& error) noexcept;
    Connection& enter(std::unique_ptr<Connection> connection);
    Nonce nonce() const noexcept;
    bool can_attach(const Credentials& process, const Nonce& nonce) const noexcept;

    // rma.cpp
    // An operation is under way over this connection.
    bool in_use(const Connection& connection) const noexcept;
    plugin::Posted transfer(Op& op) noexcept;
    Status copy_self(Op& op) noexcept;
    enum class Copied { done, some, wait, elsewhere, failed };
    Copied copy_some(Op& op, Status& status) noexcept;
    std::optional<Copied> copy_directly(Op& op, Status& status, bool& pending) noexcept;
    std::size_t run_copies() noexcept;
    bool copies_can_run() noexcept;
    void end_copy(Op& op, Status status) noexcept;

    // rma_attach.cpp
    Copied copy_attached(Op& op, std::size_t limit, Status& status) noexcept;

    // rma_shared.cpp
    const Mapping* mapping_of(Connection& connection, std::uint64_t allocation,
                              bool write) const noexcept;
    std::byte* find_mapping(Connection& connection, Op& op, bool& pending) noexcept;
    void copy_shared(Op& op, std::byte* base, std::size_t limit) noexcept;
    void on_map(Connection& connection, const Received& message) noexcept;
    int answer_map(Connection& connection, const MapMessage& ask) noexcept;  // 0, or an errno value
    void on_mapping(Connection& connection, Received& message) noexcept;
    void on_unmap(Connection& connection, const Received& message) noexcept;
    void tell_freed() noexcept;

    Domain& domain_;
    plugin::Sink& sink_;
    const std::uint8_t id_;
    std::size_t max_message_[kLanes];

    // The fast path.
    std::uint32_t countdown_ = 1;  // polls until the clock is read
    std::uint32_t chores_ = 0;
    std::uint32_t pauses_ = 0;  // polls that pause if they find nothing
    ReadyMap* ready_ = nullptr;
    Hot* hot_end_ = hot_;
    Hot hot_[kHot] = {};

    std::uint32_t polls_ = 0;  // until the clock was read last
    std::uint32_t clock_every_ = 1;
    std::int64_t clock_ = 0;        // when it was read last
    std::int64_t next_events_ = 0;  // when to look at the sockets
    std::int64_t next_cooled_ = 0;  // look at cooled_
    std::uint64_t received_then_ = 0;
    std::int64_t last_traffic_ = 0;
    std::uint32_t swept_ = 0;
    std::uint64_t freed_ = 0;       // generation of the domain's allocations that peers know about
    std::int64_t muted_until_ = 0;  // the listening socket, for lack of files; 0: it is watched
    bool connect_blocked_ = false;
    std::uint32_t explained_ = 0;  // statuses that are in the log, one bit each
    bool complained_ = false;      // about open files; once is enough

    StatusPage* status_ = nullptr;
    SharedMemory status_page_;
    SharedMemory ready_page_;
    UniqueFd listener_;
    UniqueFd epoll_;
    UniqueFd spare_;  // given up for a moment where no file is left to accept a peer with
    UniqueFd timer_;
    std::uint64_t nonce_ = 0;

    std::vector<std::unique_ptr<Connection>> slots_;  // by Connection::number; null: free
    std::vector<std::uint32_t> free_slots_;
    std::size_t connections_ = 0;
    std::size_t orphans_ = 0;
    std::vector<Greeting> greetings_;
    std::uint64_t greeted_ = 0;
    // Never grow beyond the slots, so that adding allocates nothing.
    std::vector<Connection*> work_;
    std::vector<Connection*> starved_;
    std::vector<Connection*> cooled_;  // lately
    std::vector<Connection*> refused_;
    std::vector<Connection*> unanswered_;
    std::vector<Connection*> dying_;
    OpList copies_;
    Stats stats_;
};

}  // namespace na::sm
