// SPDX-License-Identifier: BSD-3-Clause
#include <normplace/placement/visit.hpp>

#include "engines.hpp"

namespace warmup {

namespace np = normplace;

np::ShortTraining train(const std::string& placement, const np::ReferenceModel& model, const np::StepRule& rule,
                        const np::ShortTrainingOptions& options) {
    return np::visit_placement(
        placement, [&](auto policy) { return np::train_shortly<decltype(policy), float>(model, rule, options); });
}

}  // namespace warmup
