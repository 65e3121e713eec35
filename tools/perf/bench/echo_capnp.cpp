// SPDX-License-Identifier: BSD-3-Clause
#include <capnp/ez-rpc.h>
#include <unistd.h>

#include <echo.capnp.h>  // generated
#include "echo.hpp"

namespace {

class Server final : public Echo::Server {
    kj::Promise<void> call(CallContext context) override {
        context.getResults().setData(context.getParams().getData());
        return kj::READY_NOW;
    }
};

void serve(int port) {
    capnp::EzRpcServer server(kj::heap<Server>(), "127.0.0.1", static_cast<kj::uint>(port));
    kj::NEVER_DONE.wait(server.getWaitScope());
}

class Client final : public perf::EchoClient {
 public:
    explicit Client(int port) : port_(static_cast<kj::uint>(port)) {
        // It does not wait for a server that is not there yet.
        for (int left = 500;; --left) {
            client_ = std::make_unique<capnp::EzRpcClient>("127.0.0.1", port_);
            try {
                call("x");
                return;
            } catch (const kj::Exception&) {
                if (left == 0) {
                    throw;
                }
                client_.reset();
                usleep(10'000);
            }
        }
    }
    bool call(const std::string& bytes) override {
        auto request = client_->getMain<Echo>().callRequest();
        request.setData(
            capnp::Data::Reader(reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()));
        return request.send().wait(client_->getWaitScope()).getData().size() == bytes.size();
    }

 private:
    kj::uint port_;
    std::unique_ptr<capnp::EzRpcClient> client_;
};

}  // namespace

int main(int argc, char** argv) {
    return perf::run_echo("capnp", argc, argv, serve,
                          [](int port) { return std::make_unique<Client>(port); });
}
