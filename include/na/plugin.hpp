// SPDX-License-Identifier: BSD-3-Clause
// The plugin contract: all that a transport implements, and all that it may rely on.
//
// A plugin posts, polls and arms. Everything else lives in the core once: info strings, address
// table and reference counts, matching (where the fabric does not match), retry queues, completion
// queues, waiting, cancel bookkeeping, range and permission checks of RMA, statistics, user
// callbacks.
//
// Objects:     Plugin -> Domain -> Context;  Domain -> Peer, Region.   Destructors close and
// deregister. Threads:     Plugin and Domain: any thread, concurrently. Context: the core
// serialises all calls on one Context
//              (send .. arm, drop, destructor); different Contexts of one Domain run concurrently.
//              Peer and Region: encode() and uri() from any thread; destructors when nothing refers
//              to the object any more, after every Context was told by drop(Peer&).
// Life times:  Domain outlives its Contexts, Peers and Regions; a Context is destroyed before the
// Peers. Errors:      Result<T> with a message that names cause and remedy on control paths; bare
// Posted on the data path.
//              No exception leaves a plugin.
// Hostile peers: what comes from another process is copied, checked, then used; what fails the
// check is dropped with
//              Sink::dropped(). Nothing from a peer may end in an assertion, an unbounded
//              allocation or a wait.
#pragma once

#include "na/detail/standard.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "na/result.hpp"
#include "na/types.hpp"

namespace na {

// Same order as na_cb_type.
enum class OpKind : std::uint8_t {
    send_unexpected,
    recv_unexpected,
    multi_recv_unexpected,
    send_expected,
    recv_expected,
    put,
    get,
};

namespace plugin {

class Peer;
class Region;
class Sink;

// Constant for a Domain's lifetime.
struct Caps {
    std::string protocol;  // canonical name, "sm"
    // What is in use, where that has several names: classes with the same one understand each
    // other's descriptors of memory. Empty: the protocol.
    std::string wire;
    // Largest message a lane carries, headroom included. Honour InitInfo where it asks for more or
    // less.
    std::size_t max_message[kLanes] = {4096, 4096};
    // Bytes at the start of every message buffer that belong to the plugin.
    std::size_t headroom[kLanes] = {0, 0};
    std::size_t op_scratch = 0;    // bytes at Op::scratch, 16-byte aligned, zeroed at creation
    std::size_t inject = 0;        // messages of up to so many bytes go to inject() first
    std::size_t max_segments = 1;  // of one Region
    std::uint32_t max_tag = UINT32_MAX;
    // True: the fabric matches receives itself, recv() is called. False: arrivals go to
    // Sink::arrive().
    bool matches[kLanes] = {false, false};
    bool ordered[kLanes] = {true, true};  // messages of one peer stay in order within the lane
    bool multi_recv = false;              // recv_multi() is native
    bool waitable = true;                 // wait_fd() and arm() work
    // But nothing tells of what comes: wait_fd() wakes who sleeps 100 times a second, to look.
    bool looks = false;
    // After a post was answered `again`, an armed wait_fd() also fires when that post may succeed.
    // False: the core does not sleep while posts wait for resources.
    bool wakes_on_credit = false;
    bool watches_receives = false;   // Context::awaits() is called
    bool register_messages = false;  // message buffers must be registered (Op::local)
    bool device_memory = false;
    // Members of InitInfo that have their effect in this Domain. The core refuses a class that asks
    // for another one, but for the traffic class: that is a hint, and the core warns.
    bool takes_ip_subnet = false;
    bool takes_ip_format = false;  // InitInfo::address_format: ipv4 and ipv6
    bool takes_auth_key = false;
    bool takes_traffic_class = false;
    bool rma_delivery_complete = true;  // a completed put is visible at the target
    // A message costs so much by itself, whatever its size (a system call, say), that copying small
    // ones to one peer together into one is cheaper.
    bool costly_messages = false;
};

}  // namespace plugin

// One operation as a plugin sees it. The core owns it and fills the request before the post; it
// stays constant until the operation completes, and the plugin does not touch the Op after that.
// `scratch` and `next`/`prev` are the plugin's while the operation is posted.
struct Op {
    OpKind kind = OpKind::send_unexpected;
    std::uint8_t target_id = 0;  // context id at the peer
    std::uint32_t tag = 0;
    void* buffer = nullptr;            // messages: start of the buffer, headroom included
    std::size_t length = 0;            // messages: size with headroom; RMA: bytes to move
    plugin::Peer* peer = nullptr;      // target, or source of recv_expected
    plugin::Region* local = nullptr;   // RMA; messages where Caps::register_messages
    plugin::Region* remote = nullptr;  // RMA
    std::uint64_t local_offset =
        0;  // bytes; checked by the core: offset + length is inside the Region
    std::uint64_t remote_offset = 0;  // bytes; checked likewise
    void* scratch = nullptr;
    Op* next = nullptr;
    Op* prev = nullptr;

