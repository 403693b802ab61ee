// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>
#include <limits>

#include <normplace/analysis/spread_over_units.hpp>

using namespace normplace;

namespace {

constexpr double pi = 3.14159265358979323846;
struct Identity {
    static constexpr auto name = "identity";
    template <class T>
    static T value(T u) {
        return u;
    }
    template <class T>
    static T derivative(T) {
        return T(1);
    }
};
const Activation identity = activation<Identity>();

}  // namespace

TEST_CASE("tokens that are alike leave half of a ReLU's units without a gradient") {
    const SpreadOverUnits spread = spread_over_units(relu, 1.7, 1.0, 1.0);
    CHECK(spread.derivative == doctest::Approx(std::sqrt(0.5)).epsilon(1e-3));
    CHECK(spread.value == doctest::Approx(1.0 / std::sqrt(pi)).epsilon(1e-3));  // E relu / sqrt(E relu^2)
}

TEST_CASE("units are alike where tokens are independent") {
    for (const double together : {0.0, 0.4, 1.0}) {
        const SpreadOverUnits spread = spread_over_units(relu, 0.6, 0.0, together);
        CHECK(spread.derivative == doctest::Approx(1.0));
        CHECK(spread.value == doctest::Approx(1.0));
    }
}

TEST_CASE("in between, ReLU's derivative has 1/2 over the root of its kernel") {
    for (const double rho : {0.2, 0.5, 0.9})
        CHECK(spread_over_units(relu, 1.0, rho, 1.0).derivative ==
              doctest::Approx(0.5 / std::sqrt(0.25 + std::asin(rho) / (2.0 * pi))).epsilon(1e-2));
}

TEST_CASE("a linear unit has the spread of its own sign alone") {
    const SpreadOverUnits spread = spread_over_units(identity, 2.0, 1.0, 1.0);
    CHECK(spread.derivative == doctest::Approx(1.0));
    CHECK(spread.value == doctest::Approx(std::sqrt(2.0 / pi)).epsilon(3e-3));
}

TEST_CASE("nothing is spread where nothing is, or out of range") {
    CHECK(spread_over_units(relu, 0.0, 0.5, 0.5).value == 1.0);
    CHECK(spread_over_units(relu, std::numeric_limits<double>::infinity(), 0.5, 0.5).value == 1.0);
    CHECK(spread_over_units(relu, std::numeric_limits<double>::quiet_NaN(), 0.5, 0.5).derivative == 1.0);
    CHECK(spread_over_units(relu, 1.0, 1.5, 2.0).derivative == spread_over_units(relu, 1.0, 1.0, 1.0).derivative);
}
