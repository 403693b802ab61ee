// SPDX-License-Identifier: BSD-3-Clause
#include "first_step.hpp"

#include <algorithm>
#include <normplace/analysis/first_step.hpp>
#include <normplace/placement/visit.hpp>

namespace shared {

namespace np = normplace;

np::FirstStepReport predict_first_step(const std::string& placement, const np::ReferenceModel& model,
                                       const np::StepRule& rule, std::string_view text,
                                       const std::vector<double>& learning_rates, std::size_t most_steps) {
    std::vector<np::StepBatches> steps;
    if (!text.empty()) {
        const std::size_t batches = (text.size() - 1) / (model.batch * model.sequence);
        for (std::size_t i = 0; i < std::clamp<std::size_t>(batches / 2, 1, most_steps); ++i)
            steps.push_back({np::byte_batch(text, model.batch, model.sequence, 2 * i),
                             np::byte_batch(text, model.batch, model.sequence, 2 * i + 1)});
    }
    return np::visit_placement(placement, [&](auto policy) {
        using Placement = decltype(policy);
        return steps.empty() ? np::predict_first_step<Placement>(model, rule, learning_rates)
                             : np::predict_first_step<Placement>(model, rule, steps, learning_rates);
    });
}

np::WarmUpAdvice advise(const np::FirstStepReport& report, double learning_rate) {
    return np::visit_placement(
        report.placement, [&](auto policy) { return np::warm_up_advice<decltype(policy)>(report, learning_rate); });
}

}  // namespace shared
