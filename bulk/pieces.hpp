// SPDX-License-Identifier: BSD-3-Clause
// The RMA operations of an engine, one pool per rail. Not for users of bulk/transfer.hpp.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "bulk/transfer.hpp"

namespace bulk {

// One operation; with a transfer from take() to the end of that transfer.
struct Transfer::Piece {
    na::Operation* op = nullptr;
    Transfer* transfer = nullptr;
    std::uint32_t bit = 0;  // in Transfer::idle_
    Piece* next = nullptr;  // in the pool
};

// Guarded by the engine's lock.
class Engine::Pieces {
 public:
    Pieces(na::Class& cls, na::Operation::Handler handler) noexcept
        : cls_(cls), handler_(handler) {}
    Pieces(const Pieces&) = delete;
    Pieces& operator=(const Pieces&) = delete;
    ~Pieces() {
        for (const auto& piece : all_) {
            cls_.destroy_op(piece->op);
        }
    }

    // Null: out of memory. Makes one where none is free, with the lock released meanwhile.
    Transfer::Piece* take(std::unique_lock<na::util::OptionalLock>& guard) noexcept;
    void give(Transfer::Piece& piece) noexcept {
        piece.transfer = nullptr;
        piece.next = free_;
        free_ = &piece;
    }

 private:
    na::Class& cls_;
    const na::Operation::Handler handler_;
    std::vector<std::unique_ptr<Transfer::Piece>> all_;
    Transfer::Piece* free_ = nullptr;
};

}  // namespace bulk
