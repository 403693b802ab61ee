// SPDX-License-Identifier: BSD-3-Clause
//
// The end of a stack in moments: the final norm if there is one, the readout with variance 1/D, and the mean token
// cross-entropy.
//
// With p the model's prediction, a softmax of V independent logits: E (p_i - y_i).(p_j - y_j) = [y_i = y_j] - 2/V + E
// p_i.p_j.
#pragma once

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include <normplace/analysis/moments.hpp>
#include <normplace/analysis/prediction_input.hpp>
#include <normplace/analysis/softmax_table.hpp>

namespace normplace::detail {

struct LossMoments {
    double loss = 0.0;
    double readout = 0.0;    // E ||dLoss/dU||^2
    NormSquares final_norm;  // zero where there is none
    // The prediction leans on the readout that made it: E p_v u_v = (1 - m2)/D h, so the gradient has a mean along the
    // hidden state h itself, `lean` h. A norm's Jacobian takes it away, but its own gain and bias see it first: that of
    // the final norm, or else of the last block's.
    double lean = 0.0;
    TokenKernel hidden;    // covariances of h
    TokenKernel gradient;  // at the stack's output
};

/// What a gradient lean h, mean over tokens, gives to a norm whose value is u: the gain's mean over tokens of h o u,
/// and the bias's of h. From the covariances of h, of u, and of h with u, the last taken as symmetric; all are
/// Gaussian.
inline NormSquares leaning(const TokenLayout& layout, double width, double lean, const TokenKernel& h,
                           const TokenKernel& u, const TokenKernel& both) {
    const double pairs = layout.tokens() * layout.tokens(), mean = layout.trace(both) / layout.tokens();
    const double square = width * lean * lean;
    return {square * (mean * mean + (layout.inner(h, u) + layout.inner(both, both)) / pairs),
            square * layout.total(h) / pairs};
}

inline LossMoments loss_moments(const PredictionInput& input, const ReferenceModel& model, const TokenKernel& stream,
                                bool with_final_norm, SoftmaxTable& table) {
    LossMoments result;
    const TokenLayout& layout = input.layout;
    const double width = static_cast<double>(model.width), classes = static_cast<double>(model.vocabulary);
    PerToken root(layout.classes(), 1.0);
    if (with_final_norm)
        for (std::size_t i = 0; i < root.size(); ++i) root[i] = std::sqrt(stream[layout.diagonal(i)] + model.epsilon);
    TokenKernel hidden(layout.entries()), logits_gradient(layout.entries());
    layout.for_each_entry(
        [&](std::size_t e, std::size_t i, std::size_t j) { hidden[e] = stream[e] / (root[i] * root[j]); });
    const double pairs = layout.tokens() * layout.tokens();
    std::vector<SoftmaxMoments> softmax(layout.classes());
    for (std::size_t i = 0; i < softmax.size(); ++i) softmax[i] = table.at(classes, hidden[layout.diagonal(i)]);
    layout.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
        const double scale = std::sqrt(hidden[layout.diagonal(i)] * hidden[layout.diagonal(j)]);
        const double r = scale > 0.0 ? hidden[e] / scale : 0.0;
        const double overlap = 0.5 * (softmax[i].overlap(r) + softmax[j].overlap(r));
        logits_gradient[e] = (input.same_target[e] - 2.0 / classes + overlap) / pairs;
    });
    result.loss = expected_log_sum_exp(classes, layout.trace(hidden) / layout.tokens());
    double lean = 0.0;
    for (std::size_t i = 0; i < softmax.size(); ++i)
        lean += (1.0 - softmax[i].concentration) / (width * static_cast<double>(softmax.size()));
    result.lean = lean;
    result.readout = width * layout.inner(logits_gradient, hidden);
    result.gradient = std::move(logits_gradient);
    for (double& g : result.gradient) g /= width;
    if (with_final_norm) {
        result.final_norm =
            sum_of({width * layout.inner(result.gradient, hidden), width * layout.total(result.gradient)},
                   leaning(layout, width, lean, hidden, hidden, hidden));
        layout.for_each_entry(
            [&](std::size_t e, std::size_t i, std::size_t j) { result.gradient[e] /= root[i] * root[j]; });
    }
    result.hidden = std::move(hidden);
    return result;
}

}  // namespace normplace::detail
