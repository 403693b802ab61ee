// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <normplace/text/portable_random.hpp>
#include <numeric>
#include <vector>

using normplace::detail::PortableRandom;

TEST_CASE("draws are the ones that they have always been") {
    PortableRandom random(1, 2);
    std::vector<std::uint64_t> draws;
    for (int i = 0; i < 4; ++i) draws.push_back(random.below(1000000));
    CHECK(draws == std::vector<std::uint64_t>{204622, 365424, 437700, 800684});
    std::vector<int> order(8);
    std::iota(order.begin(), order.end(), 0);
    random.shuffle(order);
    CHECK(order == std::vector<int>{0, 6, 2, 5, 4, 3, 7, 1});
}

TEST_CASE("seed and stream count to their last bit, and are not one another") {
    const auto first = [](std::uint64_t seed, std::uint64_t stream) {
        return PortableRandom(seed, stream).below(UINT64_MAX);
    };
    const std::uint64_t high = std::uint64_t{1} << 63;
    std::vector<std::uint64_t> draws{first(0, 0), first(1, 0), first(0, 1), first(high, 0), first(0, high)};
    std::sort(draws.begin(), draws.end());
    CHECK(std::adjacent_find(draws.begin(), draws.end()) == draws.end());
}

TEST_CASE("below is uniform, also over a limit that does not divide 2^64") {
    PortableRandom random(3);
    std::array<int, 6> counts{};
    for (int i = 0; i < 60000; ++i) ++counts[random.below(6)];
    // five standard deviations of a count: 5 sqrt(60000 1/6 5/6)
    for (const int count : counts) CHECK(std::abs(count - 10000) < 456);
    // Without rejection the lowest third of this range would be drawn every second time.
    const std::uint64_t limit = (std::uint64_t{1} << 63) + (std::uint64_t{1} << 62);
    int low = 0;
    for (int i = 0; i < 10000; ++i) low += random.below(limit) < limit / 3;
    CHECK(std::abs(low - 3333) < 236);
    CHECK(random.below(0) == 0);
    CHECK(random.below(1) == 0);
}

TEST_CASE("unit is in [0, 1) with mean 1/2") {
    PortableRandom random(4);
    double sum = 0.0;
    for (int i = 0; i < 10000; ++i) {
        const double draw = random.unit();
        REQUIRE(draw >= 0.0);
        REQUIRE(draw < 1.0);
        sum += draw;
    }
    CHECK(std::abs(sum / 10000 - 0.5) < 5.0 * 0.289 / 100.0);
}