    Lane lane() const noexcept {
        return kind == OpKind::send_expected || kind == OpKind::recv_expected ? Lane::expected
                                                                              : Lane::unexpected;
    }
};

namespace plugin {

// What a post answers.
struct [[nodiscard]] Posted {
    enum class What : std::uint8_t {
        done,     // completed successfully on the spot; no Sink::complete follows
        pending,  // exactly one Sink::complete follows, in some progress()
        again,    // no resources: the core queues the operation and posts it again after progress()
        failed,   // not posted; no completion follows
    };
    What what;
    Status status;

    static constexpr Posted done() noexcept { return {What::done, Status::success}; }
    static constexpr Posted pending() noexcept { return {What::pending, Status::success}; }
    static constexpr Posted again() noexcept { return {What::again, Status::again}; }
    // Again, for a message: the peer is connected and has no room, or the library. Messages that
    // wait behind it for the same place may leave together with it.
    static constexpr Posted full() noexcept { return {What::again, Status::busy}; }
    constexpr bool is_full() const noexcept {
        return what == What::again && status == Status::busy;
    }
    static constexpr Posted failed(Status why) noexcept { return {What::failed, why}; }
};

// How an operation ended.
struct Completion {
    Status status = Status::success;
    std::size_t size = 0;    // received bytes, headroom included
    Peer* source = nullptr;  // recv_unexpected, multi_recv: as obtained from Sink::source()
    std::uint32_t tag = 0;   // received tag
    void* data = nullptr;    // multi_recv: where in the buffer
    bool last = true;        // multi_recv: the buffer is used up, the operation has ended
};

// A peer as the transport knows it. Made by Domain::connect or decode_peer; the core keeps one per
// identity.
class Peer {
 public:
    Peer() = default;
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;
    virtual ~Peer() = default;

    // Text that another process can pass to Domain::connect: "<protocol>://<address>", without
    // class.
    virtual std::string uri() const = 0;

    // Writes the identity (what Domain::decode_peer takes) if it fits; returns its size. Equal
    // bytes mean the same peer, and the bytes never change during the object's life.
    virtual std::size_t encode(std::span<std::byte> out) const = 0;

    // The core's own back pointer; not for plugins.
    void* core = nullptr;
};

// Registered memory, local or decoded.
class Region {
 public:
    Region() = default;
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;
    virtual ~Region() = default;

    // Writes what Domain::decode_region needs at the peer, if it fits; returns its size. A decoded
    // one writes what it was made of: it is passed on to others. Length, access and bounds travel
    // in the core's own header: only keys and addresses belong here.
    virtual std::size_t encode(std::span<std::byte> out) const = 0;
};

// A message on its way in. `data` has room for the announced size; null: skip the bytes.
struct Arrival {
    void* data = nullptr;
};

// The core's side of a Context. Called only inside progress() of that Context, but for complete(),
// which cancel() may also call, and dropped().
class Sink {
 public:
    // Ends a pending operation.
    virtual void complete(Op& op, const Completion& how) = 0;

