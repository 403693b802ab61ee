// SPDX-License-Identifier: BSD-3-Clause
//
// What profile, warmup and, in part, accuracy ask: which placements of which model, how many random models to measure,
// on which text, and which files to write. Checked as far as that is possible before any work is done.
#pragma once

#include <cstddef>
#include <normplace/analysis/reference_model.hpp>
#include <string>
#include <vector>

#include "../usage_error.hpp"

namespace CLI {
class App;
}

namespace shared {

using command_line::UsageError;

struct Options {
    std::vector<std::string> placements;  ///< names
    normplace::ReferenceModel model;
    std::size_t seeds = 0;  ///< 0: nothing is measured
    std::string text_file;  ///< empty: Gaussian tokens
    std::string json_file, csv_file;
    std::vector<std::string> plot_files;
    /// Nothing was asked for in particular: a missing gnuplot then costs the plots and not the run.
    bool default_run = false;

    std::string norm_name() const { return std::string(normplace::name(model.norm)); }
    std::string initialization_name() const { return std::string(model.initialization.name()); }
    /// "12 layers, width 256, ..." in one line
    std::string description() const;
    /// Standard output is for data alone.
    bool writes_data_to_output() const { return json_file == "-" || csv_file == "-"; }
};

/// The options of an app that fill an `Options`. The app is to live no longer than this.
class Arguments {
public:
    /// @param placements those looked at when none are named, separated by commas
    Arguments(CLI::App& app, Options& options, const std::string& placements);

    void add_placement();                                                     ///< --placement
    void add_model();                                                         ///< --placement to --init
    void add_measure();                                                       ///< --measure
    void add_files(const char* what_plot_does);                               ///< --text, --json, --csv and --plot
    void add_outputs(const char* what_csv_does, const char* what_plot_does);  ///< --json, --csv and --plot

    /// After the command line was parsed: what the words mean, and whether it all fits together.
    /// @throws UsageError with the sentence to show
    void finish();

private:
    CLI::App& app_;
    Options& options_;
    std::string placements_, norm_ = "layer-norm", activation_ = "relu", initialization_ = "xavier", plot_file_;
};

}  // namespace shared
