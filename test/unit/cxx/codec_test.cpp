// SPDX-License-Identifier: BSD-3-Clause
// Values as bytes and back, and bytes that nobody meant well with.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <random>

#include "hg/codec.hpp"

namespace {

struct Point {
    std::int32_t x = 0;
    double y = 0;
    friend bool operator==(const Point&, const Point&) = default;
};
enum class Color : std::uint8_t { red, green };
struct Everything {
    bool flag = false;
    char name[6] = {};
    std::int16_t numbers[2][2] = {};
    std::array<Point, 2> points{};
    std::string text;
    std::vector<bool> bits;
    std::deque<int> deque;
    std::list<std::string> list;
    std::map<std::string, int> map;
    std::unordered_map<int, std::string> hashed;
    std::set<int> set;
    std::multimap<int, int> multi;
    std::pair<int, std::string> pair;
    std::tuple<int, Color, bool> tuple;
    std::optional<Point> maybe;
    std::variant<std::monostate, int, std::string> one_of;
    std::bitset<11> set_of_bits;
    std::complex<float> complex;
    std::chrono::milliseconds time{};
    std::chrono::system_clock::time_point when{};
    std::u16string wide;
    friend bool operator==(const Everything&, const Everything&) = default;
};
struct Nothing {};
struct Node {
    int value = 0;
    std::vector<Node> children;
    std::unique_ptr<Node> next;
};
class Member {
 public:
    int a = 1;
    std::string b;
    template <class Archive>
    void serialize(Archive& ar) {
        ar(a, b);
    }
};
class Hidden {
 public:
    explicit Hidden(int v = 0) : value_(v) {}
    int value() const { return value_; }

 private:
    friend struct hg::Access;
    template <class Archive>
    void serialize(Archive& ar) {
        ar& value_;
    }
    int value_;
};
struct Split {
    int a = 0;
    template <class Archive>
    void save(Archive& ar) const {
        ar(a + 1);
    }
    template <class Archive>
    void load(Archive& ar) {
        ar(a);
    }
};

template <typename T>
hg::Status decode_status(std::vector<std::uint8_t> bytes, const hg::Limits& limits = {}) {
    return hg::decode<T>(std::as_bytes(std::span(bytes)), limits).status();
}

using hg::Status;

}  // namespace

namespace other {
enum class Level : std::uint8_t { low = 1, high = 2 };
constexpr bool valid_enum(Level l) {
    return l == Level::low || l == Level::high;
}
class Foreign {
 public:
    std::vector<int> content;
};
template <class Archive>
void serialize(Archive& ar, Foreign& f) {
    ar& f.content;
}
}  // namespace other

static_assert(hg::detail::field_count<Point> == 2);
static_assert(hg::detail::field_count<Everything> == 21);
static_assert(hg::detail::field_count<Nothing> == 0);
static_assert(hg::detail::kind_of<std::string>() == hg::detail::kind_of<std::string_view>());
static_assert(hg::detail::kind_of<std::vector<int>>() ==
              hg::detail::kind_of<std::span<const int>>());
static_assert(hg::detail::kind_of<std::vector<int>>() != hg::detail::kind_of<std::vector<long>>());
static_assert(hg::detail::kind_of<int>() != hg::detail::kind_of<unsigned>());
static_assert(!hg::Sendable<int*> && !hg::Sendable<long double> && hg::Sendable<Everything>);
static_assert(!hg::detail::has_views<Everything>());
static_assert(hg::detail::has_views<std::vector<std::string_view>>());

