// SPDX-License-Identifier: BSD-3-Clause
//
// Many placements at once: a line for each in two tables, and a panel for each kind of them in one plot.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "options.hpp"
#include "run.hpp"

namespace profile {

/// Placements of one kind, in their order.
struct Group {
    std::string title;
    std::vector<const PlacementResult*> results;
};

/// By streams, norms inside f, and whether a norm stands on the skip path of the last layer; no group is empty.
std::vector<Group> grouped(const std::vector<PlacementResult>& results);

/// Gradients predicted beside measured, then formulas beside the first step.
void write_overview(std::ostream& stream, const std::vector<PlacementResult>& results);

/// The plot, for gnuplot: ||dLoss/dW_2|| over layers, small multiples by group.
std::string overview_script(const std::string& file, const Options& options,
                            const std::vector<PlacementResult>& results);

}  // namespace profile
