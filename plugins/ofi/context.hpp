// SPDX-License-Identifier: BSD-3-Clause
// One progress engine: sessions (na/session/engine.hpp) over an endpoint of libfabric.
//
//   context.cpp    life, completions     places.cpp     the provider's addresses
//   message.cpp    messages              processes.cpp  peers of shm that die
//   rma.cpp        puts and gets
//
// The core serialises all calls (na/plugin.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "na/plugin.hpp"
#include "na/session/engine.hpp"
#include "na/session/request.hpp"
#include "na/util/tcp.hpp"
#include "plugins/ofi/domain.hpp"
#include "plugins/ofi/endpoint.hpp"
#include "plugins/ofi/link.hpp"
#include "plugins/ofi/rma.hpp"

namespace na::ofi {

class Context final : public session::Engine {
 public:
    Context(Domain& domain, std::uint8_t id, std::unique_ptr<Endpoint> endpoint,
            plugin::Sink& sink);
    ~Context() override;
    using session::Engine::open;

    plugin::Posted put(Op& op) override { return transfer(op); }
    plugin::Posted get(Op& op) override { return transfer(op); }
    void cancel(Op& op) override;
    void stats(std::vector<plugin::Stat>& list) const override;

    void process_ended(Link& link) noexcept;

 private:
    // context.cpp
    std::unique_ptr<session::Link> make_link(session::Address address,
                                             std::uint8_t target) override;
    std::size_t poll() override;
    Rest rest() noexcept override;
    void look() override;
    void see_off() noexcept;
    void settle() noexcept;
    void settle_once() noexcept;
    std::size_t read_queue() noexcept;
    std::size_t read_queue_starved() noexcept;
    void look_at_files() noexcept;
    bool read_error() noexcept;
    void done(Request& r, int error, const char* text);
    Request* take_request(const Link& link) noexcept;
    void begin(Request& r, session::Link& link) noexcept {
        start(r, link);
        ++under_way_;
    }
    Op* finish(Request& r) noexcept;

    // sockets.cpp
    void mark_sockets() noexcept;

    // places.cpp
    ssize_t reach(Link& link) noexcept;
    ssize_t reach_segment(Link& link, const std::string& bytes);
    ssize_t meet(Link& link, const HoldOpen& hold) const noexcept;
    void leave(session::Link& link) noexcept override;
    void pay(Request& r) noexcept;
    void look_at_retired() noexcept;
    bool retiring() const noexcept;
    void leave_for_others() noexcept;

    // message.cpp
    plugin::Posted transmit(session::Link& link, std::span<const std::byte> bytes,
                            Op* op) noexcept override;
    bool transmit_at_once(session::Link& link, std::span<const std::byte> bytes) noexcept override;
    void carried(Link& link) noexcept;
    plugin::Posted refused(const Link& link, ssize_t rc) const noexcept;

    // strangers.cpp
    void not_now(Link& link) noexcept;
    bool leads_nowhere(Link& link, std::int64_t now) noexcept;

    // rma.cpp
    plugin::Posted transfer(Op& op);
    std::size_t go_on();
    ssize_t post_pieces(Transfer& t) noexcept;
    ssize_t post_piece(Transfer& t) noexcept;
    void piece_done(Request& r, Status status);
    void end_if_done(Transfer& t);
    void end_transfers(session::Link& link, Status why) override;
    void answered(session::Link& link) override;
    void end_pieces(Link& link, Status why);
    void watch_silence(const Link& link) noexcept;
    void look_for_silence() noexcept;
    void given_back() noexcept;
    void cancel_transfer(Transfer& t);
    std::optional<plugin::Posted> blocked_by_debts(Link& link) noexcept;

    // processes.cpp
    void meets(session::Link& link) noexcept override;
    bool gone(session::Link& link) noexcept override;
    void unwatch_process(Link& link) noexcept;
    void mourns(const Link& link) noexcept;

    Domain& domain_;
    const std::size_t inject_;         // bytes that are gone when the provider has taken them
    const std::size_t largest_piece_;  // of a transfer
    std::unique_ptr<Endpoint> endpoint_;
    session::RequestPool<Request> pool_;
    util::IntrusiveList<Transfer, &Transfer::hook> transfers_;  // not wholly posted

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

    // Transfers whose peer is lost, and whose memory the provider still has.
    std::size_t lent_ = 0;
    util::SilenceWatch silence_;

    std::size_t under_way_ = 0;
    std::size_t debts_ = 0;  // requests under way with peers that were left
    util::Spell in_debt_{session::kLastWordsStep};
    std::int64_t next_look_at_ways_ = 0;
    bool said_blocked_ = false;
    bool unmarked_ = false;  // sockets that exec() would hand on may be there
    std::int64_t next_mark_ = 0;
    // Probe::process: given up while the provider reads its queue and no others are left.
    util::UniqueFd spares_[2];
    bool starving_ = false;  // no others are left
    bool rested_ = true;     // rest() was called since the last poll()
    bool mourning_ = false;  // a peer's process is gone, and what it left is not yet

    struct {
        std::uint64_t injected = 0;
        std::uint64_t copied = 0;
        std::uint64_t errors = 0;
        std::uint64_t rma_inject = 0;
        std::uint64_t rma_bounce = 0;
        std::uint64_t rma_direct = 0;
    } stats_;
};

// Links are made by make_link() only.
inline Link& of(session::Link& link) noexcept {
    return static_cast<Link&>(link);
}

}  // namespace na::ofi
