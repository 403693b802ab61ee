// SPDX-License-Identifier: BSD-3-Clause
//
// What the program writes.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "options.hpp"
#include "run.hpp"

namespace warmup {

/// For people: prediction beside measurement, the advice, and what became of the trainings.
void write_tables(std::ostream& stream, const Options& options, const std::vector<PlacementResult>& results);

/// Everything but the sweeps as JSON; null where there is no value.
void write_json(std::ostream& stream, const Options& options, const std::vector<PlacementResult>& results);

/// Everything as CSV, one row per number: `at` is the learning rate, depth or width that it is for. An empty field
/// where there is no value.
void write_csv(std::ostream& stream, const std::vector<PlacementResult>& results);

/// Token correlation over learning rate, and eta_half over depth and width, side by side, drawn by gnuplot.
/// @throws std::runtime_error when gnuplot fails
void write_plot(const std::string& file, const Options& options, const std::vector<PlacementResult>& results);

}  // namespace warmup
