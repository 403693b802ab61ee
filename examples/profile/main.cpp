// SPDX-License-Identifier: BSD-3-Clause
//
// profile: how large the gradient of every weight matrix is at initialization, predicted and measured.
//
// Exit status: 0, 2 for a fault of the command line (one sentence on standard error), 1 when something else failed.
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <normplace/io/report_table.hpp>
#include <normplace/measure/compare.hpp>
#include <normplace/nn/blas_description.hpp>

#include "../command_line.hpp"
#include "files.hpp"
#include "options.hpp"
#include "run.hpp"
#include "verdict.hpp"

namespace {

using namespace profile;
using command_line::check_writable;

void check_files(Options& options) {
    std::vector<std::pair<std::string, std::string>> outputs{{"--json", options.json_file},
                                                             {"--csv", options.csv_file}};
    for (const std::string& file : options.plot_files) outputs.emplace_back("--plot", file);
    command_line::check_outputs(outputs, {options.text_file});
    check_writable("--json", options.json_file);
    check_writable("--csv", options.csv_file);
    if (!options.plot_files.empty() && !has_gnuplot()) {
        const std::string sentence = "gnuplot is not installed, and the plots are drawn by it";
        if (!options.default_run) throw UsageError("--plot: " + sentence);
        std::cerr << "profile: no plots, because " << sentence << '\n';
        options.plot_files.clear();
    }
    for (const std::string& file : options.plot_files) check_writable("--plot", file);
}

void write_to(const std::string& file, const std::function<void(std::ostream&)>& write) {
    if (file.empty()) return;
    std::ofstream stream;
    if (file != "-") stream.open(file);
    std::ostream& target = file == "-" ? std::cout : stream;
    write(target);
    target.flush();
    if (!target) throw std::runtime_error("'" + file + "' could not be written to its end");
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
    for (const PlacementResult& result : results) {
        if (result.measured) std::cout << normplace::compare(result.predicted, *result.measured) << '\n';
        else std::cout << result.predicted << '\n';
    }
    write_verdict(std::cout, options, results);
    for (const std::string& file : options.plot_files) std::cout << "\nPlot: " << file;
    std::cout << std::endl;
}

int run_program(int argc, char** argv) {
    std::optional<Options> options = parse(argc, argv);
    if (!options) return 0;
    check_files(*options);
    const std::vector<PlacementResult> results = run(*options);

    for (const PlacementResult& result : results)
        for (const std::string& warning : result.predicted.warnings)
            std::cerr << "profile: warning: " << result.predicted.placement << ": " << warning << '\n';
    write_to(options->json_file, [&](std::ostream& stream) { write_json(stream, *options, results); });
    write_to(options->csv_file, [&](std::ostream& stream) { write_csv(stream, results); });
    for (const std::string& file : options->plot_files) write_plot(file, *options, results);
    // Standard output that is data stays data alone.
    if (options->json_file != "-" && options->csv_file != "-") write_tables(*options, results);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    return command_line::run_program("profile", [&] { return run_program(argc, argv); });
}
