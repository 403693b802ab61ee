// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <normplace/analysis/fluctuation.hpp>

using namespace normplace;

TEST_CASE("means of the diagonal and of pairs in one sequence") {
    const TokenLayout layout = TokenLayout::exchangeable(2, 3);
    const WithinMean mean = mean_within(layout, {2.0, 0.5, 9.0});
    CHECK(mean.same == doctest::Approx(2.0));
    CHECK(mean.different == doctest::Approx(0.5));
    CHECK(mean_within(TokenLayout::exchangeable(2, 1), {2.0, 0.5, 9.0}).different == 0.0);
}

TEST_CASE("x + M x with a Gaussian M: the second moment of (1 + M)(1 + M)^T") {
    // Entries of M have variance s/D, so the branch's spread is s and its covariances follow the stream's with slope s.
    // Free probability: tr = 1 + s, tr of the square = 1 + 4 s + 2 s^2, per dimension.
    constexpr double width = 100.0, s = 0.7;
    const Fluctuation stream{1.0, 1.0 / width, 0.0, 0.0};
    const double relative = combined_relative(stream, s, s, 1.0 / width, width);
    CHECK(relative * width == doctest::Approx((1.0 + 4.0 * s + 2.0 * s * s) / ((1.0 + s) * (1.0 + s))));
}

TEST_CASE("aligned tokens keep what they had, and one dimension is the least") {
    const Fluctuation stream{0.0, 0.25, 0.0, 0.0};
    CHECK(combined_relative(stream, 0.0, 0.0, 0.1, 10.0) == 0.25);
    CHECK(combined_relative({1.0, 5.0, 0.0, 0.0}, 0.0, 0.0, 0.0, 10.0) == 1.0);
}
