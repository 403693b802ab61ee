// SPDX-License-Identifier: BSD-3-Clause
//
// warmup: how large the first step of a training may be, whether it needs warm-up, and how much.
//
// Exit status: 0, 2 for a fault of the command line (one sentence on standard error), 1 when something else failed.
#include <iostream>

#include "../command_line.hpp"
#include "../shared/files.hpp"
#include "files.hpp"
#include "options.hpp"
#include "run.hpp"

namespace {

using namespace warmup;

int run_program(int argc, char** argv) {
    std::optional<Options> options = parse(argc, argv);
    if (!options) return 0;
    shared::check_files("warmup", *options);
    const std::vector<PlacementResult> results = run(*options);

    shared::write_to(options->json_file, [&](std::ostream& stream) { write_json(stream, *options, results); });
    shared::write_to(options->csv_file, [&](std::ostream& stream) { write_csv(stream, results); });
    for (const std::string& file : options->plot_files) write_plot(file, *options, results);
    if (options->writes_data_to_output()) return 0;
    write_tables(std::cout, *options, results);
    for (const std::string& file : options->plot_files) std::cout << "\nPlot: " << file;
    std::cout << (options->plot_files.empty() ? "" : "\n") << std::flush;
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    return command_line::run_program("warmup", [&] { return run_program(argc, argv); });
}
