// SPDX-License-Identifier: BSD-3-Clause
//
// profile: how large the gradient of every weight matrix is at initialization, predicted and measured.
//
// Exit status: 0, 2 for a fault of the command line (one sentence on standard error), 1 when something else failed.
#include <iostream>
#include <normplace/io/report_table.hpp>
#include <normplace/measure/compare.hpp>
#include <normplace/nn/blas_description.hpp>
#include <utility>

#include "../command_line.hpp"
#include "../paragraph.hpp"
#include "../shared/files.hpp"
#include "files.hpp"
#include "options.hpp"
#include "overview.hpp"
#include "run.hpp"
#include "verdict.hpp"

namespace {

using namespace profile;
using shared::write_to;

/// Whether a training would need warm-up: a sentence for each placement of which something can be said.
void write_advice(const std::vector<PlacementResult>& results) {
    const char* separator = "\n";
    for (const PlacementResult& result : results) {
        if (result.advice.sentence.empty()) continue;
        std::cout << std::exchange(separator, "");
        paragraph(std::cout, "Warm-up (Adam): " + result.predicted.placement + ": " + result.advice.sentence + ".", 2);
    }
}

/// Every placement on its own, and what the paper says of them.
void write_blocks(const Options& options, const std::vector<PlacementResult>& results) {
    for (const PlacementResult& result : results) {
        if (result.measured) std::cout << normplace::compare(result.predicted, *result.measured) << '\n';
        else std::cout << result.predicted << '\n';
    }
    write_verdict(std::cout, options, results);
    write_advice(results);
}

void write_tables(const Options& options, const std::vector<PlacementResult>& results) {
    std::cout << options.description() << '\n';
    if (options.seeds > 0) {
        const normplace::BlasDescription blas = normplace::blas_description();
        std::cout << "measured on " << blas.library << (blas.kernels.empty() ? "" : ", " + blas.kernels + " kernels")
                  << '\n';
        if (!blas.advice.empty()) std::cout << blas.advice << '\n';
    }
    std::cout << '\n';
    if (options.is_overview()) write_overview(std::cout, results);
    else write_blocks(options, results);
    for (const std::string& file : options.plot_files) std::cout << "\nPlot: " << file;
    std::cout << std::endl;
}

int run_program(int argc, char** argv) {
    std::optional<Options> options = parse(argc, argv);
    if (!options) return 0;
    shared::check_files("profile", *options);
    const std::vector<PlacementResult> results = run(*options);

    for (const PlacementResult& result : results)
        for (const std::string& warning : result.predicted.warnings)
            std::cerr << "profile: warning: " << result.predicted.placement << ": " << warning << '\n';
    write_to(options->json_file, [&](std::ostream& stream) { write_json(stream, *options, results); });
    write_to(options->csv_file, [&](std::ostream& stream) { write_csv(stream, results); });
    for (const std::string& file : options->plot_files) write_plot(file, *options, results);
    // Standard output that is data stays data alone.
    if (!options->writes_data_to_output()) write_tables(*options, results);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    return command_line::run_program("profile", [&] { return run_program(argc, argv); });
}
