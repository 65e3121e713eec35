// SPDX-License-Identifier: BSD-3-Clause
// What the fuzz targets share: one function per program, and the classes whose decoders they feed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

#include "na.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace fuzz {

// The first byte of an input chooses the transport; null where it is not there.
inline na_class_t* class_for(std::uint8_t choice) {
    static na_class_t* const loop = (NA_Set_log_level("none"), NA_Initialize("loop+loop", false));
    static na_class_t* const sm = NA_Initialize("na+sm", false);
    return choice % 2 == 0 ? loop : sm;
}

// A broken promise of a decoder: makes the fuzzer and the replay stop.
inline void require(bool condition, const char* what) {
    if (!condition) {
        std::fprintf(stderr, "broken: %s\n", what);
        std::abort();
    }
}

// An input, from its beginning. What is beyond its end is zero.
class Input {
 public:
    explicit Input(std::span<const std::byte> bytes) : left_(bytes) {}
    Input(const std::uint8_t* data, std::size_t size)
        : Input({reinterpret_cast<const std::byte*>(data), size}) {}
    bool empty() const { return left_.empty(); }
    std::span<const std::byte> take(std::size_t n) {
        const auto out = left_.first(n < left_.size() ? n : left_.size());
        left_ = left_.subspan(out.size());
        return out;
    }
    template <typename T>
    T integer() {
        T value{};
        const auto from = take(sizeof value);
        if (!from.empty()) {
            std::memcpy(&value, from.data(), from.size());
        }
        return value;
    }

 private:
    std::span<const std::byte> left_;
};

}  // namespace fuzz
