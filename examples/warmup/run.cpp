// SPDX-License-Identifier: BSD-3-Clause
#include "run.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <mutex>
#include <normplace/analysis/token_batch.hpp>
#include <normplace/detail/parallel.hpp>
#include <normplace/io/progress.hpp>
#include <normplace/placement/visit.hpp>
#include <numeric>

#include "../shared/files.hpp"
#include "../shared/first_step.hpp"
#include "../shared/measurement.hpp"

namespace warmup {

namespace np = normplace;

namespace {

constexpr std::array<std::size_t, 6> depths{2, 4, 8, 12, 24, 48};
constexpr std::array<std::size_t, 5> widths{128, 256, 512, 1024, 2048};
/// Of the curve over learning rates, which goes from eta_half / reach to reach eta_half; every third is measured.
constexpr std::size_t points = 25, points_per_measured = 3;
constexpr double reach = 30.0;
constexpr std::size_t most_seeds_per_size = 4;
constexpr std::size_t most_text = std::size_t{1} << 24;  // bytes, to train on

/// A seed reads a batch and the next one.
std::size_t batches_for(std::size_t seeds) { return 2 * (seeds > 0 ? seeds : shared::most_steps_of_text); }

double real(std::size_t value) { return static_cast<double>(value); }

/// The model with another depth or width, and with all else in proportion.
np::ReferenceModel with_layers(np::ReferenceModel model, std::size_t layers) {
    model.layers = layers;
    return model;
}
np::ReferenceModel with_width(np::ReferenceModel model, std::size_t width) {
    const double expansion = real(model.feed_forward) / real(model.width);
    model.feed_forward = std::max<std::size_t>(1, static_cast<std::size_t>(std::lround(expansion * real(width))));
    model.heads = std::gcd(model.heads, width);
    model.width = width;
    return model;
}

/// What a sweep measures is no larger than 12 layers of width 256.
bool is_cheap(const np::ReferenceModel& model) { return model.layers <= 12 && model.width <= 256; }

/// Learning rates that cover all placements.
std::vector<double> shared_learning_rates(const std::vector<PlacementResult>& results) {
    double low = HUGE_VAL, high = 0.0;
    for (const PlacementResult& result : results) {
        const double eta_half = result.predicted.eta_half.value;
        if (!std::isfinite(eta_half)) continue;
        low = std::min(low, eta_half / reach);
        high = std::max(high, eta_half * reach);
    }
    std::vector<double> rates;
    if (!(high > 0.0)) return rates;
    for (std::size_t i = 0; i < points; ++i) rates.push_back(low * std::pow(high / low, real(i) / real(points - 1)));
    return rates;
}

class Runner {
public:
    Runner(const Options& options, const std::string& text)
        : options_(options), text_(text), progress_({.total = total_work()}) {}

    std::vector<PlacementResult> operator()() {
        std::vector<PlacementResult> results(options_.placements.size());
        predict_all(results);
        for (PlacementResult& result : results) measure_one(result);
        if (options_.plot_files.empty()) return results;
        sweep(results, &PlacementResult::depths, {depths.begin(), depths.end()}, options_.model.layers, with_layers);
        sweep(results, &PlacementResult::widths, {widths.begin(), widths.end()}, options_.model.width, with_width);
        return results;
    }

private:
    using Change = np::ReferenceModel (*)(np::ReferenceModel, std::size_t);

    /// The curves have learning rates in common, so that they come after every placement's eta_half.
    void predict_all(std::vector<PlacementResult>& results) {
        label("predicting");
        in_parallel(results.size(), [&](std::size_t i) {
            results[i].predicted =
                shared::predict_first_step(options_.placements[i], options_.model, options_.rule, text_);
            results[i].advice = shared::advise(results[i].predicted, options_.learning_rate);
            advance(prediction_work(options_.model));
        });
        const std::vector<double> rates = shared_learning_rates(results);
        in_parallel(results.size(), [&](std::size_t i) {
            results[i].predicted =
                shared::predict_first_step(options_.placements[i], options_.model, options_.rule, text_, rates);
            for (const np::SteppedNetwork& network : results[i].predicted.stepped)
                results[i].correlation.push_back({network.learning_rate, network.hidden.token_correlation.value});
            advance(2.0 * prediction_work(options_.model));
        });
    }

    void measure_one(PlacementResult& result) {
        if (options_.seeds == 0) return;
        std::vector<double> rates;
        for (std::size_t i = 0; i < result.correlation.size(); i += points_per_measured)
            rates.push_back(result.correlation[i].learning_rate);
        result.measured = measured(result.predicted.placement, options_.model, options_.seeds, rates);
        for (std::size_t i = 0; i < rates.size(); ++i)
            result.correlation[i * points_per_measured].measured = result.measured->stepped[i].hidden.token_correlation;
    }

