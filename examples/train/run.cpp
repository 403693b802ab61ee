// SPDX-License-Identifier: BSD-3-Clause
#include "run.hpp"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <normplace/io/checkpoint.hpp>
#include <normplace/io/csv_log.hpp>
#include <normplace/train/adam.hpp>
#include <normplace/train/radam.hpp>
#include <normplace/train/sgd.hpp>
#include <sstream>

namespace training {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

const std::vector<std::string> columns{"step",          "training_loss", "validation_loss",  "validation_accuracy",
                                       "learning_rate", "gradient_norm", "tokens_per_second"};

np::AnyOptimizer<float> make_optimizer(const np::ParameterList<float>& parameters, const RunOptions& options) {
    if (options.optimizer == "sgd")
        return np::SGD<float>(parameters, {.momentum = options.momentum, .weight_decay = options.weight_decay});
    const np::AdamOptions moments{.beta2 = options.beta2,
                                  .weight_decay = options.weight_decay,
                                  .decoupled_weight_decay = options.optimizer == "adamw"};
    if (options.optimizer == "radam") return np::RAdam<float>(parameters, moments);
    return np::Adam<float>(parameters, moments);
}

}  // namespace

std::vector<np::NamedTensor<float>> tensors_of(const np::ParameterList<float>& parameters) {
    std::vector<np::NamedTensor<float>> tensors;
    for (const auto& parameter : parameters) tensors.push_back({parameter.name, parameter.shape, parameter.value});
    return tensors;
}

RunResult run(Task& task, const RunOptions& options, const RunHooks& hooks) {
    const np::ParameterList<float>& parameters = task.parameters();
    np::TrainingLoop<float> loop(parameters, make_optimizer(parameters, options), options.schedule, options.loop);
    const std::vector<np::NamedTensor<float>> model = tensors_of(parameters);

    const bool checkpoints = !options.checkpoint.empty();
    double loss = 0.0, training_seconds = 0.0;  // the loss: since the last point
    std::uint64_t steps = 0, tokens = 0;        // the steps: since the last point
    if (options.resume && checkpoints && std::filesystem::exists(options.checkpoint)) {
        const np::CheckpointState state =
            np::read_checkpoint(options.checkpoint, model, loop.optimizer().state(), options.configuration);
        loop.resume(state.step);
        const auto read_note = [&](const char* name, auto& value) {
            const auto found = state.notes.find(name);
            if (found != state.notes.end()) std::istringstream(found->second) >> value;
        };
        read_note("loss_since_point", loss);
        read_note("steps_since_point", steps);
    }
    if (hooks.start) hooks.start(loop.steps());
    std::optional<np::CsvLog> log;
    if (!options.log.empty())
        log = options.resume ? np::CsvLog::resume(options.log, columns, loop.steps() + 1)
                             : np::CsvLog(options.log, columns);
    RunResult result;
    const auto write_checkpoint = [&] {
        if (!checkpoints) return;
        const std::uint64_t batches = loop.steps() * options.loop.accumulate;
        std::map<std::string, std::string> notes;
        if (hooks.notes) notes = hooks.notes();
        notes["loss_since_point"] = np::CsvField(loss).text();
        notes["steps_since_point"] = std::to_string(steps);
        np::write_checkpoint(options.checkpoint, model, loop.optimizer().state(),
                             {.configuration = options.configuration,
                              .step = loop.steps(),
                              .epoch = batches / task.batches_per_epoch(),
                              .position = batches % task.batches_per_epoch(),
                              .updates = loop.steps(),
                              .notes = std::move(notes)});
        result.checkpoint = loop.steps();
    };

    result.steps = loop.steps();
    const Clock::time_point start = Clock::now();
    while (loop.steps() < options.steps) {
        const Clock::time_point step_start = Clock::now();
        const np::StepResult step = loop.step([&](std::uint64_t batch) { return task.differentiate(batch); });
        training_seconds += seconds_since(step_start);
        if (step.diverged()) {
            result.divergence = step.divergence;
            break;
        }
        result.steps = step.step;
        loss += step.loss;
        tokens += step.tokens;
        ++steps;
        result.tokens_per_second = static_cast<double>(tokens) / training_seconds;
        if (hooks.step) hooks.step(step, result.tokens_per_second);
        result.stopped = step.step < options.steps && hooks.stop && hooks.stop();
        if (step.step % options.every == 0 || step.step == options.steps) {
            result.points.push_back({step.step, loss / static_cast<double>(steps), task.validate(), step.learning_rate,
                                     step.gradient_norm, seconds_since(start)});
            const Point& point = result.points.back();
            if (log)
                log->write({point.step, point.training_loss, point.validation.loss, point.validation.accuracy,
                            point.learning_rate, point.gradient_norm, result.tokens_per_second});
            loss = 0.0;
            steps = 0;
            if (hooks.point) hooks.point(point);
            if (!std::isfinite(point.validation.loss)) {
                result.divergence = "after step " + std::to_string(step.step) + ": the validation loss is not finite";
                break;
            }
            write_checkpoint();
        } else if (result.stopped) {
            write_checkpoint();
        }
        if (result.stopped) break;
    }
    return result;
}

}  // namespace training
