// SPDX-License-Identifier: BSD-3-Clause
#include "server.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <vector>

#include "endpoint.hpp"
#include "rpc.hpp"

namespace demo {
namespace {

struct Server {
    ServerOptions options;
    std::vector<Transfer*> active;
    bool stop = false;
};

Server& server_of(hg_handle_t handle) {
    return *static_cast<Server*>(HG_Class_get_data(HG_Get_info(handle)->hg_class));
}

void on_end(void* owner, Transfer* transfer) {
    std::erase(static_cast<Server*>(owner)->active, transfer);
}

// Clients choose names: a name must stay a name.
bool acceptable(std::string_view name) {
    return !name.empty() && name.size() <= 200 && name.front() != '.' &&
           name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

// The suffix keeps a stored file from replacing the one it was made of.
std::string path_of(const Server& server, std::string_view name) {
    return server.options.directory + "/" + std::string(name) + ".stored";
}

void refuse(hg_handle_t handle, const char* why) {
    demo_moved_out_t out = {};
    out.where = "";
    out.error = why;
    (void)HG_Respond(handle, nullptr, nullptr, &out);
    HG_Destroy(handle);
}

void start(hg_handle_t handle, hg_bulk_op_t op, const char* name, hg_bulk_t data,
           std::uint64_t size) {
    Server& server = server_of(handle);
    if (name == nullptr || !acceptable(name)) {
        refuse(handle, "not a name that a file can have here");
        return;
    }
    if (data != HG_BULK_NULL) {
        HG_Bulk_ref_incr(data);  // the transfer needs it longer than the input lasts
    }
    Transfer::Request request;
    request.handle = handle;
    request.op = op;
    request.name = name;
    request.path = path_of(server, name);
    request.remote = data;
    request.size = size;
    Transfer::start(std::move(request), server.options.shape, on_end, &server, server.active);
}

// A code other than HG_SUCCESS that a handler returns is the library's to send. It still owns the
// handle.
hg_return_t on_store(hg_handle_t handle) {
    demo_store_in_t in = {};
    const hg_return_t code = HG_Get_input(handle, &in);
    if (code != HG_SUCCESS) {
        HG_Destroy(handle);
        return code;
    }
    HG_Ref_incr(handle);
    start(handle, HG_BULK_PULL, in.name, in.data, in.size);
    HG_Free_input(handle, &in);
    HG_Destroy(handle);
    return HG_SUCCESS;
}

hg_return_t on_fetch(hg_handle_t handle) {
    demo_fetch_in_t in = {};
    const hg_return_t code = HG_Get_input(handle, &in);
    if (code != HG_SUCCESS) {
        HG_Destroy(handle);
        return code;
    }
    HG_Ref_incr(handle);
    start(handle, HG_BULK_PUSH, in.name, in.data, 0);
    HG_Free_input(handle, &in);
    HG_Destroy(handle);
    return HG_SUCCESS;
}

hg_return_t on_progress(hg_handle_t handle) {
    const Server& server = server_of(handle);
    demo_progress_in_t in = {};
    const hg_return_t code = HG_Get_input(handle, &in);
    if (code == HG_SUCCESS) {
        demo_progress_out_t out = {};
        for (const Transfer* transfer : server.active) {
            if (in.name != nullptr && transfer->name() == in.name) {
                out.moved = transfer->moved();
            }
        }
        HG_Free_input(handle, &in);
        (void)HG_Respond(handle, nullptr, nullptr, &out);
    }
    HG_Destroy(handle);
    return code;
}

hg_return_t on_null(hg_handle_t handle) {
    (void)HG_Respond(handle, nullptr, nullptr, nullptr);
    return HG_Destroy(handle);
}

hg_return_t on_stop(hg_handle_t handle) {
    server_of(handle).stop = true;
    return on_null(handle);
}

}  // namespace

void serve(const ServerOptions& options,
           const std::function<void(const std::string& address)>& ready) {
    struct stat status = {};
    if (::stat(options.directory.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
        throw Failure("no such directory: " + options.directory);
    }
    Server server{.options = options, .active = {}, .stop = false};
    Endpoint endpoint(options.protocol, true);
    check(HG_Class_set_data(endpoint.hg_class(), &server, nullptr), "class data");
    register_rpcs(endpoint.hg_class(), {.store = on_store,
                                        .fetch = on_fetch,
                                        .progress = on_progress,
                                        .null = on_null,
                                        .stop = on_stop});
    ready(endpoint.address());
    while (!server.stop && !interrupted()) {
        endpoint.progress(100);
    }
    // The answer to stop, and what else is under way, gets a moment; peers that are gone do not
    // keep the server.
    for (Transfer* transfer : std::vector<Transfer*>(server.active)) {
        transfer->abandon("the server is stopping");
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    do {
        endpoint.progress(10);
    } while (!server.active.empty() && std::chrono::steady_clock::now() < deadline);
}

}  // namespace demo
