// SPDX-License-Identifier: BSD-3-Clause
#include "options.hpp"

#include <algorithm>

#include "../command_line.hpp"

namespace profile {

namespace np = normplace;
using namespace command_line;

namespace {

constexpr std::size_t default_seeds = 16;

std::vector<std::string> placements_from(const std::string& list) {
    std::vector<std::string> names;
    for (std::size_t begin = 0; begin <= list.size();) {
        const std::size_t end = std::min(list.find(',', begin), list.size());
        names.push_back(list.substr(begin, end - begin));
        begin = end + 1;
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (names[i].empty())
            throw UsageError("--placement: '" + list + "' has an empty name; the known ones are " +
                             np::placement_names());
        try {
            np::visit_placement(names[i], [](auto) {});
        } catch (const std::invalid_argument& error) {
            throw UsageError(std::string("--placement: ") + error.what());
        }
        if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
            names.begin() + static_cast<std::ptrdiff_t>(i))
            throw UsageError("--placement: '" + names[i] + "' is there twice");
    }
    return names;
}

np::Initialization initialization_from(const std::string& name) {
    if (name == "gpt2") return np::Initialization::gpt2();
    if (name == "pytorch") return np::Initialization::pytorch();
    return np::Initialization::xavier();
}

}  // namespace

std::string Options::description() const {
    const auto text = [](std::size_t value) { return std::to_string(value); };
    std::string line = text(model.layers) + (model.layers == 1 ? " layer" : " layers") + ", width " +
                       text(model.width) + ", " + text(model.heads) + (model.heads == 1 ? " head" : " heads") +
                       ", ffn " + text(model.feed_forward) + ", " + text(model.batch) + " x " + text(model.sequence) +
                       " tokens, vocabulary " + text(model.vocabulary) + ", " + norm_name() + ", " +
                       model.activation.name + ", " + (model.causal ? "causal, " : "") + initialization_name();
    return line;
}

std::optional<Options> parse(int argc, const char* const* argv) {
    Options options;
    np::ReferenceModel& model = options.model;
    std::string placements = "pre-ln,post-ln", norm = "layer-norm", activation = "relu", initialization = "xavier";
    std::string plot_file;

    CLI::App app{
        "How large is the gradient of every weight matrix at initialization? Predicted from the placement's\n"
        "formula, and measured on the real blocks. Without any option: Pre-LN against Post-LN, predicted and\n"
        "measured, with two plots in profile.svg and profile.png.\n",
        "profile"};
    app.get_formatter()->column_width(34);
    app.get_formatter()->label("OPTIONS", "options");
    const auto number = [&](const char* name, std::size_t& value, std::size_t largest, const char* what) {
        return app.add_option(name, value, what)
            ->check(whole_number(largest))
            ->type_name("N")
            ->default_str(std::to_string(value));
    };
    const auto choice = [&](const char* name, std::string& value, const std::vector<std::string>& words,
                            const char* what) {
        return app.add_option(name, value, what)
            ->check(one_of(words))
            ->type_name(CLI::detail::join(words, "|"))
            ->default_str(value);
    };
    const auto file = [&](const char* name, std::string& value, const char* what) {
        return app.add_option(name, value, what)->check(file_name())->type_name("FILE");
    };
    app.add_option("--placement", placements, "Separated by commas, of " + np::placement_names())
        ->type_name("NAMES")
        ->default_str(placements);
    number("--layers", model.layers, 10'000, "L: attention and feed-forward sublayer are one layer");
    number("--width", model.width, 65'536, "D, the width of the residual stream");
    auto* heads = number("--heads", model.heads, 65'536, "H, which divides D");
    auto* feed_forward = number("--ffn", model.feed_forward, 1'048'576, "F, the width between W_1 and W_2");
    number("--sequence", model.sequence, 1'048'576, "S, the tokens of one sequence");
    auto* batch = number("--batch", model.batch, 65'536, "B, the sequences of one batch");
    auto* vocabulary = number("--vocabulary", model.vocabulary, 10'000'000, "V; always 256 with --text");
    choice("--norm", norm, {"layer-norm", "rms-norm"}, "");
    choice("--activation", activation, {"relu", "gelu"}, "Of the feed-forward sublayer; gelu is the exact one");
    app.add_flag("--causal", model.causal, "A token attends to itself and to those before it")->disable_flag_override();
    auto* init = choice("--init", initialization, {"xavier", "gpt2", "pytorch"}, "The weights at the start");
    app.add_flag("--paper", options.paper, "The model of Xiong et al. 2020: H = 1, W_q = W_k = 0, no W_o, F = D, B = 1")
        ->disable_flag_override();
    app.add_option("--measure", options.seeds, "Measure too: root mean square over so many random models")
        ->check(whole_number(100'000))
        ->type_name("SEEDS");
    file("--text", options.text_file, "Read this file's bytes as tokens instead of random ones; any file");
    file("--json", options.json_file, "Everything as JSON; - is standard output, JSON alone");
    file("--csv", options.csv_file, "Everything as CSV; - is standard output, CSV alone");
    file("--plot", plot_file, "Plots, .svg or .png; --measure then covers 2 to 24 layers too");

    if (!command_line::parse(app, argc, argv)) return std::nullopt;

    for (const auto* option : {heads, feed_forward, init})
        if (options.paper && option->count() > 0)
            throw UsageError(option->get_name() + ": the paper's model (--paper) has its own");
    options.placements = placements_from(placements);
    model.norm = norm == "layer-norm" ? np::NormKind::layer_norm : np::NormKind::rms_norm;
    model.activation = activation == "relu" ? np::relu : np::gelu;
    model.initialization = initialization_from(initialization);
    if (options.paper) {
        np::ReferenceModel paper = np::ReferenceModel::paper(model.layers, model.width, model.sequence);
        if (batch->count() > 0) paper.batch = model.batch;
        paper.vocabulary = model.vocabulary;
        paper.norm = model.norm;
        paper.activation = model.activation;
        paper.causal = model.causal;
        model = paper;
    }
    if (!options.text_file.empty()) {
        if (vocabulary->count() > 0 && model.vocabulary != 256)
            throw UsageError("--vocabulary: with --text the tokens are bytes, so the vocabulary is 256 and not " +
                             std::to_string(model.vocabulary));
        model.vocabulary = 256;
    }
    if (model.width % model.heads != 0)
        throw UsageError("--width: " + std::to_string(model.width) + " is not divisible by " +
                         std::to_string(model.heads) + " heads");
    if (!plot_file.empty()) {
        if (!plot_file.ends_with(".svg") && !plot_file.ends_with(".png"))
            throw UsageError("--plot: '" + plot_file + "' ends neither in .svg nor in .png");
        options.plot_files = {plot_file};
    }
    if (argc == 1) {
        options.default_run = true;
        options.seeds = default_seeds;
        options.plot_files = {"profile.svg", "profile.png"};
    }
    return options;
}

}  // namespace profile
