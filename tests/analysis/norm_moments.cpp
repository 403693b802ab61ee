// SPDX-License-Identifier: BSD-3-Clause
//
// Each kind of norm in moments, against its definition and against draws.
#include <doctest/doctest.h>

#include <cmath>
#include <normplace/analysis/norm_moments.hpp>
#include <random>

using namespace normplace;

TEST_CASE("what a token of second moment q is divided by") {
    const auto root = [](NormKind kind, double epsilon) { return NormMoments(kind, 16.0, epsilon).root(4.0); };
    CHECK(root(NormKind::layer_norm, 0.0) == 2.0);
    CHECK(root(NormKind::rms_norm, 5.0) == 3.0);
    CHECK(root(NormKind::unit_norm, 0.0) == 8.0);  // |x| of 16 entries
    CHECK(root(NormKind::unit_norm, 17.0) == 9.0);
    CHECK(root(NormKind::centre_norm, 1.0) == 15.0 / 16.0);
    CHECK(NormMoments(NormKind::centre_norm, 1.0, 1.0).root(4.0) == 1.0);
}

TEST_CASE("what a kind's own parameters have of D gains and biases") {
    const auto own = [](NormKind kind) { return NormMoments(kind, 16.0, 1e-5).own({3.0, 5.0}); };
    CHECK(own(NormKind::layer_norm).gain == 3.0);
    CHECK(own(NormKind::dyt).bias == 5.0);
    CHECK(own(NormKind::unit_norm).gain == 0.0);
    CHECK(own(NormKind::unit_norm).bias == 0.0);
    CHECK(std::isnan(own(NormKind::scale_norm).gain));
    CHECK(own(NormKind::scale_norm).bias == 0.0);
    CHECK(std::isnan(own(NormKind::centre_norm).gain));
    CHECK(own(NormKind::centre_norm).bias == 5.0);
}

TEST_CASE("DyT's kernel is that of tanh(u/2) and its derivative, against draws") {
    const double q1 = 1.5, q2 = 0.7, p = 0.6;
    const KernelPair pair = NormMoments(NormKind::dyt, 16.0, 1e-5).elementwise(q1, q2, p);
    std::mt19937_64 random(1);
    std::normal_distribution<double> gaussian;
    double value = 0.0, derivative = 0.0, value_square = 0.0, derivative_square = 0.0;
    constexpr int draws = 200000;
    for (int i = 0; i < draws; ++i) {
        const double a = gaussian(random), b = gaussian(random);
        const double u1 = std::sqrt(q1) * a, u2 = p / std::sqrt(q1) * a + std::sqrt(q2 - p * p / q1) * b;
        const double y1 = std::tanh(0.5 * u1), y2 = std::tanh(0.5 * u2);
        const double product = y1 * y2, slopes = 0.25 * (1.0 - y1 * y1) * (1.0 - y2 * y2);
        value += product / draws, value_square += product * product / draws;
        derivative += slopes / draws, derivative_square += slopes * slopes / draws;
    }
    const auto error = [](double mean, double square) { return std::sqrt((square - mean * mean) / draws); };
    CHECK(std::abs(pair.value - value) < 4.0 * error(value, value_square));
    CHECK(std::abs(pair.derivative - derivative) < 4.0 * error(derivative, derivative_square));
}
