// SPDX-License-Identifier: BSD-3-Clause
// Histograms of times.
#include <catch2/catch.hpp>

#include <algorithm>

#include "hg/stats.hpp"

using hg::Latency;
using Time = Latency::Time;

namespace {

void count(Latency& l, std::int64_t ns) {
    ++l.counts[Latency::bucket(Time(ns))];
    l.total += Time(ns);
    l.longest = std::max(l.longest, Time(ns));
}

}  // namespace

TEST_CASE("buckets follow each other without a gap") {
    std::size_t last = 0;
    for (std::int64_t ns = 0; ns < 1'000'000; ++ns) {
        const std::size_t i = Latency::bucket(Time(ns));
        REQUIRE((i == last || i == last + 1));
        REQUIRE(Time(ns) <= Latency::upper(i));
        if (i != last) {
            REQUIRE(Latency::upper(last) == Time(ns - 1));
        }
        last = i;
    }
    CHECK(Latency::bucket(Time(-1)) == 0);
    CHECK(Latency::bucket(Time::max()) == Latency::kBuckets - 1);
    CHECK(Latency::upper(Latency::kBuckets - 1) > std::chrono::minutes(30));
}

TEST_CASE("quantiles and the mean") {
    Latency l;
    CHECK(l.quantile(0.5) == Time(0));
    CHECK(l.mean() == Time(0));
    for (std::int64_t i = 1; i <= 1000; ++i) {
        count(l, i * 1000);
    }
    CHECK(l.count() == 1000);
    CHECK(l.mean() == Time(500'500));
    for (const double share : {0.01, 0.5, 0.9, 0.99}) {
        const double exact = share * 1e6;
        CHECK(static_cast<double>(l.quantile(share).count()) >= exact);
        CHECK(static_cast<double>(l.quantile(share).count()) <= exact * 1.26 + 1000);
    }
    CHECK(l.quantile(0) >= Time(1000));
    CHECK(l.quantile(1) == Time(1'000'000));
    Latency one;
    count(one, 12345);
    CHECK(one.quantile(0.5) == Time(12345));  // no more than the longest
}
