// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <limits>
#include <normplace/analysis/report_sums.hpp>

using namespace normplace;
using normplace::detail::ReportSums;

TEST_CASE("ReportSums: a norm is the root mean square over inputs, a moment the mean") {
    ReportSums sums;
    GradientNorm gradient;
    Moment moment;
    for (const double square : {1.0, 9.0, 17.0}) {
        sums.next_input();
        sums.add(gradient, square);
        ReportSums::add(moment, square);
    }
    sums.finish(gradient);
    sums.finish(moment);
    CHECK(gradient.norm == doctest::Approx(3.0));
    CHECK(moment.value == doctest::Approx(9.0));
    CHECK_FALSE(sums.overflow());
}

TEST_CASE("ReportSums: what rounding leaves below 0 counts as 0") {
    ReportSums sums;
    GradientNorm gradient;
    sums.next_input();
    sums.add(gradient, -1e-20);
    sums.finish(gradient);
    CHECK(gradient.norm == 0.0);
}

TEST_CASE("ReportSums: an infinite square is an overflow") {
    ReportSums sums;
    GradientNorm gradient;
    sums.next_input();
    sums.add(gradient, std::numeric_limits<double>::infinity());
    sums.finish(gradient);
    CHECK(sums.overflow());
}
