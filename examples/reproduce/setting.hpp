// SPDX-License-Identifier: BSD-3-Clause
//
// How large everything is: the three sizes of the reproduction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../train/data.hpp"

namespace reproduce {

namespace np = normplace;

struct Setting {
    std::string size;
    training::TextFiles files;  ///< none: number names
    training::DataOptions data;
    std::size_t layers, width, heads, feed_forward;
    std::uint64_t steps, every;            ///< of translation
    std::uint64_t score_every;             ///< steps, a multiple of `every`: what a translation of the test set costs
    std::uint64_t masked_steps;            ///< of the masked language model
    std::uint64_t short_warm_up, warm_up;  ///< the paper's 500 and 4000 steps, scaled to the run
    std::vector<double> rates, sgd_rates;  ///< smaller first
    std::size_t seeds;                     ///< of the trainings
    std::size_t gradient_seeds;            ///< of gradients at initialization on the corpus
    std::size_t reference_seeds;           ///< and with Gaussian tokens
    std::vector<std::size_t> depths;       ///< layers of encoder and decoder, in Figure 3
    double dropout = 0.0, label_smoothing = 0.0;
};

/// @throws std::invalid_argument when the size is unknown
inline Setting setting_of(const std::string& size) {
    Setting setting{};
    setting.size = size;
    setting.data.batches.examples = 32;
    setting.data.batch = 32;
    setting.data.masked = true;
    if (size == "smoke") {
        setting.data.training_pairs = 500;
        setting.data.vocabulary = 100;
        setting.data.sequence = 16;
        setting.layers = 2;
        setting.width = 16;
        setting.heads = 2;
        setting.feed_forward = 32;
        setting.steps = 20;
        setting.every = 5;
        setting.score_every = 10;
        setting.masked_steps = 20;
        setting.short_warm_up = 2;
        setting.warm_up = 8;
        setting.rates = {1e-3, 4e-3};
        setting.sgd_rates = {0.1};
        setting.seeds = 2;
        setting.gradient_seeds = 4;
        setting.reference_seeds = 4;
        setting.depths = {2, 3, 4};
        return setting;
    }
    setting.layers = 6;
    setting.heads = 4;
    setting.depths = {6, 8, 10, 12, 14};
    setting.gradient_seeds = 10;
    setting.reference_seeds = 64;
    if (size == "small") {
        setting.data.sequence = 32;
        setting.width = 64;
        setting.feed_forward = 256;
        setting.steps = 400;
        setting.every = 20;
        setting.score_every = 80;
        setting.masked_steps = 400;
        setting.short_warm_up = 12;
        setting.warm_up = 100;
        setting.rates = {5e-4, 1e-3};
        setting.sgd_rates = {0.05, 0.1};
        setting.seeds = 5;
        return setting;
    }
    if (size == "multi30k") {
        setting.data.vocabulary = 5000;
        setting.data.batches = {.tokens = 2048};
        setting.data.sequence = 64;
        setting.width = 128;
        setting.feed_forward = 256;
        setting.steps = 5000;
        setting.every = 250;
        setting.score_every = 500;
        setting.masked_steps = 5000;
        setting.short_warm_up = 125;
        setting.warm_up = 1000;
        setting.rates = {5e-4, 1e-3};
        setting.sgd_rates = {0.05, 0.1};
        setting.seeds = 1;
        setting.dropout = 0.1;
        setting.label_smoothing = 0.1;
        return setting;
    }
    throw std::invalid_argument("size '" + size + "' is not one of smoke, small, multi30k");
}

}  // namespace reproduce
