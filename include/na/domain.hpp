// SPDX-License-Identifier: BSD-3-Clause
// The C++ API of the network abstraction begins here: messages and remote memory over a transport,
// for those who need no RPC.
//
//     na::Domain domain = na::Domain::listen("ofi+tcp").value();
//     na::Context context = domain.open_context().value();
//     na::Address peer = domain.lookup(text).value();
//
// A Domain is one opened transport. It closes when it and everything that came from it are gone, in
// whatever order. Functions answer a Result, which has the cause in words; value() makes an
// exception of it. Any thread, unless InitInfo::single_class says otherwise.
#pragma once

#include "na/detail/standard.hpp"

#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "na/address.hpp"
#include "na/context.hpp"
#include "na/detail/ref.hpp"
#include "na/memory.hpp"
#include "na/result.hpp"
#include "na/types.hpp"

namespace na::inline v1 {

// An opened transport.
class Domain {
 public:
    // Opens "[class+]protocol[://host]" ("na+sm", "ofi+tcp://eth0:7000"), to be found by peers
    // (listen) or only to connect to others (open). invalid_arg: malformed; protonosupport: no such
    // transport here, and what there is; and what the transport answers.
    static Result<Domain> listen(std::string_view info, const InitInfo& options = {});
    // The same without being found.
    static Result<Domain> open(std::string_view info, const InitInfo& options = {});

    Domain() = default;
    Domain(Domain&&) noexcept = default;
    Domain& operator=(Domain&&) noexcept = default;
    Domain(const Domain&) = delete;
    Domain& operator=(const Domain&) = delete;

    // False: none, as after a move or close().
    explicit operator bool() const noexcept { return static_cast<bool>(state_); }
    // Closes, if nothing that came from it is left. busy: there is, and what. Never needed, but to
    // be sure.
    Result<void> close();

    // A context; `id` is below InitInfo::max_contexts, or 8 where that is less. exist: there is one
    // with this id. invalid_arg: it is too large. addrinuse: one that was not asked for by
    // max_contexts needs a port that is in use.
    Result<Context> open_context(std::uint8_t id = 0);

    // --- addresses ---------------------------------------------------------------------------

    // A peer by what its Domain's uri() says. Does not ask the peer.
    Result<Address> lookup(std::string_view uri);
    // A peer by what Address::encode() made; the bytes may come from anybody.
    Result<Address> decode_address(std::span<const std::byte> bytes);
    // Ourselves; others get it as uri() or Address::encode().
    Address self() const;
    // Text for others' lookup().
    std::string uri() const { return self().uri(); }

    // --- messages and memory -----------------------------------------------------------------

    // A buffer for messages of up to so many bytes; 0: for the largest of either lane.
    Result<Buffer> make_buffer(std::size_t size = 0);

    // Lets peers reach the elements of a range (vector, array, span, ...), which must stay where
    // they are.
    template <std::ranges::contiguous_range R>
    Result<Memory> register_memory(R&& range, Access access) {
        if constexpr (stays<R>() && writable<R>()) {
            return register_bytes(std::ranges::data(range), std::ranges::size(range) * kElement<R>,
                                  access);
        } else {
            return Error{Status::invalid_arg, {}};
        }
    }
    // The same, to be read only.
    template <std::ranges::contiguous_range R>
    Result<Memory> register_memory(R&& range) {
        if constexpr (stays<R>()) {
            return register_bytes(std::ranges::data(range), std::ranges::size(range) * kElement<R>,
                                  Access::read);
        } else {
            return Error{Status::invalid_arg, {}};
        }
    }
    // Several pieces as one range, at most max_segments(); of a device where
    // InitInfo::device_memory was asked for.
    Result<Memory> register_segments(std::span<const Segment> segments, Access access,
                                     MemoryKind kind = MemoryKind::host, std::uint64_t device = 0);
    // Memory of the library's, zeroed: what the transport moves fastest (with na+sm peers read and
    // write it without a system call). Memory::bytes() is where; it goes with the Memory.
    Result<Memory> allocate(std::size_t bytes, Access access = Access::read_write);
    // A peer's memory by what Memory::encode() made; the bytes may come from anybody. Whose it is
    // must be known: puts and gets name the peer.
    Result<RemoteMemory> decode_memory(std::span<const std::byte> bytes);

    // --- what it can do ----------------------------------------------------------------------

    // The largest unexpected message, in bytes.
    std::size_t max_unexpected() const noexcept;
    // The largest expected one.
    std::size_t max_expected() const noexcept;
    // The largest tag.
    std::uint32_t max_tag() const noexcept;
    // How many segments one Memory may have.
    std::size_t max_segments() const noexcept;
    // Whether MultiOperation works.
    bool has_multi_receive() const noexcept;
    // "na" of "na+sm".
    std::string class_name() const;
    // "sm" of "na+sm".
    std::string protocol() const;
    // Whether it was opened by listen().
    bool listening() const noexcept;

 private:
    template <typename R>
    static constexpr std::size_t kElement = sizeof(std::ranges::range_value_t<R>);
    template <typename R>
    static constexpr bool stays() {
        constexpr bool plain = std::is_trivially_copyable_v<std::ranges::range_value_t<R>>;
        static_assert(plain, "na: peers can only be given memory of trivially copyable elements");
        constexpr bool lasts = std::ranges::borrowed_range<R>;
        static_assert(
            lasts,
            "na: the memory of a temporary would be gone at once: give it a name that lives on");
        return plain && lasts;
    }
    template <typename R>
    static constexpr bool writable() {
        constexpr bool good =
            !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;
        static_assert(
            good, "na: const elements can only be read: register_memory(range), without an access");
        return good;
    }

    static Result<Domain> start(std::string_view info, bool listen, const InitInfo& options);
    Result<Memory> register_bytes(const void* data, std::size_t size, Access access);

    detail::Ref<detail::DomainState> state_;
};

}  // namespace na::inline v1
