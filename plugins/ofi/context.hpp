// SPDX-License-Identifier: BSD-3-Clause
// One progress engine: an endpoint, the links to peers, and what is under way on them.
//
//   context.cpp   life, progress, completions      handshake.cpp  sessions: who is who
//   message.cpp   messages and flow control        liveness.cpp   waiting, and peers that die
//   places.cpp    the provider's addresses       rma.cpp        puts and gets
//
// The core serialises all calls (na/plugin.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "na/plugin.hpp"
#include "na/util/fd.hpp"
#include "plugins/ofi/domain.hpp"
#include "plugins/ofi/endpoint.hpp"
#include "plugins/ofi/link.hpp"
#include "plugins/ofi/rma.hpp"

namespace na::ofi {

class Context final : public plugin::Context {
 public:
    Context(Domain& domain, std::uint8_t id, std::unique_ptr<Endpoint> endpoint,
            plugin::Sink& sink);
    ~Context() override;
    Error open();

    plugin::Posted send(Op& op) override;
    plugin::Posted put(Op& op) override { return transfer(op); }
    plugin::Posted get(Op& op) override { return transfer(op); }
    void cancel(Op& op) override;
    std::size_t progress() override;
    int wait_fd() override {
        return endpoint_->wait_fd() >= 0 && set_ ? endpoint_->wait_fd() : set_.get();
    }
    int side_fd() override { return endpoint_->wait_fd() >= 0 ? set_.get() : -1; }
    bool arm() override;
    void awaits(Op& op, bool begins) override;
    void drop(plugin::Peer& peer) override;
    void stats(std::vector<plugin::Stat>& list) const override;

 private:
    using Links = std::unordered_map<std::string, std::unique_ptr<Link>>;

    // context.cpp
    void see_off() noexcept;
    void settle() noexcept;
    std::size_t read_queue() noexcept;
    bool read_error() noexcept;
    void done(Request& r, int error, const char* text);
    Request* take_request() noexcept;
    bool grow_requests() noexcept;
    void start(Request& r, Link& link) noexcept;
    void finish(Request& r) noexcept;
    void work(Link& link) noexcept {
        if (!link.work.linked()) {
            work_.push_back(link);
        }
    }
    std::size_t do_work();

    // handshake.cpp
    Link& link_to(Peer& peer, std::uint8_t target);
    Link* find_link(std::string_view identity, std::uint8_t target) noexcept;
    Link* stranger(const Card& card);
    void greet(Link& link) noexcept;
    void forget_session(Link& link) noexcept;
    void set_cookie(Link& link, std::uint64_t cookie);
    void lost(Link& link, Status why);
    void knows(Link& link) noexcept;
    bool other_link_up(const Link& link) const noexcept;
    void remove_if_idle(Link& link);
    void bury_dead();
    bool attach(Link& link);
    bool flush(Link& link) noexcept;
    bool send_control(Link& link, Kind kind, std::uint64_t cookie, std::uint64_t number) noexcept;
    void arrived_control(const Header& h, std::span<const std::byte> rest);
    void on_hello(const Card& card);
    void on_welcome(Link& link, const Card& card) noexcept;
    void on_confirm(const Header& h, const Card& card);
    void on_check(const Header& h, const Card& card);
    void on_reset(const Header& h, const Card& card);

    // places.cpp
    ssize_t reach(Link& link) noexcept;
    ssize_t reach_segment(Link& link, const std::string& bytes);
    void leave(Link& link) noexcept;
    void pay(Request& r) noexcept;
    void look_at_retired() noexcept;
    bool retiring() const noexcept;

    // message.cpp
    Link* session(Op& op, plugin::Posted& instead) noexcept;
    plugin::Posted not_up(Link& link) noexcept;
    plugin::Posted again(Link& link) noexcept;
    ssize_t transmit(Link& link, const std::byte* bytes, std::size_t size, Op* op,
                     bool& pending) noexcept;
    void arrived(std::span<const std::byte> bytes);
    void take(Link& link, Lane lane, std::uint32_t tag, std::span<const std::byte> bytes);
    bool deliver(Link& link, Lane lane, std::uint32_t tag, std::span<const std::byte> bytes);
    void deliver_held(Link& link);
    void took(Link& link, std::size_t lane) noexcept;

