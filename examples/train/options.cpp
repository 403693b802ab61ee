// SPDX-License-Identifier: BSD-3-Clause
#include "options.hpp"

#include <nlohmann/json.hpp>

#include "../command_line.hpp"

namespace training {

using namespace command_line;

np::Initialization Options::initial_weights() const {
    if (initialization == "gpt2") return np::Initialization::gpt2();
    if (initialization == "pytorch") return np::Initialization::pytorch();
    return np::Initialization::xavier();
}

std::string Options::configuration(std::uint64_t fingerprint) const {
    nlohmann::json everything{{"task", task},
                              {"placement", placements()},
                              {"initialization", initialization},
                              {"activation", activation},
                              {"source", files.source},
                              {"target", files.target},
                              {"text", files.text},
                              {"vocabulary", data.vocabulary},
                              {"batch", data.batches.examples},
                              {"batch_tokens", data.batches.tokens},
                              {"longest", data.longest},
                              {"sequence", data.sequence},
                              {"pairs", data.training_pairs},
                              {"layers", layers},
                              {"width", width},
                              {"heads", heads},
                              {"ffn", feed_forward},
                              {"tied", tied},
                              {"optimizer", run.optimizer},
                              {"schedule", run.schedule.description()},
                              {"beta2", run.beta2},
                              {"momentum", run.momentum},
                              {"weight_decay", run.weight_decay},
                              {"clip", run.loop.clip_norm},
                              {"accumulate", run.loop.accumulate},
                              {"dropout", regularization.dropout},
                              {"label_smoothing", regularization.label_smoothing},
                              {"seed", regularization.seed},
                              {"data", fingerprint}};
    // A run of before these could be given goes on.
    if (regularization.attention_dropout > 0.0) everything["attention_dropout"] = regularization.attention_dropout;
    if (regularization.activation_dropout > 0.0) everything["activation_dropout"] = regularization.activation_dropout;
    return everything.dump();
}

std::string Options::placements() const {
    return encoder_placement == decoder_placement ? encoder_placement
                                                  : encoder_placement + " encoder, " + decoder_placement + " decoder";
}

namespace {

np::Schedule schedule_from(const Options& options) {
    const double peak = options.learning_rate;
    const std::uint64_t steps = options.run.steps, rest = steps > options.warm_up ? steps - options.warm_up : 1;
    if (options.schedule == "inverse-square-root")
        return np::Schedule::inverse_square_root(peak, std::max<std::uint64_t>(1, options.warm_up));
    if (options.schedule == "linear") return np::Schedule::linear_decay(peak, 0.0, rest).with_warm_up(options.warm_up);
    if (options.schedule == "cosine") return np::Schedule::cosine_decay(peak, 0.0, rest).with_warm_up(options.warm_up);
    if (options.schedule == "step")
        return np::Schedule::step_decay(peak, 0.1, (rest + 2) / 3).with_warm_up(options.warm_up);
    return np::Schedule::constant(peak).with_warm_up(options.warm_up);
}

void check_files(const Options& options, const CLI::App& app) {
    const TextFiles& files = options.files;
    const bool translation = options.task == "translation";
    const auto both = [](const char* a, const std::string& first, const char* b, const std::string& second) {
        if (first.empty() != second.empty())
            throw UsageError(std::string(first.empty() ? a : b) +
                             " is missing: a text and its translation come "
                             "together");
    };
    both("--source", files.source, "--target", files.target);
    both("--validation-source", files.validation_source, "--validation-target", files.validation_target);
    both("--test-source", files.test_source, "--test-target", files.test_target);
    const auto needs = [](const char* option, bool given, const char* other, bool other_given) {
        if (given && !other_given) throw UsageError(std::string(option) + " needs " + other);
    };
    needs("--validation-source", !files.validation_source.empty(), "--source and --target", !files.source.empty());
    needs("--test-source", !files.test_source.empty(), "--source and --target", !files.source.empty());
    needs("--validation-text", !files.validation_text.empty(), "--text", !files.text.empty());
    needs("--resume", options.run.resume, "--checkpoint", !options.run.checkpoint.empty());
    for (const char* option : {"--source", "--output", "--batch-tokens", "--longest", "--beam", "--length-penalty",
                               "--encoder-placement", "--decoder-placement"})
        if (!translation && app.get_option(option)->count() > 0)
            throw UsageError(std::string(option) + ": only for --task translation");
    for (const char* option : {"--text", "--sequence"})
        if (translation && app.get_option(option)->count() > 0)
            throw UsageError(std::string(option) + ": only for --task lm and mlm");
    if (!options.output_file.empty() && !files.source.empty() && files.test_source.empty())
        throw UsageError("--output: there is no test set to translate; give --test-source and --test-target");
    for (const std::string* file : {&files.source, &files.target, &files.validation_source, &files.validation_target,
                                    &files.test_source, &files.test_target, &files.text, &files.validation_text})
        if (!file->empty() && !std::ifstream(*file)) throw UsageError("'" + *file + "' cannot be read");
    if (!options.run.resume && !options.run.checkpoint.empty() && std::filesystem::exists(options.run.checkpoint))
        throw UsageError("--checkpoint: '" + options.run.checkpoint +
                         "' exists; --resume goes on from it, or delete it first");
    const std::string vocabulary = !options.data.vocabulary_file.empty() ? options.data.vocabulary_file
                                   : !options.run.checkpoint.empty()     ? options.run.checkpoint + ".vocabulary"
                                                                         : "";
    const std::vector<std::pair<std::string, std::string>> outputs{{"--checkpoint", options.run.checkpoint},
                                                                   {"--log", options.run.log},
                                                                   {"--output", options.output_file},
                                                                   {"--vocabulary-file", vocabulary}};
    check_outputs(outputs, {files.source, files.target, files.validation_source, files.validation_target,
                            files.test_source, files.test_target, files.text, files.validation_text});
    for (const auto& [option, file] : outputs)
        if (option != "--vocabulary-file" || !std::filesystem::exists(file)) check_writable(option, file);
}

}  // namespace

std::optional<Options> parse(int argc, const char* const* argv) {
    Options options;
    CLI::App app{
        "Trains a Transformer under a placement: an encoder-decoder that translates, or a causal or masked language\n"
        "model. Without any option: German number names to English, 6-6 layers, Pre-LN, about a minute.\n",
        "train"};
    app.get_formatter()->column_width(34);
    app.get_formatter()->label("OPTIONS", "options");
    const auto size = [&](const char* name, auto& value, std::size_t largest, const char* what, std::size_t least = 1) {
        return app.add_option(name, value, what)
            ->check(whole_number(largest, least))
            ->type_name("N")
            ->default_str(std::to_string(value));
    };
    const auto real = [&](const char* name, double& value, double least, double largest, const char* what) {
        char text[32];
        std::snprintf(text, sizeof text, "%g", value);
        return app.add_option(name, value, what)
            ->check(number_between(least, largest))
            ->type_name("X")
            ->default_str(text);
    };
    const auto choice = [&](const char* name, std::string& value, const std::vector<std::string>& words,
                            const char* what) {
        return app.add_option(name, value, what)
            ->check(one_of(words))
            ->type_name(CLI::detail::join(words, "|"))
            ->default_str(value);
    };
    const auto file = [&](const char* name, std::string& value, const char* what) {
        return app.add_option(name, value, what)->check(file_name())->type_name("FILE");
    };
    RunOptions& run = options.run;
    run.steps = 300;
    options.data.batches.examples = 32;

    choice("--task", options.task, {"translation", "lm", "mlm"}, "lm predicts the next token, mlm hidden ones");
    app.add_option("--placement", options.placement, "One of " + np::placement_names())
        ->check(placement_name())
        ->type_name("NAME")
        ->default_str(options.placement);
    const auto of_stack = [&](const char* name, std::string& value, const char* what) {
        app.add_option(name, value, what)->check(placement_name())->type_name("NAME");
    };
    of_stack("--encoder-placement", options.encoder_placement, "Of a translation's encoder alone");
    of_stack("--decoder-placement", options.decoder_placement, "Of its decoder alone");

    file("--source", options.files.source, "Text to translate, a sentence per line");
    file("--target", options.files.target, "Its translation, line by line");
    file("--validation-source", options.files.validation_source, "Without: the last 2 % of the training text");
    file("--validation-target", options.files.validation_target, "Its translation");
    file("--test-source", options.files.test_source, "Translated at the end, and scored");
    file("--test-target", options.files.test_target, "Its translation");
    file("--output", options.output_file, "The test set's translations");
    size("--beam", options.beam, 64, "Hypotheses per sentence; 1 is greedy");
    real("--length-penalty", options.length_penalty, 0.0, 10.0, "alpha of ((5 + n) / 6)^alpha");
    size("--pairs", options.data.training_pairs, 500'000, "Of number names, where no file is given");
    file("--text", options.files.text, "A language model's text, a sentence per line");
    file("--validation-text", options.files.validation_text, "Without: the last 2 % of the text");
    size("--vocabulary", options.data.vocabulary, 1'000'000, "Subword pieces; 0: 8000, and 200 for number names", 0);
    file("--vocabulary-file", options.data.vocabulary_file, "Read if it exists, else written");

    size("--layers", options.layers, 10'000, "Of the encoder, and as many of the decoder");
    size("--width", options.width, 65'536, "D, the width of the residual stream");
    size("--heads", options.heads, 65'536, "H, which divides D");
    size("--ffn", options.feed_forward, 1'048'576, "F, the width between W_1 and W_2");
    choice("--tied", options.tied, {"none", "readout", "everything"},
           "Which vocabulary matrices are one; by default everything, readout for lm and mlm");
    choice("--activation", options.activation, {"relu", "gelu"}, "Of the feed-forward sublayer");
    choice("--init", options.initialization, {"xavier", "gpt2", "pytorch"}, "The weights at the start");

    choice("--optimizer", run.optimizer, {"adam", "adamw", "radam", "sgd"}, "As PyTorch has them");
    real("--learning-rate", options.learning_rate, 0.0, 1e6, "The peak");
    size("--warm-up", options.warm_up, 999'999'999,
         "Steps in which the rate rises to the peak; inverse-square-root falls from there as 1/sqrt(step)", 0);
    choice("--schedule", options.schedule, {"inverse-square-root", "constant", "linear", "cosine", "step"},
           "After the warm-up; linear and cosine fall to 0 with the last step, step to a tenth twice");
    real("--beta2", run.beta2, 0.0, 0.9999999, "Of adam, adamw and radam");
    real("--momentum", run.momentum, 0.0, 0.9999999, "Of sgd");
    real("--weight-decay", run.weight_decay, 0.0, 1e6, "L2 in the gradient; adamw: of the weights themselves");
    real("--clip", run.loop.clip_norm, 0.0, 1e9, "Largest gradient norm; 0: any");
    real("--dropout", options.regularization.dropout, 0.0, 0.99, "Of embeddings and sublayers' outputs");
    real("--attention-dropout", options.regularization.attention_dropout, 0.0, 0.99, "Of attention's weights");
    real("--activation-dropout", options.regularization.activation_dropout, 0.0, 0.99,
         "After the feed-forward's activation; PyTorch's layers have all three dropouts alike");
    real("--label-smoothing", options.regularization.label_smoothing, 0.0, 1.0,
         "Share of the target's probability that is spread over the vocabulary");
    size("--steps", run.steps, 999'999'999, "Updates of the weights");
    size("--batch", options.data.batches.examples, 1'000'000, "Sentence pairs, or windows of a language model");
    size("--batch-tokens", options.data.batches.tokens, 10'000'000,
         "Tokens of a batch on each side, padding included, instead of --batch", 0);
    size("--accumulate", run.loop.accumulate, 1'000'000, "Batches in a step");
    size("--longest", options.data.longest, 1000, "Longer pairs, in tokens, are left out of training and validation");
    size("--sequence", options.data.sequence, 1'000'000, "Tokens in a window of a language model");
    size("--every", run.every, 999'999'999, "Steps from one validation, log row and checkpoint to the next");
    size("--seed", options.regularization.seed, 999'999'999, "Of weights, batches, dropout and number names");
    size("--threads", options.threads, 4096, "0: all cores", 0);
    file("--checkpoint", run.checkpoint, "Written at each validation, and on Ctrl-C");
    app.add_flag("--resume", run.resume, "Go on from the checkpoint, if there is one")->disable_flag_override();
    file("--log", run.log, "CSV, a row at each validation");

    if (!command_line::parse(app, argc, argv)) return std::nullopt;

    check_files(options, app);
    if (options.data.batches.tokens > 0 && app.get_option("--batch")->count() == 0) options.data.batches.examples = 0;
    options.data.batch = options.data.batches.examples;
    options.data.masked = options.task == "mlm";
    options.data.seed = options.regularization.seed;
    if (options.encoder_placement.empty()) options.encoder_placement = options.placement;
    if (options.decoder_placement.empty()) options.decoder_placement = options.placement;
    if (options.tied.empty()) options.tied = options.task == "translation" ? "everything" : "readout";
    if (options.task != "translation" && options.tied == "everything") options.tied = "readout";
    run.schedule = schedule_from(options);
    const auto unit_matrices = [](const std::string& name) { return np::placement_named(name).unit_matrices; };
    run.loop.unit_matrices =
        unit_matrices(options.task == "translation" ? options.encoder_placement : options.placement);
    if (options.task == "translation" && unit_matrices(options.decoder_placement) != run.loop.unit_matrices)
        throw UsageError("--encoder-placement, --decoder-placement: " + options.encoder_placement + " and " +
                         options.decoder_placement +
                         " do not go together, since one of them wants its matrices at unit length after each step");
    if (options.width % options.heads != 0)
        throw UsageError("--width: " + std::to_string(options.width) + " is not divisible by " +
                         std::to_string(options.heads) + " heads");
    if (!run.checkpoint.empty() && options.data.vocabulary_file.empty())
        options.data.vocabulary_file = run.checkpoint + ".vocabulary";
    return options;
}

}  // namespace training
