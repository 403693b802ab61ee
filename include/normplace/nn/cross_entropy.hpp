// SPDX-License-Identifier: BSD-3-Clause
//
// The mean token cross-entropy: Loss = mean over (b, s) of log(sum_v exp(logit_v)) - logit_target.
#pragma once

#include <cmath>

#include <normplace/detail/check.hpp>
#include <normplace/detail/kernels.hpp>
#include <normplace/detail/parallel.hpp>
#include <normplace/detail/workspace.hpp>
#include <normplace/nn/embedding.hpp>

namespace normplace {

/// The loss, in nats, of logits (B, S, V) against targets (B, S); sets dlogits (B, S, V) to its gradient, which is
/// (softmax - [v = target]) / (B S). dlogits may be logits.
/// @throws std::invalid_argument when there are no tokens, shapes do not fit, or a target is not in the vocabulary
template <class T>
double cross_entropy(const Activations<T>& logits, const Tokens& targets, Activations<T>& dlogits) {
    const auto shape = detail::shape_of(logits);
    const std::size_t rows = detail::row_count(logits), vocabulary = shape[2];
    detail::require_shape("cross_entropy", "targets", targets, {shape[0], shape[1]});
    detail::require(rows > 0 && vocabulary > 0, "cross_entropy",
                    [&] { return "logits of shape " + detail::shape_text(shape) + " have no tokens to average over"; });
    for (const int target : targets.storage()) detail::require_token("cross_entropy", "target", target, vocabulary);
    detail::reshape(dlogits, shape);
    const double tokens = static_cast<double>(rows);
    detail::Scratch<double> losses(rows);
    detail::parallel_ranges(
        rows, 4.0 * static_cast<double>(logits.size()), [&](std::size_t begin, std::size_t end, std::size_t) {
            for (std::size_t r = begin; r < end; ++r) {
                const T* logit = logits.data() + r * vocabulary;
                T* d = dlogits.data() + r * vocabulary;
                const std::size_t target = static_cast<std::size_t>(targets.data()[r]);
                const T largest = NORMPLACE_KERNEL(largest_of, logit, vocabulary);
                const double target_logit = static_cast<double>(logit[target]) - static_cast<double>(largest);
                const double sum = static_cast<double>(NORMPLACE_KERNEL(exp_row, logit, largest, d, vocabulary));
                losses.data()[r] = std::log(sum) - target_logit;
                const detail::Term<T> term{static_cast<T>(1.0 / (sum * tokens)), d};
                NORMPLACE_KERNEL(combine, &term, std::size_t{1}, d, std::size_t{0}, vocabulary);
                d[target] -= static_cast<T>(1.0 / tokens);
            }
        });
    double loss = 0.0;
    for (std::size_t r = 0; r < rows; ++r) loss += losses.data()[r];
    return loss / tokens;
}

}  // namespace normplace
