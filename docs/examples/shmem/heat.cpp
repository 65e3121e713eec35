// SPDX-License-Identifier: BSD-3-Clause
// Heat in a rod, each process having a piece of it: at every step it puts its outermost cells next
// to those of its neighbours. Then every process calculates the whole rod by itself, and compares.
//
//     shmem_heat [-n PROCESSES] [-p PROTOCOL] [-c CELLS] [-s STEPS] [-v]
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "launch.hpp"
#include "shmem.hpp"

namespace {

struct Problem {
    std::string protocol = "na+sm";
    int processes = 4;
    std::size_t cells = 3000;  // of the rod
    int steps = 100;
    bool tells = false;
};

double beginning(std::size_t cell) {
    return cell % 100 < 50 ? 100.0 : static_cast<double>(cell % 7);
}

// One step of cells [1, n]; 0 and n + 1 are those beside.
void step(const double* now, double* next, std::size_t n) {
    for (std::size_t i = 1; i <= n; ++i) {
        next[i] = now[i] + 0.25 * (now[i - 1] - 2.0 * now[i] + now[i + 1]);
    }
}

// The rod by one process; its ends are kept at 0.
std::vector<double> alone(const Problem& p) {
    std::vector<double> now(p.cells + 2), next(p.cells + 2);
    for (std::size_t i = 0; i < p.cells; ++i) {
        now[i + 1] = beginning(i);
    }
    for (int s = 0; s < p.steps; ++s) {
        step(now.data(), next.data(), p.cells);
        now.swap(next);
    }
    return {now.begin() + 1, now.end() - 1};
}

int together(const Problem& p, const shmem::Place& place) {
    const auto mine = p.cells / static_cast<std::size_t>(place.processes);
    const std::size_t all = mine * static_cast<std::size_t>(place.processes);
    shmem::World world(place, p.protocol, (4 * (mine + 2) + all) * sizeof(double) + 4096);
    const int me = world.me();
    const int last = world.processes() - 1;
    const std::size_t first = static_cast<std::size_t>(me) * mine;

    double* now = world.allocate<double>(mine + 2);
    double* next = world.allocate<double>(mine + 2);
    for (std::size_t i = 0; i < mine; ++i) {
        now[i + 1] = beginning(first + i);
    }
    world.barrier();
    for (int s = 0; s < p.steps; ++s) {
        if (me > 0) {
            world.put_nbi(now + mine + 1, std::span<const double>(now + 1, 1), me - 1);
        }
        if (me < last) {
            world.put_nbi(now, std::span<const double>(now + mine, 1), me + 1);
        }
        world.barrier();  // the neighbours' cells are here
        step(now, next, mine);
        std::swap(now, next);
        world.barrier();  // and nobody puts into what is being read
        if (p.tells && me == 0 && (s + 1) % 1000 == 0) {
            std::printf("%d steps\n", s + 1);
            std::fflush(stdout);
        }
    }

    // Everybody puts its piece into the heap of the first, out of memory of its own; everybody gets
    // the whole from there.
    double* const rod = world.allocate<double>(all);
    const std::vector<double> piece(now + 1, now + 1 + mine);
    world.put(rod + first, std::span<const double>(piece), 0);
    world.barrier();
    std::vector<double> whole(all);
    world.get(std::span(whole), static_cast<const double*>(rod), 0);

    double heat = 0;
    for (const double t : piece) {
        heat += t;
    }
    const double total = world.sum(heat);

    const Problem same{p.protocol, p.processes, all, p.steps};
    const std::vector<double> expected = alone(same);
    double sum = 0;
    for (std::size_t i = 0; i < all; ++i) {
        sum += expected[i];
        if (whole[i] != expected[i]) {
            std::fprintf(stderr, "process %d: cell %zu is %.17g, not %.17g\n", me, i, whole[i],
                         expected[i]);
            return 1;
        }
    }
    if (std::abs(total - sum) > 1e-9 * sum) {
        std::fprintf(stderr, "process %d: the heat is %.17g, not %.17g\n", me, total, sum);
        return 1;
    }
    if (me == 0) {
        std::printf("%d processes over %s: %zu cells, %d steps, heat %.6f, as calculated by one\n",
                    world.processes(), p.protocol.c_str(), all, p.steps, total);
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    Problem problem;
    for (int option = 0; (option = getopt(argc, argv, "n:p:c:s:v")) != -1;) {
        switch (option) {
            case 'n':
                problem.processes = std::atoi(optarg);
                break;
            case 'p':
                problem.protocol = optarg;
                break;
            case 'c':
                problem.cells = static_cast<std::size_t>(std::atol(optarg));
                break;
            case 's':
                problem.steps = std::atoi(optarg);
                break;
            case 'v':
                problem.tells = true;
                break;
            default:
                return 2;
        }
    }
    if (problem.processes < 1 || problem.processes > 64 || problem.steps < 0 ||
        problem.cells < static_cast<std::size_t>(problem.processes)) {
        std::fputs(
            "usage: shmem_heat [-n 1..64] [-p PROTOCOL] [-c CELLS, one per process at least] [-s "
            "STEPS] [-v]\n",
            stderr);
        return 2;
    }
    return shmem::launch(problem.processes,
                         [&](const shmem::Place& place) { return together(problem, place); });
}
