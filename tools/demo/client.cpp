// SPDX-License-Identifier: BSD-3-Clause
#include "client.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <mercury_bulk.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "crc32c.hpp"
#include "endpoint.hpp"
#include "rpc.hpp"

namespace demo {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// ---- Objects of the library that end with their scope
// ------------------------------------------------------------

class Address {
 public:
    Address(hg_class_t* hg_class, const std::string& name) : class_(hg_class) {
        check(HG_Addr_lookup2(class_, name.c_str(), &address_), "cannot reach a server at " + name);
    }
    ~Address() { HG_Addr_free(class_, address_); }
    Address(const Address&) = delete;
    Address& operator=(const Address&) = delete;
    hg_addr_t get() const noexcept { return address_; }

 private:
    hg_class_t* class_;
    hg_addr_t address_ = HG_ADDR_NULL;
};

// Memory that the server may read and write.
class Memory {
 public:
    Memory(hg_class_t* hg_class, hg_size_t size) : size_(size) {
        if (size == 0) {
            return;
        }
        const std::string what =
            fmt::format("cannot allocate {}", human_bytes(static_cast<double>(size)));
        check(HG_Bulk_create(hg_class, 1, nullptr, &size, HG_BULK_READWRITE, &bulk_), what);
        void* data = nullptr;
        const hg_return_t code =
            HG_Bulk_access(bulk_, 0, size, HG_BULK_READWRITE, 1, &data, nullptr, nullptr);
        if (code != HG_SUCCESS) {
            HG_Bulk_free(bulk_);
            check(code, what);
        }
        data_ = static_cast<char*>(data);
    }
    ~Memory() { HG_Bulk_free(bulk_); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    hg_bulk_t bulk() const noexcept { return bulk_; }
    char* data() const noexcept { return data_; }
    hg_size_t size() const noexcept { return size_; }
    std::uint32_t checksum() const noexcept { return crc32c(0, data_, size_); }

 private:
    hg_size_t size_;
    hg_bulk_t bulk_ = HG_BULK_NULL;
    char* data_ = nullptr;
};

// One handle, used for one RPC after another. One that goes while it is in flight is canceled
// first.
class Call {
 public:
    Call(Endpoint& endpoint, const Address& server, hg_id_t id) : endpoint_(endpoint) {
        check(HG_Create(endpoint.context(), server.get(), id, &handle_), "cannot create a handle");
    }
    ~Call() {
        if (!done_) {
            HG_Cancel(handle_);
            for (int i = 0; i < 100 && !done_; ++i) {
                HG_Progress(endpoint_.context(), 10);
                HG_Trigger(endpoint_.context(), 0, 256, nullptr);
            }
        }
        HG_Destroy(handle_);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    void start(void* in) {
        done_ = false;
        const hg_return_t code = HG_Forward(handle_, on_answer, this, in);
        if (code != HG_SUCCESS) {
            done_ = true;
            check(code, code == HG_HOSTUNREACH ? "the server has gone" : "cannot send a request");
        }
    }
    bool done() const noexcept { return done_; }
    // Throws unless the call succeeded. To be called when it is done.
    void check_result() const {
        check(code_, code_ == HG_HOSTUNREACH ? "the server has gone" : "the call failed");
    }
    hg_handle_t handle() const noexcept { return handle_; }

 private:
    static hg_return_t on_answer(const struct hg_cb_info* info) {
        auto& call = *static_cast<Call*>(info->arg);
        call.code_ = info->ret;
        call.done_ = true;
        return HG_SUCCESS;
    }

    Endpoint& endpoint_;
    hg_handle_t handle_ = HG_HANDLE_NULL;
    bool done_ = true;
    hg_return_t code_ = HG_SUCCESS;
};

// ---- The terminal
// ------------------------------------------------------------------------------------------------

class ProgressBar {
 public:
    ProgressBar(std::string title, std::uint64_t total)
        : title_(std::move(title)),
          total_(total),
          shown_(::isatty(STDERR_FILENO) == 1 && total > 0) {}
    ~ProgressBar() {
        if (shown_) {
            fmt::print(stderr, "\r\033[K");
        }
    }
    ProgressBar(const ProgressBar&) = delete;
    ProgressBar& operator=(const ProgressBar&) = delete;

    bool shown() const noexcept { return shown_; }
    void draw(std::uint64_t moved) const {
        constexpr std::uint64_t kWidth = 40;
        const auto full =
            static_cast<int>(static_cast<double>(moved) / static_cast<double>(total_) * kWidth);
        fmt::print(stderr, "\r  {:<10} [{:<{}}] {:3.0f} %  {}\033[K", title_,
                   std::string(static_cast<std::size_t>(full), '#'), kWidth,
                   100.0 * static_cast<double>(moved) / static_cast<double>(total_),
                   human_bytes(static_cast<double>(moved)));
        std::fflush(stderr);
    }

