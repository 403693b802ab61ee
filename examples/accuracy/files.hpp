// SPDX-License-Identifier: BSD-3-Clause
//
// What the program writes, but for the CSV (store.hpp).
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "options.hpp"
#include "store.hpp"
#include "summary.hpp"

namespace accuracy {

/// The rows, for --list.
void write_rows(std::ostream& stream, const std::vector<Row>& rows);

/// For people: the errors of each placement and quantity, beside the literature's laws, and what is too large.
void write_tables(std::ostream& stream, const Options& options, const std::vector<Comparison>& comparisons,
                  const std::vector<PlacementSummary>& summaries, const std::vector<std::string>& exceeded);

/// Rows and summary as JSON; null where there is no value.
void write_json(std::ostream& stream, const Options& options, const std::vector<Row>& rows,
                const std::vector<PlacementSummary>& summaries, const std::vector<std::string>& exceeded);

/// Predicted against measured gradient norms, and their ratio, drawn by gnuplot.
/// @throws std::runtime_error when gnuplot fails
void write_plot(const std::string& file, const Options& options, const std::vector<Comparison>& comparisons);

}  // namespace accuracy
