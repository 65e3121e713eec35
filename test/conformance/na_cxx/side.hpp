// SPDX-License-Identifier: BSD-3-Clause
// Two ends of the C++ API in this process, and what the cases share.
#pragma once

#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "na/domain.hpp"
#include "support/options.hpp"
#include "support/payload.hpp"
#include "support/until.hpp"

namespace cxx_test {

using support::options;
using support::until;

// A domain that listens, its context, and what others look up.
struct Side {
    explicit Side(const na::InitInfo& options = {})
        : domain(na::Domain::listen(support::options().protocol, options).value()),
          context(domain.open_context().value()),
          uri(domain.uri()) {}
    void pump() {
        (void)context.progress();
        context.trigger();
    }
    na::Domain domain;
    na::Context context;
    std::string uri;
};

// Two sides that know each other.
struct Pair {
    explicit Pair(const na::InitInfo& options = {})
        : a(options),
          b(options),
          to_b(a.domain.lookup(b.uri).value()),
          to_a(b.domain.lookup(a.uri).value()) {}
    void pump() {
        a.pump();
        b.pump();
    }
    template <typename Done>
    bool until(Done&& done) {
        return support::until(std::forward<Done>(done), [&] { pump(); });
    }
    Side a;
    Side b;
    na::Address to_b;  // in a's domain
    na::Address to_a;  // in b's
};

// How an operation ended, and how often its callback ran.
struct Outcome {
    int calls = 0;
    na::Status status = na::Status::other_error;
    std::vector<std::byte> data;
    std::uint32_t tag = 0;
    na::Address source;
    bool last = false;

    auto on_status() {
        return [this](na::Status s) {
            ++calls;
            status = s;
        };
    }
    auto on_data() {
        return [this](na::Status s, std::span<std::byte> bytes) {
            ++calls;
            status = s;
            data.assign(bytes.begin(), bytes.end());
        };
    }
    auto on_message() {
        return [this](na::Status s, const na::Message& m) {
            ++calls;
            status = s;
            data.assign(m.data.begin(), m.data.end());
            tag = m.tag;
            source = m.source;
            last = m.last;
        };
    }
    bool done() const { return calls != 0; }
    bool succeeded() const { return calls == 1 && ok(status); }
};

inline std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}
inline std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What is logged here is what the case is about.
struct Quiet {
    Quiet();
    ~Quiet();
};

}  // namespace cxx_test
