// SPDX-License-Identifier: BSD-3-Clause
//
// The reference network trained for a short while on the bytes of a text: what becomes of a first step that is too
// large, and whether the network recovers from it.
//
//     const ShortTraining run = train_shortly<PostLN>(model, StepRule::adam(),
//                                                     {.learning_rate = 1e-3, .warm_up_steps = 50, .text = text});
//     if (!run.learned()) std::cout << run.final_loss() << " nats, unigrams alone: " << run.unigram_entropy << '\n';
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <normplace/analysis/first_step_report.hpp>
#include <normplace/measure/read_gradients.hpp>
#include <normplace/measure/reference_network.hpp>
#include <normplace/train/adam.hpp>
#include <normplace/train/schedule.hpp>
#include <normplace/train/sgd.hpp>
#include <normplace/train/training_loop.hpp>

namespace normplace {

/// The loss of who knows how frequent each byte of the text is, and nothing else: -sum_b p_b ln p_b, in nats. 0 for an
/// empty text.
inline double unigram_entropy(std::string_view text) {
    std::array<std::size_t, 256> counts{};
    for (const char byte : text) ++counts[static_cast<unsigned char>(byte)];
    double entropy = 0.0;
    for (const std::size_t count : counts) {
        const double share = static_cast<double>(count) / static_cast<double>(text.size());
        if (count > 0) entropy -= share * std::log(share);
    }
    return entropy;
}

/// What a network has to gain on the unigram entropy, in nats, to have learned. Where all tokens have become equal
/// nothing can be gained, and the mean over thousands of bytes that is compared scatters by 0.01 or so. On English the
/// byte before is worth 0.86.
inline constexpr double learned_margin = 0.1;

/// One step, as it has just been done.
struct ShortTrainingStep {
    std::size_t step = 0;  ///< from 1
    double learning_rate = 0.0;
    double loss = 0.0;               ///< of its batch, before the step, in nats per byte
    double token_correlation = 0.0;  ///< of the last hidden state, on the same batch
};

struct ShortTrainingOptions {
    double learning_rate = 1e-3;    ///< eta
    std::size_t warm_up_steps = 0;  ///< W: step t is done at eta min(1, t / W)
    std::size_t steps = 150;
    std::size_t seed = 0;     ///< of the weights, which are `measure`'s for this seed, and of the batches
    std::string_view text{};  ///< at least S + 1 bytes
    std::function<bool(const ShortTrainingStep&)> progress{};  ///< called after each step; false ends the training
};

struct ShortTraining {
    std::vector<ShortTrainingStep> steps;  ///< those that were done, and the one that diverged
    double unigram_entropy = not_available;
    std::string divergence;  ///< a sentence, when loss or gradient were no longer finite; empty when all is well

    /// The mean loss of the last tenth of the steps, or of the last one. Infinite when the training diverged; NaN
    /// before the first step.
    double final_loss() const {
        if (!divergence.empty()) return std::numeric_limits<double>::infinity();
        const std::size_t count = std::max(steps.size() / 10, std::min<std::size_t>(steps.size(), 1));
        double sum = 0.0;
        for (std::size_t i = steps.size() - count; i < steps.size(); ++i) sum += steps[i].loss;
        return sum / static_cast<double>(count);
    }
    /// Whether it does better than who knows only how frequent each byte is.
    bool learned() const { return final_loss() < unigram_entropy - learned_margin; }
};

namespace detail {

/// The optimizer whose first step the rule is, with PyTorch's default for what the rule does not say: Adam's averages
/// decay at 0.9 and 0.999.
template <class T>
AnyOptimizer<T> optimizer_of(const StepRule& rule, const ParameterList<T>& parameters) {
    if (!rule.sign)
        return SGD<T>(parameters,
                      {.momentum = rule.momentum, .weight_decay = rule.weight_decay, .nesterov = rule.nesterov});
    // Adam wants an epsilon above 0.
    const double epsilon = std::max(rule.epsilon, std::numeric_limits<double>::min());
    return Adam<T>(parameters, {.epsilon = epsilon, .weight_decay = rule.weight_decay, .decoupled_weight_decay = true});
}

template <class T>
ShortTraining train_shortly(const AnyPlacement& placement, const ReferenceModel& model, const StepRule& rule,
                            const ShortTrainingOptions& options) {
    ReferenceNetwork<T> network(placement, model, true, branch_squares(placement, model, {}, 0));
    network.draw_weights(options.seed);
    const ParameterList<T> parameters = network.parameters();
    TrainingLoop<T> loop(parameters, optimizer_of(rule, parameters),
                         Schedule::constant(options.learning_rate).with_warm_up(options.warm_up_steps),
                         {.unit_matrices = placement.unit_matrices});
    ShortTraining training;
    training.unigram_entropy = unigram_entropy(options.text);
    while (training.steps.size() < options.steps && training.divergence.empty()) {
        SteppedStream hidden;
        const StepResult result = loop.step([&](std::uint64_t) {
            network.draw_batch(options.text);
            read_stream(network.forward(), hidden);
            const LossSum loss = network.loss(1.0);
            network.backward();
            return loss;
        });
        training.divergence = result.divergence;
        training.steps.push_back(
            {static_cast<std::size_t>(result.step), result.learning_rate, result.loss, hidden.token_correlation.value});
        if (options.progress && !options.progress(training.steps.back())) break;
    }
    return training;
}

}  // namespace detail

/// Trains the reference model under the placement, in scalar T: all parameters, the readout's and the tables' among
/// them, each batch B sequences of S bytes from random places of the text. The optimizer is the one whose first step
/// the rule is: Adam or AdamW with averages that decay at 0.9 and 0.999, or SGD. Ends early when loss or gradient are
/// no longer finite.
/// @throws std::invalid_argument when the model does not fit or is not causal, steps is 0, the learning rate is
///         negative or not finite, or the text is shorter than S + 1 bytes or its bytes are not all tokens
template <class T = float>
ShortTraining train_shortly(const AnyPlacement& placement, const ReferenceModel& model, const StepRule& rule,
                            const ShortTrainingOptions& options) {
    constexpr const char* who = "train_shortly";
    model.check();
    detail::require(model.causal, who, "the model is not causal, so that a token would see the byte to be predicted");
    detail::require_byte_vocabulary(who, model);
    detail::require_positive(who, "steps", options.steps);
    detail::require_at_least_0(who, "learning rate", options.learning_rate);
    detail::require(options.text.size() > model.sequence, who, [&] {
        return "the text has " + std::to_string(options.text.size()) + " bytes; sequences of " +
               std::to_string(model.sequence) + " bytes and the byte after them need " +
               std::to_string(model.sequence + 1);
    });
    return detail::train_shortly<T>(placement, model, rule, options);
}
template <class P, class T = float>
ShortTraining train_shortly(const ReferenceModel& model, const StepRule& rule, const ShortTrainingOptions& options) {
    static_assert(explain_placement<P>());
    return train_shortly<T>(any_placement<P>, model, rule, options);
}

}  // namespace normplace
