// SPDX-License-Identifier: BSD-3-Clause
//
// What the user of `train` asked for: the command line, checked as far as that is possible before any work is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "data.hpp"
#include "run.hpp"

namespace training {

struct Options {
    std::string task = "translation";  ///< translation, lm or mlm
    std::string placement = "pre-ln";
    std::string encoder_placement, decoder_placement;  ///< of one stack; once parsed, of each
    std::string initialization = "xavier", activation = "relu";
    TextFiles files;
    DataOptions data;

    std::size_t layers = 6, width = 128, heads = 4, feed_forward = 512;
    std::string tied;  ///< none, readout or everything; by default as much as the task allows

    std::string schedule = "inverse-square-root";
    double learning_rate = 1e-3;
    std::uint64_t warm_up = 100;
    Regularization regularization;
    RunOptions run;

    std::string output_file;  ///< of the test set's translations
    std::size_t beam = 4;
    double length_penalty = 0.6;
    std::size_t threads = 0;  ///< 0: all

    np::Initialization initial_weights() const;
    /// The placement's name, or those of both stacks where they differ.
    std::string placements() const;
    /// All that makes the run what it is, as JSON: what a checkpoint must agree with.
    /// @param fingerprint of the data
    std::string configuration(std::uint64_t fingerprint) const;
};

/// Reads the command line. Nothing when only help was wanted, which is then on standard output.
/// @throws command_line::UsageError with the sentence to show
std::optional<Options> parse(int argc, const char* const* argv);

}  // namespace training
