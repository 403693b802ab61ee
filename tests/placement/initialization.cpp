// SPDX-License-Identifier: BSD-3-Clause
//
// The variance of every matrix by role, fan-in, fan-out and depth, against the values that the schemes' authors give.
#include <doctest/doctest.h>

#include <normplace/placement/initialization.hpp>

#include <cmath>
#include <limits>

using namespace normplace;

namespace {

constexpr Role all_roles[] = {Role::query,   Role::key,       Role::value,   Role::out,  Role::linear1,
                              Role::linear2, Role::embedding, Role::readout, Role::other};
constexpr Depth third_of_eight{.layer = 3, .layers = 8, .sublayer = SublayerKind::attention};

doctest::Approx close(double value) { return doctest::Approx(value).epsilon(1e-14); }

}  // namespace

TEST_CASE("xavier: 2 / (fan_in + fan_out), for every role") {
    for (const Role role : all_roles) {
        CHECK(Initialization::xavier().variance(role, 64, 64, third_of_eight) == close(1.0 / 64.0));
        CHECK(Initialization::xavier().variance(role, 64, 256, third_of_eight) == close(1.0 / 160.0));
        CHECK(Initialization::xavier().variance(role, 256, 64, third_of_eight) == close(1.0 / 160.0));
    }
    CHECK(Initialization::xavier().distribution() == Initialization::Distribution::gaussian);
    CHECK(Initialization::xavier(Initialization::Distribution::uniform).distribution() ==
          Initialization::Distribution::uniform);
}

TEST_CASE("a plain standard deviation is the same everywhere") {
    for (const Role role : all_roles)
        CHECK(Initialization::standard_deviation(0.05).variance(role, 64, 256, third_of_eight) == close(0.0025));
    CHECK(Initialization::standard_deviation(0.0).variance(Role::out, 1, 1, Depth{}) == 0.0);
    CHECK_THROWS_AS(Initialization::standard_deviation(-0.1), std::invalid_argument);
    CHECK_THROWS_AS(Initialization::standard_deviation(std::numeric_limits<double>::quiet_NaN()),
                    std::invalid_argument);
}

TEST_CASE("gpt2: 0.02, over sqrt(2L) for the two matrices that end a branch") {
    for (const Role role : all_roles) {
        const bool ends_a_branch = role == Role::out || role == Role::linear2;
        CHECK(Initialization::gpt2().variance(role, 64, 256, third_of_eight) ==
              close(ends_a_branch ? 0.0004 / 16.0 : 0.0004));
    }
}

TEST_CASE("pytorch: fan_in * variance is 1/2 for query, key and value, and 1/3 for the others") {
    for (const Role role : all_roles) {
        const bool projection = role == Role::query || role == Role::key || role == Role::value;
        CHECK(64.0 * Initialization::pytorch().variance(role, 64, 256, third_of_eight) ==
              close(projection ? 0.5 : 1.0 / 3.0));
    }
    CHECK(Initialization::pytorch().distribution() == Initialization::Distribution::uniform);
}

TEST_CASE("paper: xavier without query and key") {
    for (const Role role : all_roles) {
        const bool query_or_key = role == Role::query || role == Role::key;
        CHECK(Initialization::paper().variance(role, 64, 64, third_of_eight) == close(query_or_key ? 0.0 : 1.0 / 64.0));
    }
}

TEST_CASE("names") {
    CHECK(Initialization::xavier().name() == "xavier");
    CHECK(Initialization::gpt2().name() == "gpt2");
    CHECK(Initialization::pytorch().name() == "pytorch");
    CHECK(Initialization::paper().name() == "paper");
    CHECK(Initialization::standard_deviation(0.1).name() == "standard-deviation");
}
