// SPDX-License-Identifier: BSD-3-Clause
#include "na/domain.hpp"

#include <algorithm>
#include <new>

#include <fmt/format.h>

#include "na/cxx/state.hpp"

namespace na::inline v1 {

using detail::Peer;
using detail::Ref;

namespace detail {

void retain(DomainState& state) noexcept {
    state.count.add();
}
void release(DomainState& state) noexcept {
    if (state.count.drop() && !state.cls->inherited()) {
        delete &state;
    }
}

}  // namespace detail

namespace {

Error none(const char* what) {
    return Error{Status::invalid_arg,
                 fmt::format("{}: there is no domain (moved from, or closed)", what)};
}
// (No text: there may be no memory for it.)
Error no_memory() {
    return Error{Status::nomem, {}};
}

}  // namespace

Result<Domain> Domain::listen(std::string_view info, const InitInfo& options) {
    return start(info, true, options);
}
Result<Domain> Domain::open(std::string_view info, const InitInfo& options) {
    return start(info, false, options);
}

Result<Domain> Domain::start(std::string_view info, bool listen, const InitInfo& options) try {
    auto cls = impl::Class::open(info, listen, options);
    if (!cls) {
        return Error{cls.status(),
                     fmt::format("cannot open \"{}\": {}", info, cls.error().message)};
    }
    Domain domain;
    domain.state_ = Ref<detail::DomainState>::adopt(new detail::DomainState(std::move(*cls)));
    return domain;
} catch (const std::bad_alloc&) {
    return no_memory();
}

Result<void> Domain::close() {
    if (!state_) {
        return {};
    }
    if (state_->cls->inherited()) {
        state_.leave();
        return {};
    }
    if (const auto can = state_->cls->closable(); !can) {
        return can.error();
    }
    if (const std::uint32_t n = state_->count.get(); n != 1) {
        return Error{
            Status::busy,
            fmt::format("{} buffers, operations or copies of our own address still exist", n - 1)};
    }
    state_.reset();
    return {};
}

Result<Context> Domain::open_context(std::uint8_t id) try {
    if (!state_) {
        return none("open_context");
    }
    auto core = impl::Context::open(*state_->cls, id);
    if (!core) {
        return Error{core.status(),
                     fmt::format("cannot open context {}: {}", id, core.error().message)};
    }
    Context context;
    context.state_ = Ref<detail::ContextState>::adopt(new detail::ContextState(*state_));
    context.state_->core = std::move(*core);
    context.state_->id = id;
    return context;
} catch (const std::bad_alloc&) {
    return no_memory();
}

Result<Address> Domain::lookup(std::string_view uri) try {
    if (!state_) {
        return none("lookup");
    }
    auto address = state_->cls->lookup(uri);
    if (!address) {
        return Error{address.status(),
                     fmt::format("cannot look up \"{}\": {}", uri, address.error().message)};
    }
    return Peer::adopt(address->release(), *state_);
} catch (const std::bad_alloc&) {
    return no_memory();
}

Result<Address> Domain::decode_address(std::span<const std::byte> bytes) try {
    if (!state_) {
        return none("decode_address");
    }
    auto address = state_->cls->decode_address(bytes);
    if (!address) {
        return std::move(address).error();
    }
    return Peer::adopt(address->release(), *state_);
} catch (const std::bad_alloc&) {
    return no_memory();
}

Address Domain::self() const {
    return state_ ? Peer::adopt(state_->cls->self().release(), *state_) : Address();
}

Result<Buffer> Domain::make_buffer(std::size_t size) try {
    if (!state_) {
        return none("make_buffer");
    }
    if (size == 0) {
        size = std::max(max_unexpected(), max_expected());
    }
    const std::size_t header =
        std::max(state_->headroom(Lane::unexpected), state_->headroom(Lane::expected));
    if (size > SIZE_MAX - header) {
        return Error{Status::nomem, fmt::format("no memory for a buffer of {} bytes", size)};
    }
    Buffer buffer;
    buffer.state_ = Ref<detail::BufferState>::adopt(new detail::BufferState(*state_));
    detail::BufferState& state = *buffer.state_;
    state.memory = state_->cls->allocate_message(header + size);
    if (state.memory.data == nullptr) {
        return Error{Status::nomem, fmt::format("no memory for a buffer of {} bytes", size)};
    }
    state.payload = static_cast<std::byte*>(state.memory.data) + header;
    state.room = size;
    buffer.bytes_ = {state.payload, size};
    return buffer;
} catch (const std::bad_alloc&) {
    return no_memory();
}

Result<Memory> Domain::register_bytes(const void* data, std::size_t size, Access access) {
    // The core writes to it only where the access says so.
    const Segment segment{const_cast<void*>(data), size};
    return register_segments({&segment, 1}, access);
}

Result<Memory> Domain::register_segments(std::span<const Segment> segments, Access access,
                                         MemoryKind kind, std::uint64_t device) try {
    if (!state_) {
        return none("register_segments");
    }
    auto core = impl::Memory::create(*state_->cls, segments, access);
    if (!core) {
        return std::move(core).error();
    }
    // Now, and not at the first transfer, which would fail without a cause.
    if (auto region = (*core)->register_memory(kind, device); !region) {
        return Error{region.status(), fmt::format("cannot register {} bytes: {}", (*core)->length(),
                                                  region.error().message)};
    }
    Memory memory;
    memory.state_ = Ref<detail::MemoryState>::adopt(new detail::MemoryState(*state_));
    memory.state_->memory = std::move(*core);
    memory.size_ = memory.state_->memory->length();
    memory.access_ = access;
    return memory;
} catch (const std::bad_alloc&) {
    return no_memory();
}

Result<Memory> Domain::allocate(std::size_t bytes, Access access) try {
    if (!state_) {
        return none("allocate");
    }
    if (bytes == 0) {
        return Error{Status::invalid_arg, "0 bytes"};
    }
    // Held by a Memory from the start, so that nothing is lost where registering fails.
    auto state = Ref<detail::MemoryState>::adopt(new detail::MemoryState(*state_));
    state->owned = state_->cls->allocate_memory(bytes);
    state->owned_size = bytes;
    auto memory = register_bytes(state->owned, bytes, access);
    if (!memory) {
        return std::move(memory).error();
    }
    state->memory = std::move(memory->state_->memory);
    memory->state_ = std::move(state);
    memory->owned_ = {static_cast<std::byte*>(memory->state_->owned), bytes};
    return memory;
} catch (const std::bad_alloc&) {
    return no_memory();
}

Result<RemoteMemory> Domain::decode_memory(std::span<const std::byte> bytes) try {
    if (!state_) {
        return none("decode_memory");
    }
    auto core = impl::Memory::decode(*state_->cls, bytes);
    if (!core) {
        return std::move(core).error();
    }
    RemoteMemory memory;
    memory.state_ = Ref<detail::MemoryState>::adopt(new detail::MemoryState(*state_));
    memory.state_->memory = std::move(*core);
    memory.size_ = memory.state_->memory->length();
    memory.access_ = memory.state_->memory->access();
    return memory;
} catch (const std::bad_alloc&) {
    return no_memory();
}

std::size_t Domain::max_unexpected() const noexcept {
    return state_ ? state_->cls->max_message(Lane::unexpected) - state_->headroom(Lane::unexpected)
                  : 0;
}
std::size_t Domain::max_expected() const noexcept {
    return state_ ? state_->cls->max_message(Lane::expected) - state_->headroom(Lane::expected) : 0;
}
std::uint32_t Domain::max_tag() const noexcept {
    return state_ ? state_->cls->caps().max_tag : 0;
}
std::size_t Domain::max_segments() const noexcept {
    return state_ ? state_->cls->caps().max_segments : 0;
}
bool Domain::has_multi_receive() const noexcept {
    return state_ && (state_->cls->caps().multi_recv || !state_->cls->caps().matches[0]);
}
std::string Domain::class_name() const {
    return state_ ? state_->cls->class_name() : std::string();
}
std::string Domain::protocol() const {
    return state_ ? state_->cls->protocol() : std::string();
}
bool Domain::listening() const noexcept {
    return state_ && state_->cls->listening();
}

}  // namespace na::inline v1
