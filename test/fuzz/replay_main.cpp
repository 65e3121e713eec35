// SPDX-License-Identifier: BSD-3-Clause
// Runs a fuzz target on each file of a folder and on mutations of it, without a fuzzer.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "support/payload.hpp"
#include "support/watchdog.hpp"
#include "target.hpp"

namespace {

using Bytes = std::vector<std::uint8_t>;

// A copy of its own, so that the address sanitizer sees one byte too many.
void run(const Bytes& input) {
    const Bytes copy(input);
    LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

Bytes mutate(Bytes bytes, const std::vector<Bytes>& corpus, support::Random& random) {
    for (std::uint64_t n = 1 + random.below(3); n != 0; --n) {
        const std::size_t at = bytes.empty() ? 0 : random.below(bytes.size());
        switch (random.below(6)) {
            case 0:
                bytes.resize(at);
                break;
            case 1:
                bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                             static_cast<std::uint8_t>(random.next()));
                break;
            case 2: {
                const Bytes& other = corpus[random.below(corpus.size())];
                bytes.insert(bytes.end(), other.begin(), other.end());
                break;
            }
            default:
                if (!bytes.empty()) {
                    static constexpr std::uint8_t kNasty[] = {0,    1,   0x7f, 0x80,
                                                              0xff, ':', '/',  '+'};
                    bytes[at] = random.below(2) == 0 ? kNasty[random.below(std::size(kNasty))]
                                                     : static_cast<std::uint8_t>(random.next());
                }
                break;
        }
    }
    return bytes;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: %s <corpus folder>\n", argv[0]);
        return 2;
    }
    support::watchdog(50, "replaying a corpus");
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
        files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    std::vector<Bytes> corpus;
    for (const auto& file : files) {
        std::ifstream in(file, std::ios::binary);
        corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
    if (corpus.empty()) {
        std::fprintf(stderr, "no corpus in %s\n", argv[1]);
        return 1;
    }
    support::Random random(1);
    run({});
    for (const Bytes& input : corpus) {
        run(input);
    }
    constexpr int kMutations = 20000;
    for (int i = 0; i < kMutations; ++i) {
        run(mutate(corpus[random.below(corpus.size())], corpus, random));
    }
    std::printf("%zu inputs and %d mutations\n", corpus.size(), kMutations);
    return 0;
}