    void sweep(std::vector<PlacementResult>& results, std::vector<SizePoint> PlacementResult::*member,
               const std::vector<std::size_t>& sizes, std::size_t own, Change change) {
        label("predicting other sizes");
        for (PlacementResult& result : results)
            for (const std::size_t size : sizes) {
                SizePoint point;
                point.size = size;
                if (size == own) {
                    point.predicted = result.predicted.eta_half.value;
                    if (result.measured) point.measured = result.measured->eta_half;
                }
                (result.*member).push_back(point);
            }
        in_parallel(results.size() * sizes.size(), [&](std::size_t i) {
            // The largest first, since they take longest.
            const std::size_t at = sizes.size() - 1 - i / results.size();
            PlacementResult& result = results[i % results.size()];
            if (sizes[at] == own) return;
            const np::ReferenceModel model = change(options_.model, sizes[at]);
            (result.*member)[at].predicted =
                shared::predict_first_step(result.predicted.placement, model, options_.rule, text_, {}, 1)
                    .eta_half.value;
            advance(0.5 * prediction_work(model));
        });
        for (PlacementResult& result : results)
            for (SizePoint& point : result.*member) {
                const np::ReferenceModel model = change(options_.model, point.size);
                if (seeds_per_size() == 0 || point.size == own || !is_cheap(model)) continue;
                point.measured = measured(result.predicted.placement, model, seeds_per_size(), {}).eta_half;
            }
    }

    np::FirstStepReport measured(const std::string& placement, const np::ReferenceModel& model, std::size_t seeds,
                                 const std::vector<double>& rates) {
        label("measuring " + placement + ", " + std::to_string(model.layers) + " layers of width " +
              std::to_string(model.width));
        np::MeasureFirstStepOptions measurement;
        measurement.seeds = seeds;
        measurement.learning_rates = rates;
        if (!text_.empty()) measurement.text = text_;
        measurement.progress = [&](std::size_t, std::size_t) { advance(measurement_work(model)); };
        return np::measure_first_step<float>(np::placement_named(placement), model, options_.rule, measurement);
    }

    /// A sweep shows a trend, and is content with fewer seeds; with none where nobody asked for a measurement.
    std::size_t seeds_per_size() const {
        return options_.default_run ? 0 : std::min(options_.seeds, most_seeds_per_size);
    }

    /// Roughly what it takes, in steps through a weight for each token: some thirty networks forward.
    static double measurement_work(const np::ReferenceModel& model) {
        return 700.0 * real(model.layers) * real(model.width) * real(model.width);
    }
    /// Predictions for random tokens take no time worth counting.
    double prediction_work(const np::ReferenceModel& model) const {
        return text_.empty() ? 0.0
                             : 6000.0 * real(model.layers) * real(model.batch * model.sequence) * real(model.sequence);
    }
    double total_work() const {
        double work = 3.0 * prediction_work(options_.model) + real(options_.seeds) * measurement_work(options_.model);
        const auto add = [&](const auto& sizes, std::size_t own, Change change) {
            for (const std::size_t size : sizes) {
                if (options_.plot_files.empty() || size == own) continue;
                const np::ReferenceModel model = change(options_.model, size);
                work += 0.5 * prediction_work(model);
                if (is_cheap(model)) work += real(seeds_per_size()) * measurement_work(model);
            }
        };
        add(depths, options_.model.layers, with_layers);
        add(widths, options_.model.width, with_width);
        return work * real(options_.placements.size());
    }

    template <class Body>
    void in_parallel(std::size_t count, const Body& body) {
        np::detail::parallel_for(count, np::detail::thread_count(), [&](std::size_t i, std::size_t) { body(i); });
    }
    void label(const std::string& text) {
        const std::lock_guard lock(mutex_);
        progress_.label(text);
    }
    void advance(double work) {
        const std::lock_guard lock(mutex_);
        progress_.advance(work);
    }

    const Options& options_;
    const std::string& text_;
    std::mutex mutex_;
    np::Progress progress_;
};

}  // namespace

std::vector<PlacementResult> run(const Options& options) {
    const std::string text = shared::read_text(options, batches_for(options.seeds), options.steps > 0 ? most_text : 0);
    if (options.seeds > 0) shared::check_memory("--measure", options.model, options.seeds, 3.0);
    if (options.steps > 0) shared::check_memory("--train", options.model, options.placements.size() * 5, 4.0);
    std::vector<PlacementResult> results = Runner(options, text)();
    if (options.steps == 0) return results;
    std::vector<np::FirstStepReport> predictions;
    for (const PlacementResult& result : results) predictions.push_back(result.predicted);
    const std::vector<Ladder> ladders = climb(options, predictions, text);
    for (std::size_t i = 0; i < results.size(); ++i) results[i].ladder = ladders[i];
    return results;
}

}  // namespace warmup
