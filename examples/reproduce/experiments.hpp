// SPDX-License-Identifier: BSD-3-Clause
//
// The training runs behind the figures: each one trains one model with one seed on one core, and leaves its result in a
// file. A run that is there already is not run again, and one that was interrupted goes on from its checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "../train/data.hpp"
#include "../train/run.hpp"
#include "setting.hpp"

namespace reproduce {

/// One line of a figure.
struct Variant {
    bool masked = false;  ///< a masked language model, else translation
    std::string placement;
    std::string optimizer = "adam";
    double learning_rate = 0.0;
    std::uint64_t warm_up = 0;  ///< steps; 0: none

    std::string name() const;  ///< "post-ln, adam at 0.001, warm-up 100", and of its files
};

/// Gradient norms of W_1 and W_2 by layer, in one batch of the corpus.
struct LayerGradients {
    std::vector<double> encoder_w1, encoder_w2, decoder_w1, decoder_w2;
};

/// Of the translated test set.
struct Score {
    std::uint64_t step = 0;
    double bleu = 0.0;         ///< 0 to 100
    double exact_match = 0.0;  ///< in percent
};

struct Outcome {
    std::vector<training::Point> points;
    std::vector<Score> scores;     ///< the last is of the end; empty without a test set, and for a language model
    std::string divergence;        ///< a sentence, or empty
    double seconds = 0.0;          ///< that the run took, on its core
    LayerGradients at_start;       ///< in the first step
    LayerGradients after_warm_up;  ///< in the step after the warm-up; empty without one
};

/// Reads the norms out of the gradients that a batch has left.
LayerGradients layer_gradients(const np::ParameterList<float>& parameters, double scale);

class Experiments {
public:
    /// @param masked whether masked language models will be wanted
    Experiments(const Setting& setting, std::string folder, bool masked);

    /// To be run, for every seed.
    void want(const Variant& variant);
    /// Runs what is wanted, as many at once as there are cores. `stop` is asked after each step of each run.
    /// @return false when it was stopped
    bool run(const std::function<bool()>& stop);
    /// At initialization, in one batch of the corpus, with so many layers in each stack.
    LayerGradients gradients(const std::string& placement, std::size_t layers, std::uint64_t seed) const;
    /// One for each seed.
    const std::vector<Outcome>& outcomes(const Variant& variant) const { return outcomes_.at(variant.name()); }

    const training::Translation& translation() const { return translation_; }
    /// Of all runs.
    double seconds() const;

private:
    Outcome run_one(const Variant& variant, std::uint64_t seed, const std::function<bool()>& stop,
                    const std::function<void(std::uint64_t)>& after_steps);
    /// @param go_on asked after each batch of sentences; when it says no there is no score
    std::optional<Score> score(training::TranslationTask& task, std::uint64_t step,
                               const std::function<bool(std::size_t)>& go_on = {}) const;

    Setting setting_;
    std::string folder_;
    training::Translation translation_;
    std::optional<training::Language> language_;
    std::vector<Variant> wanted_;
    std::map<std::string, std::vector<Outcome>> outcomes_;
};

}  // namespace reproduce
