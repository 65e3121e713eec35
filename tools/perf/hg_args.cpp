// SPDX-License-Identifier: BSD-3-Clause
#include "hg_args.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "memory.hpp"
#include "pattern.hpp"

namespace perf {
namespace {

class ArgsSlot final : public Slot {
 public:
    ArgsSlot(const Options& options, const HgLane& lane, const HgTarget& target, std::uint64_t seed)
        : options_(options), arguments_(options.max_size), seed_(seed) {
        if (options.echo) {
            answer_ = Pages(options.max_size);
        }
        const hg_id_t rpc = options.echo     ? lane.rpcs->echo
                            : options.verify ? lane.rpcs->digest
                                             : lane.rpcs->rate;
        check_hg(HG_Create(lane.context, target.addr, rpc, &handle_), "cannot create a handle");
        HG_Set_target_id(handle_, target.context);
        in_.data = arguments_.data();
    }
    ~ArgsSlot() override { HG_Destroy(handle_); }

    void resize(std::uint64_t size) {
        in_.size = size;
        fill_pattern(in_.data, size, seed_);
    }
    std::uint64_t wrong() const noexcept { return wrong_; }

 private:
    Outcome start() override {
        if (options_.verify) {
            fill_pattern(in_.data, in_.size, ++seed_);
        }
        return outcome_of(HG_Forward(handle_, on_answer, this, &in_));
    }

    static hg_return_t on_answer(const hg_cb_info* info) {
        auto* slot = static_cast<ArgsSlot*>(info->arg);
        Outcome outcome = outcome_of(info->ret);
        if (outcome == nullptr && slot->options_.echo) {
            outcome = slot->read_echo();
        } else if (outcome == nullptr && slot->options_.verify) {
            outcome = slot->read_digest();
        }
        slot->finished(outcome);
        return HG_SUCCESS;
    }

    Outcome read_echo() {
        Bytes out{answer_.data(), HG_Get_output_payload_size(handle_), options_.in_place};
        if (out.size != in_.size) {
            return "the answer has another size than the arguments";
        }
        if (const hg_return_t ret = HG_Get_output(handle_, &out); ret != HG_SUCCESS) {
            return outcome_of(ret);
        }
        if (options_.verify) {
            wrong_ += count_wrong(out.data, out.size, seed_);
        }
        return outcome_of(HG_Free_output(handle_, &out));
    }

    Outcome read_digest() {
        Digest theirs;
        if (const hg_return_t ret = HG_Get_output(handle_, &theirs); ret != HG_SUCCESS) {
            return outcome_of(ret);
        }
        Digest ours;
        ours.add(in_.data, in_.size);
        if (theirs != ours) {
            return "the server got other bytes than were sent";
        }
        return outcome_of(HG_Free_output(handle_, &theirs));
    }

    const Options& options_;
    hg_handle_t handle_ = HG_HANDLE_NULL;
    Pages arguments_;
    Pages answer_;
    std::uint64_t seed_;  // of the operation
    Bytes in_;
    std::uint64_t wrong_ = 0;
};

// Another process that is connected so many times and does nothing.
class IdlePeers {
 public:
    IdlePeers(const Options& options, const std::vector<std::string>& addresses) {
        if (options.idle_peers == 0) {
            return;
        }
        int fds[2];
        if (pipe(fds) != 0) {
            throw Failure("cannot make a pipe");
        }
        pid_ = fork();
        if (pid_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(fds[0]);
            stay(options, addresses, fds[1]);
        }
        close(fds[1]);
        char byte = 0;
        const bool good = ::read(fds[0], &byte, 1) == 1;
        close(fds[0]);
        if (!good) {
            int status = 0;
            waitpid(pid_, &status, 0);
            throw Failure(fmt::format(
                "{} idle peers could not be connected{}", options.idle_peers,
                WIFSIGNALED(status)
                    ? fmt::format(": their process was killed by signal {}", WTERMSIG(status))
                    : std::string()));
        }
    }
    IdlePeers(const IdlePeers&) = delete;
    IdlePeers& operator=(const IdlePeers&) = delete;
    ~IdlePeers() {
        if (pid_ > 0) {
            kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
        }
    }

 private:
    // Progress where there is something to do: who never answered would be given up by some
    // transports.
    static void look(const std::vector<std::unique_ptr<HgSide>>& sides, int timeout_ms) {
        std::vector<pollfd> fds;
        for (const auto& side : sides) {
            HgLane& lane = side->lane(0);
            if (lane.must_not_sleep()) {
                timeout_ms = 0;
            }
            fds.push_back({lane.descriptor(), POLLIN, 0});
        }
        const bool any = poll(fds.data(), fds.size(), timeout_ms) > 0;
        for (std::size_t i = 0; i < fds.size(); ++i) {
            if (!any || fds[i].revents != 0) {
                sides[i]->lane(0).turn(0);
            }
        }
    }

