// SPDX-License-Identifier: BSD-3-Clause
//
// What one optimizer step does to the network's function, measured on the real blocks: weights and a batch are drawn,
// one gradient gives every parameter its update, and the network after steps of different sizes reads the next batch.
//
//     FirstStepReport measured = measure_first_step<PostLN>(model, StepRule::adam(), {.seeds = 8});
//     measured.eta_half.value            // the learning rate that takes away half of the differences between tokens
//     measured.eta_half.standard_error
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <normplace/analysis/first_step_report.hpp>
#include <normplace/measure/measured_step.hpp>
#include <normplace/measure/seeds.hpp>
#include <normplace/train/require_number.hpp>

namespace normplace {

struct MeasureFirstStepOptions {
    std::size_t seeds = 4;                   ///< the standard error falls as 1/sqrt(seeds); one seed has none (NaN)
    std::vector<double> learning_rates{};    ///< those of `FirstStepReport::stepped`
    std::optional<std::string_view> text{};  ///< bytes that the seeds read (token_batch.hpp); without: Gaussian tokens
    std::function<void(std::size_t done, std::size_t total)>
        progress{};           ///< called after each seed, one call at a time
    std::size_t threads = 0;  ///< 0: as many as OpenMP would use
};

/// Calls `function(name, entry)` for every Moment of a report: `initial.sublayers.3.second_moment`.
template <class Report, class Function>
requires std::same_as<std::remove_const_t<Report>, FirstStepReport>
void for_each_entry(Report& report, Function&& function) {
    const auto stream = [&](const std::string& name, auto& entries) {
        function(name + ".second_moment", entries.second_moment);
        function(name + ".token_correlation", entries.token_correlation);
    };
    const auto network = [&](const std::string& name, auto& stepped) {
        for (std::size_t i = 0; i < stepped.sublayers.size(); ++i)
            stream(name + ".sublayers." + std::to_string(i), stepped.sublayers[i]);
        stream(name + ".hidden", stepped.hidden);
    };
    function("response", report.response);
    function("eta_half", report.eta_half);
    network("initial", report.initial);
    for (std::size_t i = 0; i < report.stepped.size(); ++i) network("stepped." + std::to_string(i), report.stepped[i]);
}

namespace detail {

/// A report whose every number is not available, with room for the steps.
inline FirstStepReport empty_first_step_report(const AnyPlacement& placement, const ReferenceModel& model,
                                               const StepRule& rule, const std::vector<double>& learning_rates) {
    FirstStepReport report;
    report.placement = placement.name;
    report.formula = to_string(placement);
    report.model = model;
    report.rule = rule;
    report.initial.sublayers.resize(2 * model.layers);
    report.stepped.assign(learning_rates.size(), report.initial);
    for (std::size_t i = 0; i < learning_rates.size(); ++i) report.stepped[i].learning_rate = learning_rates[i];
    return report;
}

/// Response and eta_half have means of their own.
inline void average_first_steps(const std::vector<FirstStepReport>& seeds, FirstStepReport& summary) {
    average_seeds(seeds, summary);
    std::vector<double> squares, logs;
    for (const FirstStepReport& seed : seeds) {
        squares.push_back(seed.response.value * seed.response.value);
        logs.push_back(std::log(seed.eta_half.value));
    }
    summary.response = root_mean_square_over_seeds(squares);
    const Moment log = mean_over_seeds(logs);
    summary.eta_half = {std::exp(log.value), std::exp(log.value) * log.standard_error};
}

template <class T>
FirstStepReport measure_first_step(const AnyPlacement& placement, const ReferenceModel& model, const StepRule& rule,
                                   const MeasureFirstStepOptions& options) {
    FirstStepReport report = empty_first_step_report(placement, model, rule, options.learning_rates);
    std::vector<FirstStepReport> seeds(options.seeds, report);
    for_each_seed(
        options, [&] { return std::make_unique<MeasuredStep<T>>(placement, model, options.text.has_value()); },
        [&](std::size_t seed, MeasuredStep<T>& step) {
            std::vector<TokenBatch> texts;
            for (std::size_t i = 2 * seed; options.text && i < 2 * seed + 2; ++i)
                texts.push_back(byte_batch(*options.text, model.batch, model.sequence, i));
            FirstStepReport& seen = seeds[seed];
            step.prepare(seed, texts.empty() ? nullptr : texts.data(), rule);
            seen.initial = step.initial();
            for (SteppedNetwork& stepped : seen.stepped) step.read(stepped.learning_rate, stepped);
            seen.response.value = step.response();
            seen.eta_half.value = step.eta_half(seen.response.value);
        });
    average_first_steps(seeds, report);
    return report;
}

}  // namespace detail

/// Measures the first optimizer step on the reference model under the placement, in scalar T. For each seed:
///
///     theta_0, batch        as `measure` draws them; with a text byte_batch number 2 s, and 2 s + 1 is the next batch
///     u = update(gradient of the batch's loss), for all parameters, the tables' among them
///     theta(eta) = (1 - eta weight_decay) theta_0 - eta u
///     h(eta)                the last hidden state on the next batch, which has other tokens of the same kind
///
/// - `initial` and `stepped`: means over seeds.
/// - `response`: the root mean square, over entries and seeds, of (h(eta) - h(-eta)) / (2 eta), at an eta that changes
/// h
///   by about the cube root of T's rounding error: 0.5 % in float.
/// - `eta_half`: where 1 - rho(eta) first is half of 1 - rho(0) on a ladder of learning rates, each sqrt(2) times the
///   last, that starts where the response alone would change h by 2 %; then bisected to 0.2 %. Infinite for a seed when
///   it never is: before rho is no longer a number, or the step is 100 times as large as the parameters. One such
///   seed makes the mean infinite, without a standard error (NaN). NaN where tokens have no differences to lose.
///
/// Seed s always draws the same, whatever the number of seeds and threads.
/// @throws std::invalid_argument when the model does not fit, seeds is 0, a learning rate is negative or not finite, or
///         the text is too short (with the length it would need) or its bytes are not all tokens of the vocabulary
template <class T = float>
FirstStepReport measure_first_step(const AnyPlacement& placement, const ReferenceModel& model, const StepRule& rule,
                                   const MeasureFirstStepOptions& options = {}) {
    model.check();
    detail::require_positive("measure_first_step", "seeds", options.seeds);
    for (const double learning_rate : options.learning_rates)
        detail::require_at_least_0("measure_first_step", "learning rate", learning_rate);
    if (options.text) detail::require_text("measure_first_step", model, *options.text, 2 * options.seeds);
    return detail::measure_first_step<T>(placement, model, rule, options);
}
template <class P, class T = float>
FirstStepReport measure_first_step(const ReferenceModel& model, const StepRule& rule,
                                   const MeasureFirstStepOptions& options = {}) {
    static_assert(explain_placement<P>());
    return measure_first_step<T>(any_placement<P>, model, rule, options);
}

}  // namespace normplace
