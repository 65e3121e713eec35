// SPDX-License-Identifier: BSD-3-Clause
// What travels over the socket of a connection, and how descriptors and credentials are carried and
// checked.
//
// The socket is an abstract SOCK_SEQPACKET one, so that messages keep their bounds and nothing lies
// in the file system. Nothing here blocks. The connecting side sends Hello with its descriptors and
// may use the rings at once; the accepting side answers with Answer and its own. Afterwards the
// socket carries knocks (one byte: "look at the ring"), requests for the memory of the peer's
// allocator, and, by its hang-up, the notice that the peer is gone.
//
// Called by Context and Domain; no state, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "na/plugin.hpp"
#include "plugins/sm/address.hpp"
#include "plugins/sm/layout.hpp"
#include "plugins/sm/shared_memory.hpp"

namespace na::sm {

enum class Control : std::uint32_t {
    hello = 1,
    answer,
    map,      // asks for the memory of an allocation
    mapping,  // the reply, with its descriptor if status is success
    unmap,    // the allocation is gone
    bye,      // the sender does not use this connection any more
};

inline constexpr std::uint64_t kHelloMagic = 0x31307261'626e6963;

// Where the peer can read 8 bytes by cross-memory attach, and what it must find there.
struct Nonce {
    std::uint64_t address;
    std::uint64_t value;
};

// Whether that number lies there in the memory of the process. A system call. In rma_attach.cpp.
bool shows(pid_t process, const Nonce& nonce) noexcept;

struct Hello {
    Control control;
    std::uint32_t version;
    std::uint64_t magic;
    Geometry geometry;
    Nonce nonce;
    std::uint64_t max_message[kLanes];
    std::uint32_t bit;  // of the connection in the sender's ready map
    std::uint8_t context;
    std::uint8_t target_context;
    std::uint16_t name_length;
    char name[kMaxName];
};
// Descriptors of a Hello: region, status page, ready map, permits; of an Answer: status page, ready
// map, permits.
inline constexpr std::size_t kHelloFds = 4;
inline constexpr std::size_t kAnswerFds = 3;

enum class Verdict : std::uint32_t {
    accepted,
    version,   // the two libraries do not fit
    identity,  // the name is not the sender's to use
    limit,     // no room for a further peer
    malformed,
    user,        // the endpoint does not admit this user
    files,       // the endpoint has no descriptor left for a further peer
    namespaces,  // the two processes live in different pid namespaces
};
const char* to_string(Verdict verdict) noexcept;
// How operations towards a peer end that answered so. Never hostunreach: the peer is alive.
Status status_of(Verdict verdict) noexcept;
// The same with the text. Throws std::bad_alloc.
Error refusal(Verdict verdict);

struct Answer {
    Control control;
    std::uint32_t version;
    std::uint64_t magic;
    Verdict verdict;
    std::uint32_t bit;
    Nonce nonce;
    std::uint64_t max_message[kLanes];
};

// Requests for memory of one side that are not answered yet. The answers of all of them find room
// in a socket that has nothing else to carry; more are a violation of the protocol where they do
// not.
inline constexpr std::uint32_t kMapRequests = 32;

struct MapMessage {
    Control control;
    std::uint32_t writable;
    std::uint64_t allocation;
    std::uint64_t key;    // map: of a region in it, which proves that the asker may know it
    std::uint64_t bytes;  // mapping
    std::uint64_t ok;     // mapping: 1 with a descriptor, 0 without
};

struct ByeMessage {
    Control control;
};

struct Credentials {
    pid_t pid = 0;
    uid_t uid = 0;
};

// A listening (or, with backlog 0, only bound) non-blocking socket.
Result<UniqueFd> bind_socket(const SocketName& name, int backlog);

enum class Connected { yes, refused, busy, failed };
struct ConnectResult {
    Connected how = Connected::failed;
    UniqueFd socket;
    Credentials peer;  // of the process that listens
    int error = 0;
};
// refused: nobody listens there; busy: its backlog is full.
ConnectResult connect_socket(const SocketName& name) noexcept;

// Of the process at the other end, as the kernel knows it; zeros if it does not.
Credentials credentials_of(int socket) noexcept;

// 0, or an errno value. EAGAIN: try later.
int send_message(int socket, const void* message, std::size_t bytes,
                 std::span<const int> fds = {}) noexcept;

// What send_message() answers when it may work later: a full socket, no memory, or too many
// descriptors on their way for this user.
bool is_shortage(int error) noexcept;

inline constexpr std::size_t kMaxFds = 4;

struct Received {
    enum class What { message, nothing, hang_up };
    What what = What::nothing;
    std::size_t bytes = 0;
    bool truncated = false;  // longer than the buffer, or descriptors were lost
    std::array<UniqueFd, kMaxFds> fds;
    std::size_t fd_count = 0;

    // The message as a T, if it has exactly that size.
    template <typename T>
    bool get(T& out) const noexcept {
        if (truncated || bytes != sizeof(T)) {
            return false;
        }
        std::memcpy(&out, buffer, sizeof(T));
        return true;
    }
    Control control() const noexcept {
        Control c{};
        if (bytes >= sizeof c) {
            std::memcpy(&c, buffer, sizeof c);
        }
        return c;
    }
    alignas(8) std::byte buffer[sizeof(Hello) + 8];
};
void receive_message(int socket, Received& into) noexcept;

// Success, or invalid: what is wrong with a Hello, for the log.
Verdict check(const Hello& hello, const char*& why) noexcept;

}  // namespace na::sm
