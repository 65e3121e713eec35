// SPDX-License-Identifier: BSD-3-Clause
#include "unit/sm/fake_peer.hpp"

#include <cstring>
#include <filesystem>
#include <stdexcept>

#include <unistd.h>

#include "support/until.hpp"

namespace sm_test {

using namespace na::sm;

FakePeer::FakePeer(const std::string& own_name) {
    const std::string name = own_name.empty() ? std::to_string(getpid()) + "-4000000000" : own_name;
    hello.control = Control::hello;
    hello.version = kLayoutVersion;
    hello.magic = kHelloMagic;
    hello.geometry = {4096, 8};
    hello.nonce = {reinterpret_cast<std::uintptr_t>(&nonce), nonce};
    hello.max_message[0] = hello.max_message[1] = 1 << 20;
    hello.name_length = static_cast<std::uint16_t>(name.size());
    std::memcpy(hello.name, name.data(), std::min(name.size(), sizeof hello.name));
    region = std::move(*make_shared_memory(hello.geometry.region_bytes(), false));
    status = std::move(*make_shared_memory(kPageBytes, true));
    ready = std::move(*make_shared_memory(kPageBytes, false));
    permits = std::move(*make_shared_memory(kPermitBytes, true));
    fds = {region.fd.get(), status.fd.get(), ready.fd.get(), permits.fd.get()};
}

void FakePeer::connect(const std::string& uri, std::uint8_t context) {
    if (context != 0) {
        hello.target_context = context;
    }
    auto result = connect_socket(socket_name(uri.substr(kScheme.size()), context));
    if (result.how != Connected::yes) {
        throw std::runtime_error("cannot connect to " + uri);
    }
    socket = std::move(result.socket);
}

void FakePeer::greet() {
    send_message(socket.get(), &hello, sizeof hello, fds);
}

Received FakePeer::wait(const std::function<void()>& progress) {
    Received r;
    const bool came = support::until(
        [&] {
            receive_message(socket.get(), r);
            return r.what != Received::What::nothing;
        },
        progress);
    if (!came) {
        throw std::runtime_error("the endpoint says nothing");
    }
    return r;
}

void FakePeer::join(const std::string& uri, const std::function<void()>& progress) {
    connect(uri);
    greet();
    const Received r = wait(progress);
    Answer answer{};
    if (!r.get(answer) || answer.verdict != Verdict::accepted) {
        throw std::runtime_error("the endpoint does not let us in");
    }
}

void FakePeer::write_line(const void* bytes, std::size_t size) {
    Line& line = out().lines[position % kRingLines];
    std::memcpy(line.payload, bytes, size);
    line.sequence.store(lap(position), std::memory_order_release);
    ++position;
}

std::size_t open_files() {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator("/proc/self/fd")) {
        ++n;
    }
    return n;
}

}  // namespace sm_test
