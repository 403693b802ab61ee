// SPDX-License-Identifier: BSD-3-Clause
#include "options.hpp"

#include "../command_line.hpp"

namespace profile {

namespace np = normplace;

namespace {

constexpr std::size_t default_seeds = 16;

/// The paper's model, with what the options left of the other one.
np::ReferenceModel paper_model(const np::ReferenceModel& model, bool batch_is_given) {
    np::ReferenceModel paper = np::ReferenceModel::paper(model.layers, model.width, model.sequence);
    if (batch_is_given) paper.batch = model.batch;
    paper.vocabulary = model.vocabulary;
    paper.norm = model.norm;
    paper.activation = model.activation;
    paper.causal = model.causal;
    return paper;
}

}  // namespace

std::optional<Options> parse(int argc, const char* const* argv) {
    Options options;
    CLI::App app{
        "How large is the gradient of every weight matrix at initialization? Predicted from the placement's\n"
        "formula, and measured on the real blocks. Without any option: Pre-LN against Post-LN, predicted and\n"
        "measured, with two plots in profile.svg and profile.png.\n",
        "profile"};
    shared::Arguments arguments(app, options, "pre-ln,post-ln");
    arguments.add_model();
    app.add_flag("--paper", options.paper, "The model of Xiong et al. 2020: H = 1, W_q = W_k = 0, no W_o, F = D, B = 1")
        ->disable_flag_override();
    arguments.add_measure();
    arguments.add_files("Plots, .svg or .png; --measure then covers 2 to 24 layers too");
    if (!command_line::parse(app, argc, argv)) return std::nullopt;

    if (options.paper) {
        for (const char* option : {"--heads", "--ffn", "--init"})
            if (app.count(option) > 0)
                throw UsageError(std::string(option) + ": the paper's model (--paper) has its own");
        options.model.heads = 1;
    }
    arguments.finish();
    if (options.paper) options.model = paper_model(options.model, app.count("--batch") > 0);
    if (argc == 1) {
        options.default_run = true;
        options.seeds = default_seeds;
        options.plot_files = {"profile.svg", "profile.png"};
    }
    return options;
}

}  // namespace profile
