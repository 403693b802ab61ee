// SPDX-License-Identifier: BSD-3-Clause
//
// The library's two engines, called by the placement's name. Each stands in a file of its own because it instantiates
// every placement: the rest of the program compiles without.
#pragma once

#include <functional>
#include <normplace/analysis/report.hpp>
#include <string>

namespace accuracy {

normplace::GradientReport predict(const std::string& placement, const normplace::ReferenceModel& model);

/// `after_seed` is called once for each seed that is done.
normplace::GradientReport measure(const std::string& placement, const normplace::ReferenceModel& model,
                                  std::size_t seeds, const std::function<void()>& after_seed);

}  // namespace accuracy
