// SPDX-License-Identifier: BSD-3-Clause
// A process that greets an endpoint of na+sm and then writes what it likes: an input is a greeting
// and a list of actions.
//
//   flags, and with kSpoiled 8 bytes and where in the greeting they go
//   action 1, length 1, bytes    0: a line of the ring, as it is
//                                1: kind, aux, value 2, tag 4, ...: a line with a head that exists
//                                2: offset 4, ...: bytes anywhere in the shared region
//                                3: a sequence 4: a line that is not due
//                                4: a message over the socket, with 0 to 3 descriptors
//                                5: a mark on one bit of the ready map
//                                6: the endpoint gets or puts, by a descriptor that bytes change
//                                7: the endpoint looks
//
// Whatever comes, operations of the endpoint end once, memory beside what is registered stays as
// it is, descriptors come back, and the next process is served.
#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "support/na_endpoint.hpp"
#include "support/until.hpp"
#include "target.hpp"
#include "unit/sm/fake_peer.hpp"

namespace {

using fuzz::Input;
using namespace na::sm;

constexpr const char* kInfo = "na+sm";
constexpr std::size_t kMaxActions = 64;
constexpr std::size_t kBlock = 8192;
constexpr unsigned kSpoiled = 1;     // a greeting with wrong bytes
constexpr unsigned kAttachable = 2;  // its memory can be read by cross-memory attach
constexpr unsigned kSilent = 4;      // says nothing before the first action
constexpr std::byte kUntouched{0xa5};

// The endpoint under test, and a process that behaves.
struct World {
    World() : victim({.info = kInfo}), honest({.info = kInfo}), to_victim(honest, victim.uri()) {
        around.assign(3 * kBlock, kUntouched);
        shared = std::make_unique<support::Mem>(victim, around.data() + kBlock, kBlock,
                                                NA_MEM_READWRITE);
        local = std::make_unique<support::Mem>(victim, mine.data(), mine.size(), NA_MEM_READWRITE);
        theirs =
            std::make_unique<support::Mem>(honest, other.data(), other.size(), NA_MEM_READWRITE);
        descriptor = theirs->serialize();
        for (auto& r : receives) {
            r.buffer = std::make_unique<support::Buffer>(victim);
            r.op = std::make_unique<support::Op>(victim);
            fuzz::require(r.op->recv_unexpected(*r.buffer) == NA_SUCCESS, "a receive is posted");
        }
    }
    void pump() {
        victim.pump();
        for (auto& r : receives) {
            if (r.op->done()) {
                const support::Result& got = r.op->result();
                const char* text =
                    reinterpret_cast<const char*>(r.buffer->data()) + victim.header();
                heard = heard || (got.ret == NA_SUCCESS && got.tag == kHonestTag &&
                                  got.size == victim.header() + 1 && *text == 'h' &&
                                  support::to_string(victim, got.source) == honest.uri());
                r.op->reset();
                fuzz::require(r.op->recv_unexpected(*r.buffer) == NA_SUCCESS,
                              "a receive is posted again");
            }
        }
    }
    // The honest process sends a message, which arrives.
    void check_service() {
        heard = false;
        support::Op op(honest);
        const support::Buffer buffer(honest);
        buffer.data()[honest.header()] = std::byte{'h'};
        fuzz::require(
            op.send_unexpected(buffer, honest.header() + 1, to_victim, kHonestTag) == NA_SUCCESS &&
                support::until([&] { return op.done() && heard; },
                               [&] {
                                   honest.pump();
                                   pump();
                               }),
            "the endpoint serves others");
        fuzz::require(op.ret() == NA_SUCCESS, "the endpoint serves others");
    }
    void check_memory() const {
        const auto untouched = [](std::byte b) { return b == kUntouched; };
        const auto at = around.begin();
        fuzz::require(std::all_of(at, at + kBlock, untouched) &&
                          std::all_of(at + 2 * kBlock, around.end(), untouched),
                      "memory that is not registered stays as it is");
    }

    static constexpr na_tag_t kHonestTag = 77;
    struct Receive {
        std::unique_ptr<support::Buffer> buffer;
        std::unique_ptr<support::Op> op;
    };
    support::Endpoint victim;
    support::Endpoint honest;
    support::Addr to_victim;
    std::vector<std::byte> around;  // a block of it, in the middle, is registered
    std::array<std::byte, kBlock> mine{};
    std::array<std::byte, kBlock> other{};
    std::unique_ptr<support::Mem> shared, local, theirs;
    std::vector<std::byte> descriptor;
    std::array<Receive, 4> receives;
    bool heard = false;
};

// Descriptors of this process that an endpoint may have opened for a peer. A fuzzer has others.
std::size_t peer_files() {
    std::size_t n = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        const std::string what = std::filesystem::read_symlink(entry.path(), gone).string();
        n += static_cast<std::size_t>(what.starts_with("socket:") || what.starts_with("/memfd:"));
    }
    return n;
}

