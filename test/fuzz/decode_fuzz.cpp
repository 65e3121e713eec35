// SPDX-License-Identifier: BSD-3-Clause
// The typed codec of the C++ API (hg/codec.hpp); the first byte chooses the type that is decoded.
#include <filesystem>

#include "hg/codec.hpp"
#include "target.hpp"

namespace {

struct Leaf {
    std::int32_t x = 0;
    char name[4] = {};
    bool flag = false;
};
struct Node {
    std::uint16_t value = 0;
    std::vector<Node> children;
    std::unique_ptr<Node> next;
    std::optional<std::string> text;
};
struct Nothing {};
enum class Level : std::uint8_t { low, high };
constexpr bool valid_enum(Level l) {
    return l <= Level::high;
}
struct Shared {
    std::shared_ptr<const Shared> next;
    std::forward_list<std::shared_ptr<std::array<Level, 5>>> levels;
    std::filesystem::path path;
};
struct Views {
    std::string_view text;
    std::span<const std::byte> bytes;
    std::vector<std::string_view> list;
    hg::Elements<std::uint64_t> numbers;
};
class Custom {
 public:
    template <class Archive>
    void serialize(Archive& ar) {
        ar(count_, words_);
    }

 private:
    std::uint8_t count_ = 0;
    std::list<std::string> words_;
};

// What was accepted is encoded again to as many bytes, which are accepted too.
template <typename T>
void check(std::span<const std::byte> bytes) {
    const auto value = hg::decode<T>(bytes);
    if (!value) {
        fuzz::require(
            value.status() == hg::Status::protocol_error || value.status() == hg::Status::msgsize,
            "an error of a decoder");
        return;
    }
    const std::vector<std::byte> again = hg::encode(*value);
    fuzz::require(again.size() == bytes.size(), "as many bytes as it came in");
    fuzz::require(static_cast<bool>(hg::decode<T>(again)), "what was encoded can be decoded");
}

using Check = void (*)(std::span<const std::byte>);
constexpr Check kChecks[] = {
    &check<std::string>,
    &check<std::vector<Leaf>>,
    &check<Node>,
    &check<std::vector<Nothing>>,
    &check<Views>,
    &check<std::list<Custom>>,
    &check<std::map<std::string, std::vector<std::uint64_t>>>,
    &check<std::unordered_map<std::uint32_t, std::set<std::uint8_t>>>,
    &check<std::vector<std::variant<std::monostate, Leaf, std::u16string, std::deque<bool>>>>,
    &check<std::tuple<std::bitset<13>, std::complex<double>, std::chrono::nanoseconds,
                      std::vector<bool>, std::multimap<int, Nothing>>>,
    &check<std::array<std::optional<std::pair<int, std::string>>, 3>>,
    &check<std::vector<Shared>>,
    &check<std::vector<hg::Result<std::deque<std::deque<Level>>>>>,
    &check<std::map<std::filesystem::path, hg::Result<void>>>,
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    kChecks[data[0] % std::size(kChecks)](std::as_bytes(std::span(data + 1, size - 1)));
    return 0;
}
