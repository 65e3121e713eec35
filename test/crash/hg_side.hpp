// SPDX-License-Identifier: BSD-3-Clause
// A process of a crash test that uses RPC: one class, one context, and all the RPCs of these tests,
// as their origin and as their target. Everything throws when something is not as it must be, in
// the runner (where Catch2 reports it) and in a forked party alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "crash/waiting.hpp"
#include "mercury.h"
#include "mercury_bulk.h"
#include "support/two_process.hpp"

namespace crash {

enum class Kind : std::uint8_t {
    echo,       // a number there and back
    hold,       // answered when HgSide::release() is called
    input,      // input above the eager size
    output,     // output above the eager size
    pull,       // the target pulls from the origin's memory
    push,       // the target pushes to the origin's memory
    note,       // one-way
    long_note,  // one-way, with input above the eager size
};
inline constexpr Kind kKinds[] = {Kind::echo, Kind::hold, Kind::input, Kind::output,
                                  Kind::pull, Kind::push, Kind::note,  Kind::long_note};
inline constexpr std::size_t kKindCount = std::size(kKinds);
const char* to_string(Kind kind);
constexpr std::size_t index(Kind kind) {
    return static_cast<std::size_t>(kind);
}

// What an RPC of any kind sends in either direction.
struct Payload {
    std::uint64_t number = 0;
    std::uint64_t size = 0;  // of what is meant: data, or memory
    std::vector<std::byte> data;
    hg_bulk_t memory = HG_BULK_NULL;
};

class HgSide {
 public:
    struct Options {
        Waiting waiting = Waiting::blocking;
        bool listen = true;
        std::string name{};    // what follows "://"
        std::string subnet{};  // na_init_info::ip_subnet
        // Who asked may live, and have given the call up: its memory is no longer to be had.
        bool origins_give_up = false;
    };
    explicit HgSide(const Options& options);
    // Best effort; close() is what checks.
    ~HgSide();
    HgSide(const HgSide&) = delete;
    HgSide& operator=(const HgSide&) = delete;

    hg_class_t* cls() const noexcept { return cls_; }
    hg_context_t* context() const noexcept { return context_; }
    hg_id_t id(Kind kind) const noexcept { return ids_[index(kind)]; }
    std::string uri() const;
    // Looked up; kept until forget() or close().
    hg_addr_t peer(const std::string& uri);
    void forget(hg_addr_t address);

    // A round of progress, after a wait of up to so long where the mode allows it, and all
    // callbacks.
    void turn(unsigned timeout_ms = 0);
    // Notices what the system has said already: a connection that ended, in whatever mode.
    void look();
    // For callbacks, which must not throw through the library: the next turn() throws this.
    void fail(const std::string& what) { failure_ = failure_.empty() ? what : failure_; }

    // --- as a target ---
    // Requests whose callback ran.
    std::uint64_t requests(Kind kind) const noexcept { return requests_[index(kind)]; }
    std::uint64_t requests() const noexcept;
    // Requests that are held, bulk transfers and responses that have begun and not ended.
    std::size_t held() const noexcept { return held_.size(); }
    std::uint64_t pending() const noexcept { return pending_; }
    // Answers what is held.
    void release();

    // Answers what is held, waits for what is under way (which may be no longer than the death of a
    // peer stays unnoticed), closes: everything must succeed.
    void close();

 private:
    struct Transfer;
    static hg_return_t on_request(hg_handle_t handle);
    void serve(hg_handle_t handle);
    void transfer(hg_handle_t handle, const Payload& in, hg_bulk_op_t op);
    void transferred(Transfer& transfer, hg_return_t ret);
    void respond(hg_handle_t handle, const Payload& out);
    static hg_return_t on_responded(const hg_cb_info* info);
    std::uint64_t active() const;

    const Waiting waiting_;
    const bool origins_give_up_;
    hg_class_t* cls_ = nullptr;
    hg_context_t* context_ = nullptr;
    hg_id_t ids_[kKindCount] = {};
    std::vector<hg_addr_t> addresses_;
    std::string failure_;
    std::uint64_t requests_[kKindCount] = {};
    std::uint64_t pending_ = 0;
    std::vector<std::pair<hg_handle_t, std::uint64_t>> held_;
};

// An RPC at its origin, forwarded any number of times, that knows whether each had exactly one end
// and whether what came back is right.
class Call {
 public:
    // `number` decides what is sent, how much, and whose the memory is.
    Call(HgSide& side, hg_addr_t to, Kind kind, std::uint64_t number);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    // What HG_Forward answered; also in `ret` if it is not success.
    hg_return_t forward();
    void cancel();
    bool in_flight() const noexcept { return forwards_ != ends_; }

    const Kind kind;
    hg_return_t ret = HG_RETURN_MAX;  // of the last end, or of the last refusal
    std::function<void(Call&)> then;  // after each end

 private:
    static hg_return_t ended(const hg_cb_info* info);
    void end(const hg_cb_info& info);
    void check_output();

    HgSide& side_;
    hg_handle_t handle_ = HG_HANDLE_NULL;
    Payload in_;
    std::vector<std::byte> memory_;  // of in_.memory, where it is not the library's
    std::uint64_t forwards_ = 0;
    std::uint64_t ends_ = 0;
};
using Calls = std::vector<std::unique_ptr<Call>>;

bool all_ended(const Calls& calls);
std::size_t count(const Calls& calls, hg_return_t ret);
// One line per call: its kind, how it ended, whether it is in flight.
std::string describe(const Calls& calls);

// Forwards one and waits for its success.
void call(HgSide& side, hg_addr_t to, Kind kind, std::uint64_t number, unsigned patience_ms = 100);

}  // namespace crash
