// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <limits>
#include <normplace/train/require_number.hpp>

using namespace normplace::detail;

TEST_CASE("hyper-parameters are refused with their value and what was expected") {
    const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
    CHECK_NOTHROW(require_rate("Adam", "beta1", 0.0));
    CHECK_THROWS_WITH_AS(require_rate("Adam", "beta1", 1.0), "Adam: beta1 is 1, expected a number in [0, 1)",
                         std::invalid_argument);
    CHECK_THROWS_AS(require_rate("Adam", "beta1", nan), std::invalid_argument);
    CHECK_NOTHROW(require_at_least_0("SGD", "learning rate", 0.0));
    for (const double value : {-1e-300, nan, infinity})
        CHECK_THROWS_AS(require_at_least_0("SGD", "learning rate", value), std::invalid_argument);
    CHECK_THROWS_WITH_AS(require_above_0("Adam", "epsilon", 0.0),
                         "Adam: epsilon is 0, expected a finite number above 0", std::invalid_argument);
    CHECK_THROWS_AS(require_above_0("Adam", "epsilon", infinity), std::invalid_argument);
}
