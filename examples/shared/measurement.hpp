// SPDX-License-Identifier: BSD-3-Clause
//
// The measurements in float, compiled once for all programs, in measurement.cpp: a whole network hangs on each. Whoever
// includes this calls them as always.
#pragma once

#include <normplace/measure/first_step.hpp>
#include <normplace/measure/measure.hpp>
#include <normplace/measure/short_training.hpp>

namespace normplace {

extern template GradientReport measure<float>(const AnyPlacement&, const ReferenceModel&, const MeasureOptions&);
extern template FirstStepReport measure_first_step<float>(const AnyPlacement&, const ReferenceModel&, const StepRule&,
                                                          const MeasureFirstStepOptions&);
extern template ShortTraining train_shortly<float>(const AnyPlacement&, const ReferenceModel&, const StepRule&,
                                                   const ShortTrainingOptions&);

}  // namespace normplace
