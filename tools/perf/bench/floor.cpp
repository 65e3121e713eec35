// SPDX-License-Identifier: BSD-3-Clause
// What the machine does at most, without any library: the floors that the tools' figures are
// compared with. Two processes, each bound to a processor, with the sizes, the number of buffers
// and the way of touching memory of the run beside it.
//
//   line        round trip of one cache line that both sides write in turn
//   lines       the same with a line for each direction
//   tcp-lat     round trip of `size` bytes over a TCP connection of this host; both sides poll
//   tcp-stream  one side writes chunks of `size` bytes, the other reads them
//   memcpy      copies from memory that another process shares and has written
//   vm-read     process_vm_readv from another process
//   handover    one side copies `size` bytes into shared memory, the other side out of it, and says
//   so: what arguments
//               of that size cost at least, with the caches as they are when two processors are at
//               it
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <map>

#include "../memory.hpp"
#include "../options.hpp"
#include "../report.hpp"
#include "../tool.hpp"
#include "pair.hpp"

namespace perf {
namespace {

// Memory that a child process has too.
class Shared {
 public:
    explicit Shared(std::size_t bytes) : bytes_(bytes) {
        data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        need(data_ != MAP_FAILED, "mmap");
        std::memset(data_, 0, bytes);
    }
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;
    ~Shared() { munmap(data_, bytes_); }
    char* data() const noexcept { return static_cast<char*>(data_); }

 private:
    void* data_;
    std::size_t bytes_;
};

struct alignas(64) Line {
    std::atomic<std::uint64_t> value{0};
};

Result line(const Options& o, bool one) {
    const Shared shared(4096);
    auto* lines = reinterpret_cast<Line*>(shared.data());
    // Far enough from each other that no prefetcher takes both.
    Line& there = lines[0];
    Line& back = one ? lines[0] : lines[8];
    const Other other(o, [&there, &back] {
        for (std::uint64_t i = 1;; i += 2) {
            while (there.value.load(std::memory_order_acquire) != i) {
            }
            back.value.store(i + 1, std::memory_order_release);
        }
    });
    std::uint64_t i = 1;
    return measure(o, [&] {
        there.value.store(i, std::memory_order_release);
        while (back.value.load(std::memory_order_acquire) != i + 1) {
        }
        i += 2;
    });
}

// Two ends of a connection over the loopback device.
struct Connection {
    int ends[2] = {-1, -1};

    Connection() {
        const int door = socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        auto* name = reinterpret_cast<sockaddr*>(&address);
        need(door >= 0 && bind(door, name, size) == 0 && listen(door, 1) == 0 &&
                 getsockname(door, name, &size) == 0,
             "listen");
        ends[0] = socket(AF_INET, SOCK_STREAM, 0);
        need(ends[0] >= 0 && connect(ends[0], name, size) == 0, "connect");
        ends[1] = accept(door, nullptr, nullptr);
        need(ends[1] >= 0, "accept");
        close(door);
        const int yes = 1;
        for (const int end : ends) {
            setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        }
    }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection() {
        close(ends[0]);
        close(ends[1]);
    }
};

void send_all(int fd, const char* data, std::size_t size, int flags) {
    while (size > 0) {
        const ssize_t n = send(fd, data, size, flags | MSG_NOSIGNAL);
        if (n > 0) {
            data += n;
            size -= static_cast<std::size_t>(n);
        } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            throw Failure("the other side has gone");
        }
    }
}

void receive_all(int fd, char* data, std::size_t size, int flags) {
    while (size > 0) {
        const ssize_t n = recv(fd, data, size, flags);
        if (n > 0) {
            data += n;
            size -= static_cast<std::size_t>(n);
        } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            throw Failure("the other side has gone");
        }
    }
}

