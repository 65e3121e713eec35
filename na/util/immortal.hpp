// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>

namespace na::util {

// Storage of an object that is never destroyed: a table of the process, which destructors of static
// objects may still use. Needs no memory from the heap, so that noexcept functions may be the first
// to use the object. Declare it as a static local variable.
template <typename T>
class Immortal {
 public:
    Immortal() noexcept(std::is_nothrow_default_constructible_v<T>) { new (place_) T; }
    Immortal(const Immortal&) = delete;
    Immortal& operator=(const Immortal&) = delete;

    T& get() noexcept { return *std::launder(reinterpret_cast<T*>(place_)); }

 private:
    alignas(T) std::byte place_[sizeof(T)];
};

}  // namespace na::util
