// SPDX-License-Identifier: BSD-3-Clause
// A small library in the manner of OpenSHMEM, on the C++ API of the network abstraction: processes
// that have the same heap each, and reach into each other's.
//
// Every process runs the same program and makes one World. allocate(), barrier() and sum() are
// called by all of them, in the same order. Failures are exceptions (na::Failure): when a process
// dies, the others do not wait for it. One thread.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "na/domain.hpp"

namespace shmem {

// Who we are, and the way to whoever started us: a SOCK_SEQPACKET socket over which processes hand
// their addresses around before they can reach each other.
struct Place {
    int me = 0;
    int processes = 1;
    int launcher = -1;
};

class World {
 public:
    World(const Place& place, const std::string& protocol, std::size_t heap_bytes);
    // Meets the others once more, so that nobody leaves while somebody needs him; not after a
    // failure.
    ~World();
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    int me() const noexcept { return place_.me; }
    int processes() const noexcept { return place_.processes; }

    // Zeroed memory at the same place of every heap. It stays until the World is gone.
    template <typename T>
    T* allocate(std::size_t count) {
        static_assert(std::is_trivially_copyable_v<T>,
                      "memory of other processes can only hold plain data");
        return static_cast<T*>(static_cast<void*>(carve(count * sizeof(T), alignof(T))));
    }

    // Copies `here` to `there` (of the heap) of process `whose`, which sees it after a barrier.
    // put() has taken the source when it returns; put_nbi() wants it in the heap, and unchanged
    // until quiet().
    template <typename T>
    void put(T* there, std::span<const T> here, int whose) {
        put_bytes(std::as_bytes(std::span(there, here.size())), std::as_bytes(here), whose);
    }
    template <typename T>
    void put_nbi(T* there, std::span<const T> here, int whose) {
        const std::size_t size = here.size_bytes();
        start_put(offset(there, size), offset(here.data(), size), size, whose);
    }
    // Copies `there` of process `whose`.
    template <typename T>
    void get(std::span<T> here, const T* there, int whose) {
        get_bytes(std::as_writable_bytes(here), std::as_bytes(std::span(there, here.size())),
                  whose);
    }

    // All puts of this process have arrived.
    void quiet();
    // quiet(), and everybody has come here.
    void barrier();
    // The sum over all processes, by element, for every one of them; the same bits everywhere.
    template <typename T>
    std::vector<T> sum(const std::vector<T>& mine);
    double sum(double mine) { return sum(std::vector<double>{mine})[0]; }

 private:
    struct Other {
        na::Address address;
        na::RemoteMemory heap;
    };
    struct Transfer {
        na::Operation op;
        bool busy = false;
    };
    static constexpr std::size_t kTransfers = 16;  // in flight
    static constexpr std::size_t kStage =
        64 * 1024;  // bytes of the heap for data that comes from elsewhere
    static constexpr std::size_t kWork = 64 * 1024;  // for sum()
    static constexpr std::chrono::seconds kPatience{60};

    std::byte* carve(std::size_t bytes, std::size_t alignment);
    // Where in the heap; throws for what is not inside.
    std::uint64_t offset(const void* data, std::size_t bytes) const;
    bool in_heap(std::span<const std::byte> bytes) const noexcept;
    void meet();
    void wait_for_all();
    Other& other(int whose);
    Transfer& idle_transfer();
    void start_put(std::uint64_t there, std::uint64_t here, std::size_t bytes, int whose);
    void put_bytes(std::span<const std::byte> there, std::span<const std::byte> here, int whose);
    void get_bytes(std::span<std::byte> here, std::span<const std::byte> there, int whose);
    template <typename Done>
    void until(Done&& done, const char* what);

    const Place place_;
    const int uncaught_;
    na::Domain domain_;
    na::Context context_;
    na::Memory heap_;
    std::size_t used_ = 0;
    std::byte* stage_ = nullptr;
    std::byte* work_ = nullptr;
    std::vector<Other> others_;
    std::array<Transfer, kTransfers> transfers_;
    std::size_t in_flight_ = 0;
    na::Status failure_ = na::Status::success;  // of a put that nobody has waited for yet
    na::Operation send_;
    na::Operation receive_;
    na::Buffer out_;
    na::Buffer in_;
    std::uint32_t epoch_ = 0;  // of barriers
};

template <typename T>
std::vector<T> World::sum(const std::vector<T>& mine) {
    // Everybody writes its part into a row of everybody's table: for a handful of processes the
    // shortest way.
    const std::size_t most = kWork / sizeof(T) / static_cast<std::size_t>(processes());
    std::vector<T> total(mine.size(), T{});
    T* const table = static_cast<T*>(static_cast<void*>(work_));
    for (std::size_t first = 0; first < mine.size(); first += most) {
        const std::size_t n = mine.size() - first < most ? mine.size() - first : most;
        for (int whose = 0; whose < processes(); ++whose) {
            put(table + static_cast<std::size_t>(me()) * n, std::span(mine).subspan(first, n),
                whose);
        }
        barrier();
        for (int row = 0; row < processes(); ++row) {
            for (std::size_t i = 0; i < n; ++i) {
                total[first + i] += table[static_cast<std::size_t>(row) * n + i];
            }
        }
        barrier();  // nobody writes to the table while another one reads
    }
    return total;
}

}  // namespace shmem
