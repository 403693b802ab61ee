// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <normplace/analysis/softmax_moments.hpp>

#include "gaussian_mean.hpp"

using namespace normplace;
using namespace normplace::test;

TEST_CASE("a softmax over two keys is a sigmoid of their difference") {
    for (const double v : {0.1, 1.0, 3.0}) {
        CAPTURE(v);
        const SoftmaxMoments softmax = detail::integrate_softmax_moments(2.0, v);
        const auto square = [](double s) { return sigmoid(s) * sigmoid(s) + sigmoid(-s) * sigmoid(-s); };
        const auto slopes = [](double s) { return 4.0 * std::pow(sigmoid(s) * sigmoid(-s), 2); };
        CHECK(softmax.concentration == doctest::Approx(gaussian_mean(2.0 * v, square)).epsilon(1e-8));
        // Terms of size 1 cancel to 0.1 here.
        CHECK(softmax.response == doctest::Approx(gaussian_mean(2.0 * v, slopes)).epsilon(1e-5));
        const auto along = [&](double s) { return 0.5 * s * s * slopes(s); };
        CHECK(softmax.radial == doctest::Approx(gaussian_mean(2.0 * v, along) / v).epsilon(1e-5));
        CHECK(softmax.curvature == doctest::Approx(0.0).scale(1.0).epsilon(1e-6));  // odd in the difference
        CHECK(expected_log_sum_exp(2.0, v) ==
              doctest::Approx(gaussian_mean(2.0 * v, [](double s) { return std::log1p(std::exp(s)); })).epsilon(1e-6));
    }
}

TEST_CASE("the overlap of two queries, between its known ends") {
    for (const double v : {0.2, 1.0, 2.0})
        for (const double r : {-0.3, 0.0, 0.3, 0.7, 0.95, 1.0}) {
            CAPTURE(v);
            CAPTURE(r);
            const SoftmaxMoments softmax = detail::integrate_softmax_moments(2.0, v);
            const double exact = gaussian_mean(2.0 * v, [&](double s) {
                return gaussian_mean(2.0 * v * (1.0 - r * r), [&](double t) {
                    const double p = sigmoid(s), q = sigmoid(r * s + t);
                    return p * q + (1.0 - p) * (1.0 - q);
                });
            });
            // Two keys are the worst case, odd in r by symmetry; many keys are even closer to r + r^2.
            const double rise = softmax.concentration - 0.5;
            CHECK(std::fabs(softmax.overlap(r) - exact) < 0.03 * rise);
        }
}

TEST_CASE("many keys overlap as exp(v r) / n") {
    for (const double v : {0.3, 1.0, 2.0}) {
        CAPTURE(v);
        const SoftmaxMoments softmax = detail::integrate_softmax_moments(1e7, v);
        CHECK(softmax.curvature == doctest::Approx(1.0).epsilon(1e-3));
        for (const double r : {0.0, 0.1, 0.3, 0.6, 0.9}) {
            CAPTURE(r);
            CHECK(1e7 * softmax.overlap(r) == doctest::Approx(std::exp(v * r)).epsilon(6e-3 * v));
            CHECK(1e7 * softmax.response_overlap(r) == doctest::Approx(std::exp(v * r)).epsilon(1.5e-2 * v));
        }
        // n E sum p^2 (s - mean)^2 = exp(v) (v + v^2): the weights p^2 move the scores' mean by v.
        CHECK(1e7 * softmax.radial == doctest::Approx(std::exp(v) * (1.0 + v)).epsilon(1e-2));
    }
}

TEST_CASE("small and large limits") {
    const SoftmaxMoments uniform = detail::integrate_softmax_moments(10.0, 0.0);
    CHECK(uniform.concentration == doctest::Approx(0.1));
    CHECK(uniform.response == doctest::Approx(0.09));
    CHECK(uniform.overlap(0.5) == doctest::Approx(0.1));
    // Small v: n m2 = 1 + v (n - 1)/n + O(v^2).
    CHECK(10.0 * detail::integrate_softmax_moments(10.0, 1e-4).concentration - 1.0 ==
          doctest::Approx(0.9e-4).epsilon(1e-3));
    CHECK(detail::integrate_softmax_moments(10.0, 1e-12).concentration == doctest::Approx(0.1));
    // Many keys: n E sum p^2 = exp(v) [1 + O(e^{2v} / n)].
    CHECK(1e6 * detail::integrate_softmax_moments(1e6, 1.0).concentration ==
          doctest::Approx(std::exp(1.0)).epsilon(1e-4));
}

TEST_CASE("the slope of the overlap is its response: central differences") {
    const SoftmaxMoments softmax = detail::integrate_softmax_moments(16.0, 1.0);
    for (const double r : {0.2, 0.5, 0.9}) {
        constexpr double h = 1e-5;
        const double slope = (softmax.overlap(r + h) - softmax.overlap(r - h)) / (2.0 * h);
        CHECK(softmax.response_overlap(r) * softmax.variance == doctest::Approx(slope).epsilon(1e-6));
    }
    CHECK(softmax.response_overlap(1.0) == doctest::Approx(softmax.response));
    CHECK(softmax.overlap(1.0) == doctest::Approx(softmax.concentration));
}

TEST_CASE("the mean cross-entropy of random logits") {
    CHECK(expected_log_sum_exp(1.0, 2.0) == doctest::Approx(0.0).scale(1.0).epsilon(1e-6));
    CHECK(expected_log_sum_exp(50.0, 0.0) == doctest::Approx(std::log(50.0)));
    // ln n + v/2 - (e^v - 1)/(2n), the next term being of order 1/n^2.
    CHECK(expected_log_sum_exp(1e4, 1.0) ==
          doctest::Approx(std::log(1e4) + 0.5 - (std::exp(1.0) - 1.0) / 2e4).epsilon(1e-7));
    // At huge variance the largest logit alone counts: sqrt(v) / sqrt(pi) for two.
    CHECK(expected_log_sum_exp(2.0, 1e8) == doctest::Approx(1e4 / std::sqrt(3.14159265358979)).epsilon(1e-3));
}
