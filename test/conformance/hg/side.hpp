// SPDX-License-Identifier: BSD-3-Clause
// One side of an RPC test over the C API: a class with contexts, the RPCs that all tests share, and
// calls that record how they ended. Throws std::runtime_error where a test cannot go on, so that it
// serves the process of the cases and its parties alike. One thread, but for the counters of served
// RPCs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mercury.h"
#include "mercury_proc.h"
#include "support/options.hpp"

namespace hgtest {

// What "blob" RPCs carry, both ways: a number and any amount of bytes.
struct Blob {
    std::uint64_t number = 0;
    std::vector<std::byte> bytes;
};
hg_return_t proc_blob(hg_proc_t proc, void* data);

class Side {
 public:
    struct Settings {
        std::string info = support::options().protocol;
        bool listen = true;
        hg_init_info init = HG_INIT_INFO_INITIALIZER;
        std::uint8_t contexts = 1;  // ids from 0; raises max_contexts
    };
    Side() : Side(Settings{}) {}
    explicit Side(Settings settings);
    // Closes; what cannot be closed is reported on stderr and aborts: a test left something behind.
    ~Side();
    Side(const Side&) = delete;
    Side& operator=(const Side&) = delete;

    hg_class_t* cls() const noexcept { return cls_; }
    hg_context_t* context(std::size_t id = 0) const noexcept { return contexts_[id]; }
    const std::string& uri() const noexcept { return uri_; }
    void pump();  // one round of progress and all callbacks, on every context
    void close(Side* beside = nullptr);                         // early
    void forget_context() noexcept { contexts_[0] = nullptr; }  // the test has destroyed it
    // As the destructor does it; `beside` goes on, for what is under way with it.
    void end(Side* beside) noexcept;

    // The shared RPCs.
    hg_id_t echo;      // blob -> the same blob, number + 1
    hg_id_t grow;      // number n -> a blob of n bytes
    hg_id_t fail;      // number n -> the handler returns n as its code, unanswered
    hg_id_t drop;      // number -> the handler gives handle and response up, and says success
    hg_id_t hold;      // number -> the handle is kept in held()
    hg_id_t note;      // one-way: blob -> counted in notes()
    hg_id_t empty;     // nothing -> nothing
    hg_id_t unserved;  // registered without a handler

    // What the target has met.
    std::vector<hg_handle_t>& held() noexcept { return held_; }
    std::atomic<std::uint64_t> served{0};
    std::atomic<std::uint64_t> notes{0};
    std::uint64_t last_number = 0;
    std::size_t last_bytes = 0;
    bool last_bytes_good = true;  // as support::fill() makes them, seed = number
    std::function<void(std::uint64_t number)> on_served;  // by echo

    struct hg_diag_counters counters() const;

 private:
    static hg_return_t on_echo(hg_handle_t h);
    static hg_return_t on_grow(hg_handle_t h);
    static hg_return_t on_fail(hg_handle_t h);
    static hg_return_t on_drop(hg_handle_t h);
    static hg_return_t on_hold(hg_handle_t h);
    static hg_return_t on_note(hg_handle_t h);
    static hg_return_t on_empty(hg_handle_t h);

    hg_class_t* cls_ = nullptr;
    std::vector<hg_context_t*> contexts_;
    std::string uri_;
    std::vector<hg_handle_t> held_;
};

// An address in the class of a side.
class Addr {
 public:
    Addr(Side& side, const std::string& uri);
    Addr(Side& side, hg_addr_t adopted) noexcept : side_(side), addr_(adopted) {}
    ~Addr();
    Addr(const Addr&) = delete;
    Addr& operator=(const Addr&) = delete;
    operator hg_addr_t() const noexcept { return addr_; }  // NOLINT: stands for it

 private:
    Side& side_;
    hg_addr_t addr_ = HG_ADDR_NULL;
};
std::string to_string(Side& side, hg_addr_t addr);

// A handle at an origin, and what its callback said.
class Call {
 public:
    Call(Side& side, hg_addr_t to, hg_id_t id, std::size_t context = 0);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    hg_handle_t handle() const noexcept { return handle_; }
    // Answers what HG_Forward answers.
    hg_return_t forward(void* in = nullptr);
    hg_return_t forward(Blob& in) { return forward(static_cast<void*>(&in)); }
    hg_return_t forward(std::uint64_t number) {
        number_ = number;
        return forward(static_cast<void*>(&number_));
    }
    // Callbacks since construction or reset().
    unsigned count() const noexcept { return count_.load(std::memory_order_acquire); }
    bool done() const noexcept { return count() != 0; }
    void reset() noexcept { count_.store(0, std::memory_order_release); }
    // Of the callback; throws unless there was exactly one.
    hg_return_t ret() const;
    // The output of a blob RPC, decoded in the callback.
    const Blob& out() const noexcept { return out_; }
    bool decode_output = false;  // set by the constructor for RPCs that answer with a blob
    std::function<void(Call&)> on_done;
    void release() noexcept { handle_ = HG_HANDLE_NULL; }  // the test destroys it itself

 private:
    static hg_return_t callback(const struct hg_cb_info* info);

    hg_handle_t handle_ = HG_HANDLE_NULL;
    std::atomic<unsigned> count_{0};
    hg_return_t ret_ = HG_RETURN_MAX;
    Blob out_;
    std::uint64_t number_ = 0;
};

// A blob whose bytes follow from its number.
Blob blob(std::uint64_t number, std::size_t size);
bool is_blob(const Blob& b, std::uint64_t number, std::size_t size, std::uint64_t seed);

// Two sides of this process; a calls b.
struct Pair {
    Pair() : Pair(Side::Settings{}, Side::Settings{}) {}
    Pair(const Side::Settings& first, const Side::Settings& second)
        : a(first), b(second), to_b(a, b.uri()) {}
    ~Pair() { b.end(&a); }
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;
    Side a;
    Side b;
    Addr to_b;  // in a's class
    void pump() {
        a.pump();
        b.pump();
    }
    // Forwards and waits; the code of the callback.
    hg_return_t run(Call& call, Blob& in);
    hg_return_t run(Call& call, std::uint64_t number);
    hg_return_t run(Call& call);
    hg_return_t wait(Call& call);
};

}  // namespace hgtest
