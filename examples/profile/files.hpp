// SPDX-License-Identifier: BSD-3-Clause
//
// The files that the program writes.
#pragma once

#include <ostream>
#include <vector>

#include "options.hpp"
#include "run.hpp"

namespace profile {

/// Everything as JSON, norms and not their squares; null where there is no value.
void write_json(std::ostream& stream, const Options& options, const std::vector<PlacementResult>& results);

/// Everything as CSV: one row per placement, layer (from 1; empty for readout and loss) and quantity; an empty field
/// where there is no value.
void write_csv(std::ostream& stream, const std::vector<PlacementResult>& results);

/// Gradient norm over layers and last-layer gradient over depth, side by side, drawn by gnuplot; for an overview
/// gradient norm over layers, placements of one kind to a panel.
/// @throws std::runtime_error when gnuplot fails
void write_plot(const std::string& file, const Options& options, const std::vector<PlacementResult>& results);

}  // namespace profile
