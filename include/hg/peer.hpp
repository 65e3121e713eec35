// SPDX-License-Identifier: BSD-3-Clause
// Whom to call: a process that has an engine, or had one.
#pragma once

#include "na/detail/standard.hpp"

#include <string>
#include <utility>

#include "hg/detail/core.hpp"

namespace hg {

// Made by Engine::connect() and Request::peer(). A value: copies name the same peer. It may outlive
// its engine; calls to it fail with Status::canceled then. Any thread. The connection goes with the
// last copy.
class Peer {
 public:
    Peer() noexcept = default;  // nobody: calls fail with Status::invalid_arg
    Peer(const Peer& other) noexcept : core_(other.core_) {
        if (core_ != nullptr) {
            detail::ref(core_);
        }
    }
    Peer(Peer&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
    Peer& operator=(Peer other) noexcept {
        std::swap(core_, other.core_);
        return *this;
    }
    ~Peer() {
        if (core_ != nullptr) {
            detail::unref(core_);
        }
    }

    // What connect() of another process understands; empty for nobody. May throw std::bad_alloc.
    std::string uri() const;
    explicit operator bool() const noexcept { return core_ != nullptr; }
    // The same process, as far as the transport can tell.
    friend bool operator==(const Peer& a, const Peer& b) noexcept { return same(a, b); }

    // For the library's headers; a reference goes with adopt().
    static Peer adopt(detail::PeerCore* core) noexcept {
        Peer p;
        p.core_ = core;
        return p;
    }
    detail::PeerCore* core() const noexcept { return core_; }

 private:
    static bool same(const Peer& a, const Peer& b) noexcept;

    detail::PeerCore* core_ = nullptr;
};

}  // namespace hg
