// SPDX-License-Identifier: BSD-3-Clause
//
// The token cross-entropy, with label smoothing, as a mean over tokens or as a sum. With p = softmax(logits), target t
// and smoothing s, a token costs
//
//     -sum_v q_v log p_v,   q_v = (1 - s) [v = t] + s / V
//
// which is -log p_t at s = 0 (Szegedy et al. 2016, arXiv:1512.00567, section 7). Tokens that are not to be predicted
// (padding, or what is not masked in a masked language model) have the target -1 and count nowhere.
#pragma once

#include <cmath>

#include <normplace/detail/check.hpp>
#include <normplace/detail/kernels.hpp>
#include <normplace/detail/parallel.hpp>
#include <normplace/detail/workspace.hpp>
#include <normplace/nn/embedding.hpp>

namespace normplace {

/// The target of a token that is not to be predicted.
inline constexpr int ignored_target = -1;

struct CrossEntropyOptions {
    double label_smoothing = 0.0;  ///< s, in [0, 1]
    double denominator = 1.0;      ///< dlogits is the gradient of the sum divided by this
};

/// Sums over the tokens whose target is not -1, in nats.
struct LossSum {
    double sum = 0.0;                      ///< of the losses, smoothed
    double negative_log_likelihood = 0.0;  ///< of -log p_t; exp of its mean is the perplexity
    std::size_t tokens = 0;
    std::size_t correct = 0;  ///< tokens whose target has the largest logit, the first of equal ones
};

/// The loss, summed, of logits (B, S, V) against targets (B, S); sets dlogits (B, S, V) to the gradient of
/// sum / denominator, (p - q) / denominator, 0 where the target is -1. dlogits may be logits. All sums are 0 where
/// every target is -1. NaN in logits that count makes the loss NaN.
/// @throws std::invalid_argument when shapes do not fit, a target is neither -1 nor in the vocabulary, the smoothing is
/// not in [0, 1] or the denominator not a positive number
template <class T>
LossSum cross_entropy_sum(const Activations<T>& logits, const Tokens& targets, Activations<T>& dlogits,
                          const CrossEntropyOptions& options = {}) {
    const auto shape = detail::shape_of(logits);
    const std::size_t rows = detail::row_count(logits), vocabulary = shape[2];
    const double smoothing = options.label_smoothing, denominator = options.denominator;
    detail::require_shape("cross_entropy", "targets", targets, {shape[0], shape[1]});
    detail::require(smoothing >= 0.0 && smoothing <= 1.0, "cross_entropy", [&] {
        return "label_smoothing is " + detail::number_text(smoothing) + ", expected a number in [0, 1]";
    });
    detail::require(denominator > 0.0 && std::isfinite(denominator), "cross_entropy", [&] {
        return "denominator is " + detail::number_text(denominator) + ", expected a positive number";
    });
    for (const int target : targets.storage())
        if (target != ignored_target) detail::require_token("cross_entropy", "target", target, vocabulary);
    detail::reshape(dlogits, shape);

    struct Row {
        double loss, negative_log_likelihood;
        bool counts, correct;
    };
    detail::Scratch<Row> losses(rows);
    const bool smooth = smoothing > 0.0;
    const double floor = smoothing / static_cast<double>(vocabulary);  // of q
    const auto body = [&](std::size_t begin, std::size_t end, std::size_t) {
        detail::Scratch<T> ones(smooth ? vocabulary : 0);
        if (smooth) std::fill_n(ones.data(), vocabulary, T(1));
        for (std::size_t r = begin; r < end; ++r) {
            const T* logit = logits.data() + r * vocabulary;
            T* d = dlogits.data() + r * vocabulary;
            if (targets.data()[r] == ignored_target) {
                std::fill_n(d, vocabulary, T(0));
                losses.data()[r] = {};
                continue;
            }
            const std::size_t target = static_cast<std::size_t>(targets.data()[r]);
            const T at_target = logit[target], before = NORMPLACE_KERNEL(largest_of, logit, target),
                    after = NORMPLACE_KERNEL(largest_of, logit + target + 1, vocabulary - target - 1);
            const T largest = std::max(std::max(before, after), at_target);
            T logit_sum = T(0);
            if (smooth)
                NORMPLACE_KERNEL(dot_rows, logit, static_cast<const T*>(ones.data()), std::size_t{1}, vocabulary,
                                 vocabulary, &logit_sum);
            const double target_logit = static_cast<double>(at_target) - static_cast<double>(largest);
            const double sum = static_cast<double>(NORMPLACE_KERNEL(exp_row, logit, largest, d, vocabulary));
            const double likelihood = std::log(sum) - target_logit;
            double loss = likelihood;
            if (smooth) {
                const double mean_logit = static_cast<double>(logit_sum) / static_cast<double>(vocabulary);
                const double uniform = std::log(sum) - (mean_logit - static_cast<double>(largest));
                loss = (1.0 - smoothing) * likelihood + smoothing * uniform;
            }
            losses.data()[r] = {loss, likelihood, true, before < at_target && after <= at_target};
            const detail::Term<T> terms[] = {{static_cast<T>(1.0 / (sum * denominator)), d},
                                             {static_cast<T>(-floor / denominator), ones.data()}};
            NORMPLACE_KERNEL(combine, terms, std::size_t{smooth ? 2u : 1u}, d, std::size_t{0}, vocabulary);
            d[target] -= static_cast<T>((1.0 - smoothing) / denominator);
        }
    };
    detail::parallel_ranges(rows, 4.0 * static_cast<double>(logits.size()), body);
    LossSum total;
    for (std::size_t r = 0; r < rows; ++r) {
        const Row& row = losses.data()[r];
        total.sum += row.loss;
        total.negative_log_likelihood += row.negative_log_likelihood;
        total.tokens += row.counts;
        total.correct += row.correct;
    }
    return total;
}

/// The mean of the loss over the tokens whose target is not -1; sets dlogits to its gradient. dlogits may be logits.
/// @throws std::invalid_argument when there is no such token, and as cross_entropy_sum
template <class T>
double cross_entropy(const Activations<T>& logits, const Tokens& targets, Activations<T>& dlogits,
                     double label_smoothing = 0.0) {
    std::size_t ignored = 0;
    for (const int target : targets.storage()) ignored += target == ignored_target;
    const double tokens = static_cast<double>(targets.size() - ignored);
    const auto shape = detail::shape_of(logits);
    detail::require_shape("cross_entropy", "targets", targets, {shape[0], shape[1]});
    detail::require(tokens > 0.0 && shape[2] > 0, "cross_entropy",
                    [&] { return "logits of shape " + detail::shape_text(shape) + " have no tokens to average over"; });
    return cross_entropy_sum(logits, targets, dlogits, {label_smoothing, tokens}).sum / tokens;
}

}  // namespace normplace
