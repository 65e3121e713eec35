// SPDX-License-Identifier: BSD-3-Clause
// The handles of one context: made when needed, kept for the next use, gone with the context, so
// that a pointer to one stays readable and a double free is noticed. Any thread; never under an NA
// context's lock.
#pragma once

#include <cstdint>
#include <deque>

#include "hg/class.hpp"
#include "hg/handle.hpp"
#include "na/util/lock.hpp"

namespace hg {

class HandlePool {
 public:
    explicit HandlePool(Context& context);
    ~HandlePool();
    HandlePool(const HandlePool&) = delete;
    HandlePool& operator=(const HandlePool&) = delete;

    // Whether the user's hook for new handles is called.
    enum class Hook : bool { skip, call };
    // A handle with a kit of `port`, in stage free, without references. Null: the user's hook
    // refused it, with the code that goes to *refused, unless that is null. Throws std::bad_alloc.
    Handle* take(Port& port, Hook hook = Hook::call, na::Status* refused = nullptr);
    // The same of those that serve nothing but one-way requests (parts::Odd::mute), the one that
    // was given back longest ago; the hook sees each once. Null: it refused one.
    Handle* take_mute(Port& port);
    void give(Handle& handle) noexcept;
    // The same for one whose user may still try to respond, though he has no reference: it is not
    // used again for long.
    void set_aside(Handle& handle) noexcept;

    // The hook for handles that are taken from now on.
    void set_create(const Class::HandleCreate& create) noexcept;

    // How many are out, with a user, in the transport, or on their way back here.
    std::size_t used() noexcept;
    // Handles of this port whose request is answered, and that the program keeps all the same, are
    // noted as such until their end. Answers how many there are that were not yet.
    std::int32_t note_kept(const Port& port) noexcept;
    // For control paths: calls visit(Handle&) for each handle that exists when this begins, under
    // no lock. Allocates nothing: closing must work without memory.
    template <typename Visit>
    void for_each(Visit visit) {
        const std::size_t n = size();
        for (std::size_t i = 0; i < n; ++i) {
            visit(nth(i));
        }
    }
    // How many exist. They are never fewer later.
    std::size_t size() noexcept;

 private:
    Handle* make(Port& port);
    bool show(Handle& handle, const Class::HandleCreate& create, na::Status* refused);
    Handle& nth(std::size_t index) noexcept;  // index < size()
    bool lock_here() noexcept;
    void put(Handle& handle) noexcept;
    struct Queue {  // first in, first out
        Handle* oldest = nullptr;
        Handle* newest = nullptr;
        std::size_t count = 0;
        void push(Handle& handle) noexcept;
        Handle& pop() noexcept;
    };

    Context& context_;
    na::util::OptionalLock lock_;
    // Guarded by lock_.
    Class::HandleCreate create_;
    Handle* free_[bulk::kRails] = {};
    Queue mutes_[bulk::kRails];  // that are not out
    // Not used again before so many others. Of requests that were ended without their program,
    // which may be about to respond to them all: half of HG_REQUEST_LIMIT, or kLeastAside.
    static constexpr std::size_t kMutesAside = 64;
    static constexpr std::size_t kLeastAside = 1024;
    const std::size_t most_aside_;
    Queue aside_;
    std::deque<Handle> handles_;  // which never moves them
};

}  // namespace hg
