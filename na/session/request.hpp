// SPDX-License-Identifier: BSD-3-Clause
// What a transport's library works on, and the pool that it comes from.
//
// A request has a buffer of its own, into which a message is copied: so the operation is free of
// the library, can be canceled at once, and needs no registration of the user's memory. Transports
// derive from Request what else they need to know (of a put, say). Requests and buffers are made
// some at a time as they are needed, and kept: the data path allocates nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "na/plugin.hpp"
#include "na/util/intrusive_list.hpp"
#include "na/util/log.hpp"

namespace na::session {

struct Link;

// Outlives the operation where that has ended otherwise: then `op` is null; and the link: then
// `link` is null.
struct Request {
    Op* op = nullptr;             // a message's; null for what the transport does otherwise
    Link* link = nullptr;         // while the library has it: Engine::start()
    std::byte* bounce = nullptr;  // its buffer, of RequestPool::bounce_bytes()
    util::ListHook hook;          // of the link, or of the pool
};

// R: the transport's Request, with
//   - R::Registration: what a piece of memory has with the library; moved, and destroyed with the
//     pool
//   - void R::made(R::Registration&): its buffer lies in memory of that registration
template <typename R>
class RequestPool {
 public:
    // `most`: out at the same time; beyond them peers have their own (take()).
    explicit RequestPool(std::size_t bounce_bytes, std::size_t most = kMost) noexcept
        : bounce_bytes_(bounce_bytes), most_(most) {}

    std::size_t bounce_bytes() const noexcept { return bounce_bytes_; }

    // Null: none is left, or no memory. `enrol(std::byte* memory, std::size_t bytes)` registers
    // that of new ones and answers Result<R::Registration>. `theirs`: how many are out already for
    // the peer that this one is for. Peers that take nothing keep what was sent to them in here, as
    // far as `most` goes; the others shall go on nevertheless, so each may have kOwn beyond that.
    template <typename Enrol>
    R* take(Enrol&& enrol, std::size_t theirs = kOwn) noexcept {
        if (out_ >= most_ && theirs >= kOwn) [[unlikely]] {
            return nullptr;
        }
        if (free_.empty() && !grow(enrol)) [[unlikely]] {
            return nullptr;
        }
        ++out_;
        return static_cast<R*>(free_.pop_front());
    }
    // After take() has answered null: there was no memory, and none is out that could come back.
    bool barren() const noexcept { return out_ == 0; }
    void put_back(R& r) noexcept {
        --out_;
        free_.push_front(r);
    }

    static constexpr std::size_t kMost = 1024;
    static constexpr std::size_t kOwn = 4;

 private:
    static constexpr std::size_t kChunk = 32;

    struct Chunk {
        std::unique_ptr<R[]> requests;
        std::unique_ptr<std::byte[]> memory;
        typename R::Registration registration;
    };

    template <typename Enrol>
    bool grow(Enrol& enrol) noexcept {
        try {
            Chunk chunk;
            chunk.requests = std::make_unique<R[]>(kChunk);
            // Not zeroed: the pages are taken as they are used.
            chunk.memory.reset(new std::byte[kChunk * bounce_bytes_]);
            Result<typename R::Registration> registration =
                enrol(chunk.memory.get(), kChunk * bounce_bytes_);
            if (!registration) {
                NA_LOG_WARNING(mem, "{}", registration.error().message);
                return false;
            }
            chunk.registration = std::move(*registration);
            chunks_.push_back(std::move(chunk));
        } catch (const std::bad_alloc&) {
            return false;
        }
        Chunk& made = chunks_.back();
        for (std::size_t i = 0; i < kChunk; ++i) {
            R& r = made.requests[i];
            r.bounce = made.memory.get() + i * bounce_bytes_;
            r.made(made.registration);
            free_.push_back(r);
        }
        return true;
    }

    const std::size_t bounce_bytes_;
    const std::size_t most_;
    std::size_t out_ = 0;  // that callers have
    std::vector<Chunk> chunks_;
    util::IntrusiveList<Request, &Request::hook> free_;
};

}  // namespace na::session
