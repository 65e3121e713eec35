// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ofi/receives.hpp"

#include <algorithm>
#include <new>

#include <rdma/fi_endpoint.h>

#include "na/session/clock.hpp"
#include "na/session/wire.hpp"
#include "na/util/log.hpp"

namespace na::ofi {
namespace {

constexpr std::size_t kBytes = std::size_t{4} << 20;  // per context
constexpr std::size_t kMultiBuffers = 4;
constexpr std::size_t kMinSingles = 16;
constexpr std::size_t kMaxSingles = 256;
constexpr std::size_t kStandIns = 16;  // come at a time
constexpr std::int64_t kDeaf = 1'000'000'000;

}  // namespace

Error Receives::open(fid_ep& endpoint, std::size_t largest) {
    endpoint_ = &endpoint;
    bytes_ = (std::max(largest, session::kMaxControl) + 63) / 64 * 64;
    std::size_t count = std::clamp(kBytes / bytes_, kMinSingles, kMaxSingles);
    if (multi_) {
        count = kMultiBuffers;
        bytes_ = std::max(kBytes / kMultiBuffers, bytes_ * 8);
    }
    if (Error error = add_block(count); !ok(error.status)) {
        return error;
    }
    count_ = starved_ = count;
    repost();
    return Error{Status::success, {}};
}

Error Receives::add_block(std::size_t count) {
    Block block;
    // Not zeroed: the pages are taken as they are used.
    block.memory.reset(new std::byte[count * bytes_]);
    auto mr = registrar_.local(block.memory.get(), count * bytes_, *endpoint_);
    if (!mr) {
        return std::move(mr).error();
    }
    block.registration = std::move(*mr);
    block.buffers = std::make_unique<ReceiveBuffer[]>(count);
    block.count = count;
    blocks_.reserve(blocks_.size() + 1);
    for (std::size_t i = 0; i < count; ++i) {
        ReceiveBuffer& b = block.buffers[i];
        b.what = Token::What::buffer;
        b.memory = block.memory.get() + i * bytes_;
        b.descriptor =
            block.registration == nullptr ? nullptr : fi_mr_desc(block.registration.get());
        if (!blocks_.empty()) {
            b.state = ReceiveBuffer::State::spare;
            spare_.push_back(b);
        }
    }
    blocks_.push_back(std::move(block));
    return Error{Status::success, {}};
}

void Receives::post(ReceiveBuffer& buffer) noexcept {
    iovec vector{buffer.memory, bytes_};
    fi_msg message{};
    message.msg_iov = &vector;
    message.desc = &buffer.descriptor;
    message.iov_count = 1;
    message.addr = FI_ADDR_UNSPEC;
    message.context = &buffer.provider;
    if (fi_recvmsg(endpoint_, &message, multi_ ? FI_MULTI_RECV : 0) != 0) {
        return;
    }
    --starved_;
    buffer.state = ReceiveBuffer::State::posted;
    if (!multi_) {
        posted_.push_back(buffer);
    }
}

bool Receives::repost() noexcept {
    for (; owed_ != 0; --owed_) {
        ReceiveBuffer* other = stand_in();
        if (other == nullptr) {
            break;
        }
        other->state = ReceiveBuffer::State::idle;
    }
    for (const Block& block : blocks_) {
        for (std::size_t i = 0; i < block.count && starved_ > owed_; ++i) {
            ReceiveBuffer& b = block.buffers[i];
            if (b.state == ReceiveBuffer::State::idle) {
                post(b);
                if (b.state == ReceiveBuffer::State::idle) {
                    complain_if_deaf();
                    return false;
                }
            }
        }
    }
    return starved_ == 0;
}

// Places of receives that the provider never gives back may be all that it has.
void Receives::complain_if_deaf() noexcept {
    const std::int64_t now = session::now_ns();
    if (multi_ || !posted_.empty()) {
        deaf_since_ = 0;
    } else if (deaf_since_ == 0) {
        deaf_since_ = now;
    } else if (now - deaf_since_ > kDeaf && !complained_) {
        complained_ = true;
        NA_LOG_ERROR(poll,
                     "libfabric has no room for receives left, so that no message arrives in this "
                     "context any more: connections that broke off in the middle of large messages "
                     "have taken it; close the class and open it again");
    }
}

void Receives::ended(ReceiveBuffer& buffer) noexcept {
    if (buffer.state == ReceiveBuffer::State::overtaken) {
        --overtaken_;
        buffer.state = ReceiveBuffer::State::spare;
        spare_.push_back(buffer);
        return;
    }
    if (!multi_) {
        overtake_until(buffer);
        Queue::remove(buffer);
    }
    buffer.state = ReceiveBuffer::State::idle;
    ++starved_;
    post(buffer);
}

void Receives::overtake_until(const ReceiveBuffer& buffer) noexcept {
    for (ReceiveBuffer* b = posted_.front(); b != &buffer && b != nullptr; b = posted_.front()) {
        Queue::remove(*b);
        b->state = ReceiveBuffer::State::overtaken;
        ++overtaken_;
        ++starved_;
        if (ReceiveBuffer* other = stand_in()) {
            other->state = ReceiveBuffer::State::idle;
            post(*other);
        } else {
            ++owed_;
        }
    }
}

// null: there is no memory, or strangers have taken as much as they may.
ReceiveBuffer* Receives::stand_in() noexcept {
    if (spare_.empty()) {
        if (!may_have_more()) {
            return nullptr;
        }
        try {
            if (const Error error = add_block(kStandIns); !ok(error.status)) {
                NA_LOG_WARNING(poll, "no buffer in place of one that the provider keeps: {}",
                               error.message);
                return nullptr;
            }
        } catch (const std::bad_alloc&) {
            return nullptr;
        }
    }
    ReceiveBuffer* other = spare_.front();
    Queue::remove(*other);
    return other;
}

}  // namespace na::ofi