World& world() {
    static World& w = (NA_Set_log_level("none"), *new World);
    return w;
}

// What the endpoint does to the process that attacks it.
struct Transfer {
    std::unique_ptr<support::Mem> remote;
    support::Op op{world().victim};
};

class Attack {
 public:
    Attack(unsigned flags, Input& input) : flags_(flags), peer_(next_name()) {
        if ((flags & kAttachable) == 0) {
            peer_.hello.nonce = {};
        }
        if ((flags & kSpoiled) != 0) {
            const std::size_t at = input.integer<std::uint8_t>() % sizeof(Hello);
            const auto bytes = input.take(std::min<std::size_t>(8, sizeof(Hello) - at));
            // The nonce says whether the endpoint may write into this very process.
            if (at + bytes.size() <= offsetof(Hello, nonce) ||
                at >= offsetof(Hello, nonce) + sizeof(Nonce)) {
                std::memcpy(reinterpret_cast<std::byte*>(&peer_.hello) + at, bytes.data(),
                            bytes.size());
            }
        }
        static const std::string uri = world().victim.uri().substr(std::strlen("na+"));
        peer_.connect(uri);
        peer_.greet();
        if ((flags & kSilent) == 0) {
            look();
            look();
        }
    }

    void act(unsigned action, Input bytes) {
        switch (action) {
            case 0:
                line(bytes.take(kLinePayload));
                break;
            case 1:
                head(bytes);
                break;
            case 2:
                scribble(bytes);
                break;
            case 3: {
                Line& at = peer_.out().lines[peer_.position % kRingLines];
                at.sequence.store(bytes.integer<std::uint32_t>(), std::memory_order_release);
                break;
            }
            case 4:
                talk(bytes);
                break;
            case 5:
                mark(bytes.integer<std::uint16_t>());
                break;
            case 6:
                transfer(bytes);
                break;
            default:
                look();
                break;
        }
    }

    // It dies; whatever the endpoint had begun with it ends.
    void end() {
        peer_.socket.reset();
        for (const auto& t : transfers_) {
            if (!t->op.done()) {
                t->op.cancel();
            }
            fuzz::require(support::until([&] { return t->op.done(); }, [] { world().pump(); }),
                          "an operation ends");
            fuzz::require(t->op.count() == 1, "an operation ends once");
        }
        look();
    }

