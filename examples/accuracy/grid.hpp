// SPDX-License-Identifier: BSD-3-Clause
//
// The models on which predictions are checked: a fixed list, spread so that every value of every size and choice occurs
// several times, and among the rows that are held out as well. Whoever improves the theory may look at two rows of
// three; every third is there to tell whether that was learning by heart.
#pragma once

#include <cstddef>
#include <normplace/analysis/reference_model.hpp>
#include <string>
#include <vector>

namespace accuracy {

struct Row {
    std::size_t number = 0;  ///< from 1
    bool held_out = false;
    std::size_t seeds = 0;  ///< random models to average over
    normplace::ReferenceModel model;

    /// "L6 D128 H2 F512 S64 B4 V1000 causal rms-norm relu xavier": what a file knows it by.
    std::string description() const;
    /// Roughly what measuring it takes, for one placement, in steps through a weight for each token.
    double work() const;
    /// Below this width predictions may be off by twice as much.
    bool narrow() const { return model.width < 256; }
};

/// @param size "quick" or "full"
/// @param seeds_scale multiplies the seeds of every row, of which at least 2 remain
std::vector<Row> grid(const std::string& size, double seeds_scale);

}  // namespace accuracy