 private:
    std::string title_;
    std::uint64_t total_;
    bool shown_;
};

// ---- The client
// --------------------------------------------------------------------------------------------------

class Client {
 public:
    explicit Client(const ClientOptions& options)
        : options_(options),
          endpoint_(protocol_of(options.server), false),
          ids_(register_rpcs(endpoint_.hg_class(), {})),
          server_(endpoint_.hg_class(), options.server) {}

    void store_and_fetch(const std::string& path);
    void measure_calls();
    void stop_server();

 private:
    // "na+sm://1-0" is reached over "na+sm".
    static std::string protocol_of(const std::string& address) {
        const std::size_t end = address.find("://");
        if (end == std::string::npos || end == 0) {
            throw Failure(fmt::format("\"{}\" is not an address, such as na+sm://1234-0", address));
        }
        return address.substr(0, end);
    }

    struct Moved {
        std::uint64_t size = 0;
        std::uint32_t crc = 0;
        std::uint32_t chunks = 0;
        std::string where;
        double seconds = 0;
    };

    // Progresses once; throws when the user interrupts or the answer is late.
    void step(Clock::time_point start, unsigned timeout_s);
    void wait(const Call& call, unsigned timeout_s);
    void watch(const Call& call, const ProgressBar& bar, const std::string& name);
    Moved move(const char* verb, hg_id_t id, void* in, const std::string& name, std::uint64_t size);

