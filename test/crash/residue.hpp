// SPDX-License-Identifier: BSD-3-Clause
// What a dead process may leave behind, and what its death may cost the living: descriptors, named
// files, sockets, memory, time.
#pragma once

#include <chrono>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

#include "support/options.hpp"
#include "support/until.hpp"

namespace crash {

// How long the end of a peer may stay unnoticed, in own time.
inline constexpr std::chrono::milliseconds kNotice{1000 * support::kSlow};

// The own time of this process: the processor time that it has used, and the sleeps that ended in
// vain (waiting.hpp), each as long as it was asked for. A busy machine adds nothing to it. A wait
// that an event ends adds nothing, however late the process gets to run.
std::chrono::milliseconds own_time() noexcept;

// Own time since its construction.
class Stopwatch {
 public:
    Stopwatch() noexcept : start_(own_time()) {}
    std::chrono::milliseconds elapsed() const noexcept { return own_time() - start_; }

 private:
    std::chrono::milliseconds start_;
};

// Makes progress by `pump` until `done()`. False: not at all, or later than a death may stay
// unnoticed.
template <typename Done, typename Pump>
[[nodiscard]] bool until_noticed(Done&& done, Pump&& pump) {
    const Stopwatch since;
    return support::until(done, pump) && since.elapsed() < kNotice;
}

// Open descriptors of this process; SIZE_MAX if there is none left to look.
std::size_t count_descriptors();
// After the class was closed: as many as `before` it was opened; where libfabric forgets some
// (support::Promise), up to two more, which is said.
bool descriptors_are_back(std::size_t before);
// What they are, one per line: for the message of a failure.
std::string list_descriptors();

// What of the memory of this process shows a leak: bytes allocated in the heap (0 where a sanitizer
// has replaced it) and mappings.
struct Memory {
    std::size_t heap;
    std::size_t mappings;
};
Memory memory_used();

// The files in places for temporary ones that `process` has open or mapped by name.
std::vector<std::string> named_files(pid_t process);
// Endpoints of the transport under test are such files while they are open (libfabric's shm): then
// those of the dead must go when the survivors have noticed. Others have none at any time.
bool endpoints_are_files();
// Whether a process may die at any point of what it does without taking others along. If not, the
// case is skipped, with the reason: it has to return.
inline bool may_die_at_work() {
    const char* why = support::lacks(support::Promise::deaths_at_work);
    if (why != nullptr) {
        support::skip(why);
    }
    return why == nullptr;
}

// The abstract sockets of endpoints of `process`; those whose name has `word` in it as a whole
// word.
std::vector<std::string> abstract_sockets(pid_t process);
std::vector<std::string> abstract_sockets(const std::string& word);

// The entries of /dev/shm and /tmp at one time. The machine may be doing other things: of what is
// new, that counts whose name speaks of shared memory or of one of `processes`.
class Places {
 public:
    Places();
    std::vector<std::string> left_behind(const std::vector<pid_t>& processes) const;

 private:
    std::set<std::string> entries_;
};

// An environment variable for the duration of a scope, children included.
class Environment {
 public:
    Environment(const char* name, const char* value);
    ~Environment();
    Environment(const Environment&) = delete;
    Environment& operator=(const Environment&) = delete;

 private:
    const char* name_;
    bool was_set_;
    std::string before_;
};

}  // namespace crash