Result tcp_latency(const Options& o, std::size_t size) {
    const Connection connection;
    const Pages pages(size);
    const Other other(o, [&] {
        for (;;) {
            receive_all(connection.ends[1], pages.data(), size, MSG_DONTWAIT);
            send_all(connection.ends[1], pages.data(), size, MSG_DONTWAIT);
        }
    });
    return measure(o, [&] {
        send_all(connection.ends[0], pages.data(), size, MSG_DONTWAIT);
        receive_all(connection.ends[0], pages.data(), size, MSG_DONTWAIT);
    });
}

// `buffers` chunks of memory on each side.
Result tcp_stream(const Options& o, std::size_t size, std::size_t stride, std::size_t buffers) {
    const Connection connection;
    const Pages pages(stride * buffers);
    auto next = [&, i = 0U]() mutable { return pages.data() + (i++ % buffers) * stride; };
    const int flags = o.busy ? MSG_DONTWAIT : 0;
    const Other other(o, [&connection, size, next, flags]() mutable {
        for (;;) {
            send_all(connection.ends[1], next(), size, flags);
        }
    });
    auto mine = next;
    return measure(o, [&] { receive_all(connection.ends[0], mine(), size, flags); });
}

Result copy(const Options& o, std::size_t size, std::size_t stride) {
    const Shared from(stride * o.buffers);
    const Shared told(64);
    const Pages to(stride * o.buffers);
    auto& written = reinterpret_cast<Line*>(told.data())->value;
    const Other other(o, [&] {
        std::memset(from.data(), 1, stride * o.buffers);
        written.store(1);
        pause();
    });
    while (written.load() == 0) {
    }
    unsigned i = 0;
    return measure(o, [&] {
        const std::size_t at = (i++ % o.buffers) * stride;
        std::memcpy(to.data() + at, from.data() + at, size);
        asm volatile("" : : "r"(to.data() + at) : "memory");
    });
}

Result vm_read(const Options& o, std::size_t size, std::size_t stride) {
    const Pages to(stride * o.buffers);
    const Pages from(stride * o.buffers);
    const Shared told(64);
    auto& written = reinterpret_cast<Line*>(told.data())->value;
    const Other other(o, [&] {
        std::memset(from.data(), 2, stride * o.buffers);  // its own copies of the pages
        written.store(1);
        pause();
    });
    while (written.load() == 0) {
    }
    unsigned i = 0;
    return measure(o, [&] {
        const std::size_t at = (i++ % o.buffers) * stride;
        const iovec local{to.data() + at, size};
        const iovec remote{from.data() + at, size};
        need(process_vm_readv(other.pid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size),
             "process_vm_readv");
    });
}

Result handover(const Options& o, std::size_t size) {
    const Shared shared(size);
    const Shared told(4096);
    const Pages mine(size);
    const Pages theirs(size);
    auto* lines = reinterpret_cast<Line*>(told.data());
    Line& there = lines[0];
    Line& back = lines[8];
    const Other other(o, [&] {
        for (std::uint64_t i = 1;; ++i) {
            while (there.value.load(std::memory_order_acquire) != i) {
            }
            std::memcpy(theirs.data(), shared.data(), size);
            back.value.store(i, std::memory_order_release);
        }
    });
    std::uint64_t i = 0;
    return measure(o, [&] {
        std::memcpy(shared.data(), mine.data(), size);
        there.value.store(++i, std::memory_order_release);
        while (back.value.load(std::memory_order_acquire) != i) {
        }
    });
}

struct FloorOptions : Options {
    std::uint64_t stride = 0;  // from one buffer to the next; 0: one after the other
    std::uint64_t memory = 0;  // tcp-stream, each side; 0: as many buffers as said
};

