// SPDX-License-Identifier: BSD-3-Clause
#include "shmem.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <system_error>

namespace shmem {
namespace {

constexpr std::size_t kCard = 16 * 1024;  // most bytes that a process says about itself

void tell(int fd, std::span<const std::byte> bytes) {
    if (send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size())) {
        throw std::system_error(errno, std::generic_category(), "telling the launcher");
    }
}

std::vector<std::byte> hear(int fd) {
    std::vector<std::byte> bytes(kCard);
    const ssize_t n = recv(fd, bytes.data(), bytes.size(), 0);
    if (n <= 0) {
        throw std::runtime_error("the launcher is gone, or another process failed");
    }
    bytes.resize(static_cast<std::size_t>(n));
    return bytes;
}

bool hung_up(int fd) {
    pollfd set{.fd = fd, .events = 0, .revents = 0};
    return ::poll(&set, 1, 0) != 0 && (set.revents & POLLHUP) != 0;
}

}  // namespace

World::World(const Place& place, const std::string& protocol, std::size_t heap_bytes)
    : place_(place),
      uncaught_(std::uncaught_exceptions()),
      domain_(na::Domain::listen(protocol).value()),
      context_(domain_.open_context().value()),
      heap_(domain_.allocate(heap_bytes + kStage + kWork + 4096).value()),
      send_(context_),
      receive_(context_),
      out_(domain_.make_buffer(8).value()),
      in_(domain_.make_buffer(8).value()) {
    for (Transfer& t : transfers_) {
        t.op = na::Operation(context_);
    }
    stage_ = carve(kStage, 64);
    work_ = carve(kWork, 64);
    meet();
    barrier();
}

World::~World() {
    if (std::uncaught_exceptions() > uncaught_) {
        return;  // something failed: whoever waits for us learns by our end
    }
    try {
        barrier();
        wait_for_all();
    } catch (const std::exception&) {
        // Somebody else failed, and says so itself.
    }
}

// Address and heap of everybody, by way of the launcher: each says its two descriptions and hears
// all.
void World::meet() {
    const auto address = domain_.self().encode();
    tell(place_.launcher, address);
    tell(place_.launcher, heap_.encode());
    for (int whose = 0; whose < processes(); ++whose) {
        Other o;
        o.address = domain_.decode_address(hear(place_.launcher)).value();
        o.heap = domain_.decode_memory(hear(place_.launcher)).value();
        others_.push_back(std::move(o));
    }
}

// A message may be under way although its sender has heard that it left. So nobody goes before all
// have said that they need nobody any more.
void World::wait_for_all() {
    const std::byte done{1};
    tell(place_.launcher, {&done, 1});
    until(
        [&] {
            pollfd set{.fd = place_.launcher, .events = POLLIN, .revents = 0};
            return ::poll(&set, 1, 0) != 0;
        },
        "the others' end");
}

// Progress and callbacks until done(), which may also depend on what has no callback. Operations
// with somebody who dies end; who is waited for and left before is known to the launcher.
template <typename Done>
void World::until(Done&& done, const char* what) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!context_.run_until(done, std::chrono::milliseconds(10))) {
        if (hung_up(place_.launcher)) {
            na::fail({na::Status::hostunreach, what});
        }
        if (std::chrono::steady_clock::now() > deadline) {
            na::fail({na::Status::timeout, what});
        }
    }
}

std::byte* World::carve(std::size_t bytes, std::size_t alignment) {
    const std::size_t start = (used_ + alignment - 1) / alignment * alignment;
    if (bytes > heap_.bytes().size() - start) {
        na::fail(
            {na::Status::nomem, "the symmetric heap is full: make the World with a larger one"});
    }
    used_ = start + bytes;
    return heap_.bytes().data() + start;
}

bool World::in_heap(std::span<const std::byte> bytes) const noexcept {
    const std::byte* first = heap_.bytes().data();
    return bytes.data() >= first && bytes.data() + bytes.size() <= first + heap_.bytes().size();
}

std::uint64_t World::offset(const void* data, std::size_t bytes) const {
    const auto* start = static_cast<const std::byte*>(data);
    if (!in_heap({start, bytes})) {
        na::fail({na::Status::invalid_arg, "not in the symmetric heap: use allocate()"});
    }
    return static_cast<std::uint64_t>(start - heap_.bytes().data());
}

