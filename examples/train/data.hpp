// SPDX-License-Identifier: BSD-3-Clause
//
// From files, or from the names of numbers, to what a task trains on: text read, a vocabulary made from the training
// part or taken from a file, and everything as ids.
#pragma once

#include <memory>
#include <normplace/text/parallel_corpus.hpp>
#include <string>

#include "task.hpp"

namespace training {

/// Where the text comes from. Files that are not given: of the training text the last 2 % are for validation (1000
/// pairs at most), and there is no test. Without any file: the names of numbers (number_names_corpus.hpp).
struct TextFiles {
    std::string source, target, validation_source, validation_target, test_source, test_target;  ///< translation
    std::string text, validation_text;  ///< language model, a sentence per line
};

struct DataOptions {
    std::size_t vocabulary = 0;             ///< pieces; 0: 200 for the names of numbers, else 8000
    std::string vocabulary_file{};          ///< read if it exists, else written; or empty
    np::BatchOptions batches{};             ///< of sentence pairs
    std::size_t longest = 100;              ///< longer pairs are left out of training
    std::size_t sequence = 64, batch = 32;  ///< of a language model
    bool masked = false;
    std::size_t training_pairs = 20000;  ///< of number names
    std::uint64_t seed = 1;
};

struct Translation {
    std::shared_ptr<const TranslationData> data;
    Vocabulary vocabulary;
    np::ParallelCorpus test;  ///< empty when there is none
    bool numbers = false;     ///< scored by exact match
    std::string description;  ///< sentences
};
Translation prepare_translation(const TextFiles& files, const DataOptions& options);

struct Language {
    std::shared_ptr<const LanguageData> data;
    Vocabulary vocabulary;
    std::string description;
};
Language prepare_language(const TextFiles& files, const DataOptions& options);

}  // namespace training
