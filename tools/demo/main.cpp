// SPDX-License-Identifier: BSD-3-Clause
// cinnabar_demo: moves a file between two processes and shows what that takes. `run` forks the
// server itself; `server` and `client` do the same in two terminals.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "client.hpp"
#include "endpoint.hpp"
#include "server.hpp"

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kInterrupted = 130;

void write_all(int fd, const std::string& text) {
    std::size_t done = 0;
    while (done < text.size()) {
        const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
        if (n <= 0 && errno != EINTR) {
            return;  // nobody reads: the parent has gone, and the signal is on its way
        }
        done += n > 0 ? static_cast<std::size_t>(n) : 0;
    }
}

// The first line; empty if the other side ended without one.
std::string read_line(int fd) {
    std::string line;
    char c = 0;
    for (;;) {
        const ssize_t n = ::read(fd, &c, 1);
        if (n < 0 && errno == EINTR && !demo::interrupted()) {
            continue;
        }
        if (n <= 0) {
            return {};
        }
        if (c == '\n') {
            return line;
        }
        line += c;
    }
}

int report(const demo::Failure& failure, const char* who) {
    std::fflush(stdout);
    fmt::print(stderr, "{}: {}\n", who, failure.what());
    return dynamic_cast<const demo::Interrupted*>(&failure) != nullptr ? kInterrupted : kFailed;
}

// A folder of its own that goes with the object, unless the user named one.
class Folder {
 public:
    explicit Folder(std::string wanted) : path_(std::move(wanted)), mine_(path_.empty()) {
        if (mine_) {
            std::string name =
                (std::filesystem::temp_directory_path() / "cinnabar-demo-XXXXXX").string();
            if (::mkdtemp(name.data()) == nullptr) {
                throw demo::Failure(
                    fmt::format("cannot create {}: {}", name, std::strerror(errno)));
            }
            path_ = name;
        }
    }
    ~Folder() {
        std::error_code ignored;
        if (mine_) {
            std::filesystem::remove_all(path_, ignored);
        }
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    const std::string& path() const noexcept { return path_; }

 private:
    std::string path_;
    bool mine_;
};

[[noreturn]] void server_process(const demo::ServerOptions& options, int pipe, pid_t parent) {
    // The terminal's Ctrl-C is for the client, which stops the server; a client that dies takes the
    // server along.
    std::signal(SIGINT, SIG_IGN);
    std::signal(SIGPIPE, SIG_IGN);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) {
        std::_Exit(kFailed);
    }
    int code = 0;
    try {
        demo::serve(options, [&](const std::string& address) {
            write_all(pipe, address + "\n");
            ::close(pipe);
        });
    } catch (const demo::Failure& failure) {
        code = report(failure, "server");
    }
    std::exit(code);  // the caller's objects, the folder above all, are the parent's
}

// How the server process ended, in words; empty: well. Waits a while, then kills it.
std::string reap(pid_t server) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    int status = 0;
    for (;;) {
        const pid_t pid = ::waitpid(server, &status, WNOHANG);
        if (pid == server) {
            break;
        }
        if (pid < 0 && errno != EINTR) {
            return {};
        }
        if (std::chrono::steady_clock::now() > deadline) {
            ::kill(server, SIGKILL);
            ::waitpid(server, &status, 0);
            return "the server process did not end and was killed";
        }
        ::usleep(1000);
    }
    if (WIFSIGNALED(status)) {
        return fmt::format("the server process was ended by signal {} ({})", WTERMSIG(status),
                           ::strsignal(WTERMSIG(status)));
    }
    return WEXITSTATUS(status) == 0
               ? ""
               : fmt::format("the server process ended with status {}", WEXITSTATUS(status));
}