 private:
    // Names of this process that nobody had.
    static std::string next_name() {
        static std::uint32_t number = 3'000'000'000;
        const std::string& like = world().victim.uri();
        const std::string name = like.substr(like.rfind('/') + 1);
        return name.substr(0, name.find('-')) + "-" + std::to_string(++number);
    }
    void look() {
        peer_.knock();
        world().pump();
        world().pump();
    }
    void line(std::span<const std::byte> bytes) {
        std::array<std::byte, kLinePayload> whole{};
        std::copy(bytes.begin(), bytes.end(), whole.begin());
        peer_.write_line(whole.data(), whole.size());
    }
    // Fields that a check would refuse at once are brought near to what exists.
    void head(Input& bytes) {
        Head h{};
        h.kind = static_cast<Kind>(bytes.integer<std::uint8_t>() % 12);
        h.aux = bytes.integer<std::uint8_t>();
        h.value = bytes.integer<std::uint16_t>() % (2 * kSlots);
        h.tag = bytes.integer<std::uint32_t>();
        if (h.kind == Kind::iov && h.value < kSlots) {
            peer_.out().claims[h.value].store(static_cast<std::uint32_t>(Claim::offered));
        }
        std::array<std::byte, kLinePayload> whole{};
        std::memcpy(whole.data(), &h, sizeof h);
        std::span rest = std::span(whole).subspan(sizeof h);
        if (h.kind == Kind::put || h.kind == Kind::get) {
            const RemoteRange range{known_key(bytes.integer<std::uint8_t>()),
                                    bytes.integer<std::uint16_t>(), bytes.integer<std::uint16_t>()};
            std::memcpy(rest.data(), &range, sizeof range);
            rest = rest.subspan(sizeof range);
        }
        const auto more = bytes.take(rest.size());
        std::copy(more.begin(), more.end(), rest.begin());
        peer_.write_line(whole.data(), whole.size());
    }
    // A word of the descriptor of the registered memory: one of them is its key.
    static std::uint64_t known_key(std::uint8_t which) {
        static const std::vector<std::byte> descriptor = world().shared->serialize();
        std::uint64_t word = 0;
        const std::size_t at = which % (descriptor.size() - sizeof word + 1);
        std::memcpy(&word, descriptor.data() + at, sizeof word);
        return word;
    }
    void scribble(Input& bytes) {
        const std::size_t size = peer_.region.mapping.bytes();
        const std::size_t at = bytes.integer<std::uint32_t>() % size;
        const auto what = bytes.take(std::min<std::size_t>(size - at, 64));
        if (!what.empty()) {
            std::memcpy(peer_.region.mapping.base() + at, what.data(), what.size());
        }
    }
    void talk(Input& bytes) {
        const std::size_t fds = bytes.integer<std::uint8_t>() % (peer_.fds.size() + 1);
        std::array<std::byte, sizeof(Hello) + 8> message{};
        std::size_t size = bytes.integer<std::uint8_t>();
        if (size == 0) {
            size = sizeof(MapMessage);
        }
        const auto text = bytes.take(std::min(size, message.size()));
        std::copy(text.begin(), text.end(), message.begin());
        send_message(peer_.socket.get(), message.data(), std::min(size, message.size()),
                     std::span(peer_.fds).first(fds));
    }
    void mark(std::uint16_t bit) {
        auto* map = peer_.ready.mapping.at<ReadyMap>(0);
        map->leaf[bit / 64 % 64].fetch_or(std::uint64_t{1} << bit % 64);
        map->summary.fetch_or(std::uint64_t{1} << bit / 64 % 64);
    }
    // Into memory of this very process nothing is put by attach: what a descriptor says of a
    // process is its own concern.
    void transfer(Input& bytes) {
        const std::uint8_t how = bytes.integer<std::uint8_t>();
        const bool put = (how & 1) != 0 && (flags_ & kAttachable) == 0;
        const std::uint64_t offset = bytes.integer<std::uint16_t>();
        const std::size_t size = bytes.integer<std::uint16_t>() % kBlock;
        std::vector<std::byte> descriptor = world().descriptor;
        for (unsigned n = how >> 1 & 3; n != 0; --n) {
            const std::size_t at = bytes.integer<std::uint8_t>() % descriptor.size();
            descriptor[at] ^= bytes.integer<std::byte>();
        }
        na_mem_handle_t* handle = nullptr;
        if (NA_Mem_handle_deserialize(world().victim.cls(), &handle, descriptor.data(),
                                      descriptor.size()) != NA_SUCCESS) {
            return;
        }
        NA_Mem_handle_free(world().victim.cls(), handle);
        if (!address_) {
            const std::string uri =
                "sm://" + std::string(peer_.hello.name, sizeof peer_.hello.name);
            na_addr_t* addr = nullptr;
            if (NA_Addr_lookup(world().victim.cls(), uri.c_str(), &addr) != NA_SUCCESS) {
                return;
            }
            address_.emplace(world().victim, addr);
        }
        auto t = std::make_unique<Transfer>();
        t->remote = std::make_unique<support::Mem>(world().victim, descriptor);
        const na_return_t posted =
            put ? t->op.put(*world().local, 0, *t->remote, offset, size, *address_)
                : t->op.get(*world().local, 0, *t->remote, offset, size, *address_);
        if (posted == NA_SUCCESS) {
            transfers_.push_back(std::move(t));
        }
    }

    const unsigned flags_;
    sm_test::FakePeer peer_;
    std::optional<support::Addr> address_;
    std::vector<std::unique_ptr<Transfer>> transfers_;
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    World& w = world();
    static const std::size_t files = (w.check_service(), peer_files());
    Input input(data, size);
    {
        const unsigned flags = input.integer<std::uint8_t>();
        Attack attack(flags, input);
        for (std::size_t n = 0; n < kMaxActions && !input.empty(); ++n) {
            const unsigned action = input.integer<std::uint8_t>() % 8;
            attack.act(action, Input(input.take(input.integer<std::uint8_t>())));
        }
        attack.end();
    }
    w.check_service();
    w.check_memory();
    static unsigned inputs = 0;
    if (++inputs % 256 == 0) {
        fuzz::require(support::until([] { return peer_files() <= files; }, [&] { w.pump(); }),
                      "descriptors come back");
    }
    return 0;
}
