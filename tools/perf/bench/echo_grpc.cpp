// SPDX-License-Identifier: BSD-3-Clause
#include <grpcpp/grpcpp.h>

#include <echo.grpc.pb.h>  // generated
#include "../processes.hpp"
#include "echo.hpp"

namespace {

std::string place(int port) {
    return "127.0.0.1:" + std::to_string(port);
}

class Service final : public perf::peer::Echo::Service {
    grpc::Status Call(grpc::ServerContext* /*context*/, const perf::peer::Bytes* request,
                      perf::peer::Bytes* response) override {
        response->set_data(request->data());
        return grpc::Status::OK;
    }
};

void serve(int port) {
    Service service;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(place(port), grpc::InsecureServerCredentials());
    builder.RegisterService(&service);
    const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    if (server == nullptr) {
        throw perf::Failure("cannot serve");
    }
    server->Wait();
}

class Client final : public perf::EchoClient {
 public:
    explicit Client(int port)
        : stub_(perf::peer::Echo::NewStub(
              grpc::CreateChannel(place(port), grpc::InsecureChannelCredentials()))) {}
    bool call(const std::string& bytes) override {
        grpc::ClientContext context;
        context.set_wait_for_ready(true);
        perf::peer::Bytes request;
        perf::peer::Bytes response;
        request.set_data(bytes);
        return stub_->Call(&context, request, &response).ok() &&
               response.data().size() == bytes.size();
    }

 private:
    std::unique_ptr<perf::peer::Echo::Stub> stub_;
};

}  // namespace

int main(int argc, char** argv) {
    return perf::run_echo("grpc", argc, argv, serve,
                          [](int port) { return std::make_unique<Client>(port); });
}
