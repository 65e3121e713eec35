// SPDX-License-Identifier: BSD-3-Clause
// Bulk transfers: memory that is shown to peers, and moved without passing through messages.
//
// One side exposes memory and sends the descriptor as an argument (or a result) of an RPC; the
// other receives a RemoteBulk and pulls from it, or pushes into it:
//
//     inline constexpr hg::Rpc<void(hg::RemoteBulk<hg::Share::read>)> store{"store"};
//
//     std::vector<double> data = ...;                                   // the origin
//     auto shown = hg::Bulk<hg::Share::read>::expose(engine, data);
//     co_await store(peer, shown);
//
//     server.serve(store, [&](hg::RemoteBulk<hg::Share::read> from) -> hg::Task<> {
//         auto here = hg::Bulk<hg::Share::both>::allocate(server, from.size());
//         co_await from.pull(here);                                     // the target
//     });
//
// What a peer may do with the memory is in the type; what the type does not allow does not compile.
// The memory must stay until the peer is done, which an RPC that has ended says; memory that a
// descriptor owns (allocate(), and a container that expose() takes over) the call keeps that long.
// allocate() gives the memory that is moved fastest (over na+sm without any system call).
#pragma once

#include "na/detail/standard.hpp"

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "hg/detail/core.hpp"
#include "hg/operation.hpp"
#include "hg/peer.hpp"

namespace bulk {
class Bulk;  // the library's own, opaque here
}

namespace hg {

// What peers may do with memory.
enum class Share : std::uint8_t { read = 1, write = 2, both = 3 };

constexpr bool allows(Share share, Share wanted) noexcept {
    return (static_cast<unsigned>(share) & static_cast<unsigned>(wanted)) ==
           static_cast<unsigned>(wanted);
}

// A part of both sides' memory, in bytes.
struct Range {
    static constexpr std::uint64_t kRest = UINT64_MAX;

    std::uint64_t remote = 0;    // where it begins in the peer's memory
    std::uint64_t local = 0;     // and in this process's
    std::uint64_t size = kRest;  // kRest: to the end of the peer's memory, which must fit here
};

template <Share S>
class Bulk;
template <Share S>
class RemoteBulk;
template <typename T>
class Elements;
class Transfer;

namespace detail {

// A reference to a descriptor, with what keeps its engine.
class BulkRef {
 public:
    BulkRef() noexcept = default;
    // Take over the references.
    BulkRef(::bulk::Bulk* bulk, EngineCore* engine) noexcept : bulk_(bulk), engine_(engine) {}
    BulkRef(::bulk::Bulk* bulk, PeerCore* peer, std::uint8_t context) noexcept
        : bulk_(bulk), peer_(peer), context_(context) {}
    BulkRef(const BulkRef& other) noexcept;
    BulkRef(BulkRef&& other) noexcept { swap(other); }
    BulkRef& operator=(BulkRef other) noexcept {
        swap(other);
        return *this;
    }
    ~BulkRef();

    explicit operator bool() const noexcept { return bulk_ != nullptr; }
    ::bulk::Bulk* bulk() const noexcept { return bulk_; }
    PeerCore* peer() const noexcept { return peer_; }  // null: memory of this process
    EngineCore* engine() const noexcept;
    std::uint8_t context() const noexcept { return context_; }
    std::uint64_t size() const noexcept;
    Share share() const noexcept;
    std::span<std::byte> first_segment() const noexcept;
    std::size_t segments() const noexcept;

