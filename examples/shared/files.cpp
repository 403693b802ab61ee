// SPDX-License-Identifier: BSD-3-Clause
#include "files.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <normplace/analysis/token_batch.hpp>
#include <stdexcept>

#include "../command_line.hpp"
#include "../gnuplot.hpp"

namespace shared {

namespace np = normplace;
using command_line::check_writable;

void check_files(const char* program, Options& options) {
    std::vector<std::pair<std::string, std::string>> outputs{{"--json", options.json_file},
                                                             {"--csv", options.csv_file}};
    for (const std::string& file : options.plot_files) outputs.emplace_back("--plot", file);
    command_line::check_outputs(outputs, {options.text_file});
    check_writable("--json", options.json_file);
    check_writable("--csv", options.csv_file);
    if (!options.plot_files.empty() && !gnuplot::has_gnuplot()) {
        const std::string sentence = "gnuplot is not installed, and the plots are drawn by it";
        if (!options.default_run) throw UsageError("--plot: " + sentence);
        std::cerr << program << ": no plots, because " << sentence << '\n';
        options.plot_files.clear();
    }
    for (const std::string& file : options.plot_files) check_writable("--plot", file);
}

void check_memory(const char* option, const np::ReferenceModel& model, std::size_t runs, double copies) {
    const auto real = [](std::size_t value) { return static_cast<double>(value); };
    const double layers = real(model.layers), width = real(model.width), tokens = real(model.batch * model.sequence),
                 weights = layers * (4.0 * width * width + 2.0 * width * real(model.feed_forward)) +
                           real(model.vocabulary) * width,
                 activations = tokens * (layers * (12.0 * width + 2.0 * real(model.feed_forward)) +
                                         3.0 * real(model.vocabulary)) +
                               layers * tokens * real(model.sequence * model.heads),
                 threads = std::min(real(static_cast<std::size_t>(sysconf(_SC_NPROCESSORS_ONLN))), real(runs)),
                 needed = 4.0 * threads * (copies * weights + activations),
                 available = real(static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES))) *
                             real(static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
    if (needed <= available) return;
    char sentence[200];
    std::snprintf(sentence, sizeof sentence,
                  "%s: a model of this size needs about %.0f GB of memory on %.0f cores, and this machine has %.0f GB",
                  option, needed / 1e9, threads, available / 1e9);
    throw UsageError(sentence);
}

std::string read_text(const Options& options, std::size_t batches, std::size_t most) {
    if (options.text_file.empty()) return {};
    const np::ReferenceModel& model = options.model;
    const std::size_t needed = np::text_length_needed(model.batch, model.sequence, batches),
                      wanted = std::max(needed, most);
    std::ifstream file(options.text_file, std::ios::binary);
    std::string text(wanted, '\0');
    if (!file || !file.read(text.data(), 1)) {
        const bool empty = file.is_open() && file.eof();
        throw UsageError("--text: '" + options.text_file + "' " + (empty ? "is empty" : "cannot be read"));
    }
    file.read(text.data() + 1, static_cast<std::streamsize>(wanted - 1));
    text.resize(static_cast<std::size_t>(file.gcount()) + 1);
    if (text.size() < needed)
        throw UsageError("--text: '" + options.text_file + "' has " + std::to_string(text.size()) + " bytes; " +
                         std::to_string(batches) + " batches of " + std::to_string(model.batch) + " sequences of " +
                         std::to_string(model.sequence) + " bytes need " + std::to_string(needed));
    return text;
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

}  // namespace shared
