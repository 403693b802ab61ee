// SPDX-License-Identifier: BSD-3-Clause
//
// What the first optimizer step does to the network's function, in one form for prediction and measurement: the
// residual stream of the next batch, sublayer by sublayer, after steps of different sizes, and the size that takes away
// half of the differences between tokens.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <normplace/analysis/report.hpp>
#include <normplace/analysis/step_rule.hpp>

namespace normplace {

/// The residual stream after one sublayer, or the last hidden state.
struct SteppedStream {
    Moment second_moment;      ///< E x^2 per entry, averaged over tokens
    Moment token_correlation;  ///< rho = sum_{i != j} x_i.x_j / ((S - 1) sum_i x_i.x_i), i and j in one sequence
};

/// The network after a step of one size, on the next batch.
struct SteppedNetwork {
    double learning_rate = 0.0;
    std::vector<SteppedStream> sublayers;  ///< 2 L: attention and feed-forward of each layer
    SteppedStream hidden;                  ///< what the readout sees: behind the final norm where there is one
};

struct FirstStepReport {
    std::string placement;  ///< "pre-ln"
    std::string formula;    ///< "x + f(norm(x))"
    ReferenceModel model;
    StepRule rule;
    std::size_t seeds = 0;  ///< 0: predicted

    /// Root mean square, over entries, of the change of the last hidden state per unit of learning rate, at small
    /// learning rates.
    Moment response;
    /// The learning rate at which 1 - rho of the last hidden state is half of what it was before the step. The
    /// geometric mean over seeds. Infinite when no step does it.
    Moment eta_half;
    SteppedNetwork initial;               ///< before the step, on the same next batch
    std::vector<SteppedNetwork> stepped;  ///< at the learning rates that were asked for
    std::vector<std::string> warnings;    ///< where the theory leaves the range in which it holds
};

}  // namespace normplace
