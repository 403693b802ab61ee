// SPDX-License-Identifier: BSD-3-Clause
//
// What the reproduction's verdicts rest on.
#include <doctest/doctest.h>

#include "../../examples/reproduce/statistics.hpp"

using namespace reproduce;

TEST_CASE("mean, its standard error and its 95 % interval") {
    const Mean mean = mean_of({1.0, 2.0, 3.0, 4.0, 5.0});
    CHECK(mean.value == 3.0);
    CHECK(mean.error == doctest::Approx(std::sqrt(2.5 / 5.0)));
    CHECK(uncertainty(mean) == doctest::Approx(2.776 * mean.error).epsilon(2e-3));
    CHECK(uncertainty(mean_of({0.0, 2.0})) == doctest::Approx(12.71));
    // Student's t of 10, 30 and very many degrees of freedom
    for (const auto& [count, t] : {std::pair<std::size_t, double>{11, 2.228}, {31, 2.042}, {100001, 1.96}})
        CHECK(uncertainty(Mean{0.0, 1.0, count}) == doctest::Approx(t).epsilon(0.03));
}

TEST_CASE("of one value nobody knows the error, of none the mean") {
    CHECK(mean_of({7.0}).value == 7.0);
    CHECK(std::isnan(mean_of({7.0}).error));
    CHECK(text_of(mean_of({7.0})) == "7.00");
    CHECK(text_of(mean_of({1.0, 3.0}), 1) == "2.0 ± 1.0");
    CHECK(std::isnan(mean_of({}).value));
}

TEST_CASE("the power of a power law") { CHECK(power({1.0, 4.0, 16.0}, {8.0, 4.0, 2.0}) == doctest::Approx(-0.5)); }
