// SPDX-License-Identifier: BSD-3-Clause
//
// What the user asked for: the command line, checked as far as that is possible before any work is done.
#pragma once

#include <optional>

#include "../shared/options.hpp"

namespace profile {

using command_line::UsageError;

struct Options : shared::Options {
    bool paper = false;  ///< the model of Xiong et al. 2020

    /// More placements than anybody wants to see one by one.
    bool is_overview() const { return placements.size() > 4; }
};

/// Reads the command line. Nothing when only help was wanted, which is then on standard output.
/// @throws UsageError with the sentence to show
std::optional<Options> parse(int argc, const char* const* argv);

}  // namespace profile
