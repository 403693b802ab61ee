// SPDX-License-Identifier: BSD-3-Clause
#include <normplace/analysis/predict.hpp>
#include <normplace/placement/visit.hpp>

#include "engines.hpp"

namespace accuracy {

normplace::GradientReport predict(const std::string& placement, const normplace::ReferenceModel& model) {
    return normplace::visit_placement(placement,
                                      [&](auto policy) { return normplace::predict<decltype(policy)>(model); });
}

}  // namespace accuracy
