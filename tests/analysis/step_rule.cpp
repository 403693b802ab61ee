// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <normplace/analysis/step_rule.hpp>
#include <stdexcept>
#include <string>

using namespace normplace;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

template <class Function>
std::string message(Function&& function) {
    try {
        function();
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "nothing was thrown";
}

}  // namespace

TEST_CASE("StepRule: Adam's first step is the sign, softened where eps is not small") {
    const StepRule rule = StepRule::adam(0.5);
    CHECK(rule.name == "adam");
    CHECK(rule.weight_decay == 0.0);
    CHECK(rule.update(0.5) == doctest::Approx(0.5));
    CHECK(rule.update(-1.5) == doctest::Approx(-0.75));
    CHECK(rule.update(1e-9) == doctest::Approx(2e-9));
    CHECK(rule.update(-infinity) != rule.update(-infinity));  // inf / inf: what Adam itself does
    CHECK(StepRule::adam().update(-1e-3) == doctest::Approx(-1.0).epsilon(2e-5));
    CHECK(StepRule::adam().epsilon == 1e-8);
}

TEST_CASE("StepRule: a gradient of 0 moves nothing, also without eps") {
    for (const StepRule& rule : {StepRule::adam(), StepRule::adam(0.0), StepRule::adam_w(), StepRule::sgd(0.9, true)})
        for (const double zero : {0.0, -0.0}) CHECK(rule.update(zero) == 0.0);
    CHECK(StepRule::adam(0.0).update(1e-300) == 1.0);
    CHECK(StepRule::adam(0.0).update(-1e-300) == -1.0);
    CHECK(std::isnan(StepRule::adam().update(not_a_number)));
}

TEST_CASE("StepRule: AdamW is Adam with decoupled weight decay") {
    const StepRule rule = StepRule::adam_w(0.1, 0.5);
    CHECK(rule.name == "adamw");
    CHECK(rule.sign);
    CHECK(rule.weight_decay == 0.1);
    CHECK(rule.update(-1.5) == doctest::Approx(-0.75));  // the decay is not part of the update
    CHECK(StepRule::adam_w().weight_decay == 0.01);
}

TEST_CASE("StepRule: SGD's step is the gradient, whatever the momentum, and Nesterov's looks ahead") {
    const StepRule plain = StepRule::sgd(), heavy = StepRule::sgd(0.9), nesterov = StepRule::sgd(0.9, true);
    CHECK(plain.name == "sgd");
    CHECK(!plain.sign);
    CHECK(plain.weight_decay == 0.0);
    for (const double g : {-2.0, 1e-12, 3.0}) {
        CHECK(plain.update(g) == g);
        CHECK(heavy.update(g) == g);
        CHECK(nesterov.update(g) == doctest::Approx(1.9 * g));
    }
    CHECK(StepRule::sgd(0.0, true).update(3.0) == 3.0);
}

TEST_CASE("StepRule: what it refuses") {
    CHECK(message([] { StepRule::adam(-1e-8); }) ==
          "StepRule: epsilon is -0.000000, expected a finite number of at least 0");
    CHECK(message([] { StepRule::adam(not_a_number); }) ==
          "StepRule: epsilon is nan, expected a finite number of at least 0");
    CHECK(message([] { StepRule::adam(infinity); }) ==
          "StepRule: epsilon is inf, expected a finite number of at least 0");
    CHECK(message([] { StepRule::adam_w(-0.5); }) ==
          "StepRule: weight_decay is -0.500000, expected a finite number of at least 0");
    CHECK(message([] { StepRule::adam_w(infinity); }) ==
          "StepRule: weight_decay is inf, expected a finite number of at least 0");
    CHECK(message([] { StepRule::adam_w(0.1, not_a_number); }) ==
          "StepRule: epsilon is nan, expected a finite number of at least 0");
    CHECK(message([] { StepRule::sgd(1.0); }) == "StepRule: momentum is 1.000000, expected a number in [0, 1)");
    CHECK(message([] { StepRule::sgd(-0.1); }) == "StepRule: momentum is -0.100000, expected a number in [0, 1)");
    CHECK(message([] { StepRule::sgd(not_a_number, true); }) ==
          "StepRule: momentum is nan, expected a number in [0, 1)");
    CHECK(message([] { StepRule::adam(0.0), StepRule::adam_w(0.0, 0.0), StepRule::sgd(0.0); }) == "nothing was thrown");
}
