// SPDX-License-Identifier: BSD-3-Clause
//
// The advice put to the test: one placement trained for a short while at each of a few learning rates around the
// predicted largest one, without warm-up and with what is advised.
#pragma once

#include <cstddef>
#include <normplace/analysis/first_step_report.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "options.hpp"

namespace warmup {

struct Outcome {
    double loss = normplace::not_available;  ///< of the last tenth of the steps; infinite when the training diverged
    bool learned = false;                    ///< whether it is below the text's unigram entropy by more than a margin
};

struct Rung {
    double learning_rate = 0.0;
    Outcome without;                                  ///< warm-up
    double warm_up_steps = normplace::not_available;  ///< as advised: 0 where none is needed, NaN without a number
    std::optional<Outcome> with;                      ///< when that many steps are fewer than the training has
};

struct Ladder {
    double unigram_entropy = normplace::not_available;
    double predicted = normplace::not_available;  ///< the largest learning rate without warm-up; NaN without a number
    std::vector<Rung> rungs;                      ///< in ascending order; none where no step is too large

    /// The largest rate that learned without warm-up, NaN when none did.
    double largest_learned() const;
    /// The smallest rate above that which did not, NaN when there is none.
    double first_failed() const;
};

/// One ladder for each of the predictions. The trainings are parallel, one thread each.
std::vector<Ladder> climb(const Options& options, const std::vector<normplace::FirstStepReport>& predictions,
                          std::string_view text);

}  // namespace warmup
