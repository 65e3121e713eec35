// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/intrusive_list.hpp"

#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <vector>

#include "support/options.hpp"
#include "support/payload.hpp"

namespace {

struct Base {
    virtual ~Base() = default;
    int padding = 7;
};
// Hooks away from the start, in a class with a vtable and in two lists at once.
struct Item : Base {
    explicit Item(int v) : value(v) {}
    int value;
    na::util::ListHook first;
    na::util::ListHook second;
};
using First = na::util::IntrusiveList<Item, &Item::first>;
using Second = na::util::IntrusiveList<Item, &Item::second>;

template <typename List>
std::vector<int> values(List& list) {
    std::vector<int> all;
    for (Item* i = list.front(); i != nullptr; i = list.next(*i)) {
        all.push_back(i->value);
    }
    return all;
}

}  // namespace

TEST_CASE("items are listed in order and leave from anywhere", "[list]") {
    First list;
    Item a(1), b(2), c(3), d(4);
    CHECK(list.empty());
    CHECK(list.front() == nullptr);
    CHECK(list.pop_front() == nullptr);
    list.push_back(b);
    list.push_back(c);
    list.push_front(a);
    list.push_back(d);
    CHECK(values(list) == std::vector<int>{1, 2, 3, 4});
    First::remove(c);
    CHECK_FALSE(c.first.linked());
    First::remove(a);
    First::remove(d);
    CHECK(values(list) == std::vector<int>{2});
    CHECK(list.pop_front() == &b);
    CHECK(list.empty());
    list.push_back(a);  // again
    CHECK(values(list) == std::vector<int>{1});
    list.pop_front();
}

TEST_CASE("an item is in two lists at once", "[list]") {
    First one;
    Second two;
    Item a(1), b(2);
    one.push_back(a);
    one.push_back(b);
    two.push_front(a);
    two.push_front(b);
    CHECK(values(one) == std::vector<int>{1, 2});
    CHECK(values(two) == std::vector<int>{2, 1});
    First::remove(a);
    CHECK(values(two) == std::vector<int>{2, 1});
    one.pop_front();
    two.pop_front();
    two.pop_front();
}

TEST_CASE("a list behaves like a deque", "[list]") {
    support::Random random(support::options().seed);
    First list;
    std::deque<int> model;
    std::vector<std::unique_ptr<Item>> items;
    for (int i = 0; i < 50; ++i) {
        items.push_back(std::make_unique<Item>(i));
    }
    for (int step = 0; step < 5000; ++step) {
        Item& item = *items[random.below(items.size())];
        if (item.first.linked()) {
            First::remove(item);
            std::erase(model, item.value);
        } else if (random.below(2) == 0) {
            list.push_back(item);
            model.push_back(item.value);
        } else {
            list.push_front(item);
            model.push_front(item.value);
        }
        REQUIRE(values(list) == std::vector<int>(model.begin(), model.end()));
    }
    while (list.pop_front() != nullptr) {
    }
}