 private:
    void swap(BulkRef& other) noexcept {
        std::swap(bulk_, other.bulk_);
        std::swap(engine_, other.engine_);
        std::swap(peer_, other.peer_);
        std::swap(context_, other.context_);
    }
    ::bulk::Bulk* bulk_ = nullptr;
    EngineCore* engine_ = nullptr;  // of memory of this process
    PeerCore* peer_ = nullptr;      // of a peer's
    std::uint8_t context_ = 0;
};

// With `kept`, the memory is that: it goes after the registration.
Result<BulkRef> expose(EngineCore& engine, std::span<const std::span<std::byte>> segments,
                       Share share, std::shared_ptr<void> kept = nullptr);
Result<BulkRef> allocate(EngineCore& engine, std::size_t bytes, Share share);
void bind(const BulkRef& bulk);
void write_bulk(Writer& w, const BulkRef& bulk);
BulkRef read_bulk(Reader& r, Share share);

// Says where something is, so that its bytes are of no use to a peer: pointers, views.
template <typename T>
inline constexpr bool refers = std::is_pointer_v<T> || std::is_member_pointer_v<T> ||
                               std::ranges::view<T> || std::ranges::borrowed_range<T>;
template <typename T>
inline constexpr bool refers<std::reference_wrapper<T>> = true;
template <typename T>
inline constexpr bool refers<Elements<T>> = true;
template <typename T, std::size_t N>
inline constexpr bool refers<std::array<T, N>> = refers<std::remove_cv_t<T>>;
template <typename T, std::size_t N>
inline constexpr bool refers<T[N]> = refers<std::remove_cv_t<T>>;

template <typename C>
concept contiguous = std::ranges::contiguous_range<C> && std::ranges::sized_range<C> &&
    std::is_trivially_copyable_v<std::ranges::range_value_t<C>> &&
    !refers<std::remove_cv_t<std::ranges::range_value_t<C>>>;

// The bytes of a container; the permission was checked before const is taken away.
template <contiguous C>
std::span<std::byte> bytes_of(C& c) noexcept {
    const auto bytes = std::as_bytes(std::span(std::ranges::data(c), std::ranges::size(c)));
    return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

template <typename C>
inline constexpr bool is_constant =
    std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<C>>>;

// One transfer; moves until it is started.
struct TransferState {
    BulkRef remote;
    BulkRef local;
    Range range;
    CallOptions options;
    bool pull = true;
    Status status = Status::success;
    const char* what = "";
    Continuation* next = nullptr;
    std::atomic<std::uint64_t> id{0};  // while it is under way
    std::atomic<CallState::Cause> cause{CallState::Cause::none};
    std::atomic<std::uint8_t> phase{0};

    struct Cancel {
        TransferState* transfer;
        void operator()() const noexcept;
    };
    struct Expiry : Timer {
        TransferState* transfer = nullptr;
    };
    Expiry expiry;
    std::optional<std::stop_callback<Cancel>> on_stop;

    TransferState() = default;
    TransferState(TransferState&& other) noexcept;
    TransferState& operator=(TransferState&&) = delete;

    bool start(Continuation& continuation) noexcept;
    Error error() const;
};

}  // namespace detail

// One transfer, described; see Operation for how to start it and get its outcome. Bulks that it
// moves between are kept until it has ended. It fails with:
//   invalid_arg   beyond the end of either side, or no memory at all
//   hostunreach   the peer went away
//   timeout, canceled   the deadline of its options, their stop token, or the end of the engine;
//   the
//                 memory has any part of what was to be moved
//   opnotsupported   the transport cannot reach the peer's memory
class [[nodiscard(
    "nothing is moved before its outcome is asked for: co_await it, or use get(), "
    "wait() or then()")]] Transfer : public Operation<Transfer, void> {
 public:
    Transfer(Transfer && other) noexcept = default;

    // For adapters: guard() before it is started, and then cancel() from any thread, until it has
    // ended; it ends with Status::canceled, or as it would have.
    void guard() noexcept {}
    void cancel() noexcept {
        detail::TransferState::Cancel{&state_}();
    }
    // For Operation and when_all().
    bool start(detail::Continuation & next) noexcept {
        return state_.start(next);
    }
    detail::EngineCore* engine() const noexcept {
        return state_.remote.engine();
    }
    Result<void> take_result() {
        if (!na::ok(state_.status)) [[unlikely]] {
            return state_.error();
        }
        return {};
    }

 private:
    template <Share>
    friend class RemoteBulk;
    Transfer(const detail::BulkRef& remote, detail::BulkRef local, const Range& range,
             const CallOptions& options, bool pull) {
        state_.remote = remote;
        state_.local = std::move(local);
        state_.range = range;
        state_.options = options;
        state_.pull = pull;
    }

    detail::TransferState state_;
};

// Memory of this process that peers may read, write, or both. A value: copies describe the same
// memory, which is registered with the transport as long as one of them is there, or a RemoteBulk
// that was made of one (in an argument, a struct), a transfer that uses it, or a call that shows
// it, until that has ended. A response has left when its handler ends, and a one-way call when it
// has succeeded: what they show has to be kept until the peer says that it is done. Any thread.
template <Share S>
class Bulk {
 public:
    Bulk() noexcept = default;  // no memory

