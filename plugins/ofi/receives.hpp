// SPDX-License-Identifier: BSD-3-Clause
// The buffers that messages come in.
//
// Threads: as their context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "na/result.hpp"
#include "na/util/intrusive_list.hpp"
#include "plugins/ofi/fabric.hpp"
#include "plugins/ofi/memory.hpp"

namespace na::ofi {

// What libfabric gets as context of an operation: the provider's own space first, then what it was.
struct Token {
    enum class What : std::uint8_t { buffer, request };
    fi_context2 provider{};
    What what = What::request;
};

struct ReceiveBuffer : Token {
    enum class State : std::uint8_t {
        idle,       // to be posted
        posted,     // the provider has it
        overtaken,  // likewise, but another one stands in for it
        spare,
    };
    std::byte* memory = nullptr;
    void* descriptor = nullptr;
    util::ListHook hook;  // of those that are posted, in that order, or spare; not with several
                          // messages in one
    State state = State::idle;
};

// Providers take receives in the order in which they were posted. When one has ended, those before
// it are taken, too, and end later, or never: rxm of libfabric 1.17 forgets a receive whose message
// comes in several steps when the connection breaks between them (as far as can be read), so that
// strangers could take one after the other. Each of those gets a stand-in.
class Receives {
 public:
    // `multi`: several messages go into one buffer.
    Receives(bool multi, const Registrar& registrar) : multi_(multi), registrar_(registrar) {}

    // Buffers for messages up to `largest` bytes, posted to `endpoint` as far as it takes them.
    // Errors: what registering says. Throws std::bad_alloc.
    Error open(fid_ep& endpoint, std::size_t largest);

    bool multi() const noexcept { return multi_; }
    // The provider has done with it, well or not. With several messages in one: only when it says
    // that it is used up.
    void ended(ReceiveBuffer& buffer) noexcept;
    // Posts what could not be posted. false: not all of it yet.
    bool repost() noexcept;
    // There is something to be posted, or may be soon.
    bool starved() const noexcept { return starved_ > owed_ || (owed_ != 0 && may_have_more()); }
    std::size_t overtaken() const noexcept { return overtaken_; }

 private:
    using Queue = util::IntrusiveList<ReceiveBuffer, &ReceiveBuffer::hook>;
    // Freed together.
    struct Block {
        std::unique_ptr<std::byte[]> memory;
        FabricMr registration;
        std::unique_ptr<ReceiveBuffer[]> buffers;
        std::size_t count = 0;
    };

    // Stand-ins for each buffer, at most: their pages are taken when something was written to them.
    static constexpr std::size_t kMostForEach = 16;

    Error add_block(std::size_t count);
    void post(ReceiveBuffer& buffer) noexcept;
    void overtake_until(const ReceiveBuffer& buffer) noexcept;
    ReceiveBuffer* stand_in() noexcept;
    void complain_if_deaf() noexcept;
    bool may_have_more() const noexcept { return overtaken_ <= kMostForEach * count_; }

    const bool multi_;
    const Registrar& registrar_;
    fid_ep* endpoint_ = nullptr;
    std::size_t bytes_ = 0;        // of each
    std::size_t count_ = 0;        // of those that are to be posted
    std::size_t starved_ = 0;      // of them are not
    std::size_t overtaken_ = 0;    // besides
    std::size_t owed_ = 0;         // stand-ins that there was no memory for
    std::int64_t deaf_since_ = 0;  // ns; 0: the provider has a receive
    bool complained_ = false;
    Queue posted_;
    Queue spare_;
    std::vector<Block> blocks_;
};

}  // namespace na::ofi
