// SPDX-License-Identifier: BSD-3-Clause
//
// What the first optimizer step does to the network's function, predicted for any placement before anything is built:
// how far the last hidden state moves, how alike tokens become, and the learning rate that takes away half of the
// differences between them.
//
//     FirstStepReport report = predict_first_step<PostLN>(ReferenceModel{.layers = 12, .width = 512},
//     StepRule::adam()); double eta = report.eta_half.value;
//
// The gradients are those of one batch; what is looked at is the next one.
#pragma once

#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <normplace/analysis/first_step_report.hpp>
#include <normplace/analysis/network_before_step.hpp>

namespace normplace {

/// Whether the theory of the first step covers the placement: it has one stream, no learned factors, norms whose gain
/// starts at 1, and none inside the sublayer.
constexpr bool has_first_step(const AnyPlacement& placement) {
    return placement.streams() == 1 && syntax::count_gates(placement.formula) == 0 &&
           !syntax::has_norm_start(placement.formula) && !placement.has_norms_inside() &&
           (placement.output == x || placement.output == norm(x));
}
namespace detail {
template <class P>
constexpr bool explain_first_step() {
    static_assert(
        has_first_step(any_placement<P>),
        "normplace: the first step is predicted for placements with one stream, without learned factors or "
        "gains that start at 0, and without norms inside the sublayer; measure_first_step has no such limits.");
    return true;
}
inline void check_first_step(const AnyPlacement& placement, const ReferenceModel& model) {
    model.check();
    if (!has_first_step(placement))
        throw std::invalid_argument("predict_first_step: " + std::string(placement.name) +
                                    " has several streams, learned factors, gains that do not start at 1 or norms "
                                    "inside the sublayer, for which "
                                    "there is no theory of the first step");
    if (!normalises(model.norm) || model.norm == NormKind::scale_norm)
        throw std::invalid_argument("predict_first_step: there is no theory of the first step for " +
                                    std::string(name(model.norm)));
}
}  // namespace detail

/// The text of one step: the batch that gives the gradients, and the next one, of which the first sequence is looked
/// at.
struct StepBatches {
    TokenBatch batch, next;
};

/// One step, and what the network is after it at any learning rate.
class FirstStep {
public:
    FirstStep(detail::NetworkBeforeStep network, detail::NewSequence next, StepRule rule)
        : network_(std::move(network)), next_(std::move(next)), rule_(std::move(rule)) {}

    SteppedNetwork at(double learning_rate) const {
        SteppedNetwork result;
        result.learning_rate = learning_rate;
        const SteppedActivations hidden = network_.run(
            next_, context(learning_rate),
            [&](const SteppedActivations& stream) { result.sublayers.push_back(moments(stream.covariance)); });
        result.hidden = moments(hidden.covariance);
        return result;
    }

    /// Root mean square change of an entry of the last hidden state, per unit of learning rate, at small ones.
    double response() const {
        constexpr double eta = 1e-60;  // its square is added to 0 alone
        const SteppedActivations hidden = network_.run(next_, context(eta), [](const SteppedActivations&) {});
        const TokenLayout& layout = network_.crossing().after();
        return std::sqrt(layout.trace(hidden.change) / layout.tokens()) / eta;
    }

    /// The learning rate at which 1 - rho of the last hidden state is half of what it was; infinite when none is, NaN
    /// when tokens are all alike from the start.
    double eta_half() const {
        const double before = 1.0 - at(0.0).hidden.token_correlation.value, response = this->response();
        if (!(before > 0.0) || std::isnan(response)) return not_available;
        if (response == 0.0) return std::numeric_limits<double>::infinity();
        // ln of the part of the differences that is left, over ln eta; the root is where it is -ln 2.
        const auto excess = [&](double log_eta) {
            const double left = (1.0 - at(std::exp(log_eta)).hidden.token_correlation.value) / before;
            return std::log(std::fmax(left, 1e-30)) + 0.69314718055994530942;
        };
        double low = std::log(0.1 / response), high = low, above = excess(low), below = above;
        for (int steps = 0; below > 0.0; ++steps) {
            if (steps == 60) return std::numeric_limits<double>::infinity();
            low = high, above = below;
            high += 1.0;
            below = excess(high);
        }
        for (; above < 0.0; low -= 1.0) {  // the first step was too large already
            high = low, below = above;
            above = excess(low - 1.0);
        }
        // Regula falsi, with the Illinois rule for the end that stays.
        int stayed = 0;
        while (high - low > 1e-4) {
            const double middle =
                std::fmin(std::fmax((low * below - high * above) / (below - above), low + 0.02 * (high - low)),
                          high - 0.02 * (high - low));
            const double value = excess(middle);
            if (std::abs(value) < 1e-4) return std::exp(middle);
            if (value > 0.0) {
                low = middle, above = value;
                if (stayed == 1) below *= 0.5;
                stayed = 1;
            } else {
                high = middle, below = value;
                if (stayed == -1) above *= 0.5;
                stayed = -1;
            }
        }
        return std::exp(0.5 * (low + high));
    }

