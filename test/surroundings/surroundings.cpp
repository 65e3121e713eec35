// SPDX-License-Identifier: BSD-3-Clause
// What a process is given by its surroundings must not become a signal, an endless loop, or a
// descriptor that a printf() writes into. Arguments: the protocol. Each case is a process of its
// own, forked before the library is used. 77: the protocol is not here.
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mercury.h>
#include <mercury_bulk.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

const char* protocol;
int report;  // a copy of stderr, where 0 to 2 are closed

void say(const std::string& text) {
    (void)!write(report, text.data(), text.size());
}

[[noreturn]] void fail(const std::string& why) {
    say(why + "\n");
    _exit(1);
}

void require(bool holds, const std::string& what) {
    if (!holds) {
        fail(what);
    }
}

hg_return_t answer(hg_handle_t handle) {
    const hg_return_t sent = HG_Respond(handle, nullptr, nullptr, nullptr);
    HG_Destroy(handle);
    return sent;
}

struct Side {
    hg_class_t* hg = nullptr;
    hg_context_t* context = nullptr;
    hg_id_t id = 0;

    bool open() {
        hg = HG_Init(protocol, HG_TRUE);
        context = hg == nullptr ? nullptr : HG_Context_create(hg);
        id = hg == nullptr ? 0 : HG_Register_name(hg, "answer", nullptr, nullptr, answer);
        return context != nullptr;
    }
    void poll() const {
        unsigned int count = 0;
        HG_Trigger(context, 0, 16, &count);
        HG_Progress(context, 1);
    }
    void close() {
        if (context != nullptr) {
            require(HG_Context_destroy(context) == HG_SUCCESS, "HG_Context_destroy");
        }
        if (hg != nullptr) {
            require(HG_Finalize(hg) == HG_SUCCESS, "HG_Finalize");
        }
    }
};

// A call from one class to another, both of this process. The code that it ended with.
hg_return_t call(const Side& from, const Side& to) {
    char name[512];
    hg_size_t size = sizeof name;
    hg_addr_t self = nullptr;
    hg_addr_t address = nullptr;
    require(HG_Addr_self(to.hg, &self) == HG_SUCCESS &&
                HG_Addr_to_string(to.hg, name, &size, self) == HG_SUCCESS &&
                HG_Addr_free(to.hg, self) == HG_SUCCESS &&
                HG_Addr_lookup2(from.hg, name, &address) == HG_SUCCESS,
            "no address");
    hg_handle_t handle = nullptr;
    require(HG_Create(from.context, address, from.id, &handle) == HG_SUCCESS, "HG_Create");
    struct End {
        bool ended = false;
        hg_return_t code = HG_OTHER_ERROR;
    } end;
    const auto ended = [](const hg_cb_info* info) {
        *static_cast<End*>(info->arg) = End{true, info->ret};
        return HG_SUCCESS;
    };
    require(HG_Forward(handle, ended, &end, nullptr) == HG_SUCCESS, "HG_Forward");
    while (!end.ended) {
        from.poll();
        to.poll();
    }
    HG_Destroy(handle);
    HG_Addr_free(from.hg, address);
    return end.code;
}

void both_call() {
    Side a;
    Side b;
    require(a.open() && b.open(), std::string("cannot open: ") + HG_Get_last_error());
    require(call(a, b) == HG_SUCCESS, "the call failed");
    a.close();
    b.close();
}

// --- ulimit -f, which raises SIGXFSZ

// The log goes to a file as well, which may not grow either.
void small_files() {
    require(dup2(memfd_create("log", MFD_CLOEXEC), 2) == 2, "dup2");
    for (const rlim_t limit : {rlim_t{0}, rlim_t{4096}, rlim_t{1} << 20, rlim_t{1} << 24}) {
        const rlimit files{limit, RLIM_INFINITY};
        require(setrlimit(RLIMIT_FSIZE, &files) == 0, "setrlimit");
        Side side;
        if (!side.open()) {
            require(*HG_Get_last_error() != '\0', "refused without a word");
        } else {
            hg_bulk_t bulk = nullptr;
            hg_size_t size = hg_size_t{1} << 26;
            const hg_return_t made =
                HG_Bulk_create(side.hg, 1, nullptr, &size, HG_BULK_READWRITE, &bulk);
            if (made == HG_SUCCESS) {
                HG_Bulk_free(bulk);
            } else {
                require(*HG_Get_last_error() != '\0', "memory is refused without a word");
            }
        }
        if (std::strcmp(protocol, "na+sm") == 0 && limit < (1 << 24)) {
            require(std::strstr(HG_Get_last_error(), "ulimit -f") != nullptr,
                    std::string("the message does not name the remedy: ") + HG_Get_last_error());
        }
        side.close();
    }
    sigset_t pending;
    require(sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 0, "SIGXFSZ is pending");
    // The program's own signal arrives.
    std::signal(SIGXFSZ, [](int) { _exit(0); });
    require(raise(SIGXFSZ) == 0, "raise");
    fail("SIGXFSZ is blocked");
}

// --- a log that nobody reads, which raises SIGPIPE

