// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include <normplace/analysis/first_step.hpp>
#include <normplace/analysis/warm_up_advice.hpp>
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

namespace {

/// A report of P with this eta_half and nothing else to say.
template <class P>
FirstStepReport report_of(double eta_half, const StepRule& rule = StepRule::adam()) {
    FirstStepReport report =
        detail::empty_first_step_report(any_placement<P>, ReferenceModel{.layers = 6, .width = 128}, rule);
    report.eta_half.value = eta_half;
    report.initial.hidden.token_correlation.value = 0.5;
    return report;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct BothNormed {
    static constexpr auto name = "both-normed";
    static constexpr auto formula = 0.5 * norm<"a">(x) + f(norm<"b">(x));
    static constexpr bool final_norm = true;
};
struct OneWayRound {
    static constexpr auto name = "one-way-round";
    static constexpr auto formula = norm<"a">(x + f(x)) + 0.5 * x;
    static constexpr bool final_norm = true;
};

}  // namespace

TEST_CASE("a placement recovers where some way from x to the root passes neither f nor a norm") {
    CHECK(!warm_up_advice<PostLN>(report_of<PostLN>(1e-3)).recovers);
    CHECK(!warm_up_advice<DeepNorm>(report_of<DeepNorm>(1e-3)).recovers);
    CHECK(warm_up_advice<PreLN>(report_of<PreLN>(1e-3)).recovers);
    CHECK(warm_up_advice<PeriLN>(report_of<PeriLN>(1e-3)).recovers);
    CHECK(warm_up_advice<ResPostNorm>(report_of<ResPostNorm>(1e-3)).recovers);
    CHECK(warm_up_advice<LayerNormScaling>(report_of<LayerNormScaling>(1e-3)).recovers);
    CHECK(!warm_up_advice<BothNormed>(report_of<BothNormed>(1e-3)).recovers);
    CHECK(warm_up_advice<OneWayRound>(report_of<OneWayRound>(1e-3)).recovers);
    CHECK(!warm_up_advice<MixLN>(report_of<MixLN>(1e-3)).recovers);  // lost in the first quarter of the layers
    CHECK(!warm_up_advice<Keel>(report_of<Keel>(1e-3)).recovers);
}

TEST_CASE("Post-LN: none up to the largest learning rate, then the square of the multiple, then no number") {
    const double eta_half = 4e-4, largest = warm_up::largest_over_eta_half * eta_half;
    const auto advise = [&](double rate) { return warm_up_advice<PostLN>(report_of<PostLN>(eta_half), rate); };
    CHECK(std::isnan(advise(not_available).warm_up_steps));
    CHECK(advise(not_available).largest_learning_rate == doctest::Approx(largest));
    CHECK(advise(0.99 * largest).warm_up_steps == 0.0);
    CHECK(contains(advise(0.99 * largest).sentence, "it needs no warm-up"));
    CHECK(advise(3.0 * largest).warm_up_steps == 144.0);
    CHECK(contains(advise(3.0 * largest).sentence, "warm up over 144 steps"));
    CHECK(std::isnan(advise(7.0 * largest).warm_up_steps));
    CHECK(contains(advise(7.0 * largest).sentence, "7 times as much"));
}

TEST_CASE("where no rule was validated there is no number") {
    SUBCASE("DeepNorm above its largest learning rate") {
        const WarmUpAdvice advice = warm_up_advice<DeepNorm>(report_of<DeepNorm>(1e-3), 1e-2);
        CHECK(advice.largest_learning_rate == doctest::Approx(1.5e-3));
        CHECK(std::isnan(advice.warm_up_steps));
        CHECK(contains(advice.sentence, "norm(x + f(x)) of up to 6 layers only"));
    }
    SUBCASE("Post-LN deeper than was tried") {
        FirstStepReport report = report_of<PostLN>(1e-3);
        report.model.layers = 7;
        CHECK(std::isnan(warm_up_advice<PostLN>(report, 3e-3).warm_up_steps));
        CHECK(warm_up_advice<PostLN>(report, 1e-3).warm_up_steps == 0.0);
    }
    SUBCASE("a placement that recovers, up to ten times eta_half and beyond") {
        CHECK(warm_up_advice<PreLN>(report_of<PreLN>(1e-3), 9.9e-3).warm_up_steps == 0.0);
        const WarmUpAdvice beyond = warm_up_advice<PreLN>(report_of<PreLN>(1e-3), 1.1e-2);
        CHECK(std::isnan(beyond.warm_up_steps));
        CHECK(std::isnan(beyond.largest_learning_rate));
        CHECK(contains(beyond.sentence, "0.01 is the most that has been tried"));
    }
    SUBCASE("SGD") {
        const WarmUpAdvice advice = warm_up_advice<PostLN>(report_of<PostLN>(0.1, StepRule::sgd()), 0.1);
        CHECK(std::isnan(advice.largest_learning_rate));
        CHECK(std::isnan(advice.warm_up_steps));
        CHECK(contains(advice.sentence, "known for Adam only"));
    }
    SUBCASE("no norm at all") {
        const WarmUpAdvice advice = warm_up_advice<NoNorm>(report_of<NoNorm>(0.1), 0.1);
        CHECK(std::isnan(advice.warm_up_steps));
        CHECK(contains(advice.sentence, "without any norm"));
    }
    SUBCASE("no step halves the differences, or there are none") {
        constexpr double never = std::numeric_limits<double>::infinity();
        const WarmUpAdvice advice = warm_up_advice<PostLN>(report_of<PostLN>(never), 0.1);
        CHECK(std::isnan(advice.largest_learning_rate));
        CHECK(advice.sentence == "no first step takes away half of the differences between tokens");
        CHECK(
            contains(warm_up_advice<PostLN>(report_of<PostLN>(not_available), 0.1).sentence, "no first step to judge"));
    }
}

TEST_CASE("caveats name what lies outside of what was validated") {
    FirstStepReport report = report_of<PostLN>(1e-3, StepRule::adam_w(0.5));
    CHECK(warm_up_advice<PostLN>(report_of<PostLN>(1e-3)).caveats.empty());
    report.model.layers = 48;
    report.initial.hidden.token_correlation.value = 0.999;
    report.warnings = {"scores are large"};
    const WarmUpAdvice advice = warm_up_advice<PostLN>(report);
    REQUIRE(advice.caveats.size() == 4);
    CHECK(advice.caveats[0] == "the rules were validated at 3 to 24 layers and width 64 to 512, not at 48 and 128");
    CHECK(contains(advice.caveats[1], "1 - rho = 0.001"));
    CHECK(advice.caveats[2] == "scores are large");
    CHECK(advice.caveats[3] == "the rules were validated without weight decay");
}

TEST_CASE("wrong arguments are named") {
    CHECK_THROWS_WITH_AS(warm_up_advice<PostLN>(report_of<PreLN>(1e-3)),
                         "warm_up_advice: the report is of pre-ln, not of post-ln", std::invalid_argument);
    CHECK_THROWS_WITH_AS(warm_up_advice<PreLN>(report_of<PreLN>(1e-3), -1.0),
                         "warm_up_advice: the learning rate is -1.000000, expected a positive finite number",
                         std::invalid_argument);
}
