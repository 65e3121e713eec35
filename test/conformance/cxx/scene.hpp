// SPDX-License-Identifier: BSD-3-Clause
// A server and a client of the C++ API in one process, and the RPCs that its tests share.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/engine.hpp"
#include "support/options.hpp"
#include "support/until.hpp"

namespace cxxtest {

struct Point {
    std::int32_t x = 0;
    std::int32_t y = 0;
    friend bool operator==(const Point&, const Point&) = default;
};

inline constexpr hg::Rpc<int(int, int)> add{"add"};
inline constexpr hg::Rpc<std::string(std::string)> echo{"echo"};
inline constexpr hg::Rpc<std::vector<Point>(std::vector<Point>, bool)> mirror{"mirror"};
inline constexpr hg::Rpc<void()> nothing{"nothing"};
inline constexpr hg::Rpc<void(int)> fail{"fail"};
inline constexpr hg::OneWay<void(std::string)> note{"note"};
inline constexpr hg::Rpc<std::string(std::string_view)> shout{"shout"};
inline constexpr hg::Rpc<std::string_view(int)> word{"word"};

// Two engines, each with its own thread unless told otherwise.
struct Pair {
    explicit Pair(hg::EngineOptions server_options = {}, hg::EngineOptions client_options = {})
        : server(hg::Engine::server(support::options().protocol, std::move(server_options))),
          client(hg::Engine::server(support::options().protocol, std::move(client_options))),
          peer(client.connect(server.uri())) {}
    hg::Engine server;
    hg::Engine client;
    hg::Peer peer;  // the server
};

}  // namespace cxxtest
