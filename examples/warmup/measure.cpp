// SPDX-License-Identifier: BSD-3-Clause
#include <normplace/placement/visit.hpp>

#include "engines.hpp"

namespace warmup {

namespace np = normplace;

np::FirstStepReport measure(const std::string& placement, const np::ReferenceModel& model, const np::StepRule& rule,
                            const np::MeasureFirstStepOptions& options) {
    return np::visit_placement(
        placement, [&](auto policy) { return np::measure_first_step<decltype(policy), float>(model, rule, options); });
}

}  // namespace warmup
