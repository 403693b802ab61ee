// SPDX-License-Identifier: BSD-3-Clause
//
// The work itself: every placement predicted, measured where asked, and swept over depth.
#pragma once

#include <normplace/analysis/report.hpp>
#include <normplace/analysis/warm_up_advice.hpp>
#include <optional>
#include <string>
#include <vector>

#include "options.hpp"

namespace profile {

/// The last layer's ||dLoss/dW_2|| of a stack of `layers` layers.
struct DepthPoint {
    std::size_t layers = 0;
    normplace::GradientNorm predicted, measured;  ///< measured.norm is NaN when it was not measured
    double second_moment = 0.0;                   ///< of the stream that the last layer leaves, predicted
};

struct PlacementResult {
    normplace::GradientReport predicted;
    std::optional<normplace::GradientReport> measured;
    std::vector<DepthPoint> depths;  ///< empty when nobody looks at them
    normplace::WarmUpAdvice advice;  ///< its sentence is empty where nobody looks at it
};

/// @throws UsageError when the text is too short or unreadable, or the machine too small
std::vector<PlacementResult> run(const Options& options);

}  // namespace profile