TEST_CASE("everything comes back as it was") {
    const Everything in{
        .flag = true,
        .name = "cinna",
        .numbers = {{1, -2}, {3, -4}},
        .points = {Point{1, 2.5}, Point{-3, 0}},
        .text = "text",
        .bits = {true, false, true},
        .deque = {1, 2, 3},
        .list = {"a", "", "ccc"},
        .map = {{"one", 1}, {"two", 2}},
        .hashed = {{5, "five"}},
        .set = {3, 1, 2},
        .multi = {{1, 1}, {1, 2}},
        .pair = {7, "seven"},
        .tuple = {1, Color::green, true},
        .maybe = Point{9, 9},
        .one_of = "variant",
        .set_of_bits = 0x5a5,
        .complex = {1.5F, -2},
        .time = std::chrono::milliseconds(-5),
        .when = std::chrono::system_clock::time_point(std::chrono::seconds(77)),
        .wide = u"wide",
    };
    const auto bytes = hg::encode(in);
    const auto out = hg::decode<Everything>(bytes);
    REQUIRE(out);
    CHECK(*out == in);
    // No prefix of it is a value, nor anything longer.
    for (std::size_t n = 0; n < bytes.size(); ++n) {
        CHECK(!hg::decode<Everything>(std::span(bytes).first(n)));
    }
    auto longer = bytes;
    longer.push_back({});
    CHECK(hg::decode<Everything>(longer).status() == Status::protocol_error);
    CHECK(hg::encode(Nothing{}).empty());
    CHECK(hg::decode<Nothing>({}));
}

TEST_CASE("types with functions of their own") {
    Member m;
    m.a = 5;
    m.b = "b";
    const auto out = hg::decode<Member>(hg::encode(m));
    REQUIRE(out);
    CHECK(out->a == 5);
    CHECK(out->b == "b");
    CHECK(hg::decode<Hidden>(hg::encode(Hidden(8)))->value() == 8);
    CHECK(hg::decode<Split>(hg::encode(Split{3}))->a == 4);
    other::Foreign f;
    f.content = {1, 2};
    CHECK(hg::decode<std::vector<other::Foreign>>(hg::encode(std::vector{f, f}))->at(1).content ==
          f.content);
}

