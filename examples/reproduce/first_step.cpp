// SPDX-License-Identifier: BSD-3-Clause
#include "first_step.hpp"

#include <algorithm>
#include <cmath>
#include <normplace/analysis/first_step.hpp>
#include <normplace/analysis/warm_up_advice.hpp>
#include <normplace/placement/catalogue.hpp>

#include "../shared/measurement.hpp"
#include "page_parts.hpp"
#include "statistics.hpp"

namespace reproduce {

namespace {

/// What is predicted within this is called predicted.
constexpr double accuracy = 0.15;

/// Adds a placement's line and points to `plot`, and its claim to `figure`.
void add_placement(const np::AnyPlacement& placement, const np::ReferenceModel& model, std::size_t seeds,
                   Figure& figure, Plot& plot) {
    const np::StepRule rule = np::StepRule::adam();
    const double half = np::predict_first_step(placement, model, rule).eta_half.value;
    std::vector<double> line_rates, point_rates;
    for (int i = -16; i <= 16; ++i) line_rates.push_back(half * std::pow(2.0, 0.25 * i));
    for (int i = -4; i <= 4; ++i) point_rates.push_back(half * std::pow(2.0, i));
    const np::FirstStepReport predicted = np::predict_first_step(placement, model, rule, line_rates);
    const np::FirstStepReport measured =
        np::measure_first_step(placement, model, rule, {.seeds = seeds, .learning_rates = point_rates});
    const auto series = [&](const np::FirstStepReport& report, const char* what, bool points) {
        Series result;
        result.name = std::string(placement.name) + ", " + what;
        result.points = points;
        for (const np::SteppedNetwork& network : report.stepped) {
            result.x.push_back(std::log10(network.learning_rate));
            result.y.push_back(network.hidden.token_correlation.value);
            if (points) result.error.push_back(network.hidden.token_correlation.standard_error);
        }
        return result;
    };
    plot.series.push_back(series(predicted, "predicted", false));
    plot.series.push_back(series(measured, "measured", true));

    const double ratio = half / measured.eta_half.value,
                 error = ratio * measured.eta_half.standard_error / measured.eta_half.value;
    const double off = std::abs(ratio - 1.0);
    figure.claims.push_back(
        {"(This library:) for " + std::string(placement.name) +
             " the step that takes away half of the differences between tokens can be predicted, within 15 %.",
         "predicted " + number_text(half, 6) + ", measured " + number_text(measured.eta_half.value, 6) + ", ratio " +
             number_text(ratio) + " ± " + number_text(error) + "; " + np::warm_up_advice(placement, predicted).sentence,
         off + 2.0 * error < accuracy   ? Verdict::holds
         : off - 2.0 * error > accuracy ? Verdict::does_not_hold
                                        : Verdict::undecided});
}

}  // namespace

Figure first_step_figure(const Setting& setting) {
    np::ReferenceModel model;
    model.layers = setting.layers;
    model.width = setting.width;
    model.heads = setting.heads;
    model.feed_forward = setting.feed_forward;
    const std::size_t seeds = std::min<std::size_t>(setting.reference_seeds, 16);
    Figure figure;
    figure.title = "The first step: how alike it makes all tokens";
    figure.setting = "Not in the paper. Adam's first step on an encoder of " + std::to_string(model.layers) +
                     " layers and width " + std::to_string(model.width) + ", " + std::to_string(model.batch) + " x " +
                     std::to_string(model.sequence) + " Gaussian tokens, looked at on the next batch; " +
                     std::to_string(seeds) + " seeds.";
    Plot plot{.name = "first-step",
              .title = "Token correlation of the last hidden state after one step of Adam",
              .x_label = "log10 of the learning rate",
              .y_label = "token correlation"};
    add_placement(np::any_placement<np::PostLN>, model, seeds, figure, plot);
    add_placement(np::any_placement<np::PreLN>, model, seeds, figure, plot);
    figure.plots.push_back(std::move(plot));
    return figure;
}

}  // namespace reproduce
