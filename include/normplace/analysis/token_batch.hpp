// SPDX-License-Identifier: BSD-3-Clause
//
// Real text as the model's input: the text's bytes are the tokens (V = 256) and the next byte is the target. A token's
// embedding is x0 = E[byte] + P[position], both tables N(0, 1/2) per entry, so that its second moment is 1.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace normplace {

/// B sequences of S tokens, row after row, and the target of each token.
struct TokenBatch {
    std::size_t batch = 0;     ///< B
    std::size_t sequence = 0;  ///< S
    std::vector<int> tokens;   ///< (B, S)
    std::vector<int> targets;  ///< (B, S)
};

/// The variance of one entry of the token table, and of the position table.
inline constexpr double embedding_variance = 0.5;

/// The number of bytes that `seeds` batches of B sequences of S bytes need: the last byte is a target only.
constexpr std::size_t text_length_needed(std::size_t batch, std::size_t sequence, std::size_t seeds) {
    return seeds * batch * sequence + 1;
}

/// The batch that seed s (from 0) reads: sequence b is bytes [(s B + b) S, (s B + b + 1) S) of the text.
/// @throws std::invalid_argument when the text is too short, with the length it would need
inline TokenBatch byte_batch(std::string_view text, std::size_t batch, std::size_t sequence, std::size_t seed) {
    const std::size_t needed = text_length_needed(batch, sequence, seed + 1);
    if (text.size() < needed)
        throw std::invalid_argument("the text has " + std::to_string(text.size()) + " bytes; " +
                                    std::to_string(seed + 1) + " batches of " + std::to_string(batch) +
                                    " sequences of " + std::to_string(sequence) + " bytes need " +
                                    std::to_string(needed));
    TokenBatch result{batch, sequence, {}, {}};
    const std::size_t begin = seed * batch * sequence;
    for (std::size_t i = begin; i < begin + batch * sequence; ++i) {
        result.tokens.push_back(static_cast<unsigned char>(text[i]));
        result.targets.push_back(static_cast<unsigned char>(text[i + 1]));
    }
    return result;
}

}  // namespace normplace
