// SPDX-License-Identifier: BSD-3-Clause
//
// What the estimator asks of a placement without its type. The walk over the formula itself is moments.cpp's.
#include <doctest/doctest.h>

#include <normplace/analysis/placement_moments.hpp>
#include <normplace/placement/catalogue.hpp>

using namespace normplace;
using detail::placement_moments;

TEST_CASE("placement_moments: the final norm, and whether a norm closes the formula") {
    CHECK(placement_moments<PreLN>().final_norm);
    CHECK_FALSE(placement_moments<PreLN>().ends_in_norm);
    CHECK_FALSE(placement_moments<PostLN>().final_norm);
    CHECK(placement_moments<PostLN>().ends_in_norm);
    CHECK(placement_moments<DeepNorm>().ends_in_norm);
    CHECK_FALSE(placement_moments<PeriLN>().ends_in_norm);  // its last norm is the branch's
    CHECK_FALSE(placement_moments<NoNorm>().final_norm);
}

TEST_CASE("placement_moments: the gain is the placement's own") {
    const Depth depth{.layer = 2, .layers = 6};
    CHECK(placement_moments<DeepNorm>().gain(Role::value, depth) == doctest::Approx(std::pow(48.0, -0.25)));
    CHECK(placement_moments<DeepNorm>().gain(Role::query, depth) == 1.0);
    CHECK(placement_moments<PreLN>().gain(Role::value, depth) == 1.0);
}