    const std::vector<std::string>& warnings() const { return network_.warnings(); }

private:
    detail::StepContext context(double learning_rate) const {
        return {network_.crossing(), learning_rate, rule_.weight_decay};
    }
    SteppedStream moments(const TokenKernel& covariance) const {
        StreamMoments m;
        detail::ReportSums::add(m, network_.crossing().after(), covariance);
        return {m.second_moment, m.token_correlation};
    }

    detail::NetworkBeforeStep network_;
    detail::NewSequence next_;
    StepRule rule_;
};

/// The step for the reference model's random tokens.
/// @throws std::invalid_argument when the model's sizes do not fit (ReferenceModel::check)
inline FirstStep first_step(const AnyPlacement& placement, const ReferenceModel& model, const StepRule& rule) {
    detail::check_first_step(placement, model);
    detail::NetworkBeforeStep network(placement, model, rule,
                                      detail::random_tokens(model, detail::input_square(placement, model)));
    detail::NewSequence next = detail::random_sequence(network.crossing(), detail::input_square(placement, model));
    return {std::move(network), std::move(next), rule};
}

template <class P>
FirstStep first_step(const ReferenceModel& model, const StepRule& rule) {
    static_assert(explain_placement<P>() && detail::explain_first_step<P>());
    return first_step(any_placement<P>, model, rule);
}

/// The step for given text. O(L (B S)^2 S) for each learning rate.
/// @throws std::invalid_argument when a batch does not fit the model's batch, sequence or vocabulary
inline FirstStep first_step(const AnyPlacement& placement, const ReferenceModel& model, const StepRule& rule,
                            const StepBatches& batches) {
    detail::check_first_step(placement, model);
    detail::check_batch(model, batches.batch);
    detail::check_batch(model, batches.next);
    detail::NetworkBeforeStep network(placement, model, rule,
                                      detail::given_tokens(batches.batch, detail::input_square(placement, model)));
    detail::NewSequence next = detail::given_sequence(network.crossing(), network.input_gradient(), rule, batches.batch,
                                                      batches.next, detail::input_square(placement, model));
    return {std::move(network), std::move(next), rule};
}

template <class P>
FirstStep first_step(const ReferenceModel& model, const StepRule& rule, const StepBatches& batches) {
    static_assert(explain_placement<P>() && detail::explain_first_step<P>());
    return first_step(any_placement<P>, model, rule, batches);
}

namespace detail {

inline FirstStepReport empty_first_step_report(const AnyPlacement& placement, const ReferenceModel& model,
                                               const StepRule& rule) {
    FirstStepReport report;
    report.placement = placement.name;
    report.formula = to_string(placement);
    report.model = model;
    report.rule = rule;
    return report;
}

/// The mean over steps: of moments, of ln eta_half, and of the response's square.
class FirstStepMean {
public:
    explicit FirstStepMean(FirstStepReport report) : report_(std::move(report)) {}