TEST_CASE("pointers, each with an object of its own") {
    const auto one = std::make_shared<const std::string>("one");
    const std::vector<std::shared_ptr<const std::string>> in{one, nullptr, one};
    const auto out = hg::decode<std::vector<std::shared_ptr<const std::string>>>(hg::encode(in));
    REQUIRE(out);
    REQUIRE(out->size() == 3);
    CHECK(*out->at(0) == "one");
    CHECK(out->at(1) == nullptr);
    CHECK(*out->at(2) == "one");
    CHECK(out->at(0) != out->at(2));
    CHECK(hg::encode(std::optional<int>(5)) == hg::encode(std::make_shared<int>(5)));
    CHECK(hg::encode(std::optional<int>(5)) == hg::encode(std::make_unique<int>(5)));
    struct Link {
        std::shared_ptr<Link> next;
        std::shared_ptr<Link> other;
    };
    auto ring = std::make_shared<Link>();
    ring->next = std::make_shared<Link>(Link{ring, ring});
    try {
        (void)hg::encode(ring);
        FAIL("a ring was encoded");
    } catch (const hg::Exception& e) {
        CHECK(e.status() == Status::invalid_arg);
    }
    ring->next.reset();
    // What they point to is memory that a message takes.
    struct Page {
        std::array<std::optional<std::string>, 64> lines;
    };
    const std::vector<std::unique_ptr<Page>> none(1000);
    CHECK(hg::decode<std::vector<std::unique_ptr<Page>>>(hg::encode(none), {.memory = 100'000}));
    std::vector<std::unique_ptr<Page>> some(1000);
    some[500] = std::make_unique<Page>();
    CHECK(hg::decode<std::vector<std::unique_ptr<Page>>>(hg::encode(some),
                                                         {.memory = 10'000, .per_byte = 8})
              .status() == Status::success);
    for (auto& page : some) {
        page = std::make_unique<Page>();
    }
    CHECK(hg::decode<std::vector<std::unique_ptr<Page>>>(hg::encode(some),
                                                         {.memory = 10'000, .per_byte = 8})
              .status() == Status::msgsize);
    CHECK(decode_status<std::vector<std::deque<int>>>(std::vector<std::uint8_t>(1000, 0),
                                                      {.memory = 0, .per_byte = 0}) ==
          Status::protocol_error);  // none, and bytes behind them
    std::vector<std::uint8_t> deques{0xe8, 0x07};
    deques.resize(1002, 0);
    CHECK(decode_status<std::vector<std::deque<int>>>(deques) == Status::success);
    CHECK(decode_status<std::vector<std::deque<int>>>(deques, {.memory = 200'000, .per_byte = 0}) ==
          Status::msgsize);
}

TEST_CASE("paths, lists that point forward, containers with hashes and allocators of their own") {
    const std::filesystem::path path = "/a/b c/\xc3\xa4";
    CHECK(hg::decode<std::filesystem::path>(hg::encode(path)).value() == path);
    CHECK(hg::encode(path) == hg::encode(path.native()));
    CHECK(decode_status<std::filesystem::path>({3, 'a', 0, 'b'}) == Status::protocol_error);
    const std::forward_list<std::string> list{"a", "b", "c"};
    CHECK(hg::decode<std::forward_list<std::string>>(hg::encode(list)).value() == list);
    CHECK(hg::encode(list) == hg::encode(std::vector<std::string>{"a", "b", "c"}));
    struct Hash {
        std::size_t operator()(const Point& p) const noexcept {
            return static_cast<std::size_t>(p.x);
        }
    };
    struct Near {
        bool operator()(const Point& a, const Point& b) const noexcept { return a.x == b.x; }
    };
    using Set = std::unordered_set<Point, Hash, Near>;
    const Set set{{1, 1.5}, {2, 2.5}};
    CHECK(hg::decode<Set>(hg::encode(set)).value() == set);
    // Two that are one where they arrive.
    CHECK(hg::decode<Set>(hg::encode(std::set<int>{})));
    const std::vector<Point> twice{{1, 1.5}, {1, 2.5}};
    CHECK(hg::decode<Set>(hg::encode(twice)).status() == Status::protocol_error);
    using Map = std::unordered_map<Point, std::string, Hash, Near>;
    const Map map{{{1, 1.5}, "one"}};
    CHECK(hg::decode<Map>(hg::encode(map)).value() == map);
    CHECK(hg::decode<std::wstring>(hg::encode(std::wstring(L"wide"))).value() == L"wide");
    CHECK(hg::decode<std::u8string>(hg::encode(std::u8string(u8"eight"))).value() == u8"eight");
}

TEST_CASE("results, one by one") {
    using Results = std::vector<hg::Result<std::string>>;
    Results in;
    in.emplace_back("fine");
    in.emplace_back(hg::Error{Status::noentry, "no such key"});
    const auto out = hg::decode<Results>(hg::encode(in));
    REQUIRE(out);
    REQUIRE(out->size() == 2);
    CHECK(out->at(0).value() == "fine");
    CHECK(out->at(1).status() == Status::noentry);
    CHECK(out->at(1).error().message == "no such key");
    const std::pair<hg::Result<void>, hg::Result<void>> both{{}, hg::Error{Status::busy, ""}};
    const auto again = hg::decode<std::pair<hg::Result<void>, hg::Result<void>>>(hg::encode(both));
    REQUIRE(again);
    CHECK(again->first);
    CHECK(again->second.status() == Status::busy);
    CHECK(decode_status<hg::Result<bool>>({1, 1}) == Status::success);
    CHECK(decode_status<hg::Result<bool>>({0, 0, 0}) == Status::protocol_error);    // "success"
    CHECK(decode_status<hg::Result<bool>>({0, 200, 0}) == Status::protocol_error);  // no code
    CHECK(decode_status<hg::Result<bool>>({2, 1}) == Status::protocol_error);
    CHECK(decode_status<hg::Result<void>>({0, 5}) == Status::protocol_error);
#if defined(__cpp_lib_expected)
    using Expected = std::expected<int, std::string>;
    CHECK(hg::decode<Expected>(hg::encode(Expected(3))).value() == 3);
    CHECK(hg::decode<Expected>(hg::encode(Expected(std::unexpect, "no"))).value().error() == "no");
#endif
}

TEST_CASE("enumerations that say which values they have") {
    using other::Level;
    CHECK(hg::decode<Level>(hg::encode(Level::high)).value() == Level::high);
    CHECK(decode_status<Level>({3}) == Status::protocol_error);
    CHECK(decode_status<std::vector<Level>>({2, 1, 2}) == Status::success);
    CHECK(decode_status<std::vector<Level>>({2, 1, 0}) == Status::protocol_error);
    CHECK(decode_status<std::array<Level, 2>>({1, 9}) == Status::protocol_error);
    CHECK(hg::detail::kind_of<Level>() == hg::detail::kind_of<Color>());
    CHECK(decode_status<Color>({77}) == Status::success);  // who does not say
}

TEST_CASE("recursive types, to a depth") {
    Node tree{.value = 1, .children = {}, .next = nullptr};
    tree.children.push_back(Node{.value = 2, .children = {}, .next = nullptr});
    tree.next = std::make_unique<Node>(Node{.value = 3, .children = {}, .next = nullptr});
    const auto out = hg::decode<Node>(hg::encode(tree));
    REQUIRE(out);
    CHECK(out->children.at(0).value == 2);
    CHECK(out->next->value == 3);
    // A chain that would take the stack.
    std::vector<std::uint8_t> deep;
    for (int i = 0; i < 100'000; ++i) {
        deep.insert(deep.end(), {0, 0, 0, 0, 0, 1});
    }
    CHECK(decode_status<Node>(deep) == Status::protocol_error);
    std::vector<std::uint8_t> wide;
    for (int i = 0; i < 100'000; ++i) {
        wide.insert(wide.end(), {0, 0, 0, 0, 1});
    }
    CHECK(decode_status<Node>(wide) == Status::protocol_error);
}

TEST_CASE("views point into the bytes") {
    const auto bytes = hg::encode(std::string("abc"));
    const auto view = hg::decode<std::string_view>(bytes);
    REQUIRE(view);
    CHECK(*view == "abc");
    CHECK(reinterpret_cast<const std::byte*>(view->data()) == bytes.data() + 1);
    const auto raw = hg::decode<std::span<const std::byte>>(bytes);
    REQUIRE(raw);
    CHECK(raw->data() == bytes.data() + 1);
    CHECK(!hg::decode<std::string_view>(std::span(bytes).first(3)));
}

TEST_CASE("elements larger than a byte are read where they are") {
    const std::vector<std::uint32_t> numbers{1, 2, 0x80000000U, 4};
    const auto bytes = hg::encode(numbers);
    const auto view = hg::decode<hg::Elements<std::uint32_t>>(bytes);
    REQUIRE(view);
    CHECK(view->bytes().data() == bytes.data() + 1);  // which is not aligned
    CHECK(view->size() == 4);
    CHECK((*view)[2] == 0x80000000U);
    CHECK(view->front() == 1);
    CHECK(view->back() == 4);
    CHECK(view->to_vector() == numbers);
    CHECK(std::ranges::equal(*view, numbers));
    CHECK(std::ranges::max(*view) == 0x80000000U);
    CHECK(view->end() - view->begin() == 4);
    CHECK(view->begin()[1] == 2);
    CHECK(view->sub(1, 2).to_vector() == std::vector<std::uint32_t>{2, 0x80000000U});
    CHECK(view->sub(3).size() == 1);
    CHECK(view->sub(9, 1).empty());
    std::uint32_t some[3] = {};
    CHECK(view->copy_to(some) == 3);
    CHECK(some[2] == 0x80000000U);
    CHECK(hg::encode(*view) == bytes);
    CHECK(hg::encode(hg::Elements<std::uint32_t>(numbers)) == bytes);
    CHECK(!hg::decode<hg::Elements<std::uint32_t>>(std::span(bytes).first(16)));
    const auto huge = hg::encode(std::vector<std::uint8_t>(3, 0xff));
    CHECK(!hg::decode<hg::Elements<double>>(huge));
    // A length whose bytes would not fit into 64 bits.
    std::vector<std::uint8_t> wraps(9, 0x80);
    wraps.push_back(1);
    wraps[8] = 0xa0;
    CHECK(decode_status<hg::Elements<std::uint64_t>>(wraps) == Status::protocol_error);
    CHECK(hg::decode<hg::Elements<double>>(hg::encode(std::vector<double>()))->empty());
}
static_assert(std::random_access_iterator<hg::Elements<double>::iterator>);
static_assert(hg::detail::has_views<hg::Elements<double>>());
static_assert(hg::detail::kind_of<hg::Elements<int>>() == hg::detail::kind_of<std::vector<int>>());

TEST_CASE("lengths are checked before anything is allocated") {
    // More than there is, overlong, beyond 64 bits.
    CHECK(decode_status<std::string>({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}) ==
          Status::protocol_error);
    CHECK(decode_status<std::string>({0x80, 0x00}) == Status::protocol_error);
    CHECK(decode_status<std::string>({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2}) ==
          Status::protocol_error);
    CHECK(decode_status<std::vector<std::uint64_t>>({2, 0, 0, 0, 0, 0, 0, 0, 0}) ==
          Status::protocol_error);
    // Elements that take no bytes of the message take memory here.
    CHECK(decode_status<std::vector<Nothing>>({0xff, 0xff, 0xff, 0xff, 0x0f}) == Status::msgsize);
    CHECK(decode_status<std::list<Nothing>>({0xff, 0xff, 0xff, 0x0f}) == Status::msgsize);
    CHECK(decode_status<std::vector<Nothing>>({100}) == Status::success);
    // A few bytes that would become many.
    struct Big {
        std::string s[100];
    };
    std::vector<std::uint8_t> many(4, 0);
    many = {0x80, 0x80, 0x04};
    many.resize(1 << 16, 0);
    CHECK(decode_status<std::vector<Big>>(many) == Status::protocol_error);
    CHECK(decode_status<std::vector<std::string>>({3, 0, 0, 0}, {.memory = 50, .per_byte = 0}) ==
          Status::msgsize);
}

TEST_CASE("values that are none are refused") {
    CHECK(decode_status<bool>({2}) == Status::protocol_error);
    CHECK(decode_status<std::optional<int>>({7}) == Status::protocol_error);
    CHECK(decode_status<std::variant<int, bool>>({2, 0, 0, 0, 0}) == Status::protocol_error);
    CHECK(decode_status<std::variant<int, bool>>({1, 1}) == Status::success);
    CHECK(decode_status<std::set<std::uint8_t>>({2, 1, 1}) == Status::protocol_error);
    CHECK(decode_status<std::map<std::uint8_t, bool>>({2, 1, 0, 1, 0}) == Status::protocol_error);
    CHECK(decode_status<std::multiset<std::uint8_t>>({2, 1, 1}) == Status::success);
    CHECK(decode_status<std::vector<bool>>({1, 9}) == Status::protocol_error);
}

TEST_CASE("whatever the bytes are, decoding ends and reads nothing else") {
    std::mt19937_64 random(7);
    Everything seed;
    seed.text = "seed";
    seed.list = {"a", "b"};
    seed.one_of = 5;
    const auto good = hg::encode(seed);
    unsigned accepted = 0;
    for (int i = 0; i < 20'000; ++i) {
        std::vector<std::byte> bytes = good;
        for (std::uint64_t n = 1 + random() % 4; n != 0; --n) {
            bytes[random() % bytes.size()] = static_cast<std::byte>(random());
        }
        bytes.resize(random() % (bytes.size() + 1));
        const auto out = hg::decode<Everything>(std::vector<std::byte>(bytes));
        if (out) {
            ++accepted;
            CHECK(hg::decode<Everything>(hg::encode(*out)));
        }
    }
    CHECK(accepted < 20'000);
}