    // Announces a whole message (lanes without Caps::matches). Answers where the bytes go: the
    // buffer of a matching receive, or the core's own. Null: no room now for this peer; leave the
    // message where it is, go on with those of others, and announce it again in every progress(). A
    // context whose only work is refused messages may sleep (arm() true): the core calls progress()
    // again when it has got room. The plugin then fills data[0, size) and calls finish(), before it
    // returns or later, but in order per peer and lane. `source` comes from source() or is the peer
    // of a post.
    virtual Arrival* arrive(Lane lane, Peer& source, std::uint32_t tag, std::size_t size) = 0;

    // The same for a message whose bytes come in later calls of progress(), or never: it keeps no
    // receive busy meanwhile, which a peer that stops half-way would otherwise take away from the
    // others. finish() may end it with any code.
    virtual Arrival* arrive_in_parts(Lane lane, Peer& source, std::uint32_t tag, std::size_t size) {
        return arrive(lane, source, tag, size);
    }

    // The bytes are there (success), or will never be (any other code: the message is lost, the
    // receive ends with it).
    virtual void finish(Arrival* arrival, Status status) = 0;

    // arrive() and finish() in one, for a whole message whose bytes lie in one piece: the usual
    // case costs one call. They may lie in memory that a peer writes, and are read once, before
    // anything looks at them. False: as null from arrive().
    virtual bool deliver(Lane lane, Peer& source, std::uint32_t tag,
                         std::span<const std::byte> bytes) {
        Arrival* arrival = arrive(lane, source, tag, bytes.size());
        if (arrival == nullptr) {
            return false;
        }
        if (arrival->data != nullptr && !bytes.empty()) {
            std::memcpy(arrival->data, bytes.data(), bytes.size());
        }
        finish(arrival, Status::success);
        return true;
    }

    // The same for a message in two pieces, neither empty.
    virtual bool deliver_two(Lane lane, Peer& source, std::uint32_t tag,
                             std::span<const std::byte> first, std::span<const std::byte> rest) {
        Arrival* arrival = arrive(lane, source, tag, first.size() + rest.size());
        if (arrival == nullptr) {
            return false;
        }
        if (arrival->data != nullptr) {
            auto* to = static_cast<std::byte*>(arrival->data);
            std::memcpy(to, first.data(), first.size());
            std::memcpy(to + first.size(), rest.data(), rest.size());
        }
        finish(arrival, Status::success);
        return true;
    }

    // Finds the peer with this identity, or makes it with Domain::decode_peer. The peer stays alive
    // until release(). Null: malformed, or the table is full.
    virtual Peer* source(std::span<const std::byte> identity) = 0;
    virtual void release(Peer& peer) = 0;

    // The peer died or was disconnected, with all its contexts. The core ends what it holds itself
    // for this peer (queued sends, expected receives) with `why`; the plugin completes what it
    // holds. The peer may be posted to again: that reconnects.
    virtual void peer_lost(Peer& peer, Status why) = 0;

    // One context of the peer died or was closed, while the plugin still hears others of its
    // contexts (who has no such notion calls peer_lost() only): as peer_lost(), for what names that
    // context as its target or source. The peer's other operations go on.
    virtual void context_lost(Peer& peer, std::uint8_t context, Status why) = 0;

    // Whether the core holds anything that peer_lost() would end. Also inside a post, which does
    // not count itself. A transport that finds out in a post that a connection never came to be,
    // and on which nothing waits, may make another one instead of reporting the peer's end.
    virtual bool awaited(Peer&) { return true; }

    // Something malformed came in and was dropped: counted, logged at level warning with `what` (a
    // literal).
    virtual void dropped(const char* what) = 0;

 protected:
    ~Sink() = default;
};

// A statistics counter of a plugin.
struct Stat {
    const char* name;  // literal
    std::uint64_t value;
};

// Where at a peer an injected message goes.
struct Destination {
    std::uint8_t context;
    Lane lane;
};

// One progress engine.
class Context {
 public:
    Context() = default;
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    // Operations still pending are dropped without completion: the core has ended them.
    virtual ~Context() = default;

