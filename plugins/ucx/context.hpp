// SPDX-License-Identifier: BSD-3-Clause
// One progress engine: a worker of UCX's. Sessions are the engine's (na/session/engine.hpp); here
// is how bytes get to a peer and back.
//
//   context.cpp  life, progress     way.cpp    endpoints: how peers are reached, and left
//   message.cpp  messages           rma.cpp    puts and gets of ours       serve.cpp  of peers
//   admit.cpp    who may come in    native.cpp of UCX's own
//
// The core serialises all calls (na/plugin.hpp). UCX calls back inside ucp_worker_progress(), and
// inside the calls that send and close; what it says there is noted and dealt with in poll(), but
// for what arrives.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "na/session/engine.hpp"
#include "plugins/ucx/async.hpp"
#include "plugins/ucx/domain.hpp"
#include "plugins/ucx/link.hpp"
#include "plugins/ucx/worker.hpp"

namespace na::ucx {

class Context final : public session::Engine, private Door::Porter {
 public:
    static Result<std::unique_ptr<plugin::Context>> open(Domain& domain, std::uint8_t id,
                                                         BootstrapPort port, plugin::Sink& sink);
    ~Context() override;

    plugin::Posted put(Op& op) override { return transfer(op); }
    plugin::Posted get(Op& op) override { return transfer(op); }
    void cancel(Op& op) override;
    void stats(std::vector<plugin::Stat>& list) const override;

    // way.cpp; for watchers.
    void dialed(Link& link);
    void process_ended(Link& link) noexcept;

 private:
    Context(Domain& domain, std::uint8_t id, std::unique_ptr<Worker> worker, BootstrapPort port,
            plugin::Sink& sink);

    // context.cpp
    Error listen();
    Error take_messages(const Worker& worker) noexcept;
    unsigned progress_workers() noexcept;
    std::size_t poll() override;
    void mark_connections() noexcept;
    Rest rest() noexcept override;
    std::size_t settle_spent();
    void see_off() noexcept;
    void close_all() noexcept;

    // admit.cpp
    Frame::Refusal admit() noexcept override;
    void refused_one(const char* why) noexcept;
    bool replace_worker() noexcept;
    void close_unused_workers() noexcept;

    // way.cpp
    std::unique_ptr<session::Link> make_link(session::Address address,
                                             std::uint8_t target) override;
    void leave(session::Link& link) noexcept override;
    plugin::Posted reach(Link& link) noexcept;
    plugin::Posted dial(Link& link);
    plugin::Posted waiting(Link& link) noexcept;
    bool make_way(Link& link, const void* address) noexcept;
    void await_ready(Way& way) noexcept;
    void watch_process(Link& link, const Frame& frame) noexcept;
    std::size_t bury_failed();
    void close_left() noexcept;
    void begin_close(Way& way) noexcept;
    bool end_close(Way& way) noexcept;
    static void on_ready(void* request, ucs_status_t status, void* way);
    static void on_failure(void* way, ucp_ep_h ep, ucs_status_t status);

    // message.cpp
    plugin::Posted transmit(session::Link& link, std::span<const std::byte> bytes,
                            Op* op) noexcept override;
    bool transmit_at_once(session::Link& link, std::span<const std::byte> bytes) noexcept override;
    ucs_status_ptr_t post_at_once(const Way& way, unsigned id,
                                  std::span<const std::byte> bytes) noexcept;
    plugin::Posted post(Link& link, unsigned id, std::span<const std::byte> bytes, Op* op) noexcept;
    plugin::Posted hand_over(Link& link, unsigned id, Request& r, std::size_t size,
                             Op* op) noexcept;
    plugin::Posted refused(Link& link, ucs_status_t status) noexcept;
    Request* take(Requests& pool, std::size_t theirs) noexcept;
    static void on_sent(void* request, ucs_status_t status, void* ours);
    static ucs_status_t on_message(void* context, const void* header, std::size_t header_size,
                                   void* data, std::size_t size, const ucp_am_recv_param_t* how);
    static ucs_status_t on_rma(void* context, const void* header, std::size_t header_size,
                               void* data, std::size_t size, const ucp_am_recv_param_t* how);
    bool whole(std::size_t header_size, const ucp_am_recv_param_t& how) noexcept;

