// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <initializer_list>
#include <normplace/analysis/interpolation.hpp>

using namespace normplace;

TEST_CASE("a cubic is interpolated exactly, from the first interval on") {
    const auto cubic = [](double x) { return 1.0 - 2.0 * x + 0.5 * x * x - 0.25 * x * x * x; };
    for (const double position : {0.0, 0.3, 1.0, 1.7, 2.0, 2.5, 40.9}) {
        CAPTURE(position);
        const detail::CubicPlace place = detail::cubic_place(position);
        CHECK(static_cast<double>(place.first) <= position);
        CHECK(static_cast<double>(place.first + 3) > position);
        double value = 0.0;
        for (std::size_t i = 0; i < 4; ++i) value += place.weight[i] * cubic(static_cast<double>(place.first + i));
        CHECK(value == doctest::Approx(cubic(position)).epsilon(1e-12));
    }
}
