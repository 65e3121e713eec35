// SPDX-License-Identifier: BSD-3-Clause
// Every environment variable that the libraries read, in one place: name, default, help. hg_info
// prints this table. Nothing else reads the environment.
//
// In a privileged process (AT_SECURE: set-user-ID, set-group-ID or file capabilities) no variable
// counts as set, because a less privileged caller chose the environment.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace na::config {

struct Variable {
    const char* name;
    const char* fallback;
    const char* help;
};

inline constexpr Variable kLogLevel{
    "HG_LOG_LEVEL", "error",
    "least important level that is logged: none, fatal, error, warning, info, debug"};
inline constexpr Variable kLogSubsys{
    "HG_LOG_SUBSYS", "", "comma-separated log outlets, ~name switches one off; empty: all"};
inline constexpr Variable kPluginPath{
    "NA_PLUGIN_PATH", "",
    "colon-separated folders searched for plugin modules before the installed one"};
inline constexpr Variable kUnexpectedLimit{
    "NA_UNEXPECTED_LIMIT", "65536",
    "messages a context holds back for receives not posted yet, before it stops reading; a quarter "
    "is kept for peers with few"};
inline constexpr Variable kUnexpectedBytes{
    "NA_UNEXPECTED_BYTES", "67108864",
    "bytes of messages a context holds back before it stops reading, at least eight of the "
    "largest; shared out likewise"};
inline constexpr Variable kMaxAddresses{"NA_MAX_ADDRESSES", "65536",
                                        "addresses one class keeps at a time"};
inline constexpr Variable kSmAllowUids{
    "NA_SM_ALLOW_UIDS", "", "further user ids that may connect over sm: comma-separated, or `any`"};
inline constexpr Variable kSmCma{
    "NA_SM_CMA", "1",
    "0: sm does not use cross-memory attach, data bounces through shared buffers; 1: it does "
    "towards "
    "processes of this user, unless this process holds CAP_SYS_PTRACE; 2: even then"};
inline constexpr Variable kLockBias{
    "NA_LOCK_BIAS", "1",
    "0: the locks of a context cost every thread the same, instead of next to nothing where one "
    "uses it alone, for sandboxes without membarrier(2); read when the library is loaded"};
inline constexpr Variable kUnlocked{
    "NA_UNLOCKED", "0",
    "1: classes that the C interface opens with NA_THREAD_MODE_SINGLE_CLS take no locks; only for "
    "programs where two threads are never inside such a class at a time"};
inline constexpr Variable kUcxRma{"NA_UCX_RMA", "messages",
                                  "how ucx moves puts and gets: messages (checked at the target), "
                                  "native (UCX's own: peers are trusted), auto (native "
                                  "where hardware checks keys)"};

inline constexpr Variable kOverflowLimit{
    "HG_OVERFLOW_LIMIT", "1073741824",
    "most bytes of one RPC structure that a peer may announce beyond the eager size"};
inline constexpr Variable kOverflowTotal{"HG_OVERFLOW_TOTAL", "4294967296",
                                         "bytes beyond the eager size that a context takes in at a "
                                         "time; beyond it callers get HG_AGAIN"};
inline constexpr Variable kUnackedLimit{"HG_UNACKED_LIMIT", "1073741824",
                                        "bytes of responses beyond the eager size that wait for "
                                        "their acknowledgement; beyond it the oldest are given up"};
inline constexpr Variable kRequestLimit{"HG_REQUEST_LIMIT", "16384",
                                        "requests that a context has at a time, from arrival to "
                                        "their answer; further ones get HG_AGAIN"};
inline constexpr Variable kStallTimeout{
    "HG_STALL_TIMEOUT", "5000",
    "ms after which a peer that has more than its share of responses to take, and takes none, is "
    "disconnected; 0: never"};
inline constexpr Variable kCoalesce{"HG_COALESCE", "1",
                                    "small RPC messages to one destination leave together: 0 "
                                    "never, 1 over transports where it pays, 2 over all, and "
                                    "however long callbacks take"};
inline constexpr Variable kCoalesceLimit{
    "HG_COALESCE_LIMIT", "1024",
    "bytes of the largest message that leaves together with others, its header included"};

// All of the above.
std::span<const Variable* const> all() noexcept;

// The value in the environment, or the fallback. Empty counts as not set.
std::string value(const Variable& variable);
// Whether the environment sets it.
bool is_set(const Variable& variable);
// As a number; malformed values fall back, with a warning.
std::uint64_t number(const Variable& variable) noexcept;

// Whether this process has more rights than the process that started it (AT_SECURE).
bool privileged() noexcept;
// In a privileged process, removes the variables of libfabric, UCX and the libraries beneath them
// from the environment, because those libraries read it themselves. Call: before a module is
// loaded. Not safe beside getenv() of another thread, and does nothing in other processes.
void forget_libraries_where_privileged();
// For the life of this object $HOME is not set: a library beneath reads files there. For privileged
// processes, with the caveat above.
class WithoutHome {
 public:
    WithoutHome();
    ~WithoutHome();
    WithoutHome(const WithoutHome&) = delete;
    WithoutHome& operator=(const WithoutHome&) = delete;

 private:
    std::string home_;  // empty: it was not set
};

// What the environment says to a library beneath a plugin, whose variables are not ours to list.
// Nothing: not set.
std::optional<std::string> of_library(const std::string& name);
// "NAME=value" of all whose names begin so, sorted.
std::vector<std::string> of_libraries(std::string_view prefix);

}  // namespace na::config