    virtual Posted send(Op& op) = 0;
    // The same for a message of at most Caps::inject bytes, headroom included (which may be
    // written), without an operation: it is on its way and its bytes are copied (true), or nothing
    // has happened and the core tries send(), which says why. Only where that is faster.
    virtual bool inject(Peer&, Destination, std::uint32_t /*tag*/, std::span<std::byte>) {
        return false;
    }
    // Receives never answer `done`: what came is reported by Sink::complete.
    virtual Posted recv(Op&) { return Posted::failed(Status::opnotsupported); }
    virtual Posted recv_multi(Op&) { return Posted::failed(Status::opnotsupported); }
    virtual Posted put(Op& op) = 0;
    virtual Posted get(Op& op) = 0;
    // A get that needs no operation: fills `to` with what stands `offset` bytes into memory of the
    // peer's context, by what Region::encode() wrote there (untrusted, as for
    // Domain::decode_region(); the range is within `length`). Only where that is a copy, no more;
    // false: it is not, or not yet, nothing has happened, and the core tries get().
    virtual bool copy_now(Peer&, std::uint8_t /*context*/, std::span<const std::byte> /*region*/,
                          std::uint64_t /*length*/, std::uint64_t /*offset*/,
                          std::span<std::byte> /*to*/) noexcept {
        return false;
    }

    // Best effort on a pending operation. Exactly one Sink::complete follows in any case, now or in
    // progress().
    virtual void cancel(Op& op) = 0;

    // An operation that was answered `again` last is over, and not posted again: what is remembered
    // of it by its address may be forgotten, as the next post may use it anew. Called in posts, in
    // cancel, by Sink::peer_lost(), and before a post of another operation in its place; also for
    // one that was not answered `again`.
    virtual void withdrawn(Op&) noexcept {}

    // Polls once: never blocks, runs no user code. Returns how many events it handled. Also ends
    // the effect of arm().
    virtual std::size_t progress() = 0;

    // A descriptor that polls readable when progress() has something to do (but messages that the
    // core refused), once arm() said true. -1: none.
    virtual int wait_fd() { return -1; }
    // Another one of the same meaning, for transports whose library has its own: the kernel limits
    // how deep sets of descriptors may lie within each other. -1: none.
    virtual int side_fd() { return -1; }
    // True: it is safe to sleep on wait_fd() now; the next event will make it readable. False: call
    // progress() first.
    virtual bool arm() { return false; }

    // An expected receive from op.peer begins to wait in the core, or no longer does (lanes without
    // Caps::matches, and only where Caps::watches_receives): for transports that have to look after
    // silent peers themselves.
    virtual void awaits(Op&, bool /*begins*/) {}

    // Of a message with this tag that was posted from this buffer, and whose peer Sink::peer_lost()
    // or Sink::context_lost() reports just now: whether it is known that nobody was given it,
    // neither the process that was there nor one that has taken its place. It may be sent again
    // then. Asked for messages after which fewer than 16,384 were sent. Null: of one that has not
    // left yet. Called from within these two.
    virtual bool undelivered(const void* /*message*/, std::uint32_t /*tag*/) const noexcept {
        return false;
    }

    // The core gives the peer up: all connections of this context to it end as if the peer had
    // died, in this call or in the next progress(), with Sink::complete() and Sink::peer_lost() as
    // usual. What the peer has sent and nobody has taken may be dropped. The peer may connect anew.
    virtual void disconnect(Peer&) {}

    // Forget everything about the peer, which is about to be destroyed: close its connections of
    // this context. No operation refers to it any more.
    virtual void drop(Peer&) {}

    // Appends the counters of this context.
    virtual void stats(std::vector<Stat>&) const {}
};

class Domain {
 public:
    Domain() = default;
    Domain(const Domain&) = delete;
    Domain& operator=(const Domain&) = delete;
    virtual ~Domain() = default;

