// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <normplace/measure/measured_step.hpp>
#include <normplace/nn/norm.hpp>
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

namespace {

struct PreLNStep : detail::MeasuredStep<double> {
    explicit PreLNStep(const ReferenceModel& model) : MeasuredStep(any_placement<PreLN>, model, false) {}
};

ReferenceModel stepped_model() {
    ReferenceModel model;
    model.layers = 2;
    model.width = 16;
    model.heads = 2;
    model.feed_forward = 32;
    model.sequence = 5;
    model.batch = 2;
    model.vocabulary = 11;
    return model;
}

double hidden_differences(PreLNStep& step, double eta) {
    SteppedNetwork network;
    step.read(eta, network);
    return 1.0 - network.hidden.token_correlation.value;
}

}  // namespace

TEST_CASE("a step of size 0 is the network before it, sublayer by sublayer") {
    PreLNStep step(stepped_model());
    step.prepare(3, nullptr, StepRule::adam());
    SteppedNetwork network;
    step.read(0.01, network);
    CHECK(network.sublayers[3].second_moment.value != step.initial().sublayers[3].second_moment.value);
    step.read(0.0, network);
    REQUIRE(network.sublayers.size() == 4);
    for (std::size_t i = 0; i < 4; ++i)
        CHECK(network.sublayers[i].second_moment.value ==
              doctest::Approx(step.initial().sublayers[i].second_moment.value).epsilon(1e-12));
}

TEST_CASE("a seed is itself again after another one's steps, gains and biases included") {
    PreLNStep step(stepped_model());
    step.prepare(1, nullptr, StepRule::sgd());
    const double before = hidden_differences(step, 0.3), response = step.response();
    step.prepare(2, nullptr, StepRule::adam());
    CHECK(hidden_differences(step, 0.5) != before);
    step.prepare(1, nullptr, StepRule::sgd());
    CHECK(hidden_differences(step, 0.3) == doctest::Approx(before).epsilon(1e-9));
    CHECK(step.response() == doctest::Approx(response).epsilon(1e-9));
}

TEST_CASE("eta_half leaves half of the differences") {
    PreLNStep step(stepped_model());
    step.prepare(0, nullptr, StepRule::adam());
    const double whole = hidden_differences(step, 0.0), half = step.eta_half(step.response());
    CHECK(hidden_differences(step, half) == doctest::Approx(0.5 * whole).epsilon(5e-3));
}

TEST_CASE("without vectors the matrices alone step") {
    StepRule rule = StepRule::sgd();
    PreLNStep step(stepped_model());
    step.prepare(0, nullptr, rule);
    const double all = step.response();
    rule.vectors = false;
    step.prepare(0, nullptr, rule);
    CHECK(step.response() > 0.0);
    CHECK(step.response() != doctest::Approx(all).epsilon(1e-3));
}

TEST_CASE("an update of nothing moves nothing") {
    StepRule rule = StepRule::adam();
    rule.epsilon = std::numeric_limits<double>::infinity();
    PreLNStep step(stepped_model());
    step.prepare(0, nullptr, rule);
    CHECK(step.response() == 0.0);
    CHECK(std::isinf(step.eta_half(0.0)));
}
