// SPDX-License-Identifier: BSD-3-Clause
// What hg_perf_server does, as handlers that any class can have: with -S the client serves itself.
//
// Threads: handlers run on whichever thread drives their context. A session is used by one
// operation at a time.
//
// A session is the memory of one of a client's handles, and ours for it. It ends when the client
// says so; when what is sent to the client, or moved, finds nobody there; and, where the memory is
// needed for another client or clients have much, when it has not been used for a minute.
#pragma once

#include <mercury.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "hg_rpc.hpp"
#include "options.hpp"

namespace perf {

class HgService {
 public:
    explicit HgService(const Options& options);
    HgService(const HgService&) = delete;
    HgService& operator=(const HgService&) = delete;
    ~HgService();

    // The service is the class data of the classes that have them.
    static Handlers handlers();

    // A client said that it is done, and has its answer; or stop() was called.
    const std::atomic<bool>& stopped() const noexcept { return stopped_; }
    void stop() noexcept { stopped_.store(true); }
    // Forgets all sessions; before the classes are closed.
    void clear();

 private:
    struct Memory;
    struct Session;
    static constexpr std::size_t kMaxSessions = 65536;

    static HgService& of(hg_handle_t handle);
    static hg_return_t on_rate(hg_handle_t handle);
    static hg_return_t on_digest(hg_handle_t handle);
    static hg_return_t on_echo(hg_handle_t handle);
    static hg_return_t on_status(hg_handle_t handle);
    static hg_return_t on_bulk_open(hg_handle_t handle);
    static hg_return_t on_bulk_close(hg_handle_t handle);
    static hg_return_t on_bulk_move(hg_handle_t handle);
    static hg_return_t on_bulk_move_fresh(hg_handle_t handle);
    static hg_return_t on_done(hg_handle_t handle);
    static hg_return_t on_moved(const hg_cb_info* info);

    bool read(hg_handle_t handle, Bytes& bytes);
    std::uint64_t open(hg_class_t* hg_class, const BulkOpen& wanted);
    static std::unique_ptr<Memory> make_memory(hg_class_t* hg_class, const BulkOpen& wanted);
    // The session of that number, which nobody else uses then; nullptr: there is none, or it is
    // used.
    Session* take(std::uint64_t number);
    std::uint64_t held();  // bytes of all sessions
    // The memory of sessions that are not in use goes, of those that `which` says yes to.
    template <typename Which>
    void forget(Which&& which);
    hg_return_t move(hg_handle_t handle, const BulkMove& move, hg_bulk_t fresh);
    void begin(Session& session, hg_handle_t handle, const BulkMove& move, hg_bulk_t fresh);
    void finish(Session& session);
    static hg_return_t on_responded(const hg_cb_info* info);
    void gone(std::uint64_t client);

    const Options& options_;
    const std::uint64_t id_;
    std::atomic<std::uint64_t> bad_{0};
    std::atomic<bool> stopped_{false};
    // Of changes to sessions_ and their memory; the data path only reads, having taken a session.
    std::mutex mutex_;
    // Those that have been made stay until the end, and are used again.
    std::array<std::atomic<Session*>, kMaxSessions> sessions_{};
    std::size_t made_ = 1;
    std::uint64_t opened_ = 0;
};

}  // namespace perf
