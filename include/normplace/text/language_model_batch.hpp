// SPDX-License-Identifier: BSD-3-Clause
//
// Batches of a language model. A causal one reads a long text in windows of S tokens and predicts each next token; a
// masked one (Devlin et al. 2018, arXiv:1810.04805, section 3.1) predicts tokens that were hidden from it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <normplace/text/batches.hpp>
#include <normplace/text/padded_batch.hpp>
#include <normplace/text/portable_random.hpp>

namespace normplace {

struct LanguageModelBatch {
    IdTable tokens;   ///< (B, S)
    IdTable targets;  ///< (B, S), no_target where nothing is to be predicted
};

/// Windows of a stream of `length` tokens: window w is tokens [w S, (w + 1) S), and each token's target is the next.
/// Tokens that fill no window are left out, and the last token is a target only.
/// @throws std::invalid_argument when S is 0
inline std::size_t window_count(std::size_t length, std::size_t sequence) {
    if (sequence == 0) throw std::invalid_argument("window_count: sequence is 0, expected at least 1");
    return length == 0 ? 0 : (length - 1) / sequence;
}

/// The windows of an epoch, shuffled, B at a time; the last batch has what is left.
/// @throws std::invalid_argument when B or S is 0, or the stream too short for one window
inline std::vector<Batch> window_batches(std::size_t length, std::size_t sequence, std::size_t batch,
                                         std::uint64_t seed, std::uint64_t epoch) {
    const std::size_t windows = window_count(length, sequence);
    if (batch == 0) throw std::invalid_argument("window_batches: batch is 0, expected at least 1");
    if (windows == 0)
        throw std::invalid_argument("window_batches: a stream of " + std::to_string(length) +
                                    " tokens has no window of " + std::to_string(sequence) +
                                    " tokens and a target after each");
    std::vector<std::size_t> order(windows);
    for (std::size_t w = 0; w < windows; ++w) order[w] = w;
    detail::PortableRandom(seed, epoch).shuffle(order);
    std::vector<Batch> batches;
    for (std::size_t begin = 0; begin < windows; begin += std::min(batch, windows - begin)) {
        const std::size_t end = begin + std::min(batch, windows - begin);
        batches.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(begin),
                             order.begin() + static_cast<std::ptrdiff_t>(end));
    }
    return batches;
}

/// The windows of `batch`, in its order: tokens and targets (B, S).
/// @throws std::invalid_argument when a window is not one of the stream's
inline LanguageModelBatch window_batch(const std::vector<int>& stream, std::size_t sequence, const Batch& batch) {
    const std::size_t windows = window_count(stream.size(), sequence);
    LanguageModelBatch result{IdTable(batch.size(), sequence, 0), IdTable(batch.size(), sequence, no_target)};
    for (std::size_t row = 0; row < batch.size(); ++row) {
        if (batch[row] >= windows)
            throw std::invalid_argument("window_batch: window " + std::to_string(batch[row]) + " is not one of the " +
                                        std::to_string(windows) + " of the stream");
        const int* first = stream.data() + batch[row] * sequence;
        for (std::size_t i = 0; i < sequence; ++i) {
            result.tokens(row, i) = first[i];
            result.targets(row, i) = first[i + 1];
        }
    }
    return result;
}

/// How tokens are hidden. Of the chosen ones a share becomes the mask, a share any ordinary token, and the rest stays.
struct MaskingOptions {
    int mask = 4;            ///< the mask's id
    int first_ordinary = 5;  ///< ids below are special: they are neither chosen nor drawn
    int vocabulary = 0;      ///< ordinary ids are below it
    double chosen = 0.15, masked = 0.8, random = 0.1;
};

/// Hides tokens: of each row's ordinary ones, `chosen` (rounded, at least one when there is one), and these are the
/// targets. Other rows, steps and seeds give other choices.
/// @throws std::invalid_argument when the ids leave no ordinary token, or a share is not one
inline LanguageModelBatch mask_tokens(IdTable tokens, const MaskingOptions& options, std::uint64_t seed,
                                      std::uint64_t step) {
    const auto require_share = [](const char* what, double value) {
        if (!(value >= 0.0 && value <= 1.0))
            throw std::invalid_argument(std::string("mask_tokens: ") + what + " is " + std::to_string(value) +
                                        ", expected a share in [0, 1]");
    };
    require_share("chosen", options.chosen);
    require_share("masked", options.masked);
    require_share("random", options.random);
    require_share("masked + random", options.masked + options.random);
    if (options.mask < 0 || options.first_ordinary < 0 || options.first_ordinary >= options.vocabulary)
        throw std::invalid_argument("mask_tokens: mask " + std::to_string(options.mask) + ", first ordinary id " +
                                    std::to_string(options.first_ordinary) + " and vocabulary " +
                                    std::to_string(options.vocabulary) +
                                    ", expected 0 <= mask and 0 <= first ordinary "
                                    "id < vocabulary");

    detail::PortableRandom random(seed, step);
    LanguageModelBatch result{std::move(tokens), {}};
    result.targets = IdTable(result.tokens.rows, result.tokens.columns, no_target);
    for (std::size_t row = 0; row < result.tokens.rows; ++row) {
        std::vector<std::size_t> ordinary;
        for (std::size_t i = 0; i < result.tokens.columns; ++i)
            if (result.tokens(row, i) >= options.first_ordinary) ordinary.push_back(i);
        random.shuffle(ordinary);
        const double share = std::round(options.chosen * static_cast<double>(ordinary.size()));
        ordinary.resize(std::min(ordinary.size(), std::max(std::size_t{1}, static_cast<std::size_t>(share))));
        for (const std::size_t i : ordinary) {
            int& token = result.tokens(row, i);
            result.targets(row, i) = token;
            const double draw = random.unit();
            if (draw < options.masked) token = options.mask;
            else if (draw < options.masked + options.random)
                token = options.first_ordinary + static_cast<int>(random.below(static_cast<std::uint64_t>(
                                                     options.vocabulary - options.first_ordinary)));
        }
    }
    return result;
}

}  // namespace normplace
