// SPDX-License-Identifier: BSD-3-Clause
#include "options.hpp"

#include "../command_line.hpp"

namespace accuracy {

using namespace command_line;

std::optional<Options> parse(int argc, const char* const* argv) {
    Options options;
    CLI::App app{
        "How good are the predictions? Every gradient norm and the residual stream, predicted and measured, over a\n"
        "fixed list of models of which every third is held out of all tuning. Without any option: the quick list,\n"
        "with plots in accuracy.svg and accuracy.png.\n",
        "accuracy"};
    shared::Arguments arguments(app, options, "post-ln,pre-ln,peri-ln,res-post-norm,deep-norm,ln-scaling");
    app.add_option("--size", options.size,
                   "quick takes a minute on two cores; full takes an hour or two, and goes on where it was stopped")
        ->check(one_of({"quick", "full"}))
        ->type_name("quick|full")
        ->default_str(options.size);
    arguments.add_placement();
    app.add_option("--seeds-scale", options.seeds_scale, "Multiplies the random models that each row averages over")
        ->check(number_between(0.001, 1000.0))
        ->type_name("X")
        ->default_str("1");
    app.add_flag("--list", options.list, "Only show the rows")->disable_flag_override();
    bool only_stored = false;
    app.add_flag("--no-measure", only_stored, "Only what the CSV file has, which is left as it is")
        ->disable_flag_override();
    app.add_flag("--check", options.check, "Exit status 1 when an error is larger than it should be")
        ->disable_flag_override();
    arguments.add_outputs(
        "Every number as CSV, written as the run goes on. What is there is not measured again; full has accuracy.csv",
        "Predicted against measured, .svg or .png");
    if (!command_line::parse(app, argc, argv)) return std::nullopt;
    arguments.finish();
    if (options.size == "full" && options.csv_file.empty()) options.csv_file = "accuracy.csv";
    if (only_stored && (options.csv_file.empty() || options.csv_file == "-"))
        throw UsageError("--no-measure: --csv is missing, the file that has measurements");
    options.measure = !only_stored;
    if (argc == 1) {
        options.default_run = true;
        options.plot_files = {"accuracy.svg", "accuracy.png"};
    }
    return options;
}

}  // namespace accuracy
