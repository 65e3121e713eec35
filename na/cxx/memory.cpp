// SPDX-License-Identifier: BSD-3-Clause
#include "na/memory.hpp"

#include "na/cxx/state.hpp"

namespace na::inline v1 {
namespace detail {

void retain(BufferState& state) noexcept {
    state.count.add();
}
void release(BufferState& state) noexcept {
    if (state.count.drop()) {
        state.domain->cls->free_message(std::move(state.memory));
        delete &state;
    }
}

void retain(MemoryState& state) noexcept {
    state.count.add();
}
void release(MemoryState& state) noexcept {
    if (state.count.drop()) {
        state.memory.reset();  // the registration, before what it is of
        if (state.owned != nullptr) {
            state.domain->cls->free_memory(state.owned, state.owned_size);
        }
        delete &state;
    }
}

}  // namespace detail

std::vector<std::byte> Memory::encode() const {
    std::vector<std::byte> bytes(state_ ? state_->memory->encoded_size() : 0);
    if (!bytes.empty()) {
        check(state_->memory->encode(bytes), "encode a memory descriptor");
    }
    return bytes;
}

}  // namespace na::inline v1
