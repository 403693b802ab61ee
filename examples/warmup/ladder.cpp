// SPDX-License-Identifier: BSD-3-Clause
#include "ladder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <normplace/detail/blas.hpp>
#include <normplace/detail/parallel.hpp>
#include <normplace/io/progress.hpp>
#include <normplace/placement/visit.hpp>

#include "../shared/first_step.hpp"
#include "../shared/measurement.hpp"

namespace warmup {

namespace np = normplace;

namespace {

constexpr std::array<double, 5> steps_of_a_ladder{0.25, 0.5, 1.0, 2.0, 4.0};
/// Where no rate is too large, as a multiple of eta_half.
constexpr double middle_without_a_number = 4.0;

/// To three digits, so that what is printed can be typed in again.
double rounded(double value) {
    const double unit = std::pow(10.0, std::floor(std::log10(value)) - 2.0);
    return std::round(value / unit) * unit;
}

/// The rates around the predicted one, and the wanted one.
Ladder ladder_for(const Options& options, const np::FirstStepReport& prediction) {
    Ladder ladder;
    ladder.predicted = shared::advise(prediction).largest_learning_rate;
    const double middle =
        std::isfinite(ladder.predicted) ? ladder.predicted : middle_without_a_number * prediction.eta_half.value;
    std::vector<double> rates;
    if (std::isfinite(middle) && middle > 0.0)
        for (const double factor : steps_of_a_ladder) rates.push_back(rounded(middle * factor));
    if (std::isfinite(options.learning_rate)) rates.push_back(options.learning_rate);
    std::sort(rates.begin(), rates.end());
    rates.erase(std::unique(rates.begin(), rates.end()), rates.end());
    for (const double rate : rates) {
        Rung rung;
        rung.learning_rate = rate;
        rung.warm_up_steps = shared::advise(prediction, rate).warm_up_steps;
        ladder.rungs.push_back(rung);
    }
    return ladder;
}

}  // namespace

double Ladder::largest_learned() const {
    double rate = np::not_available;
    for (const Rung& rung : rungs)
        if (rung.without.learned) rate = rung.learning_rate;
    return rate;
}

double Ladder::first_failed() const {
    const double learned = largest_learned();
    for (const Rung& rung : rungs)
        if (!(rung.learning_rate <= learned)) return rung.learning_rate;
    return np::not_available;
}

std::vector<Ladder> climb(const Options& options, const std::vector<np::FirstStepReport>& predictions,
                          std::string_view text) {
    struct Job {
        const std::string* placement;
        double learning_rate;
        std::size_t warm_up_steps;
        Outcome* outcome;
    };
    std::vector<Ladder> ladders;
    for (const np::FirstStepReport& prediction : predictions) ladders.push_back(ladder_for(options, prediction));
    std::vector<Job> jobs;
    const double entropy = np::unigram_entropy(text);
    for (std::size_t i = 0; i < ladders.size(); ++i) {
        ladders[i].unigram_entropy = entropy;
        for (Rung& rung : ladders[i].rungs) {
            jobs.push_back({&predictions[i].placement, rung.learning_rate, 0, &rung.without});
            if (!(rung.warm_up_steps > 0.0 && rung.warm_up_steps < static_cast<double>(options.steps))) continue;
            jobs.push_back({&predictions[i].placement, rung.learning_rate,
                            static_cast<std::size_t>(std::ceil(rung.warm_up_steps)), &rung.with.emplace()});
        }
    }
    np::Progress progress({.total = static_cast<double>(jobs.size() * options.steps),
                           .label = std::to_string(jobs.size()) + " trainings",
                           .unit = "steps"});
    std::mutex mutex;
    const np::detail::SingleThreadedBlas single_threaded_blas;  // the trainings are parallel instead
    np::detail::parallel_for(jobs.size(), np::detail::thread_count(), [&](std::size_t i, std::size_t) {
        const Job& job = jobs[i];
        np::ShortTrainingOptions training;
        training.learning_rate = job.learning_rate;
        training.warm_up_steps = job.warm_up_steps;
        training.steps = options.steps;
        training.text = text;
        training.progress = [&](const np::ShortTrainingStep&) {
            const std::lock_guard lock(mutex);
            progress.advance(1.0);
            return true;
        };
        const np::ShortTraining run =
            np::train_shortly<float>(np::placement_named(*job.placement), options.model, options.rule, training);
        *job.outcome = {run.final_loss(), run.learned()};
    });
    return ladders;
}

}  // namespace warmup
