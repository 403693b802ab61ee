// SPDX-License-Identifier: BSD-3-Clause
//
// One training step: gradients of one batch or of several, clipped, and applied by an optimizer at a scheduled learning
// rate. It knows neither the model nor the data: what computes a batch's gradients is the caller's function.
//
//     TrainingLoop<float> loop(parameters, Adam<float>(parameters), Schedule::inverse_square_root(1e-3, 4000),
//                              {.clip_norm = 1.0});
//     while (loop.steps() < 10000) {
//         const StepResult result = loop.step([&](std::uint64_t batch) { return forward_and_backward(batch); });
//         if (result.diverged()) return fail(result.divergence);
//     }
//
// A run that is to continue later saves parameters, loop.optimizer().state() and loop.steps(), and puts them back.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <normplace/nn/cross_entropy.hpp>
#include <normplace/nn/unit_matrices.hpp>
#include <normplace/train/gradient_clipping.hpp>
#include <normplace/train/optimizer.hpp>
#include <normplace/train/schedule.hpp>

namespace normplace {

struct TrainingOptions {
    double clip_norm = 0.0;      ///< the largest gradient norm (gradient_clipping.hpp); 0: any
    std::size_t accumulate = 1;  ///< batches in a step
    /// In nats per token: a run whose mean loss over the last `window` steps is above has diverged. 2 log V, twice the
    /// loss of a uniform guess, is more than what most models begin with.
    double largest_loss = std::numeric_limits<double>::infinity();
    std::size_t window = 20;
    bool unit_matrices = false;  ///< normalise_matrices after each step: AnyPlacement::unit_matrices says who wants it
};

struct StepResult {
    std::uint64_t step = 0;  ///< from 1
    double loss = 0.0;       ///< in nats, mean over the tokens of all its batches; smoothed, if the caller smooths
    double negative_log_likelihood = 0.0;  ///< the same, not smoothed
    double accuracy = 0.0;                 ///< the part of the tokens that were predicted
    double gradient_norm = 0.0;            ///< of that mean, before clipping
    double learning_rate = 0.0;
    std::size_t tokens = 0;  ///< that count in the loss: padding does not
    std::string divergence;  ///< a sentence, and the step was not applied; empty when all is well

    bool diverged() const { return !divergence.empty(); }
};

template <class T>
class TrainingLoop {
public:
    /// @param schedule the learning rate of a step counted from 1: a Schedule, or a function of your own
    /// @throws std::invalid_argument when an option is out of its range
    TrainingLoop(const ParameterList<T>& parameters, AnyOptimizer<T> optimizer,
                 std::function<double(std::uint64_t)> schedule, const TrainingOptions& options = {})
        : parameters_(parameters), optimizer_(std::move(optimizer)), schedule_(std::move(schedule)), options_(options) {
        detail::require_gradients("TrainingLoop", parameters);
        detail::require(schedule_ != nullptr, "TrainingLoop", "the schedule is an empty function");
        detail::require_at_least_0("TrainingLoop", "clip norm", options.clip_norm);
        detail::require_positive("TrainingLoop", "number of batches in a step", options.accumulate);
        detail::require_number("TrainingLoop", "largest loss", options.largest_loss, options.largest_loss > 0.0,
                               "a number above 0");
        detail::require_positive("TrainingLoop", "window", options.window);
    }

    /// Sets the gradients to 0, calls `compute(batch)` for each batch of the step, scales the gradients to those of the
    /// mean loss, clips, and updates the parameters; then normalises matrices, where that is asked for.
    ///
    /// `compute` adds to the gradients those of the loss SUMMED over the tokens of the batch and returns that sum,
    /// which is what cross_entropy_sum does at its default denominator: how many tokens to divide by is known only when
    /// all batches of the step have been computed. Batches are numbered from 0 through the run, not through the step,
    /// so a resumed run asks for those that come next.
    ///
    /// A step has diverged when its loss or gradient norm is not finite, or the loss is too large (TrainingOptions).
    /// It is then not applied, nor counted: the parameters are those that diverged.
    /// @throws std::invalid_argument when the batches have no tokens; what `compute` throws
    template <class Compute>
    requires std::is_invocable_r_v<LossSum, Compute&, std::uint64_t> StepResult step(Compute&& compute) {
        detail::parallel_entries(parameters_, 0.25,
                                 [](const Parameter<T>& parameter, std::size_t first, std::size_t count, std::size_t) {
                                     std::fill_n(parameter.gradient.data() + first, count, T(0));
                                 });
        LossSum sum;
        for (std::size_t i = 0; i < options_.accumulate; ++i) {
            const LossSum batch = compute(steps() * options_.accumulate + i);
            sum.sum += batch.sum;
            sum.negative_log_likelihood += batch.negative_log_likelihood;
            sum.tokens += batch.tokens;
            sum.correct += batch.correct;
        }
        return apply(sum);
    }

    std::uint64_t steps() const { return optimizer_.steps(); }
    /// Continues after `steps` steps. The losses of the last `window` steps are not part of what is saved: the loop
    /// waits for as many new ones before it judges them.
    void resume(std::uint64_t steps) {
        optimizer_.resume(steps);
        losses_.clear();
    }
    AnyOptimizer<T>& optimizer() { return optimizer_; }

private:
    StepResult apply(const LossSum& sum) {
        StepResult result;
        result.step = steps() + 1;
        result.tokens = sum.tokens;
        detail::require(sum.tokens > 0, "TrainingLoop",
                        [&] { return "step " + std::to_string(result.step) + " has no tokens to average over"; });
        const double tokens = static_cast<double>(sum.tokens);
        result.loss = sum.sum / tokens;
        result.negative_log_likelihood = sum.negative_log_likelihood / tokens;
        result.accuracy = static_cast<double>(sum.correct) / tokens;
        result.gradient_norm = gradient_norm(parameters_) / tokens;
        result.learning_rate = schedule_(result.step);
        result.divergence = divergence(result);
        if (result.diverged()) return result;
        const double clip =
            options_.clip_norm > 0.0 ? detail::clip_factor(result.gradient_norm, options_.clip_norm) : 1.0;
        scale_gradients(parameters_, clip / tokens);
        optimizer_.step(result.learning_rate);
        if (options_.unit_matrices) normalise_matrices(parameters_);
        return result;
    }

    std::string divergence(const StepResult& result) {
        using detail::number_text;
        const auto says = [&](const std::string& what) { return "step " + std::to_string(result.step) + ": " + what; };
        if (!std::isfinite(result.loss)) return says("the loss is " + number_text(result.loss));
        if (!std::isfinite(result.gradient_norm))
            return says("the gradient norm is " + number_text(result.gradient_norm));
        if (losses_.size() == options_.window) losses_.erase(losses_.begin());
        losses_.push_back(result.loss);
        if (losses_.size() < options_.window) return {};
        double mean = 0.0;
        for (const double loss : losses_) mean += loss / static_cast<double>(options_.window);
        if (mean <= options_.largest_loss) return {};
        return says("the mean loss of the last " + std::to_string(options_.window) + " steps is " + number_text(mean) +
                    ", above the limit of " + number_text(options_.largest_loss));
    }

    ParameterList<T> parameters_;
    AnyOptimizer<T> optimizer_;
    std::function<double(std::uint64_t)> schedule_;
    TrainingOptions options_;
    std::vector<double> losses_;  // of the last steps, at most `window`
};

}  // namespace normplace
