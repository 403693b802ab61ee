// SPDX-License-Identifier: BSD-3-Clause
#include "run.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <normplace/analysis/predict.hpp>
#include <normplace/io/progress.hpp>
#include <normplace/placement/visit.hpp>

#include "../shared/files.hpp"
#include "../shared/first_step.hpp"
#include "../shared/measurement.hpp"

namespace profile {

namespace np = normplace;

namespace {

constexpr std::array<std::size_t, 6> depths{2, 4, 8, 12, 16, 24};
constexpr std::size_t most_seeds_per_depth = 6;
constexpr std::size_t batches_without_measurement = 8;

/// A prediction is for the batches that the seeds read.
std::size_t batches_for(std::size_t seeds) { return seeds > 0 ? seeds : batches_without_measurement; }

std::vector<np::TokenBatch> batches_of(const std::string& text, const np::ReferenceModel& model, std::size_t seeds) {
    std::vector<np::TokenBatch> batches;
    for (std::size_t seed = 0; !text.empty() && seed < seeds; ++seed)
        batches.push_back(np::byte_batch(text, model.batch, model.sequence, seed));
    return batches;
}

/// The seeds' worth of layers that a measurement of this model takes: what the progress bar counts.
double work(std::size_t seeds, std::size_t layers) { return static_cast<double>(seeds * layers); }

/// A prediction for given tokens takes O((B S)^2).
bool is_quick(const Options& options) {
    return options.text_file.empty() || options.model.batch * options.model.sequence <= 256;
}

/// A depth sweep is five times the work of 12 layers.
bool wants_depths(const Options& options) {
    if (options.is_overview()) return false;
    return !options.plot_files.empty() || (!options.writes_data_to_output() && is_quick(options));
}

/// The theory of the first step is not about the paper's model, whose attention is uniform.
bool wants_advice(const Options& options) {
    return !options.writes_data_to_output() && !options.paper && is_quick(options);
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
        if (wants_advice(options_)) result.advice = advice(placement);
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
        const np::AnyPlacement& value = np::placement_named(placement);
        np::GradientReport report = batches.empty() ? np::predict(value, model) : np::predict(value, model, batches);
        progress_.advance(work(batches.size(), model.layers));
        return report;
    }

    np::GradientReport measured(const std::string& placement, const np::ReferenceModel& model, std::size_t seeds) {
        progress_.label("measuring " + placement + ", " + std::to_string(model.layers) + " layers");
        np::MeasureOptions options;
        options.seeds = seeds;
        if (!text_.empty()) options.text = text_;  // an empty file was refused before
        options.progress = [&](std::size_t, std::size_t) { progress_.advance(work(1, model.layers)); };
        return np::measure<float>(np::placement_named(placement), model, options);
    }

    np::WarmUpAdvice advice(const std::string& placement) {
        progress_.label("predicting the first step of " + placement);
        // A single batch has no next one.
        const std::size_t tokens = options_.model.batch * options_.model.sequence;
        if (!text_.empty() && text_.size() <= 2 * tokens) return {};
        const np::FirstStepReport report =
            shared::predict_first_step(placement, options_.model, np::StepRule::adam(), text_);
        const bool nothing_to_judge =
            std::isnan(report.eta_half.value) && shared::why_no_first_step(placement, options_.model).empty();
        return nothing_to_judge ? np::WarmUpAdvice{} : shared::advise(report);
    }

    const Options& options_;
    const std::string& text_;
    std::size_t measured_depth_seeds_;
    normplace::Progress progress_;
};

}  // namespace

std::vector<PlacementResult> run(const Options& options) {
    const std::string text = shared::read_text(options, batches_for(options.seeds));
    if (options.seeds > 0) {
        np::ReferenceModel largest = options.model;
        if (!options.plot_files.empty() && wants_depths(options))
            largest.layers = std::max(largest.layers, depths.back());
        shared::check_memory("--measure", largest, options.seeds, 2.0);
    }
    std::vector<PlacementResult> results;
    Runner runner(options, text);
    for (const std::string& placement : options.placements) results.push_back(runner(placement));
    return results;
}

}  // namespace profile
