// SPDX-License-Identifier: BSD-3-Clause
//
// accuracy: how good the predictions are, over a list of models that covers what they claim to hold for.
//
// Exit status: 0, 2 for a fault of the command line (one sentence on standard error), 1 when something else failed or,
// with --check, an error is larger than it should be.
#include <iostream>

#include "../command_line.hpp"
#include "../shared/files.hpp"
#include "files.hpp"
#include "run.hpp"

namespace {

using namespace accuracy;

int run_program(int argc, char** argv) {
    std::optional<Options> options = parse(argc, argv);
    if (!options) return 0;
    const std::vector<Row> rows = grid(options->size, options->seeds_scale);
    if (options->list) {
        write_rows(std::cout, rows);
        return 0;
    }
    shared::check_files("accuracy", *options);
    const std::vector<Comparison> comparisons = run(*options, rows);
    const std::vector<PlacementSummary> summaries = summarise(options->placements, comparisons);
    const std::vector<std::string> too_large = exceeded(summaries);

    if (options->csv_file == "-") write_csv(std::cout, comparisons);
    shared::write_to(options->json_file,
                     [&](std::ostream& stream) { write_json(stream, *options, rows, summaries, too_large); });
    for (const std::string& file : options->plot_files) write_plot(file, *options, comparisons);
    if (!options->writes_data_to_output()) {
        write_tables(std::cout, *options, comparisons, summaries, too_large);
        for (const std::string& file : options->plot_files) std::cout << "\nPlot: " << file;
        std::cout << (options->plot_files.empty() ? "" : "\n") << std::flush;
    }
    return options->check && !too_large.empty() ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
    return command_line::run_program("accuracy", [&] { return run_program(argc, argv); });
}
