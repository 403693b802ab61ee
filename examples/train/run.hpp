// SPDX-License-Identifier: BSD-3-Clause
//
// One training run from its first step, or from its checkpoint, to its last: validation, log, checkpoints and progress
// on the way. It ends early when it diverges, or when it is told to stop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <normplace/train/schedule.hpp>
#include <optional>
#include <string>
#include <vector>

#include "task.hpp"

namespace training {

struct RunOptions {
    std::string optimizer = "adam";  ///< adam, adamw, radam or sgd
    double beta2 = 0.98;             ///< of the first three
    double momentum = 0.0;           ///< of sgd
    double weight_decay = 0.0;
    np::Schedule schedule = np::Schedule::constant(1e-3);
    np::TrainingOptions loop{};
    std::uint64_t steps = 0;
    std::uint64_t every = 100;    ///< steps between validations, which are when a checkpoint is written
    std::string checkpoint{};     ///< a file, or empty
    std::string log{};            ///< a file, or empty
    bool resume = false;          ///< from the checkpoint, where there is one
    std::string configuration{};  ///< JSON; a checkpoint goes on only with its own
};

/// What is known after a step that was followed by a validation.
struct Point {
    std::uint64_t step = 0;
    double training_loss = 0.0;  ///< mean over the steps since the last point, in nats per token, smoothed as trained
    Evaluation validation{};
    double learning_rate = 0.0, gradient_norm = 0.0, seconds = 0.0;
};

struct RunResult {
    std::vector<Point> points;  ///< of this process
    std::string divergence;     ///< a sentence, or empty
    bool stopped = false;       ///< because `stop` said so
    std::uint64_t steps = 0;
    std::uint64_t checkpoint = 0;    ///< the step of the last checkpoint; 0: none was written
    double tokens_per_second = 0.0;  ///< of training alone, validation and writing not counted
};

/// Called after each step; for what is shown meanwhile.
struct RunHooks {
    std::function<void(std::uint64_t steps)> start{};  ///< once, with the steps that were done before
    std::function<void(const np::StepResult&, double tokens_per_second)> step{};
    std::function<void(const Point&)> point{};
    std::function<bool()> stop{};                                 ///< true: end after this step
    std::function<std::map<std::string, std::string>()> notes{};  ///< more for a checkpoint that is being written
};

/// @throws std::runtime_error when a file cannot be written, or a checkpoint does not fit
RunResult run(Task& task, const RunOptions& options, const RunHooks& hooks = {});

/// A model's parameters for reading and writing checkpoints.
std::vector<np::NamedTensor<float>> tensors_of(const np::ParameterList<float>& parameters);

}  // namespace training
