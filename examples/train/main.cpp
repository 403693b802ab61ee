// SPDX-License-Identifier: BSD-3-Clause
//
// train: one model, from flags. Exit status: 0; 2 for a fault of the command line; 1 when the run diverged or something
// else failed; 130 when Ctrl-C ended it, with the checkpoint and the log as they were at that step.
#include <atomic>
#include <cmath>
#include <csignal>
#include <fstream>
#include <iostream>
#include <normplace/detail/parallel.hpp>
#include <normplace/io/progress.hpp>
#include <normplace/nn/blas_description.hpp>
#include <normplace/text/bleu.hpp>
#include <normplace/text/number_names_corpus.hpp>

#include "../command_line.hpp"
#include "options.hpp"
#include "predicted_branches.hpp"

namespace {

using namespace training;

std::atomic<bool> interrupted = false;

void stop_at_next_step(int) {
    if (interrupted) std::_Exit(130);  // the second time, at once
    interrupted = true;
}

np::Tied tied_from(const std::string& name) {
    return name == "none" ? np::Tied::none : name == "readout" ? np::Tied::readout : np::Tied::everything;
}
const np::Activation& activation_from(const std::string& name) { return name == "gelu" ? np::gelu : np::relu; }

std::string fixed(double value, int digits) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

/// @return the exit status
int report_stop(std::uint64_t steps, const Options& options) {
    std::cerr << "train: stopped after step " << steps;
    if (!options.run.checkpoint.empty()) std::cerr << "; --resume goes on from " << options.run.checkpoint;
    std::cerr << '\n';
    return 130;
}

/// @return the exit status
int report_run(const RunResult& result, const Options& options) {
    if (!result.divergence.empty()) {
        std::cerr << "train: the run diverged: " << result.divergence;
        if (result.checkpoint > 0) std::cerr << "; the checkpoint is of step " << result.checkpoint;
        std::cerr << '\n';
        return 1;
    }
    if (result.stopped) return report_stop(result.steps, options);
    if (result.tokens_per_second > 0.0) std::cout << fixed(result.tokens_per_second, 0) << " target tokens/s\n";
    return 0;
}

RunResult train(Task& task, const Options& options) {
    std::size_t count = 0;
    for (const auto& parameter : task.parameters()) count += parameter.value.size();
    std::cout << options.placements() << ", " << count << " parameters; " << task.batches_per_epoch()
              << " batches an epoch; " << options.run.optimizer << ", " << options.run.schedule.description() << "\n\n"
              << "    step   training loss   validation loss   accuracy   learning rate\n"
              << std::flush;
    RunHooks hooks;
    std::optional<np::Progress> progress;
    hooks.start = [&](std::uint64_t steps) {
        if (steps > 0) std::cout << "    going on after step " << steps << std::endl;
        progress.emplace(np::ProgressOptions{
            .total = static_cast<double>(options.run.steps), .done = static_cast<double>(steps), .unit = "steps"});
    };
    hooks.step = [&](const np::StepResult& step, double tokens_per_second) {
        progress->update(static_cast<double>(step.step), [&] {
            return "loss " + fixed(step.loss, 3) + ", " + fixed(tokens_per_second, 0) + " tokens/s";
        });
    };
    hooks.point = [&](const Point& point) {
        progress->clear();
        char line[160];
        std::snprintf(line, sizeof line, "%8llu   %13.4f   %15.4f   %8.4f   %13.3g\n",
                      static_cast<unsigned long long>(point.step), point.training_loss, point.validation.loss,
                      point.validation.accuracy, point.learning_rate);
        std::cout << line << std::flush;
    };
    hooks.stop = [] { return interrupted.load(); };
    return run(task, options.run, hooks);
}

/// @return the exit status
int translate_test(TranslationTask& task, const Translation& translation, std::uint64_t steps, const Options& options) {
    std::vector<std::vector<int>> sources;
    for (const std::string& sentence : translation.test.source)
        sources.push_back(translation.vocabulary.encode(sentence));
    np::Progress progress({.total = static_cast<double>(sources.size()), .label = "translating", .unit = "sentences"});
    const auto translations = task.translate(sources, options.beam, options.length_penalty, [&](std::size_t n) {
        progress.update(static_cast<double>(n));
        return !interrupted;
    });
    progress.clear();
    if (!translations) return report_stop(steps, options);
    std::vector<std::string> hypotheses;
    for (const std::vector<int>& ids : *translations) hypotheses.push_back(translation.vocabulary.decode(ids));
    const np::BleuScore bleu = np::corpus_bleu(hypotheses, translation.test.target);
    std::cout << "test: BLEU " << fixed(bleu.score, 2) << ", exact match "
              << fixed(100.0 * np::exact_match(hypotheses, translation.test.target), 1) << " % of " << hypotheses.size()
              << " sentences\n";
    for (std::size_t i = 0; i < std::min<std::size_t>(3, hypotheses.size()); ++i)
        std::cout << "    " << translation.test.source[i] << "  ->  " << hypotheses[i] << '\n';
    if (options.output_file.empty()) return 0;
    std::ofstream file(options.output_file);
    for (const std::string& hypothesis : hypotheses) file << hypothesis << '\n';
    if (!file.flush()) throw std::runtime_error("'" + options.output_file + "' could not be written");
    return 0;
}

/// Tokens of a source and of a target, on average.
std::pair<std::size_t, std::size_t> average_lengths(const np::EncodedCorpus& corpus) {
    std::size_t source = 0, target = 0;
    for (const np::ExampleLength& length : np::example_lengths(corpus))
        source += length.source, target += length.target;
    return {source / corpus.size(), target / corpus.size()};
}

int translation(const Options& options) {
    const Translation prepared = prepare_translation(options.files, options.data);
    std::cout << prepared.description << '\n';
    const std::size_t vocabulary = prepared.vocabulary.size();
    const auto [source, target] = average_lengths(prepared.data->training);
    const np::TransformerOptions model = with_predicted_branches({.source_vocabulary = vocabulary,
                                                                  .target_vocabulary = vocabulary,
                                                                  .encoder_layers = options.layers,
                                                                  .decoder_layers = options.layers,
                                                                  .width = options.width,
                                                                  .heads = options.heads,
                                                                  .feed_forward = options.feed_forward,
                                                                  .positions = prepared.data->positions,
                                                                  .tied = tied_from(options.tied),
                                                                  .activation = activation_from(options.activation)},
                                                                 options.encoder_placement, options.decoder_placement,
                                                                 options.initial_weights(), source, target);
    TranslationTask task(make_translation_network(options.encoder_placement, options.decoder_placement, model,
                                                  options.initial_weights(), options.regularization.seed),
                         prepared.data, options.regularization);
    Options limited = options;
    limited.run.configuration = options.configuration(prepared.data->fingerprint);
    limited.run.loop.largest_loss = 2.0 * std::log(static_cast<double>(vocabulary));
    const RunResult result = train(task, limited);
    const int status = report_run(result, options);
    return status == 0 && prepared.test.size() > 0 ? translate_test(task, prepared, result.steps, options) : status;
}

int language_model(const Options& options) {
    const Language prepared = prepare_language(options.files, options.data);
    std::cout << prepared.description << '\n';
    const std::size_t vocabulary = prepared.vocabulary.size();
    const np::LanguageModelOptions model = with_predicted_branches({.vocabulary = vocabulary,
                                                                    .layers = options.layers,
                                                                    .width = options.width,
                                                                    .heads = options.heads,
                                                                    .feed_forward = options.feed_forward,
                                                                    .positions = options.data.sequence,
                                                                    .causal = options.task == "lm",
                                                                    .tied = options.tied != "none",
                                                                    .activation = activation_from(options.activation)},
                                                                   options.placement, options.initial_weights());
    LanguageTask task(
        make_language_network(options.placement, model, options.initial_weights(), options.regularization.seed),
        prepared.data, options.regularization);
    Options limited = options;
    limited.run.configuration = options.configuration(prepared.data->fingerprint);
    limited.run.loop.largest_loss = 2.0 * std::log(static_cast<double>(vocabulary));
    return report_run(train(task, limited), options);
}

int run_train(int argc, char** argv) {
    const std::optional<Options> options = parse(argc, argv);
    if (!options) return 0;
    std::signal(SIGINT, stop_at_next_step);
    std::signal(SIGTERM, stop_at_next_step);
#ifdef _OPENMP
    if (options->threads > 0) omp_set_num_threads(static_cast<int>(options->threads));
#endif
    const np::BlasDescription blas = np::blas_description();
    std::cout << blas.library << (blas.kernels.empty() ? "" : ", " + blas.kernels + " kernels") << '\n';
    if (!blas.advice.empty()) std::cout << blas.advice << '\n';
    return options->task == "translation" ? translation(*options) : language_model(*options);
}

}  // namespace

int main(int argc, char** argv) {
    return command_line::run_program("train", [&] { return run_train(argc, argv); });
}