    const ClientOptions& options_;
    Endpoint endpoint_;
    RpcIds ids_;
    Address server_;
    bool stopping_ = false;  // interruption has been dealt with
};

void Client::step(Clock::time_point start, unsigned timeout_s) {
    endpoint_.progress(50);
    if (interrupted() && !stopping_) {
        throw Interrupted();
    }
    if (timeout_s != 0 && seconds_since(start) > timeout_s) {
        throw Failure(fmt::format("no answer from the server within {} s", timeout_s));
    }
}

void Client::wait(const Call& call, unsigned timeout_s) {
    const auto start = Clock::now();
    while (!call.done()) {
        step(start, timeout_s);
    }
    call.check_result();
}

// As wait(), and asks the server now and then how far it is, to show it.
void Client::watch(const Call& call, const ProgressBar& bar, const std::string& name) {
    constexpr auto kPeriod = std::chrono::milliseconds(50);
    const auto start = Clock::now();
    Call question(endpoint_, server_, ids_.progress);
    demo_progress_in_t in = {};
    in.name = name.c_str();
    bool asked = false;
    auto next = start + kPeriod;
    while (!call.done()) {
        step(start, options_.timeout_s);
        if (asked && question.done()) {
            asked = false;
            question.check_result();
            demo_progress_out_t out = {};
            check(HG_Get_output(question.handle(), &out), "cannot read how far the server is");
            bar.draw(out.moved);
            HG_Free_output(question.handle(), &out);
        }
        if (!asked && !call.done() && Clock::now() >= next) {
            asked = true;
            next = Clock::now() + kPeriod;
            question.start(&in);
        }
    }
    call.check_result();
}

Client::Moved Client::move(const char* verb, hg_id_t id, void* in, const std::string& name,
                           std::uint64_t size) {
    const ProgressBar bar(verb, size);
    Call call(endpoint_, server_, id);
    const auto start = Clock::now();
    call.start(in);
    if (bar.shown()) {
        watch(call, bar, name);
    } else {
        wait(call, options_.timeout_s);
    }
    Moved moved;
    moved.seconds = seconds_since(start);
    demo_moved_out_t out = {};
    check(HG_Get_output(call.handle(), &out), "cannot read the answer");
    moved.size = out.size;
    moved.crc = out.crc;
    moved.chunks = out.chunks;
    moved.where = out.where != nullptr ? out.where : "";
    const std::string error = out.error != nullptr ? out.error : "malformed answer";
    HG_Free_output(call.handle(), &out);
    if (!error.empty()) {
        throw Failure(fmt::format("{}: the server says: {}", verb, error));
    }
    return moved;
}

void compare(const char* what, std::uint64_t size, std::uint32_t crc, std::uint64_t expected_size,
             std::uint32_t expected_crc) {
    if (size != expected_size || crc != expected_crc) {
        throw Failure(
            fmt::format("MISMATCH {}: {} bytes with CRC32C {:08x} instead of {} bytes with {:08x}",
                        what, size, crc, expected_size, expected_crc));
    }
}

class File {
 public:
    explicit File(const std::string& path)
        : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
        struct stat status = {};
        if (file_ < 0 || ::fstat(file_, &status) != 0) {
            const int error = errno;
            close();
            throw Failure(fmt::format("cannot open {}: {}", path, std::strerror(error)));
        }
        if (!S_ISREG(status.st_mode)) {
            close();
            throw Failure(path + " is not a regular file");
        }
        size_ = static_cast<std::uint64_t>(status.st_size);
        const auto memory = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                            static_cast<std::uint64_t>(::sysconf(_SC_PAGE_SIZE));
        if (size_ > memory / 2) {
            close();
            throw Failure(fmt::format(
                "{} has {}: the demo keeps the whole file in memory, and this machine has {}", path,
                human_bytes(static_cast<double>(size_)), human_bytes(static_cast<double>(memory))));
        }
    }
    ~File() { close(); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    std::uint64_t size() const noexcept { return size_; }
    void read(char* data) const {
        std::uint64_t done = 0;
        while (done < size_) {
            const ssize_t n = ::read(file_, data + done, size_ - done);
            if (n < 0 && errno == EINTR && !interrupted()) {
                continue;
            }
            if (n <= 0) {
                throw Failure(
                    fmt::format("cannot read {}: {}", path_,
                                n == 0 ? "it became shorter meanwhile" : std::strerror(errno)));
            }
            done += static_cast<std::uint64_t>(n);
        }
    }

 private:
    void close() noexcept {
        if (file_ >= 0) {
            ::close(file_);
        }
    }

    std::string path_;
    int file_;
    std::uint64_t size_ = 0;
};

void print_moved(const char* title, const char* how, std::uint64_t size, std::uint32_t chunks,
                 double seconds) {
    fmt::print("  {:<10} {} {} in {} chunk{}: {:.3f} s", title,
               human_bytes(static_cast<double>(size)), how, chunks, chunks == 1 ? "" : "s",
               seconds);
    if (size > 0) {
        fmt::print(", {}/s", human_bytes(static_cast<double>(size) / seconds));
    }
    fmt::print(", CRC32C ok\n");
}

void Client::store_and_fetch(const std::string& path) {
    const File file(path);
    const Memory memory(endpoint_.hg_class(), file.size());
    file.read(memory.data());
    const std::uint32_t crc = memory.checksum();
    const std::size_t slash = path.find_last_of('/');
    const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
    fmt::print("  {:<10} {}, {}, CRC32C {:08x}\n", "file", path,
               human_bytes(static_cast<double>(file.size())), crc);

    demo_store_in_t store = {};
    store.name = name.c_str();
    store.size = file.size();
    store.data = memory.bulk();
    const Moved stored = move("store", ids_.store, &store, name, file.size());
    compare("after the store", stored.size, stored.crc, file.size(), crc);
    print_moved("store", "pulled and written by the server", stored.size, stored.chunks,
                stored.seconds);

    // What comes back must come from the server, not be what was there before.
    if (memory.size() > 0) {
        std::memset(memory.data(), 0xa5, memory.size());
    }
    demo_fetch_in_t fetch = {};
    fetch.name = name.c_str();
    fetch.data = memory.bulk();
    const Moved fetched = move("read back", ids_.fetch, &fetch, name, file.size());
    compare("as the server read it", fetched.size, fetched.crc, file.size(), crc);
    compare("after reading it back", memory.size(), memory.checksum(), file.size(), crc);
    print_moved("read back", "read and pushed by the server", fetched.size, fetched.chunks,
                fetched.seconds);
    fmt::print("  {:<10} {}{}\n", "stored at", stored.where,
               options_.kept ? "" : " (until the end of this run)");
    std::fflush(stdout);
}

void Client::measure_calls() {
    if (options_.calls == 0) {
        return;
    }
    Call call(endpoint_, server_, ids_.null);
    std::vector<double> microseconds(options_.calls);
    const unsigned warm_up = std::min(options_.calls, 1000U);
    for (unsigned i = 0; i < warm_up; ++i) {
        call.start(nullptr);
        wait(call, options_.timeout_s);
    }
    for (double& time : microseconds) {
        const auto start = Clock::now();
        call.start(nullptr);
        wait(call, options_.timeout_s);
        time = seconds_since(start) * 1e6;
    }
    std::sort(microseconds.begin(), microseconds.end());
    const auto at = [&](double share) {
        return microseconds[static_cast<std::size_t>(share *
                                                     static_cast<double>(microseconds.size() - 1))];
    };
    fmt::print("  {:<10} {} calls one after another: median {:.2f} us, p99 {:.2f} us\n", "null RPC",
               microseconds.size(), at(0.5), at(0.99));
}

void Client::stop_server() {
    stopping_ = true;
    Call call(endpoint_, server_, ids_.stop);
    call.start(nullptr);
    wait(call, 5);
}

}  // namespace

void run_client(const ClientOptions& options) {
    Client client(options);
    fmt::print("  {:<10} {}\n", "server", options.server);
    std::fflush(stdout);
    try {
        client.store_and_fetch(options.file);
        client.measure_calls();
    } catch (const Failure&) {
        if (options.stop_server) {
            try {
                client.stop_server();
            } catch (const Failure&) {  // the first failure is the one to report
            }
        }
        throw;
    }
    if (options.stop_server) {
        client.stop_server();
    }
}

}  // namespace demo
