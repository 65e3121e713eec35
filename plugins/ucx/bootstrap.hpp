// SPDX-License-Identifier: BSD-3-Clause
// How contexts find each other: a TCP port per context, whose number is the context's address. It
// tells everybody who connects where UCX receives (wire.hpp, Frame), and reads nothing from
// anybody. A process that is short of descriptors says so instead: what follows would cost it some.
//
// UCX's own listeners are not used: those of 1.13.1 crash when they close during a handshake, know
// no shared memory, and leave processes without a listener without an address.
//
// Both sides never wait. They live in a Context, whose calls are serialised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "na/session/engine.hpp"
#include "na/util/fd.hpp"
#include "na/util/ip.hpp"
#include "plugins/ucx/wire.hpp"
#include "plugins/ucx/worker.hpp"

namespace na::ucx {

// A listening port. Connections wait in the kernel until a Door answers them.
struct BootstrapPort {
    util::UniqueFd fd;
    std::uint16_t port = 0;
};
// Errors: addrinuse, and the system's.
Result<BootstrapPort> listen_at(const util::IpAddress& address, std::uint16_t port);

// Equal in processes where process ids mean the same; 0: not to be found out.
std::uint64_t this_machine() noexcept;
// Equal in processes that can attach each other's shared memory: one kernel, one user, the same
// name spaces and the same /dev/shm; 0: not to be found out.
std::uint64_t this_reach() noexcept;

// Answers who connects.
class Door final : public session::Watcher {
 public:
    // Decides about each newcomer; called by ready(). The address may be set meanwhile.
    class Porter {
     public:
        virtual Frame::Refusal admit() noexcept = 0;

     protected:
        ~Porter() = default;
    };

    Door(BootstrapPort port, Porter& porter);

    // What newcomers are told from now on. Throws std::bad_alloc; then nothing has changed.
    void tell(const Addresses& addresses);
    int fd() const noexcept { return port_.fd.get(); }
    void ready(std::uint32_t events) override;
    std::uint64_t answered() const noexcept { return answered_; }
    std::uint64_t refused() const noexcept { return refused_; }

 private:
    bool answer_one() noexcept;
    void answer(int fd, Frame::Refusal refusal) noexcept;

    const BootstrapPort port_;
    Porter& porter_;
    std::string frame_;
    util::UniqueFd reserve_;  // given up for a moment where descriptors run out
    std::uint64_t answered_ = 0;
    std::uint64_t refused_ = 0;
};

// One attempt to get the frame of a peer's port.
class Dial {
 public:
    enum class State : std::uint8_t {
        waiting,
        done,    // frame() and address() are there
        soon,    // somebody lives there, and wants to be asked again
        full,    // somebody lives there, and has no descriptor for another peer
        apart,   // somebody lives there, out of reach, and knows shared memory only
        gone,    // nobody lives there
        wrong,   // somebody lives there, and is not one of us
        failed,  // trouble of our own: worth another try
    };

    // Begins it. `to`: a sockaddr.
    explicit Dial(const std::string& to);

    int fd() const noexcept { return fd_.get(); }
    // Goes on with it.
    State go_on() noexcept;
    State state() const noexcept { return state_; }
    // errno's number; gone, failed.
    int error() const noexcept { return error_; }
    const Frame& frame() const noexcept { return frame_; }
    // Followed by zeros that are as many as an address may have bytes: UCX takes addresses without
    // their length, and reads on where they are malformed.
    const std::byte* address() const noexcept {
        return bytes_.data() + Frame::kSize + (far() ? 0 : frame_.far_size);
    }

 private:
    State end(State state, int error) noexcept;
    State choose() noexcept;
    bool far() const noexcept;

    util::UniqueFd fd_;
    Frame frame_;
    std::vector<std::byte> bytes_;
    std::size_t got_ = 0;
    bool known_ = false;  // frame_ is there
    State state_ = State::waiting;
    int error_ = 0;
};

}  // namespace na::ucx
