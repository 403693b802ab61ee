// SPDX-License-Identifier: BSD-3-Clause
//
// The work itself: every row and placement predicted, and measured where the file does not have it yet.
#pragma once

#include <vector>

#include "options.hpp"
#include "store.hpp"

namespace accuracy {

/// Row by row, and within one in the order of the placements; without measuring, those that the file has.
/// @throws UsageError when the file is another or has nothing to go by, or the machine is too small
std::vector<Comparison> run(const Options& options, const std::vector<Row>& rows);

}  // namespace accuracy
