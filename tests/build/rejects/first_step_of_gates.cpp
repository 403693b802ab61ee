// says: normplace: the first step is predicted for placements with one stream, without learned factors
#include <normplace/analysis/first_step.hpp>
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

const FirstStepReport report = predict_first_step<LayerScale>(ReferenceModel{}, StepRule::adam());
