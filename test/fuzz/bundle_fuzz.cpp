// SPDX-License-Identifier: BSD-3-Clause
// Several messages in one (na/core/bundle.hpp), as a peer may have sent them.
#include <algorithm>
#include <span>
#include <vector>

#include "na/core/bundle.hpp"
#include "target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using fuzz::require;
    const auto bytes = std::as_bytes(std::span(data, size));
    constexpr std::uint32_t kTag = UINT32_MAX;
    const std::size_t parts = na::bundle::parts(bytes, kTag);
    if (parts == 0) {
        return 0;
    }
    // What was accepted is encoded again to the same bytes, and lies within them.
    std::vector<std::byte> again(bytes.size());
    std::byte* to = na::bundle::begin(again.data(), parts);
    std::size_t at = na::bundle::kHeader;
    for (std::size_t i = 0; i < parts; ++i) {
        const na::bundle::Part part = na::bundle::next(bytes, at);
        require(at <= bytes.size(), "a part that ends where the message does");
        require(part.tag != kTag, "no bundle in a bundle");
        to = na::bundle::add(to, part.tag, part.bytes);
    }
    require(at == bytes.size(), "the last part ends where the message does");
    require(std::equal(again.begin(), again.end(), bytes.begin()), "as it came");
    return 0;
}
