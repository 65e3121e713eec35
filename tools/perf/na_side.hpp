// SPDX-License-Identifier: BSD-3-Clause
// NA classes and contexts of one process, and the messages between na_perf_server and its clients.
//
// A request is an unexpected message whose tag says what it is, and where the answer goes: an
// expected message with the same tag. Small control messages have their numbers in them as they lie
// in memory: both sides are the same program on the same kind of machine, or do not understand each
// other.
#pragma once

#include <na.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "options.hpp"
#include "run.hpp"
#include "tool.hpp"

namespace perf {

inline Outcome outcome_of(na_return_t code) noexcept {
    return code == NA_SUCCESS ? nullptr : NA_Error_to_string(code);
}
// Throws Failure with what the library says, unless `code` is NA_SUCCESS.
void check_na(na_return_t code, const std::string& what);

enum class NaRequest : std::uint32_t {
    hello,         // who the server is
    bounce,        // the same number of bytes back
    bounce_bytes,  // the same bytes back
    open,          // memory to put to and get from
    close,         // no longer
    done           // the server may end
};

// Bits of a tag: what is asked, the context that asks, which of its operations it is.
struct NaTag {
    static na_tag_t of(NaRequest request, unsigned context, unsigned slot) noexcept {
        return static_cast<std::uint32_t>(request) << 24 | (context & 0xffU) << 16 |
               (slot & 0xffffU);
    }
    static NaRequest request(na_tag_t tag) noexcept {
        return static_cast<NaRequest>(tag >> 24 & 0x7fU);
    }
    static std::uint8_t context(na_tag_t tag) noexcept {
        return static_cast<std::uint8_t>(tag >> 16 & 0xffU);
    }
};

struct NaHello {
    // Others answer anything, or nothing: a server of RPCs takes any message for one of its own.
    static constexpr std::uint64_t kMagic = 0x31726570616e6e63;
    std::uint64_t magic = kMagic;
    std::uint64_t server = 0;  // its number, whichever class was asked
    std::uint64_t contexts = 0;
};
struct NaOpen {
    std::uint64_t bytes = 0;
};
struct NaOpened {
    std::uint64_t session = 0;       // 0: refused; the seed of the pattern in the memory
    std::uint64_t handle_bytes = 0;  // of the serialised memory handle that follows
};

// A message buffer with an operation for it.
class NaBuffer {
 public:
    enum class Lane { unexpected, expected };
    NaBuffer(na_class_t* na_class, Lane lane, unsigned long flags);
    NaBuffer(const NaBuffer&) = delete;
    NaBuffer& operator=(const NaBuffer&) = delete;
    ~NaBuffer();

    char* payload() const noexcept { return static_cast<char*>(data) + header; }
    std::size_t room() const noexcept { return size - header; }

    void* data = nullptr;
    void* plugin_data = nullptr;
    std::size_t size = 0;
    std::size_t header = 0;
    na_op_id_t* op = nullptr;

 private:
    na_class_t* class_;
};

// Where messages, puts and gets go.
struct NaTarget {
    na_addr_t* addr = nullptr;
    std::uint8_t context = 0;
    std::uint64_t server = 0;  // who is there (NaHello::server)
};

class NaLane final : public Lane {
 public:
    bool turn(unsigned timeout_ms) override;
    bool must_not_sleep() override { return !NA_Poll_try_wait(na_class, context); }
    int descriptor() const override { return NA_Poll_get_fd(na_class, context); }

    // Sends a request and drives until the answer is there: its bytes. Throws Failure.
    std::string ask(const NaTarget& to, NaRequest request, const void* bytes, std::size_t size);
    // Looks up who is there. Throws Failure: nobody, or no na_perf_server.
    NaTarget greet(const std::string& address);
    // Of the context's handle of that number.
    const NaTarget& target(std::size_t handle) const { return targets[handle % targets.size()]; }

    na_class_t* na_class = nullptr;
    na_context_t* context = nullptr;
    std::uint8_t id = 0;            // of the context
    std::vector<NaTarget> targets;  // of the handles, in turn
};

class NaSide {
 public:
    // Listens as a server, and with -S.
    NaSide(const Options& options, bool server, unsigned rank = 0);
    NaSide(const NaSide&) = delete;
    NaSide& operator=(const NaSide&) = delete;
    ~NaSide();

    // The handles of each context go to the addresses in turn (targets.hpp), and there to the
    // context of the same number, modulo how many there are. Without addresses: to itself.
    void connect(const std::vector<std::string>& addresses);
    // Tells each server at the addresses to end, whether anything went there or not.
    void shut_down();
    std::vector<std::string> addresses() const;
    const Lanes& lanes() const noexcept { return lanes_; }
    NaLane& lane(std::size_t i) const { return static_cast<NaLane&>(*lanes_[i]); }
    void close();

 private:
    const Options& options_;
    unsigned rank_;
    std::vector<std::string> addresses_;
    std::vector<na_class_t*> classes_;
    Lanes lanes_;
};

class NaService;

class NaClient : public Client {
 public:
    NaClient(const Options& options, const std::vector<std::string>& addresses, unsigned index);
    ~NaClient() override;
    const Lanes& lanes() const override { return side_.lanes(); }
    std::vector<std::string> notes() const override { return {}; }
    void shut_down() override;
    void close() override;

 protected:
    const Options& options_;
    NaSide side_;
    std::unique_ptr<NaService> self_;  // with -S
};

}  // namespace perf
