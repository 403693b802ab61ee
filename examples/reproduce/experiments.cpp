// SPDX-License-Identifier: BSD-3-Clause
#include "experiments.hpp"

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <normplace/detail/blas.hpp>
#include <normplace/detail/parallel.hpp>
#include <normplace/io/atomic_file.hpp>
#include <normplace/io/checkpoint.hpp>
#include <normplace/io/progress.hpp>
#include <normplace/text/bleu.hpp>
#include <normplace/text/number_names_corpus.hpp>

namespace reproduce {
namespace {

std::string plain(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    return text;
}

// ---- results as files ----------------------------------------------------------------------------------------------

nlohmann::json to_json(const LayerGradients& gradients) {
    return {{"encoder_w1", gradients.encoder_w1},
            {"encoder_w2", gradients.encoder_w2},
            {"decoder_w1", gradients.decoder_w1},
            {"decoder_w2", gradients.decoder_w2}};
}
LayerGradients gradients_from(const nlohmann::json& json) {
    return {json.at("encoder_w1"), json.at("encoder_w2"), json.at("decoder_w1"), json.at("decoder_w2")};
}

/// JSON has no NaN; null stands for it.
double number_from(const nlohmann::json& json) {
    return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

nlohmann::json to_json(const Outcome& outcome, const std::string& configuration) {
    nlohmann::json json{{"configuration", nlohmann::json::parse(configuration)},
                        {"divergence", outcome.divergence},
                        {"seconds", outcome.seconds},
                        {"at_start", to_json(outcome.at_start)},
                        {"after_warm_up", to_json(outcome.after_warm_up)},
                        {"points", nlohmann::json::array()},
                        {"scores", nlohmann::json::array()}};
    for (const training::Point& point : outcome.points)
        json["points"].push_back({point.step, point.training_loss, point.validation.loss, point.validation.accuracy,
                                  point.learning_rate, point.gradient_norm, point.seconds});
    for (const Score& score : outcome.scores) json["scores"].push_back({score.step, score.bleu, score.exact_match});
    return json;
}

Outcome outcome_from(const nlohmann::json& json) {
    Outcome outcome;
    outcome.divergence = json.at("divergence");
    outcome.seconds = json.at("seconds");
    outcome.at_start = gradients_from(json.at("at_start"));
    outcome.after_warm_up = gradients_from(json.at("after_warm_up"));
    for (const auto& row : json.at("points")) {
        training::Point& point = outcome.points.emplace_back();
        point.step = row.at(0);
        point.training_loss = number_from(row.at(1));
        point.validation = {number_from(row.at(2)), number_from(row.at(3))};
        point.learning_rate = number_from(row.at(4));
        point.gradient_norm = number_from(row.at(5));
        point.seconds = number_from(row.at(6));
    }
    for (const auto& row : json.at("scores")) outcome.scores.push_back({row.at(0), row.at(1), row.at(2)});
    return outcome;
}

}  // namespace

std::string Variant::name() const {
    return std::string(masked ? "masked " : "") + placement + " " + optimizer + " " + plain(learning_rate) +
           (warm_up ? " warm-up " + std::to_string(warm_up) : " no warm-up");
}

LayerGradients layer_gradients(const np::ParameterList<float>& parameters, double scale) {
    LayerGradients gradients;
    for (const auto& parameter : parameters) {
        const bool decoder = parameter.name.starts_with("decoder."), first = parameter.name.ends_with("linear1.weight");
        if (!first && !parameter.name.ends_with("linear2.weight")) continue;
        double squares = 0.0;
        for (const float entry : parameter.gradient) squares += static_cast<double>(entry) * static_cast<double>(entry);
        auto& norms = decoder ? (first ? gradients.decoder_w1 : gradients.decoder_w2)
                              : (first ? gradients.encoder_w1 : gradients.encoder_w2);
        norms.push_back(scale * std::sqrt(squares));
    }
    return gradients;
}

Experiments::Experiments(const Setting& setting, std::string folder, bool masked)
    : setting_(setting),
      folder_(std::move(folder)),
      translation_(training::prepare_translation(setting.files, setting.data)) {
    if (masked) {
        training::TextFiles files;
        files.text = setting.files.target;
        files.validation_text = setting.files.validation_target;
        language_ = training::prepare_language(files, setting.data);
    }
    std::filesystem::create_directories(std::filesystem::path(folder_) / "runs");
}

double Experiments::seconds() const {
    double seconds = 0.0;
    for (const auto& [name, outcomes] : outcomes_)
        for (const Outcome& outcome : outcomes) seconds += outcome.seconds;
    return seconds;
}

void Experiments::want(const Variant& variant) {
    if (outcomes_.emplace(variant.name(), std::vector<Outcome>(setting_.seeds)).second) wanted_.push_back(variant);
}

std::optional<Score> Experiments::score(training::TranslationTask& task, std::uint64_t step,
                                        const std::function<bool(std::size_t)>& go_on) const {
    std::vector<std::vector<int>> sources;
    for (const std::string& sentence : translation_.test.source)
        sources.push_back(translation_.vocabulary.encode(sentence));
    const auto translations = task.translate(sources, translation_.numbers ? 1 : 4, 0.6, go_on);
    if (!translations) return std::nullopt;
    std::vector<std::string> hypotheses;
    for (const std::vector<int>& ids : *translations) hypotheses.push_back(translation_.vocabulary.decode(ids));
    return Score{step, np::corpus_bleu(hypotheses, translation_.test.target).score,
                 100.0 * np::exact_match(hypotheses, translation_.test.target)};
}

Outcome Experiments::run_one(const Variant& variant, std::uint64_t seed, const std::function<bool()>& stop,
                             const std::function<void(std::uint64_t)>& after_steps) {
    const std::uint64_t steps = variant.masked ? setting_.masked_steps : setting_.steps;
    const std::size_t vocabulary = (variant.masked ? language_->vocabulary : translation_.vocabulary).size();
    const nlohmann::json configuration{
        {"size", setting_.size},
        {"data", variant.masked ? language_->data->fingerprint : translation_.data->fingerprint},
        {"batch", setting_.data.batches.examples},
        {"batch_tokens", setting_.data.batches.tokens},
        {"sequence", setting_.data.sequence},
        {"vocabulary", vocabulary},
        {"layers", setting_.layers},
        {"width", setting_.width},
        {"heads", setting_.heads},
        {"ffn", setting_.feed_forward},
        {"run", variant.name()},
        {"seed", seed},
        {"steps", steps},
        {"every", setting_.every},
        {"score_every", setting_.score_every},
        {"dropout", setting_.dropout},
        {"label_smoothing", setting_.label_smoothing}};
    const std::string file = folder_ + "/runs/" + variant.name() + " seed " + std::to_string(seed);
    const std::string result_file = file + ".json";
    if (std::ifstream stored(result_file); stored) {
        const auto json = nlohmann::json::parse(stored);
        if (json.at("configuration") != configuration)
            throw std::runtime_error("'" + result_file +
                                     "' is the result of another setting; give another --output, or delete it");
        after_steps(steps);
        return outcome_from(json);
    }

    const training::Regularization regularization{setting_.dropout, setting_.label_smoothing, seed};
    const auto sized = [&](auto options) {
        options.width = setting_.width;
        options.heads = setting_.heads;
        options.feed_forward = setting_.feed_forward;
        return options;
    };
    std::unique_ptr<training::Task> task;
    training::TranslationTask* translation = nullptr;
    if (variant.masked) {
        task = std::make_unique<training::LanguageTask>(
            training::make_language_network(variant.placement,
                                            sized(np::LanguageModelOptions{.vocabulary = vocabulary,
                                                                           .layers = setting_.layers,
                                                                           .positions = setting_.data.sequence,
                                                                           .causal = false,
                                                                           .tied = true}),
                                            np::Initialization::xavier(), seed),
            language_->data, regularization);
    } else {
        auto owned = std::make_unique<training::TranslationTask>(
            training::make_translation_network(variant.placement, variant.placement,
                                               sized(np::TransformerOptions{.source_vocabulary = vocabulary,
                                                                            .target_vocabulary = vocabulary,
                                                                            .encoder_layers = setting_.layers,
                                                                            .decoder_layers = setting_.layers,
                                                                            .positions = translation_.data->positions,
                                                                            .tied = np::Tied::everything}),
                                               np::Initialization::xavier(), seed),
            translation_.data, regularization);
        translation = owned.get();
        task = std::move(owned);
    }

    training::RunOptions options;
    options.optimizer = variant.optimizer;
    options.schedule = np::Schedule::constant(variant.learning_rate).with_warm_up(variant.warm_up);
    options.loop.largest_loss = 2.0 * std::log(static_cast<double>(vocabulary));
    options.steps = steps;
    options.every = setting_.every;
    options.checkpoint = file + ".safetensors";
    options.log = file + ".csv";
    options.resume = true;
    options.configuration = configuration.dump();

    Outcome outcome;
    if (std::filesystem::exists(options.checkpoint)) {
        const auto notes = np::read_checkpoint_state(options.checkpoint).notes;
        const auto found = notes.find("outcome");
        if (found == notes.end())
            throw std::runtime_error("checkpoint '" + options.checkpoint + "': it is none of this program's");
        outcome = outcome_from(nlohmann::json::parse(found->second));
    }
    const double seconds_before = outcome.seconds;
    const auto start = std::chrono::steady_clock::now();
    const auto take_time = [&] {
        outcome.seconds =
            seconds_before + std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    training::RunHooks hooks;
    hooks.start = after_steps;
    hooks.step = [&](const np::StepResult& step, double) {
        if (!variant.masked && step.step == 1) outcome.at_start = layer_gradients(task->parameters(), 1.0);
        if (!variant.masked && variant.warm_up && step.step == variant.warm_up + 1)
            outcome.after_warm_up = layer_gradients(task->parameters(), 1.0);
        after_steps(1);
    };
    const bool scored = translation && translation_.test.size() > 0;
    hooks.point = [&](const training::Point& point) {
        outcome.points.push_back(point);
        if (scored && point.step % setting_.score_every == 0 && point.step < steps &&
            std::isfinite(point.validation.loss))
            outcome.scores.push_back(*score(*translation, point.step));
    };
    hooks.notes = [&] {
        take_time();
        return std::map<std::string, std::string>{{"outcome", to_json(outcome, options.configuration).dump()}};
    };
    hooks.stop = stop;
    const training::RunResult result = training::run(*task, options, hooks);
    outcome.divergence = result.divergence;
    if (result.stopped) return outcome;
    after_steps(steps - result.steps);  // those that a run that diverged will not make
    if (scored && result.divergence.empty()) {
        const auto last = score(*translation, steps, [&](std::size_t) { return !stop(); });
        if (!last) return outcome;
        outcome.scores.push_back(*last);
    }
    take_time();
    np::AtomicFile written(result_file);
    written.write(to_json(outcome, options.configuration).dump(1));
    written.commit();
    std::filesystem::remove(options.checkpoint);
    return outcome;
}

LayerGradients Experiments::gradients(const std::string& placement, std::size_t layers, std::uint64_t seed) const {
    const std::size_t vocabulary = translation_.vocabulary.size();
    const auto network = training::make_translation_network(placement, placement,
                                                            {.source_vocabulary = vocabulary,
                                                             .target_vocabulary = vocabulary,
                                                             .encoder_layers = layers,
                                                             .decoder_layers = layers,
                                                             .width = setting_.width,
                                                             .heads = setting_.heads,
                                                             .feed_forward = setting_.feed_forward,
                                                             .positions = translation_.data->positions,
                                                             .tied = np::Tied::everything},
                                                            np::Initialization::xavier(), seed);
    const np::EncodedCorpus& corpus = translation_.data->training;
    const np::Batch batch = np::make_batches(np::example_lengths(corpus), setting_.data.batches, seed, 0).front();
    const np::LossSum loss = network->differentiate(np::translation_batch(corpus, batch), {}, 0.0);
    return layer_gradients(network->parameters(), 1.0 / static_cast<double>(loss.tokens));
}

bool Experiments::run(const std::function<bool()>& stop) {
    struct Job {
        const Variant* variant;
        std::size_t seed;
    };
    std::vector<Job> jobs;
    for (const Variant& variant : wanted_)
        for (std::size_t seed = 0; seed < setting_.seeds; ++seed) jobs.push_back({&variant, seed});
    const std::size_t threads = std::min(np::detail::thread_count(), jobs.size());
    double total = 0.0;
    for (const Job& job : jobs)
        total += static_cast<double>(job.variant->masked ? setting_.masked_steps : setting_.steps);
    np::Progress progress({.total = total, .label = std::to_string(jobs.size()) + " runs", .unit = "steps"});
    std::mutex mutex;
    std::size_t done = 0;
    std::atomic<bool> stopped = false;
    const np::detail::SingleThreadedBlas single_threaded_blas;  // the runs are parallel instead
    np::detail::parallel_for(jobs.size(), threads, [&](std::size_t i, std::size_t) {
        if (stopped) return;
        const auto ask = [&] {
            if (stop()) stopped = true;
            return stopped.load();
        };
        try {
            outcomes_.at(jobs[i].variant->name())[jobs[i].seed] =
                run_one(*jobs[i].variant, jobs[i].seed + 1, ask, [&](std::uint64_t steps) {
                    const std::lock_guard lock(mutex);
                    progress.advance(static_cast<double>(steps));
                });
        } catch (...) {
            stopped = true;  // the other runs need not go on for hours before it is said what is wrong
            throw;
        }
        const std::lock_guard lock(mutex);
        ++done;
        progress.label(std::to_string(done) + "/" + std::to_string(jobs.size()) + " runs");
    });
    return !stopped;
}

}  // namespace reproduce
