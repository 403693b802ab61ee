// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <normplace/analysis/softmax_table.hpp>

#include "gaussian_mean.hpp"

using namespace normplace;
using namespace normplace::test;

TEST_CASE("the table interpolates to 1e-4") {
    SoftmaxTable table;
    for (const double n : {2.0, 3.0, 7.0, 32.0, 100.0, 1000.0})
        for (const double v : {0.03, 0.5, 1.0, 2.7, 6.0, 15.0}) {
            CAPTURE(n);
            CAPTURE(v);
            const SoftmaxMoments exact = detail::integrate_softmax_moments(n, v), tabled = table.at(n, v);
            CHECK(tabled.concentration == doctest::Approx(exact.concentration).epsilon(1e-4));
            CHECK(tabled.response == doctest::Approx(exact.response).epsilon(1e-3));
        }
}

TEST_CASE("one key, and one key that wins") {
    CHECK(SoftmaxTable().at(1.0, 3.0).concentration == 1.0);
    CHECK(SoftmaxTable().at(1.0, 3.0).response == 0.0);
    // One key wins, more surely the larger the variance.
    SoftmaxTable table;
    CHECK(table.at(32.0, 1e6).concentration > 0.99);
    CHECK(table.at(32.0, 1e6).concentration <= 1.0);
    CHECK(table.at(32.0, 1e30).overlap(0.5) < 1.0);
}

// |q|^2/K is chi-square over its K degrees; two keys' scores then differ by N(0, 2 v |q|^2/K).
TEST_CASE("heads of finite width: means over the length of a query") {
    SoftmaxTable table;
    for (const double width : {4.0, 16.0, 64.0})
        for (const double v : {0.3, 1.0, 3.0}) {
            CAPTURE(width);
            CAPTURE(v);
            const auto mean = [&](auto&& h) {  // of h(square, difference of the scores)
                double sum = 0.0, weights = 0.0;
                for (double square = 5e-4; square < 12.0; square += 1e-2) {
                    const double weight = std::pow(square, 0.5 * width - 1.0) * std::exp(-0.5 * width * square);
                    weights += weight;
                    sum += weight * gaussian_mean(2.0 * v * square, [&](double s) { return h(square, s); });
                }
                return sum / weights;
            };
            const auto slopes = [](double s) { return 4.0 * std::pow(sigmoid(s) * sigmoid(-s), 2); };
            const SoftmaxMoments softmax = table.at(2.0, v, width);
            CHECK(softmax.freedom == 1.0 / width);
            CHECK(softmax.concentration == doctest::Approx(mean([](double, double s) {
                                               return sigmoid(s) * sigmoid(s) + sigmoid(-s) * sigmoid(-s);
                                           })).epsilon(2e-3));
            CHECK(softmax.key_response ==
                  doctest::Approx(mean([&](double square, double s) { return square * slopes(s); })).epsilon(5e-3));
            // Keys differ by 2 (K - 1) in directions that the scores do not see, and by s along the query.
            CHECK(softmax.response == doctest::Approx(mean([&](double square, double s) {
                                          return slopes(s) * (1.0 - 1.0 / width + 0.5 * s * s / (square * v * width));
                                      })).epsilon(5e-3));
        }
    // Wide heads are as none.
    CHECK(table.at(10.0, 1.0, 1e9).response == doctest::Approx(table.at(10.0, 1.0).response).epsilon(1e-6));
    CHECK(table.at(10.0, 1.0, 1e9).key_response == doctest::Approx(table.at(10.0, 1.0).response).epsilon(1e-6));
    CHECK(table.at(1.0, 1.0, 4.0).concentration == 1.0);
}
