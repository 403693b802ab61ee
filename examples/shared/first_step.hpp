// SPDX-License-Identifier: BSD-3-Clause
//
// The prediction of the first optimizer step and what follows from it, for any placement: where there is no theory of
// it, a sentence says so.
#pragma once

#include <cstddef>
#include <normplace/analysis/first_step_report.hpp>
#include <normplace/analysis/warm_up_advice.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace shared {

/// A prediction for given text takes O(L (B S)^2 S) for each learning rate, and two steps differ little.
inline constexpr std::size_t most_steps_of_text = 2;

/// Why the step is not predicted: "there is no theory of the first step for learned factors". Empty where it is.
std::string why_no_first_step(const std::string& placement, const normplace::ReferenceModel& model);

/// A report without a number where there is no theory. For Gaussian tokens when the text is empty; otherwise the mean
/// over the text's first steps, at most `most_steps_of_text`, each of which takes two batches, and of which the text
/// must hold one.
normplace::FirstStepReport predict_first_step(const std::string& placement, const normplace::ReferenceModel& model,
                                              const normplace::StepRule& rule, std::string_view text,
                                              const std::vector<double>& learning_rates = {},
                                              std::size_t most_steps = most_steps_of_text);

/// Where there is no theory, the sentence says why.
/// @param learning_rate the wanted one; NaN: none in particular
normplace::WarmUpAdvice advise(const normplace::FirstStepReport& report,
                               double learning_rate = normplace::not_available);

}  // namespace shared