void broken_log() {
    int ends[2];
    require(pipe(ends) == 0 && dup2(ends[1], 2) == 2 && close(ends[0]) == 0, "pipe");
    require(HG_Init("nonsense+nonsense", HG_FALSE) == nullptr, "nonsense opens");
    both_call();
}

// --- closed descriptors 0 to 2

bool is_closed(int fd) {
    return write(fd, "x", 1) == -1 && errno == EBADF;
}

void closed_descriptors() {
    for (int fd = 0; fd < 3; ++fd) {
        close(fd);
    }
    Side a;
    Side b;
    require(a.open() && b.open(), std::string("cannot open: ") + HG_Get_last_error());
    hg_bulk_t bulk = nullptr;
    hg_size_t size = 1 << 20;
    require(HG_Bulk_create(a.hg, 1, nullptr, &size, HG_BULK_READWRITE, &bulk) == HG_SUCCESS,
            "HG_Bulk_create");
    require(call(a, b) == HG_SUCCESS, "the call failed");
    for (int fd = 0; fd < 3; ++fd) {
        require(is_closed(fd), "descriptor " + std::to_string(fd) + " can be written to");
        char byte = 0;
        require(read(fd, &byte, 1) == -1 && errno == EBADF,
                "descriptor " + std::to_string(fd) + " can be read");
    }
    // What the program puts in such a place meanwhile is the program's.
    require(dup2(report, 1) == 1, "dup2");
    HG_Bulk_free(bulk);
    a.close();
    b.close();
    require(fcntl(0, F_GETFD) == -1 && fcntl(2, F_GETFD) == -1, "something is left behind");
    require(fcntl(1, F_GETFD) != -1, "the program's own descriptor was closed");
}

// --- system calls that a sandbox refuses

void refuse(std::initializer_list<int> calls) {
    constexpr unsigned kLoad = BPF_LD | BPF_W | BPF_ABS;
    std::vector<sock_filter> program = {
        BPF_STMT(kLoad, offsetof(seccomp_data, nr)),
    };
    for (const int number : calls) {
        program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1));
        program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS));
    }
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
        _exit(77);
    }
}

void no_getrandom() {
    refuse({SYS_getrandom});
    both_call();  // /dev/urandom serves
}

void no_random_numbers() {
    refuse({
        SYS_getrandom,
        SYS_openat,
#ifdef SYS_open
        SYS_open,
#endif
    });
    Side side;
    require(!side.open(), "opened without random numbers");
    require(std::strcmp(protocol, "na+sm") != 0 ||
                std::strstr(HG_Get_last_error(), "getrandom") != nullptr,
            std::string("the message does not name the cause: ") + HG_Get_last_error());
}

// A sandbox that begins when the class is open: keys and greetings still need numbers.
void no_random_numbers_later() {
    Side a;
    Side b;
    require(a.open() && b.open(), std::string("cannot open: ") + HG_Get_last_error());
    refuse({SYS_getrandom});
    hg_bulk_t bulk = nullptr;
    hg_size_t size = 1 << 16;
    require(HG_Bulk_create(a.hg, 1, nullptr, &size, HG_BULK_READWRITE, &bulk) == HG_SUCCESS,
            "HG_Bulk_create");
    require(call(a, b) == HG_SUCCESS, "the call failed");
    HG_Bulk_free(bulk);
    a.close();
    b.close();
}

// --- cases

struct Case {
    const char* name;
    void (*run)();
};

constexpr Case kCases[] = {
    {"a limit on the size of files", small_files},
    {"nobody reads the log", broken_log},
    {"descriptors 0 to 2 are closed", closed_descriptors},
    {"getrandom is refused", no_getrandom},
    {"no random numbers at all", no_random_numbers},
    {"getrandom is refused later", no_random_numbers_later},
};

bool passes(const Case& one) {
    const pid_t child = fork();
    if (child == 0) {
        const rlimit no_core{0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        alarm(60);
        one.run();
        _exit(0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child) {
        return false;
    }
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (signal == 0 && WEXITSTATUS(status) == 77) {
        say(std::string(one.name) + ": skipped, no filters of system calls here\n");
        return true;
    }
    const bool ok = status == 0;
    if (!ok) {
        say(std::string("FAILED: ") + one.name + " (signal " + std::to_string(signal) + ", exit " +
            std::to_string(signal != 0 ? 0 : WEXITSTATUS(status)) + ")\n");
    }
    return ok;
}

bool is_here() {
    const pid_t child = fork();
    if (child == 0) {
        na_protocol_info* known = nullptr;
        _exit(HG_Get_na_protocol_info(protocol, &known) == HG_SUCCESS && known != nullptr ? 0 : 77);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace

int main(int argc, char** argv) {
    protocol = argc > 1 ? argv[1] : "na+sm";
    report = fcntl(2, F_DUPFD_CLOEXEC, 10);
    if (!is_here()) {
        say(std::string("skipped: ") + protocol + " is not here\n");
        return 77;
    }
    bool all = true;
    for (const Case& one : kCases) {
        if (argc > 2 && std::strstr(one.name, argv[2]) == nullptr) {
            continue;
        }
        all = passes(one) && all;
    }
    return all ? 0 : 1;
}
