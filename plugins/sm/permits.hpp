// SPDX-License-Identifier: BSD-3-Clause
// Permits: what peers may reach of this domain's memory without this process taking part, by
// cross-memory attach or by a mapping of the library's allocations.
//
// The owner keeps one table in memory that peers map for reading. A registration takes a permit
// when its descriptor is first encoded; the descriptor names the permit. A peer looks the
// descriptor up before it touches the owner's memory, so that a descriptor that was changed, made
// up, or outlived its registration reaches nothing.
//
// The seal of a permit is a hash of the registration's key: the table does not tell keys.
//
// Deregistration waits for peers that are at work. Each connection has a word in which the peer
// names the permit that it uses (its hazard). Two exchanges of the form "store mine, fence, load
// yours" make sure that one side sees the other:
//
//   peer   store hazard, fence, load seal        owner   store seal = 0, fence, load hazards
//   peer   store hazard, fence, load barred      owner   store barred = 1, fence, load hazard
//
// A peer that finds the seal touches memory that stays registered until the peer has cleared its
// hazard. A peer that clears its hazard does so after its last access (release), and the owner
// loads it before the memory goes (acquire). Entries of a permit do not change while a hazard names
// it, hence they need no order of their own.
//
// A peer may write anything into its hazard. Deregistration waits kPatience at most, for all peers
// together. A peer that is late loses its connection, and its process loses direct access.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "na/plugin.hpp"
#include "plugins/sm/layout.hpp"
#include "plugins/sm/rendezvous.hpp"
#include "plugins/sm/shared_memory.hpp"

namespace na::sm {

class Region;

// What the table shows of a key.
std::uint64_t seal_of(std::uint64_t key) noexcept;

// A process, told apart from a later one with the same number.
struct ProcessId {
    pid_t pid = 0;
    std::uint64_t start = 0;  // clock ticks since the boot; 0: it has ended; kUnknown
    static constexpr std::uint64_t kUnknown = 1;
    bool operator==(const ProcessId&) const = default;
};
// The process that has this number now. Its start is kUnknown where /proc does not tell.
ProcessId find_process(pid_t pid) noexcept;

// A peer that may use permits: one connection. Owned by PermitTable.
struct PermitUser {
    const std::atomic<std::uint32_t>* hazard;  // written by the peer
    std::atomic<std::uint32_t>* barred;        // written here
    pid_t pid;
    std::uint64_t joined;   // clock ticks since the boot: a process that began later is another one
    int socket;             // -1: the connection has ended, with the peer at work
    Mapping kept;           // where the words lie, if the connection has ended
    bool given_up = false;  // its process was late: its hazard counts for nothing
};

// The owner's side. Any thread.
class PermitTable {
 public:
    PermitTable() = default;
    PermitTable(const PermitTable&) = delete;
    PermitTable& operator=(const PermitTable&) = delete;

    Status open(Error& error);
    int fd() const noexcept { return memory_.fd.get(); }

    // A permit for the region; 0: the table is full, and peers have to ask the owner for each
    // access.
    std::uint32_t grant(const Region& region, Access access) noexcept;
    // After this no peer touches the region's memory. Waits for those that do.
    void withdraw(std::uint32_t permit) noexcept;

    // A connection begins. The words and the socket stay until leave(). Throws std::bad_alloc.
    PermitUser& join(const Credentials& process, int socket,
                     const std::atomic<std::uint32_t>& hazard, std::atomic<std::uint32_t>& barred);
    // A connection ends. `region` is where its words lie; it is kept while the peer is at work.
    void leave(PermitUser& user, Mapping& region) noexcept;

    // Peers that were late, so far.
    std::uint64_t late() const noexcept { return late_.load(std::memory_order_relaxed); }

    static constexpr std::int64_t kPatience = 2'000'000'000;  // ns

 private:
    static constexpr std::uint32_t kChunk = 256;  // entries for which memory is taken at a time
    static constexpr std::size_t kMostBanned = 64;
    // Ended connections of one process that are waited for. A correct peer has one per context.
    static constexpr std::ptrdiff_t kMostKept = 8;

    PermitEntry* entries() const noexcept { return memory_.mapping.at<PermitEntry>(0); }
    bool reserve(std::size_t count) noexcept;
    bool in_use(std::uint32_t permit, bool look_at_processes) noexcept;
    void evict(std::uint32_t permit) noexcept;
    void ban(pid_t pid) noexcept;
    bool banned(pid_t pid) const noexcept;

    SharedMemory memory_;
    std::mutex mutex_;  // of the entries
    std::uint32_t grown_ = 0;
    std::vector<std::uint32_t> free_;
    std::mutex users_mutex_;
    std::vector<std::unique_ptr<PermitUser>> users_;
    std::vector<ProcessId> banned_;
    std::atomic<std::uint64_t> late_{0};
};

// The peer's side: one look at a permit, and the hazard that keeps the memory registered meanwhile.
// Used by one thread.
class PermitUse {
 public:
    // `table` is the owner's, mapped here; `mine` and `theirs` are the directions of the
    // connection.
    PermitUse(const PermitEntry* table, Direction& mine, const Direction& theirs) noexcept
        : table_(table), hazard_(mine.hazard.permit), barred_(theirs.bar.barred) {}
    PermitUse(const PermitUse&) = delete;
    PermitUse& operator=(const PermitUse&) = delete;
    ~PermitUse() { hazard_.store(0, std::memory_order_release); }

    // Success: the owner's memory may be touched until this object goes. Otherwise nothing may be
    // touched:
    //   again       the owner bars direct access: it has to be asked
    //   noentry     no registration belongs to this descriptor
    //   permission  the registration does not permit `want`
    //   overflow    the range leaves the registration
    // `segments` are the descriptor's, `seal` is seal_of() its key.
    Status begin(std::uint32_t permit, std::uint64_t seal, Access want,
                 std::span<const Segment> segments, std::uint64_t allocation,
                 std::uint64_t allocation_base, std::uint64_t offset,
                 std::uint64_t length) noexcept;
    // Whether what was copied since begin() came from, or went to, registered memory. False: the
    // owner has lost its patience meanwhile.
    bool stands() const noexcept;

 private:
    const PermitEntry* table_;
    std::atomic<std::uint32_t>& hazard_;
    const std::atomic<std::uint32_t>& barred_;
    std::uint32_t permit_ = 0;
    std::uint64_t seal_ = 0;
};

}  // namespace na::sm
