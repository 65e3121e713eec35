// SPDX-License-Identifier: BSD-3-Clause
#include <zmq.h>

#include <vector>

#include "../processes.hpp"
#include "echo.hpp"

namespace {

std::string url(int port) {
    return "tcp://127.0.0.1:" + std::to_string(port);
}

void need_zmq(bool good) {
    if (!good) {
        throw perf::Failure(zmq_strerror(zmq_errno()));
    }
}

void serve(int port) {
    void* context = zmq_ctx_new();
    void* socket = zmq_socket(context, ZMQ_REP);
    need_zmq(socket != nullptr && zmq_bind(socket, url(port).c_str()) == 0);
    for (;;) {
        zmq_msg_t message;
        zmq_msg_init(&message);
        need_zmq(zmq_msg_recv(&message, socket, 0) >= 0);
        need_zmq(zmq_msg_send(&message, socket, 0) >= 0);
    }
}

class Client final : public perf::EchoClient {
 public:
    explicit Client(int port) : context_(zmq_ctx_new()), socket_(zmq_socket(context_, ZMQ_REQ)) {
        need_zmq(socket_ != nullptr && zmq_connect(socket_, url(port).c_str()) == 0);
    }
    ~Client() override {
        zmq_close(socket_);
        zmq_ctx_term(context_);
    }
    bool call(const std::string& bytes) override {
        answer_.resize(bytes.size());
        return zmq_send(socket_, bytes.data(), bytes.size(), 0) >= 0 &&
               zmq_recv(socket_, answer_.data(), answer_.size(), 0) ==
                   static_cast<int>(bytes.size());
    }

 private:
    void* context_;
    void* socket_;
    std::vector<char> answer_;
};

}  // namespace

int main(int argc, char** argv) {
    return perf::run_echo("zeromq", argc, argv, serve,
                          [](int port) { return std::make_unique<Client>(port); });
}