World::Other& World::other(int whose) {
    return others_.at(static_cast<std::size_t>(whose));
}

World::Transfer& World::idle_transfer() {
    Transfer* found = nullptr;
    until(
        [&] {
            const auto it = std::find_if(transfers_.begin(), transfers_.end(),
                                         [](const Transfer& t) { return !t.busy; });
            found = it == transfers_.end() ? nullptr : &*it;
            return found != nullptr;
        },
        "a put to end");
    return *found;
}

void World::start_put(std::uint64_t there, std::uint64_t here, std::size_t bytes, int whose) {
    Transfer& t = idle_transfer();
    Other& o = other(whose);
    t.busy = true;
    ++in_flight_;
    const auto posted = context_.put(t.op, o.address, heap_.range(here, bytes), o.heap.at(there),
                                     [this, &t](na::Status status) {
                                         t.busy = false;
                                         --in_flight_;
                                         if (!na::ok(status)) {
                                             failure_ = status;
                                         }
                                     });
    if (!posted) {
        t.busy = false;
        --in_flight_;
        posted.value();
    }
}

void World::put_bytes(std::span<const std::byte> there, std::span<const std::byte> here,
                      int whose) {
    if (in_heap(here)) {
        start_put(offset(there.data(), there.size()), offset(here.data(), here.size()), here.size(),
                  whose);
        quiet();  // the caller may change the source
        return;
    }
    for (std::size_t done = 0; done < here.size(); done += kStage) {
        const std::size_t n = std::min(kStage, here.size() - done);
        std::memcpy(stage_, here.data() + done, n);
        start_put(offset(there.data() + done, n), offset(stage_, n), n, whose);
        quiet();
    }
}

void World::get_bytes(std::span<std::byte> here, std::span<const std::byte> there, int whose) {
    const bool direct = in_heap(here);
    const std::size_t most = direct ? std::max<std::size_t>(here.size(), 1) : kStage;
    Other& o = other(whose);
    for (std::size_t done = 0; done < here.size(); done += most) {
        const std::size_t n = std::min(most, here.size() - done);
        std::byte* const target = direct ? here.data() : stage_;
        Transfer& t = idle_transfer();
        bool ended = false;
        na::Status how = na::Status::success;
        context_
            .get(t.op, o.address, heap_.range(offset(target, n), n),
                 o.heap.at(offset(there.data() + done, n)),
                 [&](na::Status status) {
                     how = status;
                     ended = true;
                 })
            .value();
        until([&] { return ended; }, "a get to end");
        na::check(how, "get");
        if (!direct) {
            std::memcpy(here.data() + done, stage_, n);
        }
    }
}

void World::quiet() {
    until([&] { return in_flight_ == 0; }, "puts to end");
    na::check(std::exchange(failure_, na::Status::success), "put");
}

// In round r everybody tells the one 2^r behind it that it has come, and waits for the one as far
// in front: after log2(n) rounds everybody knows of everybody. A message that follows a put which
// has ended finds its data.
void World::barrier() {
    quiet();
    const std::uint32_t epoch = epoch_++;
    std::uint32_t round = 0;
    for (int distance = 1; distance < processes(); distance *= 2, ++round) {
        const std::uint32_t tag = (epoch % 1024) * 32 + round;
        const int to = (me() + distance) % processes();
        const int from = (me() - distance + processes()) % processes();
        bool sent = false, received = false;
        na::Status send_status = na::Status::success, receive_status = na::Status::success;
        context_
            .recv_expected(receive_, other(from).address, tag, in_,
                           [&](na::Status s, std::span<std::byte>) {
                               receive_status = s;
                               received = true;
                           })
            .value();
        context_
            .send_expected(send_, other(to).address, tag, out_.first(1),
                           [&](na::Status s) {
                               send_status = s;
                               sent = true;
                           })
            .value();
        until([&] { return sent && received; }, "the others to come to a barrier");
        na::check(receive_status, "barrier");
        na::check(send_status, "barrier");
    }
}

}  // namespace shmem