    void add(const FirstStep& step, const std::vector<double>& learning_rates) {
        const double response = step.response();
        response_square_ += response * response;
        log_eta_half_ += std::log(step.eta_half());
        const auto add_network = [&](SteppedNetwork& sum, double learning_rate) {
            SteppedNetwork network = step.at(learning_rate);
            if (steps_ == 0.0) {
                sum = std::move(network);
                return;
            }
            for (std::size_t i = 0; i < sum.sublayers.size(); ++i) add_stream(sum.sublayers[i], network.sublayers[i]);
            add_stream(sum.hidden, network.hidden);
        };
        add_network(report_.initial, 0.0);
        report_.stepped.resize(learning_rates.size());
        for (std::size_t i = 0; i < learning_rates.size(); ++i) add_network(report_.stepped[i], learning_rates[i]);
        if (report_.warnings.empty()) report_.warnings = step.warnings();
        steps_ += 1.0;
    }

    FirstStepReport finish() {
        report_.response.value = std::sqrt(response_square_ / steps_);
        report_.eta_half.value = std::exp(log_eta_half_ / steps_);
        const auto divide = [&](SteppedNetwork& network) {
            for (SteppedStream& stream : network.sublayers) divide_stream(stream);
            divide_stream(network.hidden);
        };
        divide(report_.initial);
        for (SteppedNetwork& network : report_.stepped) divide(network);
        return std::move(report_);
    }

private:
    static void add_stream(SteppedStream& sum, const SteppedStream& stream) {
        sum.second_moment.value += stream.second_moment.value;
        sum.token_correlation.value += stream.token_correlation.value;
    }
    void divide_stream(SteppedStream& sum) const {
        sum.second_moment.value /= steps_;
        sum.token_correlation.value /= steps_;
    }

    FirstStepReport report_;
    double steps_ = 0.0, response_square_ = 0.0, log_eta_half_ = 0.0;
};

inline void check_learning_rates(const std::vector<double>& learning_rates) {
    for (const double eta : learning_rates)
        if (!(eta >= 0.0 && eta - eta == 0.0))
            throw std::invalid_argument("predict_first_step: a learning rate is " + std::to_string(eta) +
                                        ", expected a finite number of at least 0");
}

}  // namespace detail

/// The report of the step for the reference model's random tokens, with the network at each of the learning rates.
/// @throws std::invalid_argument when the model's sizes do not fit, or a learning rate is negative or not finite
inline FirstStepReport predict_first_step(const AnyPlacement& placement, const ReferenceModel& model,
                                          const StepRule& rule, const std::vector<double>& learning_rates = {}) {
    detail::check_learning_rates(learning_rates);
    detail::FirstStepMean mean(detail::empty_first_step_report(placement, model, rule));
    mean.add(first_step(placement, model, rule), learning_rates);
    return mean.finish();
}
template <class P>
FirstStepReport predict_first_step(const ReferenceModel& model, const StepRule& rule,
                                   const std::vector<double>& learning_rates = {}) {
    static_assert(explain_placement<P>() && detail::explain_first_step<P>());
    return predict_first_step(any_placement<P>, model, rule, learning_rates);
}
template <class P>
FirstStepReport predict_first_step(const ReferenceModel& model, const StepRule& rule,
                                   std::initializer_list<double> learning_rates) {
    return predict_first_step<P>(model, rule, std::vector<double>(learning_rates));
}

/// The mean over the steps of given texts: of moments, of ln eta_half, and of the response's square.
/// @throws std::invalid_argument also when there are no batches, or one does not fit
inline FirstStepReport predict_first_step(const AnyPlacement& placement, const ReferenceModel& model,
                                          const StepRule& rule, const std::vector<StepBatches>& batches,
                                          const std::vector<double>& learning_rates = {}) {
    detail::check_learning_rates(learning_rates);
    if (batches.empty()) throw std::invalid_argument("predict_first_step: there are no batches, expected at least 1");
    detail::FirstStepMean mean(detail::empty_first_step_report(placement, model, rule));
    for (const StepBatches& step : batches) mean.add(first_step(placement, model, rule, step), learning_rates);
    return mean.finish();
}
template <class P>
FirstStepReport predict_first_step(const ReferenceModel& model, const StepRule& rule,
                                   const std::vector<StepBatches>& batches,
                                   const std::vector<double>& learning_rates = {}) {
    static_assert(explain_placement<P>() && detail::explain_first_step<P>());
    return predict_first_step(any_placement<P>, model, rule, batches, learning_rates);
}

}  // namespace normplace
