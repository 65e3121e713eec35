// SPDX-License-Identifier: BSD-3-Clause
// A key-value service: keys travel in messages, values by bulk transfers, whatever their size.
//   kv_bulk server [INFO]                prints its address, serves until SIGTERM
//   kv_bulk put ADDRESS KEY FILE         stores the content of FILE
//   kv_bulk get ADDRESS KEY              writes the value to standard output
//   kv_bulk keys ADDRESS                 lists keys and sizes
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hg/bulk.hpp"
#include "hg/engine.hpp"

namespace kv {

using hg::RemoteBulk;
using hg::Share;

struct Entry {
    std::string key;
    std::uint64_t size = 0;
};

// What both sides know.
constexpr hg::Rpc<void(std::string, RemoteBulk<Share::read>)> put{"kv.put"};
// Answers the size of the value; as much of it as fits is in the memory then.
constexpr hg::Rpc<std::uint64_t(std::string_view, RemoteBulk<Share::write>)> get{"kv.get"};
constexpr hg::Rpc<std::uint64_t(std::string_view)> size_of{"kv.size"};
constexpr hg::Rpc<std::vector<Entry>()> keys{"kv.keys"};

constexpr std::uint64_t kLargest = std::uint64_t{1} << 30;  // bytes: callers are strangers

// Values lie in the library's memory, ready for transfers. One that is replaced stays while it is
// being read.
class Store {
 public:
    using Value = hg::Bulk<Share::both>;

    void put(std::string key, Value value) {
        const std::lock_guard guard(mutex_);
        values_.insert_or_assign(std::move(key), std::move(value));
    }
    Value get(std::string_view key) const {
        const std::lock_guard guard(mutex_);
        const auto found = values_.find(key);
        if (found == values_.end()) {
            throw hg::Exception(hg::Status::noentry, "no key \"" + std::string(key) + '"');
        }
        return found->second;
    }
    std::vector<Entry> list() const {
        const std::lock_guard guard(mutex_);
        std::vector<Entry> entries;
        for (const auto& [key, value] : values_) {
            entries.push_back({key, value.size()});
        }
        return entries;
    }

 private:
    mutable std::mutex mutex_;
    std::map<std::string, Value, std::less<>> values_;
};

void serve(hg::Engine& engine, Store& store) {
    engine.serve(put, [&](std::string key, RemoteBulk<Share::read> from) -> hg::Task<> {
        if (from.size() > kLargest) {
            throw hg::Exception(hg::Status::msgsize, "a value may have 1 GiB");
        }
        auto value = Store::Value::allocate(engine, from.size());
        co_await from.pull(value);
        store.put(std::move(key), std::move(value));
    });
    engine.serve(get,
                 [&](std::string_view key, RemoteBulk<Share::write> to) -> hg::Task<std::uint64_t> {
                     const Store::Value value = store.get(key);
                     co_await to.push(value, {.size = std::min(value.size(), to.size())});
                     co_return value.size();
                 });
    engine.serve(size_of, [&](std::string_view key) { return store.get(key).size(); });
    engine.serve(keys, [&] { return store.list(); });
}

int run_server(const std::string& info) {
    // Before the engine's thread begins, which inherits it.
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);

    Store store;
    hg::Engine engine = hg::Engine::server(info, {.handlers = 64});
    serve(engine, store);
    std::printf("%s\n", engine.uri().c_str());
    std::fflush(stdout);
    int signal = 0;
    sigwait(&signals, &signal);
    engine.shutdown(std::chrono::seconds(5));  // handlers use the store until then
    return 0;
}

int run_put(hg::Engine& engine, const hg::Peer& server, const char* key, const char* path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        std::fprintf(stderr, "cannot read %s\n", path);
        return 1;
    }
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    const auto shown = hg::Bulk<Share::read>::expose(engine, content);
    put(server, key, shown).get();
    return 0;
}

int run_get(hg::Engine& engine, const hg::Peer& server, const char* key) {
    for (std::uint64_t size = size_of(server, key).get();;) {
        const auto here = hg::Bulk<Share::write>::allocate(engine, size);
        const std::uint64_t now = get(server, key, here).get();
        if (now <= size) {
            std::fwrite(here.bytes().data(), 1, now, stdout);
            return 0;
        }
        size = now;  // somebody has replaced it by a larger one
    }
}

}  // namespace kv

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    try {
        if (what == "server") {
            return kv::run_server(argc > 2 ? argv[2] : "na+sm");
        }
        if (argc > 2) {
            const std::string address = argv[2];
            hg::Engine engine = hg::Engine::client(address.substr(0, address.find("://")));
            const hg::Peer server = engine.connect(address);
            if (what == "put" && argc == 5) {
                return kv::run_put(engine, server, argv[3], argv[4]);
            }
            if (what == "get" && argc == 4) {
                return kv::run_get(engine, server, argv[3]);
            }
            if (what == "keys" && argc == 3) {
                for (const kv::Entry& entry : kv::keys(server).get()) {
                    std::printf("%s %llu\n", entry.key.c_str(),
                                static_cast<unsigned long long>(entry.size));
                }
                return 0;
            }
        }
    } catch (const hg::Exception& e) {
        std::fprintf(stderr, "%s: %s\n", to_string(e.status()), e.what());
        return 1;
    }
    std::fprintf(
        stderr, "usage: %s server [INFO] | put ADDRESS KEY FILE | get ADDRESS KEY | keys ADDRESS\n",
        argv[0]);
    return 2;
}