    // rma.cpp
    plugin::Posted transfer(Op& op);
    ssize_t post_pieces(Transfer& t) noexcept;
    ssize_t post_piece(Transfer& t) noexcept;
    void piece_done(Request& r, Status status);
    void end_if_done(Transfer& t);
    void fail_forgotten(Link& link);
    void cancel_transfer(Transfer& t);
    std::optional<plugin::Posted> blocked_by_debts(Link& link) noexcept;

    // liveness.cpp
    void watch(Link& link) noexcept;
    void blocked(Link& link) noexcept;
    void look_around();
    void look_at_processes();
    void audit_some() noexcept;
    void check_link(Link& link, std::int64_t now);
    void probe(Link& link, std::int64_t now);
    int begin_probe(Link& link, std::int64_t now);
    int look_at_probe(Link& link, std::int64_t now) noexcept;
    bool may_connect(Link& link) noexcept;
    void watch_process(Link& link);
    void unwatch_process(Link& link) noexcept;
    bool process_gone(Link& link) noexcept;
    void remove_left(const Link& link) noexcept;
    void set_timer(std::int64_t due) noexcept;

    Domain& domain_;
    const std::uint8_t id_;
    plugin::Sink& sink_;
    const std::uint16_t window_;
    const std::size_t inject_;         // bytes that are gone when the provider has taken them
    const std::size_t bounce_bytes_;   // buffer of a request
    const std::size_t largest_piece_;  // of a transfer
    std::unique_ptr<Endpoint> endpoint_;

    Links links_;                                       // by identity and context
    std::unordered_map<std::uint64_t, Link*> cookies_;  // those that peers write
    Link* last_ = nullptr;                              // the link of the last message
    util::IntrusiveList<Link, &Link::work> work_;
    util::IntrusiveList<Link, &Link::watched> watched_;
    util::IntrusiveList<Link, &Link::age> strangers_;  // never were up
    util::IntrusiveList<Link, &Link::turn> known_;     // were up; next to be audited first
    util::IntrusiveList<Transfer, &Transfer::hook> transfers_;
    std::size_t stranger_count_ = 0;
    std::vector<Link*> dead_;

    // A place that no link uses, still known to the provider (Provider::forgets_peers).
    struct Retired {
        fi_addr_t addr;
        ino_t segment;
        std::shared_ptr<Neighbour> neighbour;
        std::string bytes;
        std::size_t owed;
        bool met;
        unsigned looks;  // since the peer is gone

        bool clean() const noexcept { return owed == 0 && met; }
    };
    std::vector<Retired> retired_;

    struct Chunk {
        std::unique_ptr<Request[]> requests;
        std::unique_ptr<std::byte[]> memory;
        FabricMr registration;
    };
    std::vector<Chunk> chunks_;
    util::IntrusiveList<Request, &Request::hook> free_;
    std::size_t under_way_ = 0;
    std::size_t debts_ = 0;  // requests under way with peers that were left
    std::int64_t debts_since_ = 0;
    bool said_blocked_ = false;

    util::UniqueFd set_;        // epoll: the timer, the next
    util::UniqueFd processes_;  // epoll: processes of peers
    util::UniqueFd timer_;
    std::int64_t timer_due_ = 0;  // 0: not set
    std::int64_t next_look_ = 0;
    std::int64_t idle_nap_ = 0;  // waiting without a descriptor of the provider: how long this time
    std::int64_t held_nap_ = 0;  // waiting for room in the core: likewise
    std::uint32_t polls_ = 0;
    bool greeting_ = false;  // some link waits for an answer to its hello
    bool armed_ = false;
    bool full_ = false;  // the provider answered "try again"
    bool busy_ = false;  // something came since the last arm()

    struct {
        std::uint64_t injected = 0;
        std::uint64_t copied = 0;
        std::uint64_t received = 0;
        std::uint64_t held = 0;
        std::uint64_t control = 0;
        std::uint64_t refused = 0;
        std::uint64_t no_credit = 0;
        std::uint64_t sessions = 0;
        std::uint64_t lost = 0;
        std::uint64_t probes = 0;
        std::uint64_t checks = 0;
        std::uint64_t bad_input = 0;
        std::uint64_t errors = 0;
        std::uint64_t rma_inject = 0;
        std::uint64_t rma_bounce = 0;
        std::uint64_t rma_direct = 0;
    } stats_;
};

inline std::string link_key(std::string_view identity, std::uint8_t target) {
    std::string key(identity);
    key.push_back(static_cast<char>(target));
    return key;
}

std::int64_t now_ns() noexcept;

}  // namespace na::ofi