FloorOptions parse_floor(int argc, char** argv) {
    FloorOptions o;
    o.tool = "perf_floor";
    o.protocol = "none";
    o.busy = true;
    o.buffers = 8;
    o.min_size = 8;
    o.max_size = 64;
    bool blocking = false;
    CLI::App app{"What this machine does without any library", "perf_floor"};
    const auto size = CLI::AsSizeValue(false);
    app.add_option("operation", o.operation, "what is done")
        ->required()
        ->check(CLI::IsMember(
            {"line", "lines", "tcp-lat", "tcp-stream", "memcpy", "vm-read", "handover"}));
    app.add_option("-y,--min-size", o.min_size, "smallest size")
        ->transform(size)
        ->capture_default_str();
    app.add_option("-z,--max-size", o.max_size, "largest size")
        ->transform(size)
        ->capture_default_str();
    app.add_option("-w,--buffers", o.buffers, "buffers of that size")
        ->check(CLI::Range(1, 65536))
        ->capture_default_str();
    app.add_option("--memory", o.memory,
                   "tcp-stream: memory of each side that the chunks go through in turn, instead of "
                   "so many buffers: that of the transfers it is compared with")
        ->transform(size);
    app.add_option("--stride", o.stride,
                   "tcp-stream, memcpy, vm-read: from one buffer to the next, where those that are "
                   "compared lie like that; default: the size")
        ->transform(size);
    app.add_option("--seconds", o.seconds, "time per size")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--cpus", o.cpus, "processors of the two processes")
        ->delimiter(',')
        ->allow_extra_args(false);
    app.add_flag("--blocking", blocking, "tcp-stream: sleep instead of polling");
    static const std::map<std::string, Format> formats = {
        {"text", Format::text}, {"csv", Format::csv}, {"json", Format::json}};
    app.add_option("--format", o.format, "text, csv or json")
        ->transform(CLI::CheckedTransformer(formats, CLI::ignore_case).description({}))
        ->type_name("NAME");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        std::exit(app.exit(e) == 0 ? 0 : 1);
    }
    o.busy = !blocking;
    o.min_size = std::max<std::uint64_t>(o.min_size, 1);
    return o;
}

int run(const FloorOptions& o) {
    check_cpus(o.cpus);
    if (o.min_size > o.max_size) {
        throw Failure("the smallest size is above the largest");
    }
    // Both sides', or what is shared and what it is copied to.
    const std::uint64_t at_once = o.operation == "memcpy" || o.operation == "vm-read" ||
                                          (o.operation == "tcp-stream" && o.memory == 0)
                                      ? o.buffers
                                      : 1;
    need_memory({std::max({o.max_size, o.stride, o.memory}), at_once, 2}, "buffers");
    const bool bandwidth =
        o.operation == "tcp-stream" || o.operation == "memcpy" || o.operation == "vm-read";
    Report report(o, bandwidth ? Measure::bandwidth : Measure::rate);
    if (o.operation == "line" || o.operation == "lines") {
        report.row(8, line(o, o.operation == "line"), 1);
        report.finish();
        return 0;
    }
    for (std::uint64_t size = o.min_size; size <= o.max_size; size *= 2) {
        const std::uint64_t stride = std::max(o.stride, size);
        if (o.operation == "tcp-lat") {
            report.row(size, tcp_latency(o, size), 1);
        } else if (o.operation == "tcp-stream") {
            const std::uint64_t buffers =
                o.memory == 0 ? o.buffers : std::max<std::uint64_t>(o.memory / size, 1);
            report.row(size, tcp_stream(o, size, stride, buffers), 1);
        } else if (o.operation == "memcpy") {
            report.row(size, copy(o, size, stride), 1);
        } else if (o.operation == "handover") {
            report.row(size, handover(o, size), 1);
        } else {
            report.row(size, vm_read(o, size, stride), 1);
        }
    }
    report.finish();
    return 0;
}

}  // namespace
}  // namespace perf

// NOLINTNEXTLINE(bugprone-exception-escape): of the command line, when there is no memory for it
int main(int argc, char** argv) {
    const perf::FloorOptions options = perf::parse_floor(argc, argv);
    return perf::guarded(options, [&options] { return perf::run(options); });
}
