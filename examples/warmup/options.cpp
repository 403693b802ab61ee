// SPDX-License-Identifier: BSD-3-Clause
#include "options.hpp"

#include <cstdio>

#include "../command_line.hpp"

namespace warmup {

namespace np = normplace;
using namespace command_line;

namespace {

constexpr std::size_t default_seeds = 2;

np::StepRule rule_from(const std::string& optimizer, double momentum) {
    if (optimizer == "adamw") return np::StepRule::adam_w();
    if (optimizer == "sgd") return np::StepRule::sgd(momentum);
    return np::StepRule::adam();
}

}  // namespace

std::string Options::optimizer_name() const {
    if (rule.name == "adam") return "Adam";
    if (rule.name == "adamw") return "AdamW";
    if (rule.momentum == 0.0) return "SGD";
    char text[64];
    std::snprintf(text, sizeof text, "SGD with momentum %g", rule.momentum);
    return text;
}

std::optional<Options> parse(int argc, const char* const* argv) {
    Options options;
    std::string optimizer = "adam";
    double momentum = 0.0;
    CLI::App app{
        "How large may the first step of a training be, and does it need warm-up? Predicted from the placement's\n"
        "formula, measured on the real blocks, and checked by short trainings. Without any option: Post-LN, Pre-LN\n"
        "and DeepNorm under Adam, predicted and measured, with three plots in warmup.svg and warmup.png.\n",
        "warmup"};
    shared::Arguments arguments(app, options, "post-ln,pre-ln,deep-norm");
    arguments.add_model();
    app.add_option("--optimizer", optimizer, "adamw decays weights by 0.01")
        ->check(one_of({"adam", "adamw", "sgd"}))
        ->type_name("adam|adamw|sgd")
        ->default_str(optimizer);
    auto* given_momentum = app.add_option("--momentum", momentum, "Of sgd, from 0 to 0.999")
                               ->check(number_between(0.0, 0.999))
                               ->type_name("X")
                               ->default_str("0");
    app.add_option("--learning-rate", options.learning_rate, "The wanted one: how much warm-up does it take?")
        ->check(positive_number())
        ->type_name("X");
    arguments.add_measure();
    app.add_option("--train", options.steps,
                   "Check the advice: trainings of so many steps on --text, at learning rates around the predicted "
                   "largest one, with and without warm-up; causal")
        ->check(whole_number(1'000'000))
        ->type_name("STEPS");
    arguments.add_files("Plots, .svg or .png; --measure then covers smaller depths and widths too");
    if (!command_line::parse(app, argc, argv)) return std::nullopt;

    if (given_momentum->count() > 0 && optimizer != "sgd")
        throw UsageError("--momentum: only for --optimizer sgd, and not for " + optimizer);
    if (options.steps > 0 && options.text_file.empty())
        throw UsageError("--train: --text is missing; the trainings need a text to learn");
    if (options.steps > 0) options.model.causal = true;  // or a token would see the byte that it is to predict
    options.rule = rule_from(optimizer, momentum);
    arguments.finish();
    if (argc == 1) {
        options.default_run = true;
        options.seeds = default_seeds;
        options.plot_files = {"warmup.svg", "warmup.png"};
    }
    return options;
}

}  // namespace warmup
