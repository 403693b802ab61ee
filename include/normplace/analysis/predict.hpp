// SPDX-License-Identifier: BSD-3-Clause
//
// The gradient norm of every parameter of the reference model at initialization, before anything is built, for any
// placement. Weights are taken as independent Gaussians and the width as large, with the corrections of order n/D and
// 1/D that add up (fluctuation.hpp); what remains falls as 1/D.
//
//     GradientReport report = predict<PreLN>(ReferenceModel{.layers = 12, .width = 512});
//     double last = report.layers.back().w2.norm;
#pragma once

#include <stdexcept>
#include <vector>

#include <normplace/analysis/estimator.hpp>

namespace normplace {

/// The prediction for the reference model's random tokens. O(L) when tokens are exchangeable, O(L S^2) under a causal
/// mask.
/// @throws std::invalid_argument when the model's sizes do not fit (ReferenceModel::check)
inline GradientReport predict(const AnyPlacement& placement, const ReferenceModel& model) {
    model.check();
    detail::Estimator estimator(placement, model);
    estimator.add(detail::random_tokens(model, estimator.input_square()));
    return estimator.finish();
}
template <class P>
GradientReport predict(const ReferenceModel& model) {
    static_assert(explain_placement<P>());
    return predict(any_placement<P>, model);
}

/// The prediction for given batches: root mean square over them of norms, mean of moments. O(L (B S)^2) for each.
/// @throws std::invalid_argument when there is no batch, or one does not fit the model's batch, sequence or vocabulary
inline GradientReport predict(const AnyPlacement& placement, const ReferenceModel& model,
                              const std::vector<TokenBatch>& batches) {
    model.check();
    if (batches.empty()) throw std::invalid_argument("predict: there are no batches, expected at least 1");
    for (const TokenBatch& batch : batches) detail::check_batch(model, batch);
    detail::Estimator estimator(placement, model);
    for (const TokenBatch& batch : batches) estimator.add(detail::given_tokens(batch, estimator.input_square()));
    return estimator.finish();
}
template <class P>
GradientReport predict(const ReferenceModel& model, const std::vector<TokenBatch>& batches) {
    static_assert(explain_placement<P>());
    return predict(any_placement<P>, model, batches);
}

}  // namespace normplace
