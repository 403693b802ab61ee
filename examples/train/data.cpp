// SPDX-License-Identifier: BSD-3-Clause
#include "data.hpp"

#include <algorithm>
#include <filesystem>
#include <normplace/text/number_names_corpus.hpp>

namespace training {
namespace {

constexpr std::size_t numbers_vocabulary = 200, text_vocabulary = 8000;

Vocabulary make_vocabulary(const std::vector<std::string>& sentences, bool numbers, const DataOptions& options) {
    const std::string& file = options.vocabulary_file;
    if (!file.empty() && std::filesystem::exists(file)) {
        Vocabulary vocabulary = Vocabulary::load(file);
        if (options.vocabulary && options.vocabulary < vocabulary.size())  // fewer are all that a corpus gave
            throw std::runtime_error("the vocabulary of '" + file + "' has " + std::to_string(vocabulary.size()) +
                                     " pieces, not " + std::to_string(options.vocabulary));
        return vocabulary;
    }
    const std::size_t size = options.vocabulary ? options.vocabulary : numbers ? numbers_vocabulary : text_vocabulary;
    Vocabulary vocabulary = Vocabulary::train(sentences, {.size = size});
    if (!file.empty()) vocabulary.save(file);
    return vocabulary;
}

/// The last 2 %, at most 1000, and at least one.
template <class Text>
Text split_off(Text& text) {
    const std::size_t count = std::clamp<std::size_t>(text.size() / 50, 1, 1000);
    if (text.size() < 2) throw std::runtime_error("one line of text cannot be split into training and validation");
    const auto first = text.end() - static_cast<std::ptrdiff_t>(count);
    Text last(first, text.end());
    text.erase(first, text.end());
    return last;
}

np::EncodedCorpus encode(const np::ParallelCorpus& corpus, const Vocabulary& vocabulary) {
    np::EncodedCorpus encoded;
    for (const std::string& sentence : corpus.source) encoded.source.push_back(vocabulary.encode(sentence));
    for (const std::string& sentence : corpus.target) encoded.target.push_back(vocabulary.encode(sentence));
    return encoded;
}

std::vector<std::string> both_sides(const np::ParallelCorpus& corpus) {
    std::vector<std::string> sentences = corpus.source;
    sentences.insert(sentences.end(), corpus.target.begin(), corpus.target.end());
    return sentences;
}

std::string count_text(std::size_t count, const char* what) { return std::to_string(count) + " " + what; }

np::NumberNamesCorpus numbers(const DataOptions& options) {
    return np::number_names_corpus({.seed = options.seed, .training = options.training_pairs});
}

std::string vocabulary_text(const Vocabulary& vocabulary) {
    return "vocabulary of " + count_text(vocabulary.size(), "pieces") +
           (vocabulary.notice().empty() ? "" : " (" + vocabulary.notice() + ")");
}

/// FNV-1a of the ids.
class Fingerprint {
public:
    void add(const std::vector<int>& ids) {
        for (const int id : ids) value_ = (value_ ^ static_cast<std::uint64_t>(id)) * 0x100000001b3u;
        value_ = (value_ ^ ids.size()) * 0x100000001b3u;
    }
    void add(const std::vector<std::vector<int>>& sentences) {
        for (const std::vector<int>& ids : sentences) add(ids);
    }
    std::uint64_t value() const { return value_; }

private:
    std::uint64_t value_ = 0xcbf29ce484222325u;
};

/// Sentences one after the other, each with its end.
std::vector<int> stream_of(const std::vector<std::string>& sentences, const Vocabulary& vocabulary) {
    std::vector<int> stream;
    for (const std::string& sentence : sentences) {
        const std::vector<int> ids = vocabulary.encode(sentence);
        if (ids.empty()) continue;
        stream.insert(stream.end(), ids.begin(), ids.end());
        stream.push_back(Vocabulary::end);
    }
    return stream;
}

}  // namespace

Translation prepare_translation(const TextFiles& files, const DataOptions& options) {
    const bool from_numbers = files.source.empty();
    np::ParallelCorpus training, validation, test;
    if (from_numbers) {
        np::NumberNamesCorpus corpus = numbers(options);
        training = std::move(corpus.training);
        validation = std::move(corpus.validation);
        test = std::move(corpus.test);
    } else {
        training = np::read_parallel_corpus(files.source, files.target);
        if (!files.validation_source.empty())
            validation = np::read_parallel_corpus(files.validation_source, files.validation_target);
        else validation = {split_off(training.source), split_off(training.target)};
        if (!files.test_source.empty())
            test = np::read_parallel_corpus(files.test_source, files.test_target, np::EmptySentences::keep);
    }
    Vocabulary vocabulary = make_vocabulary(both_sides(training), from_numbers, options);
    auto data = std::make_shared<TranslationData>();
    data->training = encode(training, vocabulary);
    data->validation = encode(validation, vocabulary);
    data->batches = options.batches;
    const std::size_t dropped =
        np::drop_longer(data->training, options.longest) + np::drop_longer(data->validation, options.longest);
    if (data->training.size() == 0 || data->validation.size() == 0)
        throw std::runtime_error("no pair of the " + std::string(data->training.size() ? "validation" : "training") +
                                 " text has at most " + std::to_string(options.longest) + " tokens a side");
    Fingerprint fingerprint;
    for (const np::EncodedCorpus* corpus : {&data->training, &data->validation}) {
        fingerprint.add(corpus->source);
        fingerprint.add(corpus->target);
        for (const np::ExampleLength length : np::example_lengths(*corpus))
            data->positions = std::max(data->positions, length.longer());
    }
    for (const std::string& sentence : test.source) {
        const std::vector<int> ids = vocabulary.encode(sentence);
        fingerprint.add(ids);
        data->positions = std::max(data->positions, longest_translation(ids.size()));
    }
    data->fingerprint = fingerprint.value();
    const std::string description =
        (from_numbers ? std::string("German number names to English") : files.source + " to " + files.target) + ": " +
        count_text(data->training.size(), "pairs to train on") + ", " +
        count_text(data->validation.size(), "to validate") + ", " + count_text(test.size(), "to test") +
        (dropped ? "; " + count_text(dropped, "longer ones left out") : "") +
        (training.empty ? "; " + count_text(training.empty, "with an empty side left out") : "") + "; " +
        vocabulary_text(vocabulary);
    return {std::move(data), std::move(vocabulary), std::move(test), from_numbers, description};
}

Language prepare_language(const TextFiles& files, const DataOptions& options) {
    const bool from_numbers = files.text.empty();
    std::vector<std::string> training, validation;
    if (from_numbers) {
        const np::NumberNamesCorpus corpus = numbers(options);
        training = both_sides(corpus.training);
        validation = both_sides(corpus.validation);
    } else {
        training = np::read_lines(files.text);
        validation = files.validation_text.empty() ? split_off(training) : np::read_lines(files.validation_text);
    }
    Vocabulary vocabulary = make_vocabulary(training, from_numbers, options);
    auto data = std::make_shared<LanguageData>();
    data->training = stream_of(training, vocabulary);
    data->validation = stream_of(validation, vocabulary);
    data->sequence = options.sequence;
    data->batch = options.batch;
    data->masked = options.masked;
    data->masking = {.mask = Vocabulary::mask,
                     .first_ordinary = Vocabulary::mask + 1,
                     .vocabulary = static_cast<int>(vocabulary.size())};
    Fingerprint fingerprint;
    fingerprint.add(data->training);
    fingerprint.add(data->validation);
    data->fingerprint = fingerprint.value();
    const std::string description = (from_numbers ? std::string("number names") : files.text) + ": " +
                                    count_text(data->training.size(), "tokens to train on") + ", " +
                                    count_text(data->validation.size(), "to validate") + "; " +
                                    vocabulary_text(vocabulary);
    return {std::move(data), std::move(vocabulary), description};
}

}  // namespace training
