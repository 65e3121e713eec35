// SPDX-License-Identifier: BSD-3-Clause
// Sends that wait a moment for others to the same destination, to leave with them in one message
// (na/core/bundle.hpp).
//
// Waiting is never the outbox's idea: who posts a send says whether it may wait (Company::await),
// and sees to it that flush() follows soon. One that is alone by then leaves as it is, from its own
// buffer. Messages to one destination (peer, context there, lane) stay in order: what must not wait
// takes those that do along, or follows them.
//
// Bounded: by the operations, which are the user's; kMostDestinations at a time, to others sends
// leave at once; and bundles with the plugin, or on their way there, at a time (kMostBundles, half
// of them waiting at most), beyond which sends leave one by one. A bundle is allocated when there
// has never been as many before. Guarded by the context's lock, but for waiting().
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "na/core/bundle.hpp"
#include "na/core/class.hpp"
#include "na/core/op.hpp"
#include "na/core/retry_queue.hpp"
#include "na/util/intrusive_list.hpp"

namespace na::inline impl {

class Context;

// With whom a message may leave.
enum class Company : std::uint8_t {
    none,   // alone, behind those that wait
    take,   // at once, with those that wait
    await,  // with those that wait and those to come
};

class Outbox {
 public:
    explicit Outbox(Context& context) noexcept;
    ~Outbox();
    Outbox(const Outbox&) = delete;
    Outbox& operator=(const Outbox&) = delete;

    // Messages of up to so many bytes are gathered, headroom not counted.
    void open(std::size_t message) noexcept { message_ = message; }
    bool enabled() const noexcept { return message_ != 0; }

    // Sends that wait.
    std::uint32_t waiting() const noexcept { return waiting_.load(std::memory_order_relaxed); }

    // A send that is filled in. no: it is still the caller's to post, and nothing waits that has to
    // be sent before it. waits: for company, or with the transport; its handler runs later. gone,
    // failed (with the status): it has ended, and its handler does not run.
    enum class Taken : std::uint8_t { no, waits, gone, failed };
    Taken take(Operation& op, Company company, Status& status) noexcept;
    // What waits for the transport, in the order of its posts: the first ones that may have
    // company, as many as fit, become one message in their place. (They stay apart where there is
    // no bundle left, or no memory for one.)
    void join(RetryQueue::Waiting& waiting) noexcept;
    // What join() made, out of the queue, and the peer takes no message of that size: its parts
    // again. False: it was none.
    bool part(Operation& op, RetryQueue::Waiting& waiting) noexcept;
    // The same for the first in the queue, where it has this part.
    void part_with(const Operation& part, RetryQueue::Waiting& waiting) noexcept;
    // What waited is with the transport, or has left.
    void left(const Operation& op) noexcept;

    // All leave: everything, or what is for one peer.
    void flush() noexcept;
    void flush(const Address& peer) noexcept;

    // In state gathered; it is the caller's again.
    void remove(Operation& op) noexcept;
    // In state bundled: it leaves with the others, but nobody waits for that.
    void forget(Operation& op) noexcept;
    // Whether anything waits for the peer.
    bool holds(const Address& peer) const noexcept;
    // Ends what waits for the peer, or for one of its contexts.
    void fail(const Address& peer, Status why, std::optional<std::uint8_t> context = {}) noexcept;

 private:
    using Ops = util::IntrusiveList<Operation, &Operation::hook_>;
    // An entry is in use while something waits for it.
    struct Destination {
        Address* address = nullptr;
        std::uint8_t target = 0;
        Lane lane = Lane::unexpected;
        std::uint32_t count = 0;
        std::size_t bytes = 0;  // of the bundle, headroom not counted
        Ops ops;

        bool is(const Operation& op) const noexcept {
            return address == op.address_ && target == op.target_id && lane == op.lane();
        }
    };
    struct Bundle {
        Outbox* outbox = nullptr;
        Operation* op = nullptr;
        MessageBuffer buffer;
        Ops parts;
        std::size_t count = 0;   // of those that it was made of
        bool waits = false;      // made by join(), and not with the transport yet
        Bundle* next = nullptr;  // free ones
    };
    static constexpr std::size_t kMostDestinations = 16;
    static constexpr std::size_t kMostBundles = 64;
    static constexpr std::size_t kMostWaiting = kMostBundles / 2;  // peers that stand still

    Destination* find(const Operation& op) noexcept;
    void add(Destination& to, Operation& op) noexcept;
    Operation* pop(Destination& to) noexcept;
    void flush(Destination& to) noexcept;
    Taken flush_with(Destination& to, Operation& op, Status& status) noexcept;
    bool send_bundle(Destination& to) noexcept;
    void send_alone(Operation& op) noexcept;
    bool may_join(const Operation& op) const noexcept;
    template <typename Front, typename Pop>
    void fill(Bundle& bundle, const Operation& like, Front&& front, Pop&& pop) noexcept;
    std::size_t size_of(const Operation& op) const noexcept;
    std::size_t room(const Operation& like) const noexcept;
    void learn(Operation& bundle) noexcept;
    void no_longer_waits(Bundle& bundle) noexcept;
    void restore(Bundle& bundle, RetryQueue::Waiting& waiting) noexcept;
    void count(std::int32_t n) noexcept;
    Bundle* take_bundle() noexcept;
    void give(Bundle& bundle) noexcept;
    static void on_sent(Operation& op, const Outcome& outcome) noexcept;

    Context& context_;
    std::size_t message_ = 0;
    std::atomic<std::uint32_t> waiting_{0};
    std::array<Destination, kMostDestinations> destinations_;
    std::size_t used_ = 0;  // beyond that, none is in use
    std::vector<std::unique_ptr<Bundle>> bundles_;
    Bundle* free_ = nullptr;
    std::size_t waiting_bundles_ = 0;
};

}  // namespace na::inline impl
