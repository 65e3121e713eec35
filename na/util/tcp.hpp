// SPDX-License-Identifier: BSD-3-Clause
// TCP connections that a library of this process made by itself, and tells nobody of.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "na/util/ip.hpp"

namespace na::util {

// The kernel asks once a second whether the other host lives, and whoever does answers, also where
// there is no room for what is sent.
void keep_asking(int fd) noexcept;
// Of one that is asked: its host has confirmed nothing for so long, and not answered several
// questions (probes, or what was sent again) since. Time alone says nothing: where the other side
// does not read, the questions are far apart.
bool silent(int fd, std::chrono::milliseconds least) noexcept;

// Sockets of this process that listen over IP. Reads /proc.
struct ListeningSocket {
    int fd;
    IpEndpoint at;
};
std::vector<ListeningSocket> listening_sockets();

// Has the sockets of this process that are `ours` closed by exec(): a helper program that is
// started would hold connections and ports of a library that does not do so itself. `ours` is asked
// about IP sockets without the mark, with their own end and their peer's (port 0: none). Reads
// /proc.
using IsOurs = std::function<bool(const IpEndpoint& own, const IpEndpoint& peer)>;
void close_on_exec(const IsOurs& ours) noexcept;

// Room for what has come and was not taken up yet: of whoever listens here, for the connections
// that are made to it from now on; and of our connections to a place. Where a library looks at the
// head of a message before it takes it (MSG_PEEK), the first bytes of a head stay in the socket
// until the others come, and with them the segment that they came in. On the loopback that may be
// larger than half of the usual room, 128 KiB: then the kernel (seen: 6.18) offers the other side
// nothing for what is left, and both sides wait for ever. By several threads at a time; read /proc.
void make_room_for_peers(const IpEndpoint& here) noexcept;
void make_room(const IpEndpoint& place) noexcept;

// What there is between us and somebody, but for `aside`, a descriptor. Reads /proc.
struct Ways {
    std::uint32_t to =
        0;              // of the connections to `place`: their own ports, mixed; 0: there is none
    bool from = false;  // one that somebody of its host made to `here`
};
Ways ways_to(const IpEndpoint& place, const IpEndpoint& here, int aside) noexcept;

// Shuts down the connections that were made to us and on which nothing has come yet, so that the
// library, which may have taken them up, learns it. `here`: where we listen. Answers how many.
// Reads /proc.
std::size_t hang_up_on_strangers(const IpEndpoint& here) noexcept;

// Ends connections with hosts that have vanished, so that the library learns it: TCP itself tries
// for 15 minutes, and the library has no call to close one. A connection is shut down when its host
// has confirmed nothing for `silence` and in kLooks looks, though it was asked each second
// (keepalive). One whose host answers loses nothing, however long its owner does not read.
class SilenceWatch {
 public:
    static constexpr std::int64_t kInterval = 1'000'000'000;  // ns, between looks

    explicit SilenceWatch(std::chrono::milliseconds silence = std::chrono::seconds(10)) noexcept
        : silence_(silence) {}
    // The connections with `there`, and those that somebody of its host made to us, are watched.
    // Times are nanoseconds of a clock that never goes back. Throws std::bad_alloc.
    void add(const IpEndpoint& there, std::int64_t now);
    // Whether it is time to look; then the next look is kInterval away. Further places postpone
    // nothing.
    bool due(std::int64_t now) noexcept;
    bool empty() const noexcept { return places_.empty(); }
    // `here`: where we listen. Answers how many connections were shut down. Reads
    // /proc.
    std::size_t look(const IpEndpoint& here) noexcept;
    // Nobody is watched any more, nor asked.
    void clear(const IpEndpoint& here) noexcept;

 private:
    template <typename Each>
    void each(const IpEndpoint& here, Each&& each) const noexcept;

    const std::chrono::milliseconds silence_;
    std::vector<IpEndpoint> places_;
    std::int64_t next_look_ = 0;
};

}  // namespace na::util
