// SPDX-License-Identifier: BSD-3-Clause
// What hg_perf_server does, as handlers that any class can have: with -S the client serves itself.
//
// Threads: handlers run on whichever thread drives their context. A session is used by one
// operation at a time.
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
    std::unique_ptr<Session> make_session(hg_class_t* hg_class, const BulkOpen& wanted);
    hg_return_t move(hg_handle_t handle, const BulkMove& move, hg_bulk_t fresh);
    void finish(Session& session);

    const Options& options_;
    const std::uint64_t id_;
    std::atomic<std::uint64_t> bad_{0};
    std::atomic<bool> stopped_{false};
    std::mutex mutex_;  // of changes to sessions_; the data path only reads
    std::array<std::atomic<Session*>, kMaxSessions> sessions_{};
    std::size_t next_ = 1;
};

}  // namespace perf
