// SPDX-License-Identifier: BSD-3-Clause
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>

#include "../processes.hpp"
#include "echo.hpp"

namespace {

std::string url(int port) {
    return "tcp://127.0.0.1:" + std::to_string(port);
}

void need_nng(int code) {
    if (code != 0) {
        throw perf::Failure(nng_strerror(code));
    }
}

void serve(int port) {
    nng_socket socket;
    need_nng(nng_rep0_open(&socket));
    need_nng(nng_listen(socket, url(port).c_str(), nullptr, 0));
    for (;;) {
        nng_msg* message = nullptr;
        need_nng(nng_recvmsg(socket, &message, 0));
        need_nng(nng_sendmsg(socket, message, 0));
    }
}

class Client final : public perf::EchoClient {
 public:
    explicit Client(int port) {
        need_nng(nng_req0_open(&socket_));
        need_nng(nng_socket_set_ms(socket_, NNG_OPT_RECONNMINT, 10));
        need_nng(nng_dial(socket_, url(port).c_str(), nullptr, NNG_FLAG_NONBLOCK));
    }
    ~Client() override { nng_close(socket_); }
    bool call(const std::string& bytes) override {
        nng_msg* message = nullptr;
        if (nng_msg_alloc(&message, 0) != 0 ||
            nng_msg_append(message, bytes.data(), bytes.size()) != 0 ||
            nng_sendmsg(socket_, message, 0) != 0 || nng_recvmsg(socket_, &message, 0) != 0) {
            return false;
        }
        const bool good = nng_msg_len(message) == bytes.size();
        nng_msg_free(message);
        return good;
    }

 private:
    nng_socket socket_{};
};

}  // namespace

int main(int argc, char** argv) {
    return perf::run_echo("nng", argc, argv, serve,
                          [](int port) { return std::make_unique<Client>(port); });
}
