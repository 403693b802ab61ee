// SPDX-License-Identifier: BSD-3-Clause
#include "measurement.hpp"

namespace normplace {

template GradientReport measure<float>(const AnyPlacement&, const ReferenceModel&, const MeasureOptions&);
template FirstStepReport measure_first_step<float>(const AnyPlacement&, const ReferenceModel&, const StepRule&,
                                                   const MeasureFirstStepOptions&);
template ShortTraining train_shortly<float>(const AnyPlacement&, const ReferenceModel&, const StepRule&,
                                            const ShortTrainingOptions&);

}  // namespace normplace
