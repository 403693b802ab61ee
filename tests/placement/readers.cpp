// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <normplace/placement/catalogue.hpp>
#include <normplace/placement/readers.hpp>

using namespace normplace;

TEST_CASE("Pre-LN: f alone reads the norm, the result alone reads f") {
    const Plan pre_ln = plan(PreLN::formula, Depth{});
    const Readers of_norm = readers(pre_ln, 0), of_sublayer = readers(pre_ln, 1);
    CHECK(of_norm.only_one_step());
    CHECK(of_norm.first == 1);
    CHECK(of_norm.results == 0);
    CHECK(of_sublayer.steps == 0);
    CHECK(of_sublayer.results == 1);
    CHECK(!of_sublayer.only_one_step());
}

TEST_CASE("a step that several read: the first, the last, and the result") {
    constexpr auto h = norm<in>(x);
    const Plan several = plan(h + norm<out>(h + f(h)), Depth{});
    REQUIRE(several.steps.size() == 3);
    const Readers of_norm = readers(several, 0);
    CHECK(of_norm.steps == 2);
    CHECK(of_norm.first == 1);
    CHECK(of_norm.last == 2);
    CHECK(of_norm.results == 1);
    CHECK(!of_norm.only_one_step());
    CHECK(readers(several, 1).only_one_step());
}

TEST_CASE("each stream's result counts") {
    const Plan both = plan(streams(x + f(x), stream(1, "r") + f(x)), Depth{});
    REQUIRE(both.steps.size() == 1);
    CHECK(readers(both, 0).results == 2);
}
