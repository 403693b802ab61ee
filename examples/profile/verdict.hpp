// SPDX-License-Identifier: BSD-3-Clause
//
// The answer in words: what Xiong et al. 2020 say about the last layer's gradient over depth (Theorem 1) and about the
// profile over layers (its extension), beside prediction and measurement, and whether it holds.
#pragma once

#include <ostream>
#include <vector>

#include "options.hpp"
#include "run.hpp"

namespace profile {

void write_verdict(std::ostream& stream, const Options& options, const std::vector<PlacementResult>& results);

}  // namespace profile
