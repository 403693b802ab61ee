// SPDX-License-Identifier: BSD-3-Clause
//
// A batch of sentence pairs as the rectangles that an encoder-decoder reads: shorter rows are filled up with padding.
//
//     source           a b c </s>           decoder input    <s> x y  _     decoder target    x y </s> -1
//                      d e </s> _                            <s> p q  r                       p q r  </s>
//
// A target of -1 is no token: cross_entropy leaves it out of the mean.
#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <normplace/text/batches.hpp>

namespace normplace {

/// The decoder's target where there is none.
inline constexpr int no_target = -1;

/// Ids (rows, columns), row after row.
struct IdTable {
    std::size_t rows = 0, columns = 0;
    std::vector<int> ids;

    IdTable() = default;
    IdTable(std::size_t row_count, std::size_t column_count, int fill)
        : rows(row_count), columns(column_count), ids(row_count * column_count, fill) {}

    int& operator()(std::size_t row, std::size_t column) { return ids[row * columns + column]; }
    int operator()(std::size_t row, std::size_t column) const { return ids[row * columns + column]; }
};

/// Sentences as ids, without begin and end.
struct EncodedCorpus {
    std::vector<std::vector<int>> source;
    std::vector<std::vector<int>> target;  ///< of the same size

    std::size_t size() const { return source.size(); }
};

struct SpecialIds {
    int padding = 0, begin = 2, end = 3;
};

struct TranslationBatch {
    IdTable source;                           ///< (B, S)
    std::vector<std::size_t> source_lengths;  ///< (B), without padding, for the attention's mask
    IdTable decoder_input;                    ///< (B, S')
    IdTable decoder_target;                   ///< (B, S')
    std::size_t target_tokens = 0;            ///< of decoder_target that are not no_target
};

namespace detail {

inline void require_pairs(const char* who, const EncodedCorpus& corpus) {
    if (corpus.source.size() != corpus.target.size())
        throw std::invalid_argument(std::string(who) + ": " + std::to_string(corpus.source.size()) + " sources and " +
                                    std::to_string(corpus.target.size()) + " targets, expected as many of each");
}

inline void require_ids(const char* who, const std::vector<int>& ids) {
    for (const int id : ids)
        if (id < 0)
            throw std::invalid_argument(std::string(who) + ": id " + std::to_string(id) + ", expected 0 or more");
}

}  // namespace detail

/// What the examples take in a batch: the end follows the source, and begin or end comes to the target.
inline std::vector<ExampleLength> example_lengths(const EncodedCorpus& corpus) {
    detail::require_pairs("example_lengths", corpus);
    std::vector<ExampleLength> lengths;
    for (std::size_t i = 0; i < corpus.size(); ++i)
        lengths.push_back({corpus.source[i].size() + 1, corpus.target[i].size() + 1});
    return lengths;
}

/// Removes the pairs that take more than `longest` tokens on a side (example_lengths).
/// @return how many
inline std::size_t drop_longer(EncodedCorpus& corpus, std::size_t longest) {
    const std::vector<ExampleLength> lengths = example_lengths(corpus);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
        if (lengths[i].longer() > longest) continue;
        // A vector that is moved to itself may end empty.
        if (kept != i) {
            corpus.source[kept] = std::move(corpus.source[i]);
            corpus.target[kept] = std::move(corpus.target[i]);
        }
        ++kept;
    }
    corpus.source.resize(kept);
    corpus.target.resize(kept);
    return lengths.size() - kept;
}

/// Sentences (B, S) as the encoder reads them: each with its end, then padding.
/// @throws std::invalid_argument when an id is negative
inline IdTable pad_sources(const std::vector<std::vector<int>>& sentences, const SpecialIds& special = {}) {
    detail::require_ids("pad_sources", {special.padding, special.end});
    std::size_t longest = 0;
    for (const std::vector<int>& sentence : sentences) longest = std::max(longest, sentence.size() + 1);
    IdTable table(sentences.size(), longest, special.padding);
    for (std::size_t row = 0; row < sentences.size(); ++row) {
        detail::require_ids("pad_sources", sentences[row]);
        std::copy(sentences[row].begin(), sentences[row].end(), &table(row, 0));
        table(row, sentences[row].size()) = special.end;
    }
    return table;
}

/// The pairs of `batch`, in its order.
/// @throws std::invalid_argument when an id is negative, or an index not one of the corpus
inline TranslationBatch translation_batch(const EncodedCorpus& corpus, const Batch& batch,
                                          const SpecialIds& special = {}) {
    detail::require_pairs("translation_batch", corpus);
    detail::require_ids("translation_batch", {special.begin, special.end});
    std::vector<std::vector<int>> sources;
    std::size_t longest = 0;
    for (const std::size_t example : batch) {
        if (example >= corpus.size())
            throw std::invalid_argument("translation_batch: example " + std::to_string(example) +
                                        " is not in a corpus of " + std::to_string(corpus.size()));
        detail::require_ids("translation_batch", corpus.target[example]);
        sources.push_back(corpus.source[example]);
        longest = std::max(longest, corpus.target[example].size() + 1);
    }
    TranslationBatch result;
    result.source = pad_sources(sources, special);
    result.decoder_input = IdTable(batch.size(), longest, special.padding);
    result.decoder_target = IdTable(batch.size(), longest, no_target);
    for (std::size_t row = 0; row < batch.size(); ++row) {
        const std::vector<int>& target = corpus.target[batch[row]];
        result.source_lengths.push_back(sources[row].size() + 1);
        result.decoder_input(row, 0) = special.begin;
        for (std::size_t i = 0; i < target.size(); ++i) {
            result.decoder_input(row, i + 1) = target[i];
            result.decoder_target(row, i) = target[i];
        }
        result.decoder_target(row, target.size()) = special.end;
        result.target_tokens += target.size() + 1;
    }
    return result;
}

}  // namespace normplace
