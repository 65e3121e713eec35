// SPDX-License-Identifier: BSD-3-Clause
// An opened RPC class, the object behind hg_class_t: the transports, the registered RPCs, and the
// options. Any thread, unless the user promised a single one.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "bulk/bulk.hpp"
#include "hg/address.hpp"
#include "hg/counters.hpp"
#include "hg/registry.hpp"
#include "na/core/class.hpp"

namespace hg {

class Context;
class Handle;

enum class ChecksumLevel : std::uint8_t { none, headers, payload };

// hg_init_info with the defaults filled in.
struct Options {
    na::InitInfo na;
    na::Class* external = nullptr;  // use this transport, which stays its owner's
    std::uint32_t post_init = 512;  // receives that a listening context may have posted
    std::int32_t post_incr = 512;   // how many more when all are taken; negative: none
    bool auto_sm = false;
    std::string sm_name;
    ChecksumLevel checksum = ChecksumLevel::none;
    bool bulk_eager = true;
    bool loopback = true;
    bool stats = false;
    bool release_input_early = false;
    bool overflow = true;
    // 0: from the environment.
    std::uint64_t overflow_limit = 0;  // HG_OVERFLOW_LIMIT: bytes a peer may announce
    std::uint64_t overflow_total =
        0;                            // HG_OVERFLOW_TOTAL: of all that peers announced to a context
    std::uint64_t unacked_limit = 0;  // HG_UNACKED_LIMIT: bytes of responses not acknowledged
    std::uint32_t request_limit =
        0;  // HG_REQUEST_LIMIT: requests of a context at a time, post_init at least
    std::uint64_t stall_timeout = 0;  // HG_STALL_TIMEOUT, ms; always from the environment
    // HG_COALESCE: whether small messages to one destination leave together.
    enum class Coalesce : std::uint8_t { never, where_it_pays, always, as_environment };
    Coalesce coalesce = Coalesce::as_environment;
    std::size_t coalesce_limit = 0;  // HG_COALESCE_LIMIT: bytes of such a message
};

class Class {
 public:
    // `info_string` is not looked at with Options::external. Errors as na::Class::open.
    static na::Result<std::unique_ptr<Class>> open(std::string_view info_string, bool listen,
                                                   Options options);
    ~Class();
    Class(const Class&) = delete;
    Class& operator=(const Class&) = delete;

    // Why the class cannot be closed yet (busy: contexts, addresses, bulk descriptors), or success.
    na::Result<bool> closable() const;

    const Options& options() const noexcept { return options_; }
    bool listening() const noexcept { return listen_; }
    bool threaded() const noexcept { return threaded_; }
    na::Class& net() const noexcept { return *net_; }
    // As na::Class::inherited().
    bool inherited() const noexcept { return net_->inherited(); }
    na::Class* sm() const noexcept { return sm_.get(); }  // null: no auto_sm
    Registry& registry() noexcept { return registry_; }
    // Where bulk descriptors of this class live; its owner() is this class. closable() counts them.
    bulk::Space& space() noexcept { return space_; }

    // Resolves what Address::uri() of any class wrote, with or without auto_sm on either side.
    na::Result<AddressRef> lookup(std::string_view name);
    AddressRef self();
    // Inverse of Address::encode. Untrusted input; bytes behind the address are ignored.
    na::Result<AddressRef> decode_address(std::span<const std::byte> bytes);

    // Bytes of arguments (results) that fit into one message, the user's offset included.
    std::size_t eager_size(na::Lane lane) const noexcept;
    // Bytes of a message up to which contents go with bulk descriptors. What is larger is read when
    // it is pulled, and programs rely on it: Mercury's messages are of 4 KiB where they do not ask
    // for others.
    std::size_t contents_within() const noexcept;
    std::size_t offset(na::Lane lane) const noexcept {
        return offset_[static_cast<std::size_t>(lane)];
    }
    na::Status set_offset(na::Lane lane, std::size_t bytes);

    // wire:: flags of what is sent.
    std::uint8_t checksum_flags() const noexcept { return checksum_flags_; }

    // Called for each handle that contexts, those there are included, create from now on.
    using HandleHook = na::Status (*)(Handle& handle, void (*user)(), void* arg);
    struct HandleCreate {
        HandleHook hook = nullptr;
        void (*user)() = nullptr;
        void* arg = nullptr;
    };
    void set_handle_create(const HandleCreate& create);
    HandleCreate handle_create() const;

    // Called for messages that announce more than their payload and arrive from now on;
    // see HG_Core_set_more_data_callback. `done` is Handle::more_done of the handle.
    struct MoreData {
        na::Status (*acquire)(Handle& handle, bool input, void (*user)()) = nullptr;
        void (*release)(Handle& handle, void (*user)()) = nullptr;
        void (*user_acquire)() = nullptr;
        void (*user_release)() = nullptr;
    };
    void set_more_data(const MoreData& more);
    MoreData more_data() const;

    struct UserData {
        void* data = nullptr;
        void (*release)(void*) = nullptr;
    };
    UserData user;  // the shells' business; released at close

    // Sum over all contexts, the closed ones included.
    Counters::Values counters() const noexcept;
    // Level info, outlet diag.
    void log_counters() const noexcept;
    static void log_all_counters() noexcept;

 private:
    friend class Address;
    friend class Context;
    friend class Loopback;
    Class(std::unique_ptr<na::Class> owned, na::Class& net, std::unique_ptr<na::Class> sm,
          bool listen, Options options);

    bool has_context(std::uint8_t id) const;
    na::Status enter(Context& context);  // busy: the id is taken
    void leave(Context& context) noexcept;

    const Options options_;
    const bool listen_;
    const bool threaded_;
    const std::uint8_t checksum_flags_;
    std::unique_ptr<na::Class> owned_;  // null with Options::external
    na::Class* const net_;
    std::unique_ptr<na::Class> sm_;
    bulk::Space space_;
    Registry registry_;
    std::size_t offset_[na::kLanes] = {0, 0};
    std::atomic<std::int64_t> addresses_{0};  // held by somebody
    std::mutex address_mutex_;                // guards the next two
    std::vector<std::unique_ptr<Address>> all_addresses_;
    Address* free_addresses_ = nullptr;

    mutable std::mutex mutex_;  // guards what follows
    std::array<Context*, 256> contexts_{};
    std::uint32_t context_count_ = 0;
    HandleCreate handle_create_;
    mutable std::mutex more_data_mutex_;  // taken last, inside progress too
    MoreData more_data_;
    Counters::Values closed_;  // counters of closed contexts
};

}  // namespace hg