    virtual const Caps& caps() const noexcept = 0;

    // "<protocol>://<address>", without class; what another process passes to connect().
    virtual std::string self_uri() const = 0;

    // Parses "<protocol>://<address>" and makes the peer. Never blocks on the network; may defer
    // all work to the first message. Refuses malformed text with invalid_arg.
    virtual Result<std::unique_ptr<Peer>> connect(std::string_view uri) = 0;

    // Inverse of Peer::encode. Untrusted input.
    virtual Result<std::unique_ptr<Peer>> decode_peer(std::span<const std::byte> identity) = 0;

    // Makes memory reachable by peers. At most Caps::max_segments segments, none empty, host or
    // device memory.
    virtual Result<std::unique_ptr<Region>> register_memory(std::span<const Segment> segments,
                                                            Access access, MemoryKind kind,
                                                            std::uint64_t device) = 0;

    // Inverse of Region::encode. Untrusted input; must not need the peer. `length` is the total
    // size that the core's header announces and checks accesses against.
    virtual Result<std::unique_ptr<Region>> decode_region(std::span<const std::byte> encoded,
                                                          std::uint64_t length) = 0;

    // `sink` outlives the Context. Ids are below OpenSpec::contexts, each open once at a time.
    // addrinuse: another process has what this id needs; other ids may do.
    virtual Result<std::unique_ptr<Context>> open_context(std::uint8_t id, Sink& sink) = 0;

    // Zeroed memory that this transport moves fastest, aligned to a page; null when there is none.
    // The default is plain memory. Any thread.
    virtual void* allocate(std::size_t bytes);
    virtual void deallocate(void* memory, std::size_t bytes);
    // The same for memory that a peer may still want to read: as far as the transport can see to
    // that, it fails then, instead of finding what has come to the same addresses since.
    virtual void retire(void* memory, std::size_t bytes) { deallocate(memory, bytes); }
};

struct OpenSpec {
    std::string protocol;  // as the user wrote it
    std::string host;      // what follows "://", may be empty
    bool listen = false;   // peers may connect
    InitInfo info;
    // Ids of contexts are below this. Those below InitInfo::max_contexts are promised: what they
    // need is taken when the class opens; of others that is taken when they are opened, if it can
    // be.
    std::uint8_t contexts = 1;
};

struct ProtocolInfo {
    std::string protocol;
    std::string device;
};

class Plugin {
 public:
    virtual ~Plugin() = default;

    // The class in info strings: "na", "ofi", "ucx".
    virtual std::string_view class_name() const noexcept = 0;

    // What this machine can open, most preferred first; may be empty.
    virtual std::vector<ProtocolInfo> protocols() = 0;

    // Whether a protocol name (an alias too) is meant for this plugin. Default: it is listed by
    // protocols().
    virtual bool accepts(std::string_view protocol);

    // Acquires everything or nothing.
    virtual Result<std::unique_ptr<Domain>> open(const OpenSpec& spec) = 0;

    // Deletes what dead processes left, never what lives.
    virtual void remove_stale() {}

    // Name and version of the library beneath, "libfabric 1.17.0"; empty: none.
    virtual std::string library() const { return {}; }
};

// Changes whenever anything in this header does.
inline constexpr std::uint32_t kAbi = 14;
inline constexpr std::uint64_t kMagic = 0x31696261'6e6e6963;

// What a plugin exports: a built-in one to na/plugin_table.cpp, a loadable module as
// `extern "C" const na::plugin::Entry na_plugin_entry`. Loaded only if magic and abi are equal.
struct Entry {
    std::uint64_t magic = kMagic;
    std::uint32_t abi = kAbi;
    std::uint32_t reserved = 0;
    const char* name = nullptr;  // "sm"
    std::unique_ptr<Plugin> (*create)() = nullptr;
};

}  // namespace plugin
}  // namespace na