    // Shows containers of trivially copyable elements, or spans, one after the other as one range
    // of bytes; not of pointers and views, which say nothing to a peer. The memory stays the
    // caller's and must outlive the descriptor and the transfers. Throw Exception (nomem, and what
    // the transport answers), std::bad_alloc.
    template <typename E, detail::contiguous... C>
    requires(sizeof...(C) > 0) static Bulk expose(const E& engine, C&... memory) {
        static_assert(!allows(S, Share::write) || !(detail::is_constant<C> || ...),
                      "memory that is const cannot be exposed for writing: hg::Share::read");
        const std::span<std::byte> segments[] = {detail::bytes_of(memory)...};
        return Bulk(value(detail::expose(engine.core(), segments, S)));
    }
    // The same for a container that the descriptor takes over: it lives as long as the memory is
    // registered, and is destroyed on the thread that lets go of it last.
    template <typename E, detail::contiguous C>
    requires(!std::is_lvalue_reference_v<C> && !std::ranges::borrowed_range<C>) static Bulk
        expose(const E& engine, C&& memory) {
        auto kept = std::make_shared<std::remove_const_t<C>>(std::forward<C>(memory));
        const std::span<std::byte> segments[] = {detail::bytes_of(*kept)};
        return Bulk(value(detail::expose(engine.core(), segments, S, std::move(kept))));
    }
    // And for spans.
    template <typename E, typename T>
    requires detail::contiguous<std::span<T>>
    static Bulk expose(const E& engine, std::span<T> memory) {
        return expose<E, std::span<T>>(engine, memory);
    }
    // A number of segments that is known at run time: a vector of spans, say.
    template <typename E>
    static Bulk expose(const E& engine, std::span<const std::span<std::byte>> segments) {
        return Bulk(value(detail::expose(engine.core(), segments, S)));
    }
    // Zeroed memory of the library's, which goes with the last copy of the descriptor.
    template <typename E>
    static Bulk allocate(const E& engine, std::size_t bytes) {
        return Bulk(value(detail::allocate(engine.core(), bytes, S)));
    }

    std::uint64_t size() const noexcept { return ref_.size(); }  // bytes
    std::size_t segments() const noexcept { return ref_.segments(); }
    // The memory, where it is one segment: of allocate(), or of one container.
    std::span<std::byte> bytes() const noexcept { return ref_.first_segment(); }
    explicit operator bool() const noexcept { return static_cast<bool>(ref_); }

    // Lets those who receive the descriptor pass it on to others: it carries this engine's address
    // from now on. Throws Exception, std::bad_alloc.
    void bind() const { detail::bind(ref_); }

    // What is sent; a peer is given no more than the definition of the RPC says.
    template <Share T>
    requires(allows(S, T)) operator RemoteBulk<T>()
        const noexcept {  // NOLINT: a Bulk is what calls are made with
        return RemoteBulk<T>(ref_);
    }
    const detail::BulkRef& ref() const noexcept { return ref_; }  // for the library

 private:
    explicit Bulk(detail::BulkRef&& ref) noexcept : ref_(std::move(ref)) {}

