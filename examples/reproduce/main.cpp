// SPDX-License-Identifier: BSD-3-Clause
//
// reproduce: the training experiments of Xiong et al. 2020 (arXiv:2002.04745) on one machine, as one HTML page. Exit
// status: 0; 2 for a fault of the command line; 1 when something else failed; 130 when Ctrl-C ended it, and the same
// command goes on.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <iostream>
#include <normplace/io/progress.hpp>
#include <normplace/nn/blas_description.hpp>

#include "../command_line.hpp"
#include "figures.hpp"
#include "first_step.hpp"
#include "statistics.hpp"

namespace {

using namespace reproduce;
using namespace command_line;

std::atomic<bool> interrupted = false;
void stop_at_next_step(int) {
    if (interrupted) std::_Exit(130);  // the second time, at once
    interrupted = true;
}

struct Options {
    std::string size = "small", output;
    training::TextFiles files;
    std::vector<int> figures{2, 3, 4, 5};
    std::size_t seeds = 0, steps = 0, threads = 0;
};

std::optional<Options> parse_options(int argc, const char* const* argv) {
    Options options;
    CLI::App app{
        "The training experiments of Xiong et al. 2020 (arXiv:2002.04745), Figures 2 to 5, as one HTML page with "
        "plots\n"
        "and numbers, each figure beside what the paper says and whether it holds here.\n",
        "reproduce"};
    app.get_formatter()->column_width(34);
    app.get_formatter()->label("OPTIONS", "options");
    const auto file = [&](const char* name, std::string& value, const char* what) {
        return app.add_option(name, value, what)->check(file_name())->type_name("FILE");
    };
    const auto count = [&](const char* name, std::size_t& value, std::size_t largest, const char* what) {
        return app.add_option(name, value, what)->check(whole_number(largest))->type_name("N");
    };
    app.add_option("--size", options.size, "smoke takes a minute, small under 20; multi30k reads text, and takes hours")
        ->check(one_of({"smoke", "small", "multi30k"}))
        ->type_name("smoke|small|multi30k")
        ->default_str(options.size);
    file("--source", options.files.source, "Text to translate, a sentence per line; without: number names");
    file("--target", options.files.target, "Its translation");
    file("--validation-source", options.files.validation_source, "Without: the last 2 % of the text");
    file("--validation-target", options.files.validation_target, "");
    file("--test-source", options.files.test_source, "Without: no BLEU");
    file("--test-target", options.files.test_target, "");
    app.add_option("--figures", options.figures, "Which; 2,4 for two of them")
        ->delimiter(',')
        ->check(CLI::IsMember({2, 3, 4, 5}))
        ->type_name("N")
        ->default_str("2,3,4,5");
    count("--seeds", options.seeds, 1000, "Trainings of each kind; by default what the size says");
    count("--steps", options.steps, 100'000'000, "Of each training; by default what the size says");
    count("--threads", options.threads, 4096, "Trainings at once; by default as many as there are cores");
    file("--output", options.output, "A folder; by default reproduce-SIZE");
    if (!parse(app, argc, argv)) return std::nullopt;

    const auto together = [](const char* name, const std::string& source, const std::string& target) {
        if (source.empty() != target.empty())
            throw UsageError(std::string(name) + ": a text and its translation come together");
        for (const std::string& text : {source, target})
            if (!text.empty() && !std::ifstream(text)) throw UsageError("'" + text + "' cannot be read");
    };
    together("--source and --target", options.files.source, options.files.target);
    together("--validation-source and --validation-target", options.files.validation_source,
             options.files.validation_target);
    together("--test-source and --test-target", options.files.test_source, options.files.test_target);
    if (options.size == "multi30k" && options.files.source.empty())
        throw UsageError("--size multi30k needs --source and --target");
    if (options.files.source.empty() && !(options.files.validation_source + options.files.test_source).empty())
        throw UsageError("--validation-source and --test-source need --source and --target");
    std::sort(options.figures.begin(), options.figures.end());
    options.figures.erase(std::unique(options.figures.begin(), options.figures.end()), options.figures.end());
    if (options.output.empty()) options.output = "reproduce-" + options.size;
    return options;
}

std::string page_setting(const Setting& setting, const Experiments& experiments) {
    const np::BlasDescription blas = np::blas_description();
    return "Size " + setting.size + ". " + experiments.translation().description + ". Transformer of " +
           std::to_string(setting.layers) + " and " + std::to_string(setting.layers) + " layers, width " +
           std::to_string(setting.width) + ", " + std::to_string(setting.heads) + " heads, ffn " +
           std::to_string(setting.feed_forward) + ", Xavier initialization; " + std::to_string(setting.steps) +
           " steps, " + std::to_string(setting.seeds) + (setting.seeds == 1 ? " seed" : " seeds") + ", a batch of " +
           (setting.data.batches.tokens ? std::to_string(setting.data.batches.tokens) + " tokens"
                                        : std::to_string(setting.data.batches.examples) + " pairs") +
           ", dropout " + number_text(setting.dropout) + ", label smoothing " + number_text(setting.label_smoothing) +
           ", Adam's beta2 0.98. Bands and bars are one standard error over seeds; a claim holds where a 95 % interval "
           "says "
           "so. " +
           blas.library + (blas.kernels.empty() ? "" : ", " + blas.kernels + " kernels") + "; " +
           np::detail::duration_text(experiments.seconds()) + " of training, each run on one core." +
           (setting.size == "smoke" ? " This size shows that everything runs; it is too small to decide anything."
                                    : "");
}

int run_reproduce(int argc, char** argv) {
    const std::optional<Options> options = parse_options(argc, argv);
    if (!options) return 0;
    Setting setting = setting_of(options->size);
    setting.files = options->files;
#ifdef _OPENMP
    if (options->threads) omp_set_num_threads(static_cast<int>(options->threads));  // of which each run has one
#endif
    if (options->seeds) setting.seeds = options->seeds;
    if (options->steps) {  // the warm-ups keep their share
        const auto scaled = [&](std::uint64_t steps) {
            return std::max<std::uint64_t>(1, steps * options->steps / setting.steps);
        };
        setting.short_warm_up = scaled(setting.short_warm_up);
        setting.warm_up = scaled(setting.warm_up);
        const std::uint64_t points = setting.score_every / setting.every;
        setting.every = scaled(setting.every);
        setting.score_every = points * setting.every;
        setting.steps = setting.masked_steps = options->steps;
    }
    const std::string advice = np::blas_description().advice;
    if (!advice.empty()) std::cout << advice << '\n';
    const bool masked = std::count(options->figures.begin(), options->figures.end(), 5) > 0;
    Experiments experiments(setting, options->output, masked);
    std::cout << experiments.translation().description << std::endl;
    want_runs(setting, options->figures, experiments);
    std::signal(SIGINT, stop_at_next_step);
    std::signal(SIGTERM, stop_at_next_step);
    if (!experiments.run([] { return interrupted.load(); })) {
        std::cerr << "reproduce: stopped; the same command goes on from " << options->output << '\n';
        return 130;
    }
    Page page;
    page.title = "Where the layer norm goes: the experiments of Xiong et al. 2020";
    page.figures = make_figures(setting, options->figures, experiments);
    if (std::count(options->figures.begin(), options->figures.end(), 2) > 0)  // the warm-up question's
        page.figures.push_back(first_step_figure(setting));
    page.setting = page_setting(setting, experiments);
    write_page(options->output, page);
    for (const Figure& figure : page.figures) {
        std::cout << '\n' << figure.title << '\n';
        for (const Claim& claim : figure.claims)
            std::cout << "  " << claim.paper << "\n      "
                      << (claim.verdict == Verdict::holds           ? "holds: "
                          : claim.verdict == Verdict::does_not_hold ? "does not hold: "
                                                                    : "undecided: ")
                      << claim.here << '\n';
    }
    std::cout << "\nPage: " << options->output << "/page.html" << std::endl;
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    return command_line::run_program("reproduce", [&] { return run_reproduce(argc, argv); });
}
