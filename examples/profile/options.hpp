// SPDX-License-Identifier: BSD-3-Clause
//
// What the user asked for: the command line, checked as far as that is possible before any work is done.
#pragma once

#include <cstddef>
#include <normplace/analysis/reference_model.hpp>
#include <optional>
#include <string>
#include <vector>

#include "../usage_error.hpp"

namespace profile {

using command_line::UsageError;

struct Options {
    std::vector<std::string> placements{"pre-ln", "post-ln"};
    normplace::ReferenceModel model;
    bool paper = false;     ///< the model of Xiong et al. 2020
    std::size_t seeds = 0;  ///< 0: nothing is measured
    std::string text_file;  ///< empty: Gaussian tokens
    std::string json_file, csv_file;
    std::vector<std::string> plot_files;
    /// Nothing was asked for in particular: a missing gnuplot then costs the plots and not the run.
    bool default_run = false;

    std::string norm_name() const { return model.norm == normplace::NormKind::layer_norm ? "layer-norm" : "rms-norm"; }
    std::string initialization_name() const { return std::string(model.initialization.name()); }
    /// "12 layers, width 256, ..." in one line
    std::string description() const;
};

/// Reads the command line. Nothing when only help was wanted, which is then on standard output.
/// @throws UsageError with the sentence to show
std::optional<Options> parse(int argc, const char* const* argv);

}  // namespace profile
