// SPDX-License-Identifier: BSD-3-Clause
#include <normplace/analysis.hpp>
#include <normplace/placement/visit.hpp>

#include "engines.hpp"

namespace profile {

normplace::GradientReport predict(const std::string& placement, const normplace::ReferenceModel& model,
                                  const std::vector<normplace::TokenBatch>& batches) {
    return normplace::visit_placement(placement, [&](auto policy) {
        using Placement = decltype(policy);
        return batches.empty() ? normplace::predict<Placement>(model) : normplace::predict<Placement>(model, batches);
    });
}

}  // namespace profile
