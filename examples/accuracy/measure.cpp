// SPDX-License-Identifier: BSD-3-Clause
#include <normplace/measure/measure.hpp>
#include <normplace/placement/visit.hpp>

#include "engines.hpp"

namespace accuracy {

normplace::GradientReport measure(const std::string& placement, const normplace::ReferenceModel& model,
                                  std::size_t seeds, const std::function<void()>& after_seed) {
    normplace::MeasureOptions options;
    options.seeds = seeds;
    options.progress = [&](std::size_t, std::size_t) { after_seed(); };
    return normplace::visit_placement(
        placement, [&](auto policy) { return normplace::measure<decltype(policy), float>(model, options); });
}

}  // namespace accuracy
