// SPDX-License-Identifier: BSD-3-Clause
//
// The mean token cross-entropy: Loss = mean over (b, s) of log(sum_v exp(logit_v)) - logit_target.
#pragma once

#include <cmath>

#include <normplace/detail/check.hpp>
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
                    "logits of shape " + detail::shape_text(shape) + " have no tokens to average over");
    for (const int target : targets.storage()) detail::require_token("cross_entropy", "target", target, vocabulary);
    detail::reshape(dlogits, shape);
    double loss = 0.0;
    for (std::size_t r = 0; r < rows; ++r) {
        const T* logit = logits.data() + r * vocabulary;
        T* d = dlogits.data() + r * vocabulary;
        const std::size_t target = static_cast<std::size_t>(targets.data()[r]);
        T largest = logit[0];
        for (std::size_t v = 1; v < vocabulary; ++v) largest = std::max(largest, logit[v]);
        const double target_logit = static_cast<double>(logit[target]) - static_cast<double>(largest);
        double sum = 0.0;
        for (std::size_t v = 0; v < vocabulary; ++v) {
            d[v] = std::exp(logit[v] - largest);
            sum += static_cast<double>(d[v]);
        }
        loss += std::log(sum) - target_logit;
        const T scale = static_cast<T>(1.0 / (sum * static_cast<double>(rows)));
        for (std::size_t v = 0; v < vocabulary; ++v) d[v] *= scale;
        d[target] -= static_cast<T>(1.0 / static_cast<double>(rows));
    }
    return loss / static_cast<double>(rows);
}

}  // namespace normplace
