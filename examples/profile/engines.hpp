// SPDX-License-Identifier: BSD-3-Clause
//
// The library's two engines, called by the placement's name. They stand in files of their own because they instantiate
// every placement: the rest of the program compiles without.
#pragma once

#include <functional>
#include <normplace/analysis/report.hpp>
#include <normplace/analysis/token_batch.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace profile {

/// For Gaussian tokens when there are no batches.
normplace::GradientReport predict(const std::string& placement, const normplace::ReferenceModel& model,
                                  const std::vector<normplace::TokenBatch>& batches);

/// For Gaussian tokens when the text is empty. `after_seed` is called once for each seed that is done.
normplace::GradientReport measure(const std::string& placement, const normplace::ReferenceModel& model,
                                  std::size_t seeds, std::string_view text, const std::function<void()>& after_seed);

}  // namespace profile
