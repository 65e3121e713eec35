// SPDX-License-Identifier: BSD-3-Clause
// The command line of the tools. Letters and meanings are those of Mercury's tools of the same
// names, which all take the same ones: where a tool has no use for one it says so, and goes on.
// What has a long name only is ours.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace perf {

enum class Format { text, csv, json };

// By what they mean, not by their size. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct Options {
    std::string tool;
    // Where.
    std::string comm;  // class of the transport; empty: whichever offers the protocol
    std::string protocol;
    std::string domain;
    std::string hostname;
    int port = 0;
    bool self_send = false;
    std::string key;
    bool key_per_rank = false;
    std::string traffic_class;
    bool auto_sm = false;
    std::string hostfile = "./port.cfg";
    int announce_fd = -1;  // server: addresses go there as well
    // How.
    bool busy = false;
    unsigned classes = 1;
    unsigned contexts = 1;
    unsigned threads = 1;
    unsigned handles = 1;
    unsigned clients = 1;
    std::uint64_t loops = 0;  // 0: until `seconds` are over
    double seconds = 0.5;
    std::uint64_t min_size = 0;
    std::uint64_t max_size = 0;
    unsigned buffers = 0;
    std::uint64_t message_size = 0;
    bool force_register = false;
    bool library_memory = false;
    bool verify = false;
    bool echo = false;
    bool in_place = false;
    bool thread_safe = false;
    bool no_multi_recv = false;
    unsigned multi_recv_ops = 0;
    unsigned post_init = 0;
    bool no_shutdown = false;
    std::string operation;  // na_bw: put, get; hg_bw: read, write, args
    double idle_seconds = 0;
    unsigned idle_peers = 0;
    unsigned sample = 8;
    std::vector<int> cpus;
    std::vector<int> server_cpus;
    bool launch = false;
    bool barrier = false;  // always
    // What is printed.
    bool verbose = false;
    bool megabytes = false;  // 10^6 bytes instead of 2^20
    Format format = Format::text;
    std::string output;

    // Of the class of that number: "[class+]protocol[://[domain/]host[:port]]"; the port is the
    // server's only. Each context takes one, so that the next class begins behind them.
    std::string info_string(bool server, unsigned number) const;
    std::string protocol_name() const;  // "[class+]protocol"
    // Arguments for a server that goes with these options.
    std::vector<std::string> server_arguments() const;
    std::uint64_t size_after(std::uint64_t size) const noexcept { return size == 0 ? 1 : size * 2; }
};

// What a tool lets the user choose, and its defaults.
struct Shape {
    const char* description;
    bool server = false;
    bool sizes = true;       // -y -z
    bool one_class = false;  // no -C -X -t, no --clients, no -S
    bool buffers = false;    // -w, -R, --library-memory
    std::uint64_t min_size = 0;
    std::uint64_t max_size = 0;
    std::vector<std::string> operations = {};  // the first is the default
    bool rpc = false;                          // options of the RPC layer
};

// Ends the process on wrong arguments (status 1) and after --help (0).
Options parse(const char* tool, int argc, char** argv, const Shape& shape);

}  // namespace perf
