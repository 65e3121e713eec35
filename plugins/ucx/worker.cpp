// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ucx/worker.hpp"

#include <algorithm>
#include <functional>
#include <new>

#include <sys/stat.h>

#include "na/util/tcp.hpp"
#include "plugins/ucx/async.hpp"
#include "plugins/ucx/descriptors.hpp"
#include "plugins/ucx/domain.hpp"
#include "plugins/ucx/transports.hpp"
#include "plugins/ucx/wire.hpp"

namespace na::ucx {
namespace {

// Empty: UCX does not tell.
std::string far_address(ucp_worker_h worker) {
    ucp_worker_attr_t attr{};
    attr.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
    attr.address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY;
    if (ucp_worker_query(worker, &attr) != UCS_OK) {
        return {};
    }
    std::string address(reinterpret_cast<const char*>(attr.address), attr.address_length);
    ucp_worker_release_address(worker, attr.address);
    return address;
}

}  // namespace

Result<std::unique_ptr<Worker>> Worker::make(Domain& domain) {
    ucp_worker_params_t params{};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    // Also where the user promises one thread: "single" means the one that makes the worker, and
    // since 1.18 UCX ends the process where another one uses it.
    params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    const std::vector<int> descriptors = open_descriptors();
    const std::vector<Listener> sockets = listeners_here();
    ucp_worker_h worker = nullptr;
    if (const ucs_status_t rc = ucp_worker_create(domain.ucp(), &params, &worker); rc != UCS_OK) {
        return failure(rc, "make a worker of UCX's");
    }
    std::unique_ptr<Worker> made(new Worker);
    made->worker_.reset(worker);
    if (Error error = made->ask_addresses(!is_local(domain.local().protocol)); !ok(error.status)) {
        return error;
    }
    if (!domain.local().no_block) {
        if (const ucs_status_t rc = ucp_worker_get_efd(worker, &made->fd_); rc != UCS_OK) {
            return failure(rc, "get a descriptor to wait on from UCX");
        }
    }
    made->find_listeners(sockets);
    made->find_sets(descriptors);
    async::find_set(descriptors);
    return made;
}

Error Worker::ask_addresses(bool far) {
    ucp_address_t* address = nullptr;
    std::size_t size = 0;
    if (const ucs_status_t rc = ucp_worker_get_address(worker_.get(), &address, &size);
        rc != UCS_OK) {
        return failure(rc, "get the address of UCX's worker");
    }
    addresses_.all.assign(reinterpret_cast<const char*>(address), size);
    ucp_worker_release_address(worker_.get(), address);
    if (far) {
        addresses_.far = far_address(worker_.get());
    }
    if (addresses_.all.size() + addresses_.far.size() > Frame::kMaxAddress) {
        return Error{Status::opnotsupported,
                     "UCX's address is too long: name fewer devices (UCX_NET_DEVICES)"};
    }
    return Error{Status::success, {}};
}

std::vector<Worker::Listener> Worker::listeners_here() {
    std::vector<Listener> list;
    for (const util::ListeningSocket& socket : util::listening_sockets()) {
        struct stat file {};
        if (fstat(socket.fd, &file) == 0) {
            list.push_back({socket.fd, file.st_ino, socket.at});
        }
    }
    return list;
}

// UCX does not name its sockets. They are those that were not there before the worker, and listen
// at a port whose number is in the worker's address.
void Worker::find_listeners(const std::vector<Listener>& before) {
    for (const Listener& socket : listeners_here()) {
        const char port[] = {static_cast<char>(socket.at.port >> 8),
                             static_cast<char>(socket.at.port & 0xff)};
        if (addresses_.all.find(std::string_view(port, sizeof port)) != std::string::npos &&
            std::none_of(before.begin(), before.end(),
                         [&](const Listener& old) { return old.inode == socket.inode; })) {
            listeners_.push_back(socket);
            close_on_exec(socket.fd);
        }
    }
}

void Worker::find_sets(const std::vector<int>& before) {
    for (const int fd : opened_since(before)) {
        if (is_epoll_set(fd)) {
            sets_.push_back(fd);
            close_on_exec(fd);
        }
    }
}

void Worker::keep_from_helpers() const {
    for (const int set : sets_) {
        for_each_member(
            set, [](void*, const Member& member) { close_on_exec(member.fd); }, nullptr);
    }
}

bool Worker::Listener::closed() const noexcept {
    struct stat file {};
    return forgotten || fstat(fd, &file) != 0 || !S_ISSOCK(file.st_mode) || file.st_ino != inode;
}

bool Worker::deaf() const noexcept {
    return std::any_of(listeners_.begin(), listeners_.end(), std::mem_fn(&Listener::closed));
}

void Worker::forget_closed() noexcept {
    for (Listener& listener : listeners_) {
        if (!listener.forgotten && listener.closed()) {
            listener.forgotten = true;
            async::remove_handler(listener.fd);
        }
    }
}

std::size_t Worker::hang_up_on_strangers() const noexcept {
    std::size_t ended = 0;
    for (const Listener& listener : listeners_) {
        ended += util::hang_up_on_strangers(listener.at);
    }
    return ended;
}

}  // namespace na::ucx
