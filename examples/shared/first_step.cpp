// SPDX-License-Identifier: BSD-3-Clause
#include "first_step.hpp"

#include <algorithm>
#include <normplace/analysis/first_step.hpp>
#include <normplace/placement/visit.hpp>

namespace shared {

namespace np = normplace;

std::string why_no_first_step(const std::string& placement, const np::ReferenceModel& model) {
    const np::AnyPlacement& value = np::placement_named(placement);
    std::string what;
    const auto add = [&](bool is_so, const std::string& words) {
        if (is_so) what += (what.empty() ? "" : " and ") + words;
    };
    add(value.streams() > 1, "more than one stream");
    add(np::syntax::count_gates(value.formula) > 0, "learned factors");
    add(np::syntax::has_norm_start(value.formula), "gains that start at 0");
    add(value.has_norms_inside(), "norms inside f");
    add(!np::normalises(model.norm) || model.norm == np::NormKind::scale_norm, std::string(np::name(model.norm)));
    if (what.empty() && !np::has_first_step(value)) what = placement;
    return what.empty() ? what : "there is no theory of the first step for " + what;
}

np::FirstStepReport predict_first_step(const std::string& placement, const np::ReferenceModel& model,
                                       const np::StepRule& rule, std::string_view text,
                                       const std::vector<double>& learning_rates, std::size_t most_steps) {
    const np::AnyPlacement& value = np::placement_named(placement);
    if (!why_no_first_step(placement, model).empty()) {
        np::FirstStepReport none;
        none.placement = placement;
        none.formula = np::to_string(value);
        none.model = model;
        none.rule = rule;
        return none;
    }
    std::vector<np::StepBatches> steps;
    if (!text.empty()) {
        const std::size_t batches = (text.size() - 1) / (model.batch * model.sequence);
        for (std::size_t i = 0; i < std::clamp<std::size_t>(batches / 2, 1, most_steps); ++i)
            steps.push_back({np::byte_batch(text, model.batch, model.sequence, 2 * i),
                             np::byte_batch(text, model.batch, model.sequence, 2 * i + 1)});
    }
    return steps.empty() ? np::predict_first_step(value, model, rule, learning_rates)
                         : np::predict_first_step(value, model, rule, steps, learning_rates);
}

np::WarmUpAdvice advise(const np::FirstStepReport& report, double learning_rate) {
    np::WarmUpAdvice none;
    none.sentence = why_no_first_step(report.placement, report.model);
    if (!none.sentence.empty()) return none;
    return np::warm_up_advice(np::placement_named(report.placement), report, learning_rate);
}

}  // namespace shared
