// SPDX-License-Identifier: BSD-3-Clause
#include "run.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <normplace/analysis/token_batch.hpp>
#include <normplace/io/progress.hpp>

#include "engines.hpp"

namespace profile {

namespace np = normplace;

namespace {

constexpr std::array<std::size_t, 6> depths{2, 4, 8, 12, 16, 24};
constexpr std::size_t most_seeds_per_depth = 6;
constexpr std::size_t batches_without_measurement = 8;

/// A prediction is for the batches that the seeds read.
std::size_t batches_for(std::size_t seeds) { return seeds > 0 ? seeds : batches_without_measurement; }

/// As much of the file as the seeds will read.
std::string read_text(const Options& options) {
    const std::size_t seeds = batches_for(options.seeds);
    const std::size_t needed = np::text_length_needed(options.model.batch, options.model.sequence, seeds);
    std::ifstream file(options.text_file, std::ios::binary);
    std::string text(needed, '\0');
    if (!file || !file.read(text.data(), 1)) {
        const bool empty = file.is_open() && file.eof();
        throw UsageError("--text: '" + options.text_file + "' " + (empty ? "is empty" : "cannot be read"));
    }
    file.read(text.data() + 1, static_cast<std::streamsize>(needed - 1));
    const auto length = static_cast<std::size_t>(file.gcount()) + 1;
    if (length < needed)
        throw UsageError("--text: '" + options.text_file + "' has " + std::to_string(length) + " bytes; " +
                         std::to_string(seeds) + " batches of " + std::to_string(options.model.batch) +
                         " sequences of " + std::to_string(options.model.sequence) + " bytes need " +
                         std::to_string(needed));
    return text;
}

std::vector<np::TokenBatch> batches_of(const std::string& text, const np::ReferenceModel& model, std::size_t seeds) {
    std::vector<np::TokenBatch> batches;
    for (std::size_t seed = 0; !text.empty() && seed < seeds; ++seed)
        batches.push_back(np::byte_batch(text, model.batch, model.sequence, seed));
    return batches;
}

/// A machine that starts to swap is no help to anybody, so what cannot fit is refused.
void check_memory(const Options& options) {
    const np::ReferenceModel& model = options.model;
    const auto real = [](std::size_t value) { return static_cast<double>(value); };
    const double layers = real(options.plot_files.empty() ? model.layers : std::max(model.layers, depths.back())),
                 width = real(model.width), tokens = real(model.batch * model.sequence),
                 weights = layers * (4.0 * width * width + 2.0 * width * real(model.feed_forward)) +
                           real(model.vocabulary) * width,
                 activations = tokens * (layers * (12.0 * width + 2.0 * real(model.feed_forward)) +
                                         3.0 * real(model.vocabulary)) +
                               layers * tokens * real(model.sequence * model.heads),
                 threads = std::min(real(static_cast<std::size_t>(sysconf(_SC_NPROCESSORS_ONLN))), real(options.seeds)),
                 needed = 4.0 * threads * (2.0 * weights + activations),
                 available = real(static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES))) *
                             real(static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
    if (needed <= available) return;
    char sentence[200];
    std::snprintf(sentence, sizeof sentence,
                  "--measure: a model of this size needs about %.0f GB of memory on %.0f cores, and this machine has "
                  "%.0f GB",
                  needed / 1e9, threads, available / 1e9);
    throw UsageError(sentence);
}

/// The seeds' worth of layers that a measurement of this model takes: what the progress bar counts.
double work(std::size_t seeds, std::size_t layers) { return static_cast<double>(seeds * layers); }

/// A depth sweep is five times the work of 12 layers, and a prediction for given tokens takes O((B S)^2).
bool wants_depths(const Options& options) {
    const bool shows_verdict = options.json_file != "-" && options.csv_file != "-";
    const bool quick = options.text_file.empty() || options.model.batch * options.model.sequence <= 256;
    return !options.plot_files.empty() || (shows_verdict && quick);
}

class Runner {
public:
    Runner(const Options& options, const std::string& text)
        : options_(options),
          text_(text),
          measured_depth_seeds_(options.plot_files.empty() ? 0 : std::min(options.seeds, most_seeds_per_depth)),
          progress_({.total = total_work()}) {}

    PlacementResult operator()(const std::string& placement) {
        const std::size_t seeds = options_.seeds;
        PlacementResult result;
        result.predicted = predicted(placement, options_.model, seeds);
        if (seeds > 0) result.measured = measured(placement, options_.model, seeds);
        if (!wants_depths(options_)) return result;
        for (const std::size_t layers : depths) {
            np::ReferenceModel model = options_.model;
            model.layers = layers;
            const bool known = layers == options_.model.layers;
            const np::GradientReport prediction =
                known ? result.predicted : predicted(placement, model, std::min(seeds, most_seeds_per_depth));
            DepthPoint point{layers,
                             prediction.layers.back().w2,
                             {},
                             prediction.layers.back().feed_forward.stream.second_moment.value};
            if (known && result.measured) point.measured = result.measured->layers.back().w2;
            else if (measured_depth_seeds_ > 0)
                point.measured = measured(placement, model, measured_depth_seeds_).layers.back().w2;
            result.depths.push_back(point);
        }
        return result;
    }

private:
    /// Predictions for random tokens take no time worth counting.
    double total_work() const {
        const std::size_t batches = text_.empty() ? 0 : batches_for(options_.seeds);
        double per_placement = work(options_.seeds + batches, options_.model.layers);
        for (const std::size_t layers : depths)
            if (wants_depths(options_) && layers != options_.model.layers)
                per_placement += work(measured_depth_seeds_ + std::min(batches, most_seeds_per_depth), layers);
        return per_placement * static_cast<double>(options_.placements.size());
    }

    np::GradientReport predicted(const std::string& placement, const np::ReferenceModel& model, std::size_t seeds) {
        progress_.label("predicting " + placement + ", " + std::to_string(model.layers) + " layers");
        const std::vector<np::TokenBatch> batches = batches_of(text_, model, batches_for(seeds));
        np::GradientReport report = predict(placement, model, batches);
        progress_.advance(work(batches.size(), model.layers));
        return report;
    }

    np::GradientReport measured(const std::string& placement, const np::ReferenceModel& model, std::size_t seeds) {
        progress_.label("measuring " + placement + ", " + std::to_string(model.layers) + " layers");
        return measure(placement, model, seeds, text_, [&] { progress_.advance(work(1, model.layers)); });
    }

    const Options& options_;
    const std::string& text_;
    std::size_t measured_depth_seeds_;
    normplace::Progress progress_;
};

}  // namespace

std::vector<PlacementResult> run(const Options& options) {
    const std::string text = options.text_file.empty() ? std::string() : read_text(options);
    if (options.seeds > 0) check_memory(options);
    std::vector<PlacementResult> results;
    Runner runner(options, text);
    for (const std::string& placement : options.placements) results.push_back(runner(placement));
    return results;
}

}  // namespace profile
