// SPDX-License-Identifier: BSD-3-Clause
//
// What the user asked for: the command line, checked as far as that is possible before any work is done.
#pragma once

#include <cstddef>
#include <normplace/analysis/report.hpp>
#include <normplace/analysis/step_rule.hpp>
#include <optional>
#include <string>

#include "../shared/options.hpp"

namespace warmup {

using command_line::UsageError;

struct Options : shared::Options {
    normplace::StepRule rule = normplace::StepRule::adam();
    double learning_rate = normplace::not_available;  ///< the wanted one; NaN: none in particular
    std::size_t steps = 0;                            ///< of each training; 0: nothing is trained

    /// "AdamW", "SGD with momentum 0.9"
    std::string optimizer_name() const;
};

/// Reads the command line. Nothing when only help was wanted, which is then on standard output.
/// @throws UsageError with the sentence to show
std::optional<Options> parse(int argc, const char* const* argv);

}  // namespace warmup
