// SPDX-License-Identifier: BSD-3-Clause
//
// The first step, predicted and measured: eta_half, the response and the token correlation of the last hidden state,
// for every placement, on random tokens and on bytes under a causal mask. The bounds are the theory's own error, 15 %
// at width 128, and three standard errors of the measurement.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include <normplace/analysis/first_step.hpp>
#include <normplace/measure/first_step.hpp>
#include <normplace/placement/catalogue.hpp>

#include "artificial_text.hpp"

using namespace normplace;

namespace {

constexpr std::size_t step_seeds = 12;
constexpr double theory_error = 0.15;

void check_close(const char* what, double predicted, const Moment& measured, double bound) {
    INFO(what, ": predicted ", predicted, ", measured ", measured.value, " +- ", measured.standard_error);
    CHECK(std::abs(std::log(predicted / measured.value)) < bound + 3.0 * measured.standard_error / measured.value);
}

template <class P>
void check_first_step(ReferenceModel model, const StepRule& rule, bool with_text) {
    INFO(std::string(P::name), ", ", rule.name, std::string(with_text ? ", text" : ""));
    std::string text;
    std::vector<StepBatches> batches;
    if (with_text) {
        model.vocabulary = 256;
        model.causal = true;
        text = artificial_text(text_length_needed(model.batch, model.sequence, 2 * step_seeds));
        for (std::size_t s = 0; s < step_seeds; ++s)
            batches.push_back({byte_batch(text, model.batch, model.sequence, 2 * s),
                               byte_batch(text, model.batch, model.sequence, 2 * s + 1)});
    }
    const auto predict = [&](const std::vector<double>& learning_rates) {
        return with_text ? predict_first_step<P>(model, rule, batches, learning_rates)
                         : predict_first_step<P>(model, rule, learning_rates);
    };
    const double half = predict({}).eta_half.value;
    const std::vector<double> learning_rates{0.5 * half, half};
    const FirstStepReport predicted = predict(learning_rates);
    MeasureFirstStepOptions options{.seeds = step_seeds, .learning_rates = learning_rates};
    if (with_text) options.text = text;
    const FirstStepReport measured = measure_first_step<P>(model, rule, options);
    MESSAGE(std::string(P::name), ", ", rule.name, std::string(with_text ? ", text" : ""), ": eta_half ",
            predicted.eta_half.value / measured.eta_half.value, " +- ",
            measured.eta_half.standard_error / measured.eta_half.value, ", response ",
            predicted.response.value / measured.response.value);
    check_close("eta_half", predicted.eta_half.value, measured.eta_half, theory_error);
    check_close("response", predicted.response.value, measured.response, theory_error);
    for (std::size_t i = 0; i < learning_rates.size(); ++i) {
        const Moment& rho = measured.stepped[i].hidden.token_correlation;
        INFO("token correlation at ", learning_rates[i], ": predicted ",
             predicted.stepped[i].hidden.token_correlation.value, ", measured ", rho.value, " +- ", rho.standard_error);
        CHECK(std::abs(predicted.stepped[i].hidden.token_correlation.value - rho.value) <
              0.05 + 3.0 * rho.standard_error);
    }
}

template <class... P>
void check_all(const StepRule& rule, bool with_text) {
    ReferenceModel model;
    model.layers = 4;
    model.width = 128;
    model.feed_forward = 512;
    model.sequence = 16;
    (check_first_step<P>(model, rule, with_text), ...);
}

}  // namespace

TEST_CASE("Adam's first step on random tokens is predicted for every placement") {
    check_all<PostLN, PreLN, PeriLN, ResPostNorm, DeepNorm, LayerNormScaling>(StepRule::adam(), false);
}

TEST_CASE("and on text under a causal mask") { check_all<PostLN, PreLN, DeepNorm>(StepRule::adam(), true); }

TEST_CASE("so is SGD's") { check_all<PostLN, PreLN, DeepNorm>(StepRule::sgd(), false); }