    // rma.cpp
    plugin::Posted transfer(Op& op);
    static bool make_room(Link& link) noexcept;
    bool post_pieces(Transfer& t) noexcept;
    plugin::Posted post_piece(Transfer& t) noexcept;
    std::size_t post_waiting();
    void rma_answered(Link& link, const RmaHeader& h, std::span<const std::byte> data);
    void end_if_done(Transfer& t);
    void free_piece(Piece& p) noexcept;
    void cancel_transfer(Transfer& t);
    void end_transfers(session::Link& link, Status why) override;

    plugin::Posted choose(Transfer& t) noexcept;

    // native.cpp
    plugin::Posted begin_native(Transfer& t) noexcept;
    Rkey* key_at(const Transfer& t, std::uint64_t offset, ucs_status_t& why) noexcept;
    bool post_native(Transfer& t) noexcept;
    ucs_status_t post_native_piece(Transfer& t, Request& r) noexcept;
    ucs_status_t post_flush(Transfer& t, Request& r) noexcept;
    void hand_to_ucx(Transfer& t, Request& r) noexcept;
    void native_ended(Request& r, bool lost);
    void stop_native(Transfer& t, ucs_status_t status) noexcept;
    void cancel_native(Transfer& t);
    void end_natives(Link& link, Status why);

    // serve.cpp
    void arrived_rma(std::span<const std::byte> bytes);
    void owe(Link& link, const Owed& owed) noexcept;
    std::size_t serve() noexcept;
    bool serve_one(Link& link, const Owed& owed) noexcept;
    void forget_owed(Link& link) noexcept;

    Domain& domain_;
    // The last is the one that newcomers are told of. The first lives as long as the context, whose
    // descriptor to sleep on is its; others go with their last endpoint.
    std::vector<std::unique_ptr<Worker>> workers_;
    const bool immediate_;  // UCX may be asked to send now or not at all
    Door door_;
    async::Drain drain_;
    std::size_t expected_ = 0;         // newcomers that were admitted and have no way yet
    std::int64_t admitted_at_ = 0;     // the last of them
    std::int64_t next_complaint_ = 0;  // about descriptors
    Requests requests_;
    Requests carriers_;  // of puts' and gets' bytes
    Requests natives_{0};
    const std::unique_ptr<UnpackRoom> unpack_room_;  // null: puts and gets are messages
    const bool devices_;                             // UCX's own move memory of devices
    std::size_t with_ucx_ = 0;
    bool unmarked_ = false;  // connections that exec() would hand on may be there
    std::int64_t next_mark_ = 0;
    bool closed_ = false;
    std::size_t arrivals_ = 0;  // in the last poll()
    unsigned moved_ = 0;        // what UCX said then

    util::IntrusiveList<Request, &Request::spent> spent_;
    util::IntrusiveList<Way, &Way::hook> failed_;
    util::IntrusiveList<Way, &Way::hook> left_;
    util::IntrusiveList<Way, &Way::hook> closing_;
    util::IntrusiveList<Link, &Link::serving> serving_;

    util::IntrusiveList<Transfer, &Transfer::hook> transfers_;

    struct {
        std::uint64_t immediate = 0;
        std::uint64_t copied = 0;
        std::uint64_t queued = 0;
        std::uint64_t ways = 0;
        std::uint64_t failed = 0;
        std::uint64_t pieces = 0;
        std::uint64_t native = 0;
        std::uint64_t served = 0;
        std::uint64_t refused = 0;
        std::uint64_t late = 0;
    } stats_;
};

}  // namespace na::ucx
