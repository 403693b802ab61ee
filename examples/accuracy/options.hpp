// SPDX-License-Identifier: BSD-3-Clause
//
// What the user asked for: the command line, checked as far as that is possible before any work is done.
#pragma once

#include <optional>
#include <string>

#include "../shared/options.hpp"

namespace accuracy {

using command_line::UsageError;

struct Options : shared::Options {
    std::string size = "quick";
    double seeds_scale = 1.0;
    bool list = false;    ///< only show the rows
    bool measure = true;  ///< what the CSV file does not have
    bool check = false;   ///< exit status 1 when the bounds are exceeded
};

/// Reads the command line. Nothing when only help was wanted, which is then on standard output.
/// @throws UsageError with the sentence to show
std::optional<Options> parse(int argc, const char* const* argv);

}  // namespace accuracy
