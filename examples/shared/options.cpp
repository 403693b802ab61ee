// SPDX-License-Identifier: BSD-3-Clause
#include "options.hpp"

#include <algorithm>

#include "../command_line.hpp"

namespace shared {

namespace np = normplace;
using namespace command_line;

namespace {

std::vector<std::string> placements_from(const std::string& list) {
    std::vector<std::string> names;
    if (list == "all") {
        for (const np::AnyPlacement* placement : np::all_placements()) names.emplace_back(placement->name);
        return names;
    }
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
            np::placement_named(names[i]);
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
    return text(model.layers) + (model.layers == 1 ? " layer" : " layers") + ", width " + text(model.width) + ", " +
           text(model.heads) + (model.heads == 1 ? " head" : " heads") + ", ffn " + text(model.feed_forward) + ", " +
           text(model.batch) + " x " + text(model.sequence) + " tokens, vocabulary " + text(model.vocabulary) + ", " +
           norm_name() + ", " + model.activation.name + ", " + (model.causal ? "causal, " : "") + initialization_name();
}

Arguments::Arguments(CLI::App& app, Options& options, const std::string& placements)
    : app_(app), options_(options), placements_(placements) {
    app.get_formatter()->column_width(34);
    app.get_formatter()->label("OPTIONS", "options");
}

void Arguments::add_placement() {
    app_.add_option("--placement", placements_, "Separated by commas, of " + np::placement_names() + "; or all")
        ->type_name("NAMES")
        ->default_str(placements_);
}

void Arguments::add_model() {
    np::ReferenceModel& model = options_.model;
    const auto number = [&](const char* name, std::size_t& value, std::size_t largest, const char* what) {
        app_.add_option(name, value, what)
            ->check(whole_number(largest))
            ->type_name("N")
            ->default_str(std::to_string(value));
    };
    const auto choice = [&](const char* name, std::string& value, const std::vector<std::string>& words,
                            const char* what) {
        app_.add_option(name, value, what)
            ->check(one_of(words))
            ->type_name(CLI::detail::join(words, "|"))
            ->default_str(value);
    };
    add_placement();
    number("--layers", model.layers, 10'000, "L: attention and feed-forward sublayer are one layer");
    number("--width", model.width, 65'536, "D, the width of the residual stream");
    number("--heads", model.heads, 65'536, "H, which divides D");
    number("--ffn", model.feed_forward, 1'048'576, "F, the width between W_1 and W_2");
    number("--sequence", model.sequence, 1'048'576, "S, the tokens of one sequence");
    number("--batch", model.batch, 65'536, "B, the sequences of one batch");
    number("--vocabulary", model.vocabulary, 10'000'000, "V; always 256 with --text");
    std::vector<std::string> norms;
    for (const auto& [name, kind] : np::norm_kinds) norms.emplace_back(name);
    choice("--norm", norm_, norms, "");
    choice("--activation", activation_, {"relu", "gelu"}, "Of the feed-forward sublayer; gelu is the exact one");
    app_.add_flag("--causal", model.causal, "A token attends to itself and to those before it")
        ->disable_flag_override();
    choice("--init", initialization_, {"xavier", "gpt2", "pytorch"}, "The weights at the start");
}

void Arguments::add_measure() {
    app_.add_option("--measure", options_.seeds, "Measure too: averages over so many random models")
        ->check(whole_number(100'000))
        ->type_name("SEEDS");
}

void Arguments::add_files(const char* what_plot_does) {
    app_.add_option("--text", options_.text_file, "Read this file's bytes as tokens instead of random ones; any file")
        ->check(file_name())
        ->type_name("FILE");
    add_outputs("Everything as CSV; - is standard output, CSV alone", what_plot_does);
}

void Arguments::add_outputs(const char* what_csv_does, const char* what_plot_does) {
    const auto file = [&](const char* name, std::string& value, const char* what) {
        app_.add_option(name, value, what)->check(file_name())->type_name("FILE");
    };
    file("--json", options_.json_file, "Everything as JSON; - is standard output, JSON alone");
    file("--csv", options_.csv_file, what_csv_does);
    file("--plot", plot_file_, what_plot_does);
}

void Arguments::finish() {
    np::ReferenceModel& model = options_.model;
    options_.placements = placements_from(placements_);
    for (const auto& [name, kind] : np::norm_kinds)
        if (name == norm_) model.norm = kind;
    model.activation = activation_ == "relu" ? np::relu : np::gelu;
    model.initialization = initialization_from(initialization_);
    if (!options_.text_file.empty()) {
        if (app_.count("--vocabulary") > 0 && model.vocabulary != 256)
            throw UsageError("--vocabulary: with --text the tokens are bytes, so the vocabulary is 256 and not " +
                             std::to_string(model.vocabulary));
        model.vocabulary = 256;
    }
    if (model.width % model.heads != 0)
        throw UsageError("--width: " + std::to_string(model.width) + " is not divisible by " +
                         std::to_string(model.heads) + " heads");
    if (!plot_file_.empty()) {
        if (!plot_file_.ends_with(".svg") && !plot_file_.ends_with(".png"))
            throw UsageError("--plot: '" + plot_file_ + "' ends neither in .svg nor in .png");
        options_.plot_files = {plot_file_};
    }
}

}  // namespace shared
