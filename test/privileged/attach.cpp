// SPDX-License-Identifier: BSD-3-Clause
// Which way a get over sm takes from the memory of a child process, which runs as the user
// CHILD_UID. The memory does not come from the library's allocator, so that there are two ways.
//
// usage: attach CHILD_UID    prints "attached" or "bounced"
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/sm/node.hpp"

using namespace sm_test;

namespace {

constexpr std::size_t kSize = 100'000;

// What the child tells: its address and its descriptor.
struct Invitation {
    char uri[200];
    std::size_t region_size;
    std::byte region[1024];
};

int serve(int socket, uid_t uid) {
    if (setresgid(uid, uid, uid) != 0 || setresuid(uid, uid, uid) != 0) {
        std::perror("setresuid");
        return 1;
    }
    Node node;
    std::vector<std::byte> memory(kSize, std::byte{7});
    const auto region = node.region(memory.data(), memory.size());
    Invitation invitation{};
    std::snprintf(invitation.uri, sizeof invitation.uri, "%s", node.uri().c_str());
    invitation.region_size = region->encode({invitation.region, sizeof invitation.region});
    if (write(socket, &invitation, sizeof invitation) != sizeof invitation) {
        return 1;
    }
    for (char byte = 0; recv(socket, &byte, 1, MSG_DONTWAIT) < 0;) {
        node.poll();
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    int ends[2];
    if (argc != 2 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) {
        return 2;
    }
    const auto uid = static_cast<uid_t>(std::strtoul(argv[1], nullptr, 10));
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        _exit(serve(ends[1], uid));
    }
    close(ends[1]);
    Invitation invitation{};
    if (read(ends[0], &invitation, sizeof invitation) != sizeof invitation) {
        return 1;
    }
    bool right = false;
    {
        Node node;
        std::vector<std::byte> memory(kSize);
        const auto local = node.region(memory.data(), memory.size());
        auto remote =
            node.domain->decode_region({invitation.region, invitation.region_size}, kSize);
        TestOp op;
        const Posted posted =
            node.transfer(op, OpKind::get, invitation.uri, *local, 0, **remote, 0, kSize);
        right = posted.what == Posted::What::done ||
                (posted.what == Posted::What::pending && settle([&] { return op.done(); }, node) &&
                 ok(op.how.status));
        right = right && memory == std::vector<std::byte>(kSize, std::byte{7});
        std::puts(!right ? "failed" : node->stat("sm_rma_attached") != 0 ? "attached" : "bounced");
    }
    close(ends[0]);
    int status = 0;
    return waitpid(child, &status, 0) == child && right ? 0 : 1;
}
