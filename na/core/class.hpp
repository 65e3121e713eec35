// SPDX-License-Identifier: BSD-3-Clause
// An opened protocol: the object behind na_class_t. Owns the plugin's Domain, the address table and
// the message buffers. Any thread, unless InitInfo::single_class.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

#include "na/core/address.hpp"
#include "na/core/memory.hpp"
#include "na/core/op.hpp"
#include "na/plugin.hpp"
#include "na/util/lineage.hpp"
#include "na/util/standard_fds.hpp"

namespace na::inline impl {

class Context;

// A message buffer as NA_Msg_buf_alloc hands it out.
struct MessageBuffer {
    void* data = nullptr;
    std::size_t size = 0;
    bool mapped = false;                     // by itself, not from the heap
    std::unique_ptr<plugin::Region> region;  // where the plugin wants messages registered
};

class Class {
 public:
    // Opens `[class+]protocol[://host]`. Errors: invalid_arg (malformed), protonosupport (no such
    // class or protocol here; the message lists what there is), and whatever the plugin answers.
    static Result<std::unique_ptr<Class>> open(std::string_view info_string, bool listen,
                                               const InitInfo& info);
    ~Class();

    // In a child of fork(): nothing of it may be closed, or given back. What would be is left
    // behind.
    bool inherited() const noexcept { return lineage_.inherited(); }

    // Why the class cannot be closed yet (busy), or success: contexts, addresses and memory
    // descriptors are the user's to release first.
    Result<bool> closable() const;

    const plugin::Caps& caps() const noexcept { return caps_; }
    const InitInfo& info() const noexcept { return info_; }
    // Ids of contexts are below this: as many as were asked for, or a few, as programs open several
    // without having said so.
    std::uint8_t contexts() const noexcept { return std::max(info_.max_contexts, kContexts); }
    bool has_context(std::uint8_t id) const;
    const std::string& class_name() const noexcept { return class_name_; }
    // As it was asked for, which may be another name of Caps::protocol; addresses have that one.
    const std::string& protocol() const noexcept { return protocol_; }
    // Equal in classes that understand each other's descriptors of memory.
    const std::string& wire() const noexcept { return wire_; }
    bool listening() const noexcept { return listen_; }
    // Several threads may use the class. One per context is no less: each reaps addresses for all.
    bool threaded() const noexcept { return !info_.single_class; }
    std::size_t max_message(Lane lane) const noexcept {
        return caps_.max_message[static_cast<std::size_t>(lane)];
    }
    std::size_t headroom(Lane lane) const noexcept {
        return caps_.headroom[static_cast<std::size_t>(lane)];
    }

    // "[class+]protocol://address"; text up to the first '+' must name this class, or be missing.
    // Blanks around it are left away: names come from files, with the end of their line. Does not
    // contact the peer.
    Result<AddressRef> lookup(std::string_view name);
    Result<AddressRef> decode_address(std::span<const std::byte> bytes);
    AddressRef self() noexcept { return AddressRef::share(self_); }

    // Never null: throws std::bad_alloc. `multi`: for multi-receive. Destroy only when idle.
    Operation* create_op(bool multi);
    void destroy_op(Operation* op) noexcept;

    // Page-aligned, zeroed, registered if the plugin wants that. Null data: out of memory.
    // `lasting`: what is not touched takes no memory; for many buffers that stay, most of them used
    // in part only. What comes and goes is better off on the heap: the kernel takes long for a
    // page.
    enum class Use : bool { passing, lasting };
    MessageBuffer allocate_message(std::size_t size, Use use = Use::passing);
    void free_message(MessageBuffer&& buffer) noexcept;

    // Fastest memory of the transport for RMA, zeroed, page-aligned; never null: throws
    // std::bad_alloc.
    void* allocate_memory(std::size_t bytes);
    void free_memory(void* memory, std::size_t bytes) noexcept;
    // The same where a peer may still want to read it: plugin::Domain::retire().
    void retire_memory(void* memory, std::size_t bytes) noexcept;

    // Writes the counters of every context of the process to the log.
    static void dump_counters() noexcept;

    plugin::Domain& domain() noexcept { return *domain_; }
    AddressTable& addresses() noexcept { return addresses_; }

    // The contexts shall look in their next poll whether there is something to reap().
    void attend() noexcept;
    // Destroys addresses that nobody holds; called by contexts between polls. Cheap when there are
    // none.
    void reap() noexcept {
        if (addresses_.has_dead()) [[unlikely]] {
            reap_slow();
        }
    }

 private:
    static constexpr std::uint8_t kContexts = 8;

    bool free_plain(void* memory) noexcept;  // false: it is the plugin's
    friend class Context;
    friend class Memory;
    Class(std::unique_ptr<plugin::Domain> domain, std::string class_name, std::string protocol,
          bool listen, const InitInfo& info);
    Result<AddressRef> intern(std::unique_ptr<plugin::Peer> peer);
    Status enter(Context& context);  // exist: the id is taken
    void leave(Context& context) noexcept;
    void reap_slow() noexcept;

    std::unique_ptr<util::OccupiedStandardFds> standard_fds_;  // until all is closed
    std::unique_ptr<plugin::Domain> domain_;
    const plugin::Caps caps_;
    const InitInfo info_;
    const std::string class_name_;
    const std::string protocol_;
    const std::string wire_;
    const bool listen_;
    const util::Lineage lineage_;
    AddressTable addresses_;
    Address* self_ = nullptr;                 // one reference held
    std::atomic<std::uint32_t> memories_{0};  // Memory objects alive

    std::mutex plain_mutex_;
    std::unordered_set<void*>
        plain_;  // allocate_memory() that did not come from the plugin; guarded by plain_mutex_

    mutable std::mutex contexts_mutex_;
    std::array<Context*, 256> contexts_{};  // guarded by contexts_mutex_
};

}  // namespace na::inline impl
