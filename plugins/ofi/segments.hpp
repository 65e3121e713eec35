// SPDX-License-Identifier: BSD-3-Clause
// Segments of shared memory: the provider keeps one per endpoint, a file under the endpoint's name,
// and leaves it when its process is killed.
//
// While an endpoint is open, its process holds a record lock on the file. The kernel gives that up
// with the process, however it ends, and tells others whose it is: so a name's owner can be found
// whatever the name says, and what nobody holds may be removed. A process id alone would not do: it
// may be another process by now, and means something else in another pid namespace.
//
// A segment has its lock a moment after its name. So whoever makes one, and whoever concludes from
// a missing lock, does that in the gate: a lock on the directory, shared for the first, exclusive
// for the second. Nobody waits long, a second at most: who finds it taken until then goes on, or
// concludes nothing.
//
// A process does not see its own locks, and loses them when it closes any descriptor of the file:
// the table of neighbours knows its endpoints, before they have a segment.
#pragma once

#include <chrono>
#include <string>

#include <sys/types.h>

#include "na/util/fd.hpp"

namespace na::ofi {

class SegmentGate {
 public:
    enum class As { maker, judge };
    // Waits that long for those who are in it, by the clock. Where the lock cannot be had for
    // another reason nothing is waited for.
    explicit SegmentGate(As as, std::chrono::milliseconds patience = {}) noexcept;
    ~SegmentGate();
    SegmentGate(const SegmentGate&) = delete;
    SegmentGate& operator=(const SegmentGate&) = delete;
    // Judges: nobody is making a segment. False: that cannot be told now.
    bool entered() const noexcept { return entered_; }

 private:
    util::UniqueFd directory_;
    bool entered_ = false;
};

// In the gate: who has the name already.
struct NameUse {
    enum class By {
        nobody,
        process,  // holds a segment of that name
        file,     // that is nobody's, and no segment
    };
    By by = By::nobody;
    pid_t process = 0;  // 0: in another pid namespace
};
NameUse use_of(const std::string& name) noexcept;
// Whether the name tells that we made it up: then nobody else makes it at the same time.
bool made_up(const std::string& name) noexcept;

// In the gate, after the segment was made. The lock goes with the descriptor. None: there is no
// such segment.
util::UniqueFd hold_segment(const std::string& name) noexcept;

// Gives the lock up before the descriptor is closed.
void release_segment(int held) noexcept;

// Puts the name of a segment back when it ends, although the provider removes it meanwhile: that of
// `held`, which is ours, if we leave it, as if its process had been killed then; or another one
// that has come under its name.
class SegmentKeeper {
 public:
    SegmentKeeper(const std::string& name, int held, bool leaves) noexcept;
    ~SegmentKeeper();
    SegmentKeeper(const SegmentKeeper&) = delete;
    SegmentKeeper& operator=(const SegmentKeeper&) = delete;

 private:
    std::string path_;
    std::string other_;  // its name meanwhile
};

struct SegmentOwner {
    enum class State {
        alive,
        dead,     // the segment is there, nobody holds it
        missing,  // no segment
        unknown,
    };
    State state = State::unknown;
    ino_t file = 0;  // alive, dead: which segment; another one after a restart under the same name
    pid_t process = 0;  // alive: the owner; 0: this process, or in another pid namespace
};
SegmentOwner segment_owner(std::string_view name) noexcept;

// Removes the segment `name`, unless somebody holds it, or it is none; waits for a second at most.
void remove_segment(const std::string& name) noexcept;
// Those of this user that were found dead so long ago, here or by another process, and whose names
// tell that they were made by processes which are no more, or by this one, or were mourned, if they
// are segments; names come from addresses, and may be of files of other programs. Earlier
// they may be in a greeting that somebody has not looked at yet, and libfabric crashes where such a
// name is nobody's. None, if the gate was shut for `patience`: somebody may be stopped in it.
inline constexpr std::chrono::milliseconds kMoment{10};
inline constexpr std::chrono::milliseconds kLastLook{1000};  // of who will not come again
inline constexpr std::chrono::milliseconds kMourning{10'000};
void remove_stale_segments(std::chrono::milliseconds patience = kMoment,
                           std::chrono::milliseconds mourning = kMourning) noexcept;
// The process that had the class `name` is no more: what is left of its contexts goes with others.
void mourn(const std::string& name) noexcept;

}  // namespace na::ofi