// The server in a child, the client here. The child is made before anything of the library exists.
int run(demo::ServerOptions server_options, demo::ClientOptions client_options) {
    client_options.kept = !server_options.directory.empty();
    const Folder folder(server_options.directory);
    server_options.directory = folder.path();
    int pipe[2] = {-1, -1};
    if (::pipe(pipe) != 0) {
        throw demo::Failure(fmt::format("cannot create a pipe: {}", std::strerror(errno)));
    }
    std::fflush(stdout);
    const pid_t parent = ::getpid();
    const pid_t server = ::fork();
    if (server < 0) {
        throw demo::Failure(fmt::format("cannot fork: {}", std::strerror(errno)));
    }
    if (server == 0) {
        ::close(pipe[0]);
        server_process(server_options, pipe[1], parent);
    }
    ::close(pipe[1]);
    int code = 0;
    client_options.server = read_line(pipe[0]);
    ::close(pipe[0]);
    if (client_options.server.empty()) {
        ::kill(server, SIGTERM);
        code = demo::interrupted() ? kInterrupted : kFailed;
    } else {
        fmt::print("Cinnabar demo: a server (process {}) and a client (process {}) over {}\n",
                   server, parent, server_options.protocol);
        client_options.stop_server = true;
        try {
            demo::run_client(client_options);
        } catch (const demo::Failure& failure) {
            code = report(failure, "client");
            ::kill(server, SIGTERM);  // it may not have heard the request to stop
        }
    }
    const std::string end = reap(server);
    if (!end.empty()) {
        fmt::print(stderr, "{}\n", end);
        code = code != 0 ? code : kFailed;
    }
    if (code == 0) {
        fmt::print("Everything matched.\n");
    }
    return code;
}

}  // namespace

int main(int argc, char** argv) {
    demo::ServerOptions server;
    demo::ClientOptions client;
    server.directory.clear();

    CLI::App app(
        "Moves a file between two processes by RPC and bulk transfers, checks every byte, "
        "measures.");
    app.require_subcommand(1);
    const auto server_options = [&](CLI::App* command) {
        command
            ->add_option("-p,--protocol", server.protocol,
                         "[class+]protocol[://address] to listen at")
            ->capture_default_str();
        command->add_option("--chunk", server.shape.chunk, "bytes per transfer, such as 1MiB")
            ->transform(CLI::AsSizeValue(false))
            ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 30));
        command->add_option("--depth", server.shape.depth, "transfers in flight at a time")
            ->check(CLI::Range(std::size_t{1}, std::size_t{64}))
            ->capture_default_str();
    };
    const auto client_options = [&](CLI::App* command) {
        command->add_option("FILE", client.file, "the file to store")->required();
        command->add_option("--calls", client.calls, "null RPCs to measure")
            ->check(CLI::Range(0U, 100'000'000U))
            ->capture_default_str();
        command
            ->add_option("--timeout", client.timeout_s,
                         "seconds to wait for one answer, 0: for ever")
            ->capture_default_str();
    };

    CLI::App* run_command =
        app.add_subcommand("run", "both sides, the server in a process of its own");
    server_options(run_command);
    client_options(run_command);
    run_command->add_option("--directory", server.directory,
                            "where the server keeps files (default: none is kept)");

    CLI::App* server_command =
        app.add_subcommand("server", "the server; prints its address, ends on Ctrl-C");
    server_options(server_command);
    server_command->add_option("--directory", server.directory, "where files are kept")->required();

    CLI::App* client_command =
        app.add_subcommand("client", "the client of a server that runs already");
    client_command->add_option("-s,--server", client.server, "address that the server printed")
        ->required();
    client_options(client_command);
    client_command->add_flag("--stop", client.stop_server, "have the server end afterwards");

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : kUsage;
    }

    if (secure_getenv("HG_LOG_LEVEL") == nullptr) {
        HG_Set_log_level("none");  // what goes wrong is said by whoever meets it, once
    }
    demo::catch_signals();
    try {
        if (run_command->parsed()) {
            return run(server, client);
        }
        if (server_command->parsed()) {
            demo::serve(server, [](const std::string& address) {
                fmt::print("{}\n", address);
                std::fflush(stdout);
            });
            return 0;
        }
        demo::run_client(client);
        fmt::print("Everything matched.\n");
        return 0;
    } catch (const demo::Failure& failure) {
        return report(failure, "cinnabar_demo");
    } catch (const std::exception& error) {
        fmt::print(stderr, "cinnabar_demo: {}\n", error.what());
        return kFailed;
    }
}
