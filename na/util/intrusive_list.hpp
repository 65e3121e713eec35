// SPDX-License-Identifier: BSD-3-Clause
// Doubly linked list of objects that carry their own links: no allocation, removal in constant
// time. Not thread-safe; the owner of the list guards it.
#pragma once

#include <cassert>
#include <cstddef>

namespace na::util {

struct ListHook {
    ListHook* next = nullptr;
    ListHook* prev = nullptr;
    bool linked() const noexcept { return next != nullptr; }
};

// T has a member `ListHook T::*Hook`, reachable for the list.
template <typename T, ListHook T::*Hook>
class IntrusiveList {
 public:
    IntrusiveList() noexcept { head_.next = head_.prev = &head_; }
    IntrusiveList(const IntrusiveList&) = delete;
    IntrusiveList& operator=(const IntrusiveList&) = delete;

    bool empty() const noexcept { return head_.next == &head_; }
    T* front() noexcept { return empty() ? nullptr : object(head_.next); }
    void push_back(T& item) noexcept { insert(head_.prev, &(item.*Hook), &head_); }
    void push_front(T& item) noexcept { insert(&head_, &(item.*Hook), head_.next); }
    static void remove(T& item) noexcept {
        ListHook& h = item.*Hook;
        assert(h.linked());
        h.prev->next = h.next;
        h.next->prev = h.prev;
        h.next = h.prev = nullptr;
    }
    T* pop_front() noexcept {
        T* item = front();
        if (item != nullptr) {
            remove(*item);
        }
        return item;
    }
    // The item behind `item`, or null at the end.
    T* next(T& item) noexcept {
        ListHook* h = (item.*Hook).next;
        return h == &head_ ? nullptr : object(h);
    }

 private:
    static void insert(ListHook* before, ListHook* hook, ListHook* after) noexcept {
        assert(!hook->linked());
        hook->prev = before;
        hook->next = after;
        before->next = hook;
        after->prev = hook;
    }
    static T* object(ListHook* hook) noexcept {
        // The offset of the hook in T; the usual container_of, by way of a member pointer.
        alignas(T) static char probe[1] = {};
        const auto* base = reinterpret_cast<const T*>(probe);
        const auto offset =
            reinterpret_cast<const char*>(&(base->*Hook)) - reinterpret_cast<const char*>(base);
        return reinterpret_cast<T*>(reinterpret_cast<char*>(hook) - offset);
    }

    ListHook head_;
};

}  // namespace na::util
