// SPDX-License-Identifier: BSD-3-Clause
//
// What the estimator starts from: which pairs of tokens are alike, the covariances of their embeddings, and which of
// them share a target. Either the reference model's random tokens or a given batch.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include <normplace/analysis/reference_model.hpp>
#include <normplace/analysis/token_batch.hpp>
#include <normplace/analysis/token_kernel.hpp>
#include <normplace/placement/placement.hpp>

namespace normplace::detail {

/// Covariances of the input, and how the loss's gradient at the logits covaries, apart from the model's own
/// predictions: [y_i = y_j] for pairs of tokens.
struct PredictionInput {
    TokenLayout layout;
    TokenKernel stream;
    TokenKernel same_target;
    const TokenBatch* batch = nullptr;
};

/// @param scale of the tokens, squared: the placement's gain on embeddings
inline PredictionInput random_tokens(const ReferenceModel& model, double scale = 1.0) {
    PredictionInput input{model.causal ? TokenLayout::by_position(model.batch, model.sequence)
                                       : TokenLayout::exchangeable(model.batch, model.sequence),
                          {},
                          {},
                          nullptr};
    input.stream = TokenKernel(input.layout.entries());
    input.same_target = TokenKernel(input.layout.entries(), 1.0 / static_cast<double>(model.vocabulary));
    for (std::size_t i = 0; i < input.layout.classes(); ++i)
        input.stream[input.layout.diagonal(i)] = scale, input.same_target[input.layout.diagonal(i)] = 1.0;
    return input;
}

/// The square of the placement's gain on embeddings.
inline double input_square(const AnyPlacement& placement, const ReferenceModel& model) {
    const double gain = placement.embedding_gain({.layers = model.layers});
    return gain * gain;
}

inline void check_batch(const ReferenceModel& model, const TokenBatch& batch) {
    const auto text = [](std::size_t value) { return std::to_string(value); };
    if (batch.batch != model.batch || batch.sequence != model.sequence)
        throw std::invalid_argument("predict: a batch of " + text(batch.batch) + " sequences of " +
                                    text(batch.sequence) + " tokens does not fit the model's " + text(model.batch) +
                                    " of " + text(model.sequence));
    const std::size_t tokens = batch.batch * batch.sequence;
    if (batch.tokens.size() != tokens || batch.targets.size() != tokens)
        throw std::invalid_argument("predict: a batch has " + text(batch.tokens.size()) + " tokens and " +
                                    text(batch.targets.size()) + " targets, expected " + text(tokens) + " of each");
    for (const std::vector<int>* ids : {&batch.tokens, &batch.targets})
        for (const int id : *ids)
            if (id < 0 || static_cast<std::size_t>(id) >= model.vocabulary)
                throw std::invalid_argument("predict: token " + std::to_string(id) +
                                            " is not one of the vocabulary's 0 to " + text(model.vocabulary - 1));
}

inline PredictionInput given_tokens(const TokenBatch& batch, double scale = 1.0) {
    PredictionInput input{TokenLayout::by_token(batch.batch, batch.sequence), {}, {}, &batch};
    input.stream = TokenKernel(input.layout.entries());
    input.same_target = TokenKernel(input.layout.entries());
    input.layout.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
        const bool same_position = i % batch.sequence == j % batch.sequence;
        input.stream[e] = scale * embedding_variance * ((batch.tokens[i] == batch.tokens[j]) + same_position);
        input.same_target[e] = batch.targets[i] == batch.targets[j];
    });
    return input;
}

}  // namespace normplace::detail
