// SPDX-License-Identifier: BSD-3-Clause
// Classes and contexts of one process, as the options want them, and what every RPC client needs.
#pragma once

#include <mercury.h>

#include <memory>
#include <string>
#include <vector>

#include "hg_rpc.hpp"
#include "hg_service.hpp"
#include "options.hpp"
#include "run.hpp"
#include "tool.hpp"

namespace perf {

inline Outcome outcome_of(hg_return_t code) noexcept {
    return code == HG_SUCCESS ? nullptr : HG_Error_to_string(code);
}
// Throws Failure with what the library says, unless `code` is HG_SUCCESS.
void check_hg(hg_return_t code, const std::string& what);

// Where calls go.
struct HgTarget {
    hg_addr_t addr = HG_ADDR_NULL;
    std::uint8_t context = 0;
    std::uint64_t server = 0;  // who is there (Status::server)
};

// A context that a thread drives, and where its calls go.
class HgLane final : public Lane {
 public:
    bool turn(unsigned timeout_ms) override;
    bool must_not_sleep() override { return HG_Event_ready(context); }
    int descriptor() const override { return HG_Event_get_wait_fd(context); }

    // Forwards and drives until the answer is there, or throws Failure.
    void call(const HgTarget& target, hg_id_t id, void* in, void* out) const;
    // Of the context's handle of that number.
    const HgTarget& target(std::size_t handle) const { return targets[handle % targets.size()]; }

    hg_class_t* hg_class = nullptr;
    hg_context_t* context = nullptr;
    const Rpcs* rpcs = nullptr;
    std::vector<HgTarget> targets;  // of the handles, in turn
};

class HgSide {
 public:
    // `data` is what HG_Class_get_data gives the handlers. Throws Failure.
    HgSide(const Options& options, bool server, const Handlers& handlers, void* data,
           unsigned rank = 0);
    HgSide(const HgSide&) = delete;
    HgSide& operator=(const HgSide&) = delete;
    ~HgSide();

    // The calls of the handles of each context go to the addresses in turn (targets.hpp), and there
    // to the context of the same number, modulo how many there are. Without addresses: to itself.
    void connect(const std::vector<std::string>& addresses);

    std::vector<std::string> addresses() const;  // one per class
    const Lanes& lanes() const noexcept { return lanes_; }
    HgLane& lane(std::size_t i) const { return static_cast<HgLane&>(*lanes_[i]); }
    const std::vector<std::string>& notes() const noexcept { return notes_; }
    // Asks each server that calls go to once, by the first lane that leads there. Throws Failure.
    std::vector<Status> status() const;
    // Tells each server at the addresses to end, whether calls went there or not.
    void shut_down() const;
    // Throws Failure: something is in use that should not be.
    void close();

 private:
    struct OpenClass {
        hg_class_t* hg_class = nullptr;
        Rpcs rpcs;
    };
    void release() noexcept;

    const Options& options_;
    unsigned rank_;
    std::vector<std::string> addresses_;
    std::vector<std::unique_ptr<OpenClass>> classes_;
    Lanes lanes_;
    std::vector<std::string> notes_;
};

// What the clients of hg_perf_server have in common.
class HgClient : public Client {
 public:
    HgClient(const Options& options, const std::vector<std::string>& addresses, unsigned index);
    const Lanes& lanes() const override { return side_.lanes(); }
    void prepare(std::uint64_t /*size*/) override {}
    void check(std::uint64_t size) override;
    std::vector<std::string> notes() const override { return side_.notes(); }
    void finish(Report& report) override;
    void shut_down() override;
    void close() override;

 protected:
    const Options& options_;
    std::unique_ptr<HgService> self_;  // with -S; the classes have its handlers
    HgSide side_;

 private:
    std::uint64_t bad_requests() const;
    std::uint64_t bad_before_;  // of other clients
};

}  // namespace perf
