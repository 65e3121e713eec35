// SPDX-License-Identifier: BSD-3-Clause
#include "echo.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <map>

#include "../report.hpp"
#include "pair.hpp"

namespace perf {
namespace {

int free_port() {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* name = reinterpret_cast<sockaddr*>(&address);
    need(fd >= 0 && bind(fd, name, size) == 0 && getsockname(fd, name, &size) == 0, "no port");
    close(fd);
    return ntohs(address.sin_port);
}

}  // namespace

int run_echo(const char* library, int argc, char** argv, const EchoServe& serve,
             const EchoConnect& connect) {
    Options o;
    o.tool = std::string("echo_") + library;
    o.protocol = library;
    o.min_size = 8;
    o.max_size = 65536;
    CLI::App app{"Round trips of another library", o.tool};
    const auto size = CLI::AsSizeValue(false);
    app.add_option("-y,--min-size", o.min_size, "smallest size")->transform(size);
    app.add_option("-z,--max-size", o.max_size, "largest size")->transform(size);
    app.add_option("--seconds", o.seconds, "time per size")->check(CLI::PositiveNumber);
    app.add_option("--cpus", o.cpus, "processors of the two processes")
        ->delimiter(',')
        ->allow_extra_args(false);
    static const std::map<std::string, Format> formats = {
        {"text", Format::text}, {"csv", Format::csv}, {"json", Format::json}};
    app.add_option("--format", o.format, "text, csv or json")
        ->transform(CLI::CheckedTransformer(formats, CLI::ignore_case).description({}))
        ->type_name("NAME");
    CLI11_PARSE(app, argc, argv);
    try {
        check_cpus(o.cpus);
        const int port = free_port();
        const Other other(o, [&serve, port] { serve(port); });
        const std::unique_ptr<EchoClient> client = connect(port);
        Report report(o, Measure::rate);
        for (std::uint64_t bytes = std::max<std::uint64_t>(o.min_size, 1); bytes <= o.max_size;
             bytes *= 2) {
            const std::string message(bytes, 'x');
            report.row(bytes,
                       measure(o,
                               [&] {
                                   if (!client->call(message)) {
                                       throw Failure("a call failed");
                                   }
                               }),
                       1);
        }
        report.finish();
        return 0;
    } catch (const std::exception& failure) {
        return fmt::print(stderr, "{}: {}\n", o.tool, failure.what()), 1;
    }
}

}  // namespace perf
