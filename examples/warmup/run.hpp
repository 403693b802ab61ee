// SPDX-License-Identifier: BSD-3-Clause
//
// The work itself: every placement's first step predicted, measured where asked, and swept over depth and width.
#pragma once

#include <cstddef>
#include <normplace/analysis/first_step_report.hpp>
#include <normplace/analysis/warm_up_advice.hpp>
#include <optional>
#include <string>
#include <vector>

#include "../shared/first_step.hpp"
#include "ladder.hpp"
#include "options.hpp"

namespace warmup {

/// The token correlation of the last hidden state after one step. NaN where it was not measured.
struct CorrelationPoint {
    double learning_rate = 0.0, predicted = normplace::not_available;
    normplace::Moment measured{normplace::not_available, normplace::not_available};
};

/// eta_half of a model that differs in one size. NaN where it was not measured.
struct SizePoint {
    std::size_t size = 0;
    double predicted = normplace::not_available;
    normplace::Moment measured{normplace::not_available, normplace::not_available};
};

struct PlacementResult {
    normplace::FirstStepReport predicted;
    std::optional<normplace::FirstStepReport> measured;
    normplace::WarmUpAdvice advice;
    std::vector<CorrelationPoint> correlation;  ///< at the same learning rates for every placement
    std::vector<SizePoint> depths, widths;      ///< empty when nobody looks at them
    std::optional<Ladder> ladder;               ///< what became of the trainings

    /// Whether the theory of the first step covers the placement and its norm.
    bool has_theory() const { return shared::why_no_first_step(predicted.placement, predicted.model).empty(); }
};

/// @throws UsageError when the text is too short or unreadable, or the machine too small
std::vector<PlacementResult> run(const Options& options);

}  // namespace warmup