    // What this process has of the machine.
    struct Taken {
        std::uint64_t memory;  // KiB
        std::uint64_t files;
    };
    static Taken taken() {
        Taken now{};
        std::uint64_t total = 0;
        std::ifstream("/proc/self/statm") >> total >> now.memory;
        now.memory *= static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) / 1024;
        for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
            (void)each;
            ++now.files;
        }
        return now;
    }

    // Whether the others fit, by what the first have taken. The machine is others' too.
    static void need_room(const Taken& before, unsigned made, unsigned peers,
                          std::uint64_t most_files) {
        const Taken now = taken();
        const std::uint64_t files = (now.files - before.files) / made;
        if (before.files + files * peers > most_files) {
            throw Failure(fmt::format(
                "{} idle peers take {} descriptors each, and {} is the limit: raise it (ulimit "
                "-Hn), or ask for fewer",
                peers, files, most_files));
        }
        const std::uint64_t memory =
            (now.memory - std::min(now.memory, before.memory)) / made;  // of each
        const std::uint64_t free = available_memory();
        if (free != 0 && memory * (peers - made) > free / 10 * 9) {
            throw Failure(fmt::format(
                "{} idle peers take {} MiB each, and {} MiB are free: ask for fewer, or for "
                "smaller buffers (docs/ofi.md, Many peers)",
                peers, memory >> 10, free >> 10));
        }
    }

    [[noreturn]] static void stay(Options options, const std::vector<std::string>& addresses,
                                  int fd) {
        try {
            rlimit limit;
            getrlimit(RLIMIT_NOFILE, &limit);
            limit.rlim_cur = limit.rlim_max;
            setrlimit(RLIMIT_NOFILE, &limit);
            const unsigned peers = options.idle_peers;
            options.classes = 1;
            options.contexts = 1;
            options.handles = 1;
            options.busy = false;
            std::vector<std::unique_ptr<HgSide>> sides;
            const Taken before = taken();
            for (unsigned i = 0; i < peers; ++i) {
                sides.push_back(std::make_unique<HgSide>(options, false, Handlers{}, nullptr, i));
                sides.back()->connect(addresses);
                if (i % 16 == 0) {
                    look(sides, 0);
                    if (i != 0) {  // the first takes what all share
                        need_room(before, i + 1, peers, limit.rlim_cur);
                    }
                }
            }
            if (::write(fd, "", 1) == 1) {
                close(fd);
                for (;;) {
                    look(sides, 1000);
                }
            }
        } catch (const Failure& failure) {
            report_failure(options, failure.what());
        }
        _exit(1);
    }

    pid_t pid_ = -1;
};

class ArgsClient final : public HgClient {
 public:
    ArgsClient(const Options& options, const std::vector<std::string>& addresses, unsigned index,
               std::unique_ptr<IdlePeers> idle)
        : HgClient(options, addresses, index), idle_(std::move(idle)) {
        need_memory({options.max_size, options.handles, side_.lanes().size(), options.clients,
                     options.echo ? 2U : 1U},
                    "arguments");
        for (std::size_t i = 0; i < side_.lanes().size(); ++i) {
            for (unsigned x = 0; x < options.handles; ++x) {
                side_.lane(i).slots.push_back(
                    std::make_unique<ArgsSlot>(options, side_.lane(i), side_.lane(i).target(x),
                                               first_seed(index, i * options.handles + x)));
            }
        }
    }

    void prepare(std::uint64_t size) override {
        for (const auto& lane : side_.lanes()) {
            for (const auto& slot : lane->slots) {
                static_cast<ArgsSlot&>(*slot).resize(size);
            }
        }
    }

    void check(std::uint64_t size) override {
        HgClient::check(size);
        for (const auto& lane : side_.lanes()) {
            for (const auto& slot : lane->slots) {
                if (const std::uint64_t n = static_cast<ArgsSlot&>(*slot).wrong(); n != 0) {
                    throw Failure(fmt::format("{} wrong bytes came back at {} B", n, size));
                }
            }
        }
    }

 private:
    std::unique_ptr<IdlePeers> idle_;
};

}  // namespace

std::unique_ptr<Client> open_args(const Options& options, const std::vector<std::string>& addresses,
                                  unsigned index) {
    // Before this process opens anything.
    auto idle = index == 0 ? std::make_unique<IdlePeers>(options, addresses) : nullptr;
    return std::make_unique<ArgsClient>(options, addresses, index, std::move(idle));
}

}  // namespace perf
