// SPDX-License-Identifier: BSD-3-Clause
//
// The library's engines that run networks, called by the placement's name. Each stands in a file of its own because it
// instantiates every placement: the rest of the program compiles without.
#pragma once

#include <normplace/measure/first_step.hpp>
#include <normplace/measure/short_training.hpp>
#include <string>

namespace warmup {

normplace::FirstStepReport measure(const std::string& placement, const normplace::ReferenceModel& model,
                                   const normplace::StepRule& rule, const normplace::MeasureFirstStepOptions& options);

normplace::ShortTraining train(const std::string& placement, const normplace::ReferenceModel& model,
                               const normplace::StepRule& rule, const normplace::ShortTrainingOptions& options);

}  // namespace warmup
