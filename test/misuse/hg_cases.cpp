// SPDX-License-Identifier: BSD-3-Clause
// Mistakes that must not compile, one at a time: the compiler is run with MISUSE=0 (none: this
// compiles), 1, 2, ... The comment of a case is what the compiler has to say; see check.py.
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hg/bulk.hpp"
#include "hg/engine.hpp"

struct Widget {
    explicit Widget(int);
    virtual ~Widget();
};

constexpr hg::Rpc<int(int, std::string)> find{"find"};
constexpr hg::OneWay<void(int)> note{"note"};
constexpr hg::Rpc<void(hg::RemoteBulk<hg::Share::read>)> store{"store"};
constexpr hg::Rpc<void(std::string)> path{"path"};
constexpr hg::Rpc<std::string_view()> text{"text"};

#if MISUSE == 1  // a pointer means nothing to another process
constexpr hg::Rpc<void(const char*)> pointer{"pointer"};
#elif MISUSE == 2   // this type cannot be sent: make it an aggregate, or write beside it
constexpr hg::Rpc<void(Widget)> widget{"widget"};
#elif MISUSE == 3   // this type cannot be sent: make it an aggregate, or write beside it
constexpr hg::Rpc<std::vector<Widget>(int)> widgets{"widgets"};
#elif MISUSE == 4   // long double differs between machines
constexpr hg::Rpc<long double(int)> wide{"wide"};
#elif MISUSE == 27  // write friend struct hg::Access; into the class
class Hidden {
    int value_ = 0;
    template <class Archive>
    void serialize(Archive& ar) {
        ar(value_);
    }
};
constexpr hg::Rpc<void(Hidden)> hidden{"hidden"};
#elif MISUSE == 28  // serialize() of this type cannot be called
struct Shown {  // an aggregate all the same
    int value;

 private:
    template <class Archive>
    void serialize(Archive& ar) {
        ar(value);
    }
};
constexpr hg::Rpc<void(Shown)> shown{"shown"};
#elif MISUSE == 29  // this type has no default constructor
struct Made {
    explicit Made(int);
    template <class Archive>
    void serialize(Archive&) {}
};
constexpr hg::Rpc<Made()> made{"made"};
#elif MISUSE == 30  // an aggregate with a base class is not seen through
struct Base {
    int a;
};
struct Derived : Base {
    int b;
};
constexpr hg::Rpc<void(Derived)> derived{"derived"};
#elif MISUSE == 31  // a span of elements larger than a byte would not be aligned in the message
constexpr hg::Rpc<void(std::span<const double>)> doubles{"doubles"};
#elif MISUSE == 32  // a span that is received is read only
constexpr hg::Rpc<void(std::span<char>)> chars{"chars"};
#elif MISUSE == 33  // is returned by co_return co_await
hg::Task<int> forgotten(hg::Peer peer) {
    co_return find(peer, 1, "text");
}
#elif MISUSE == 34  // this type cannot be sent: make it an aggregate, or write beside it
struct Inner {
    explicit Inner(int);
    template <class Archive>
    void serialize(Archive&) {}
};
constexpr hg::Rpc<void(std::vector<Inner>)> inner{"inner"};
#elif MISUSE == 5   // a one-way RPC has no result
constexpr hg::OneWay<int(int)> result{"result"};
#endif

hg::Task<> use(hg::Engine& engine, hg::Peer peer, hg::RemoteBulk<hg::Share::read> readable,
               hg::RemoteBulk<hg::Share::write> writable) {
    std::vector<int> memory(10);
    const std::vector<int> constant(10);
    std::vector<std::string_view> views(10);
    const auto local = hg::Bulk<hg::Share::read>::expose(engine, memory);
#if MISUSE == 0
    engine.serve(find, [](int n, const std::string& s) { return n + static_cast<int>(s.size()); });
    engine.serve(note, [](hg::Request&, int) -> hg::Task<> { co_return; });
    (void)co_await find(peer, 1, "text", hg::within(std::chrono::seconds(1)));
    co_await store(peer, local);
    co_await readable.pull(memory);
    co_await writable.push(constant);
    engine.serve(path, [](std::filesystem::path) -> hg::Task<> { co_return; });
    const auto held = co_await text(peer);
    (void)held->size();
#elif MISUSE == 6   // an RPC is called with a peer, the arguments of its definition
    (void)co_await find(peer, 1);
#elif MISUSE == 7   // an argument does not convert to its parameter
    (void)co_await find(peer, 1, 2);
#elif MISUSE == 8   // a floating-point argument for an integer parameter
    (void)co_await find(peer, 1.5, "text");
#elif MISUSE == 9   // the call is not sent before its result is asked for
    find(peer, 1, "text");
#elif MISUSE == 10  // a handler takes the arguments of the RPC's definition
    engine.serve(find, [](int) { return 1; });
#elif MISUSE == 11  // a handler answers the result of the RPC's definition
    engine.serve(find, [](int, std::string) { return std::string(); });
#elif MISUSE == 12  // a handler answers the result of the RPC's definition
    engine.serve(note, [](int) { return 1; });
#elif MISUSE == 13  // the peer's memory may be read only
    co_await readable.push(local);
#elif MISUSE == 14  // the peer's memory may be written only
    co_await writable.pull(memory);
#elif MISUSE == 15  // what is pulled is written into local memory
    co_await readable.pull(local);
#elif MISUSE == 16  // memory that is const cannot be exposed for writing
    (void)hg::Bulk<hg::Share::write>::expose(engine, constant);
#elif MISUSE == 17  // an argument does not convert to its parameter
    co_await store(peer, hg::Bulk<hg::Share::write>::allocate(engine, 10));
#elif MISUSE == 18  // memory that is gone before the transfer
    co_await readable.pull(std::vector<int>(10));
#elif MISUSE == 21  // callers of every RPC can have a hg::Result: name its value only
    constexpr hg::Rpc<hg::Result<int>()> checked{"checked"};
    (void)co_await checked(peer);
#elif MISUSE == 22  // a coroutine's reference to another type than the definition's
    engine.serve(path, [](const std::filesystem::path&) -> hg::Task<> { co_return; });
#elif MISUSE == 23  // deleted
    (void)*co_await text(peer);
#elif MISUSE == 24  // nothing sleeps before it is awaited
    engine.sleep(std::chrono::seconds(1));
#elif MISUSE == 25  // no matching
    (void)hg::Bulk<hg::Share::read>::expose(engine, views);
#elif MISUSE == 26  // no matching
    co_await readable.pull(views);
#elif MISUSE == 19  // a Task runs only when it is awaited
    use(engine, peer, readable, writable);
#endif
    (void)local;
    (void)views;
    co_return;
}