    detail::BulkRef ref_;
};

// Memory of a peer, as it came in a message. A value, as Bulk. It outlives the handler or the call
// that received it; the memory does as its owner says.
template <Share S>
class RemoteBulk {
 public:
    RemoteBulk() noexcept = default;  // no memory: transfers fail with invalid_arg

    std::uint64_t size() const noexcept { return ref_.size(); }  // bytes
    Peer peer() const {
        if (ref_.peer() != nullptr) {
            detail::ref(ref_.peer());
        }
        return Peer::adopt(ref_.peer());
    }
    explicit operator bool() const noexcept { return static_cast<bool>(ref_); }

    // From the peer's memory into `local`, which must be open to writing.
    template <Share L>
    Transfer pull(const Bulk<L>& local, const Range& range = {},
                  const CallOptions& options = {}) const {
        static_assert(allows(S, Share::read),
                      "the peer's memory may be written only: push() into it, or have it exposed "
                      "with hg::Share::read");
        static_assert(allows(L, Share::write),
                      "what is pulled is written into local memory: expose or allocate that with "
                      "hg::Share::write or both");
        return Transfer(ref_, local.ref(), range, options, true);
    }
    // From `local` into the peer's memory.
    template <Share L>
    Transfer push(const Bulk<L>& local, const Range& range = {},
                  const CallOptions& options = {}) const {
        static_assert(allows(S, Share::write),
                      "the peer's memory may be read only: pull() from it, or have it exposed "
                      "with hg::Share::write");
        static_assert(allows(L, Share::read),
                      "what is pushed is read from local memory: expose or allocate that with "
                      "hg::Share::read or both");
        return Transfer(ref_, local.ref(), range, options, false);
    }
    // The same with memory that is registered for this transfer only, and must stay until it has
    // ended. Throw as Bulk::expose.
    template <detail::contiguous C>
    requires(!detail::is_constant<C>) Transfer
        pull(C&& memory, const Range& range = {}, const CallOptions& options = {})
    const {
        static_assert(std::is_lvalue_reference_v<C> || std::ranges::borrowed_range<C>,
                      "memory that is gone before the transfer: pull into a variable");
        return pull(temporary<Share::write>(memory), range, options);
    }
    template <detail::contiguous C>
    Transfer push(C&& memory, const Range& range = {}, const CallOptions& options = {}) const {
        static_assert(std::is_lvalue_reference_v<C> || std::ranges::borrowed_range<C>,
                      "memory that is gone before the transfer: push from a variable");
        return push(temporary<Share::read>(memory), range, options);
    }

    const detail::BulkRef& ref() const noexcept { return ref_; }  // for the library

 private:
    template <Share>
    friend class Bulk;
    friend struct Codec<RemoteBulk>;
    explicit RemoteBulk(detail::BulkRef ref) noexcept : ref_(std::move(ref)) {}

    struct Core {
        detail::EngineCore* engine;
        detail::EngineCore& core() const {
            if (engine == nullptr) {
                throw Exception(Status::invalid_arg, "a RemoteBulk without memory");
            }
            return *engine;
        }
    };
    template <Share T, typename C>
    Bulk<T> temporary(C& memory) const {
        return Bulk<T>::expose(Core{ref_.engine()}, memory);
    }

    detail::BulkRef ref_;
};

template <Share S>
struct Codec<RemoteBulk<S>> {
    template <int>
    static consteval std::uint32_t kind() {
        return detail::kind_with<0>(detail::Sort::bulk, static_cast<std::uint32_t>(S));
    }
    template <int>
    static consteval std::size_t min_size() {
        return 1;
    }
    template <int>
    static consteval bool views() {
        return false;
    }
    static void write(Writer& w, const RemoteBulk<S>& bulk) { detail::write_bulk(w, bulk.ref()); }
    static void read(Reader& r, RemoteBulk<S>& bulk) {
        bulk = RemoteBulk<S>(detail::read_bulk(r, S));
    }
};

}  // namespace hg
