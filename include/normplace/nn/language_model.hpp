// SPDX-License-Identifier: BSD-3-Clause
//
// A language model on one stack: causal, a token is predicted from those before it (the decoder-only model); not
// causal, a masked token from all others (Devlin et al. 2019, arXiv:1810.04805).
//
//     logits = U stack(s E[token] + P),   s = 1, or sqrt(D) where U is E
#pragma once

#include <cmath>
#include <tuple>
#include <vector>

#include <normplace/nn/encoder.hpp>
#include <normplace/nn/readout.hpp>

namespace normplace {

struct LanguageModelOptions {
    std::size_t vocabulary = 0;    ///< V
    std::size_t layers = 0;        ///< L
    std::size_t width = 0;         ///< D
    std::size_t heads = 1;         ///< H
    std::size_t feed_forward = 0;  ///< F
    std::size_t positions = 0;     ///< the longest sequence
    bool causal = true;            ///< false: a masked language model
    bool tied = false;             ///< the readout is the token embedding
    bool bias = true;
    double epsilon = 1e-5;
    Activation activation = relu;
    std::vector<double> branch_squares{};  ///< as EncoderOptions has them
};

/// Parameters: `embedding.token_embedding.weight`, `embedding.position_embedding.weight`, `stack.layers.0...`,
/// `readout.weight` (absent when tied).
/// Of any placement: compiled once for all of them.
template <class T, class N>
class AnyLanguageModel {
public:
    using Scalar = T;
    using Options = LanguageModelOptions;

    struct Gradients {
        typename Embedding<T>::Gradients embedding;
        typename AnyEncoder<T, N>::Gradients stack;
        typename Readout<T>::Gradients readout;
        template <class Self>
        static auto members(Self& self) {
            return std::make_tuple(named("embedding", self.embedding), named("stack", self.stack),
                                   named("readout", self.readout));
        }
    };
    struct Cache {
        Tokens tokens;
        Activations<T> x, y, dy;  // (B, S, D)
        typename AnyEncoder<T, N>::Cache stack;
        DropoutKey dropout;  ///< set by the caller before forward; without: no dropout
    };

    Embedding<T> embedding;
    AnyEncoder<T, N> stack;
    Readout<T> readout;

    /// @throws std::invalid_argument when a size is 0, or the width is not divisible by the number of heads
    AnyLanguageModel(const AnyPlacement& placement, const Options& options)
        : embedding({.vocabulary = options.vocabulary,
                     .width = options.width,
                     .positions = options.positions,
                     .scale = options.tied ? std::sqrt(static_cast<double>(options.width)) : 1.0}),
          stack(placement, {.layers = options.layers,
                            .width = options.width,
                            .heads = options.heads,
                            .feed_forward = options.feed_forward,
                            .causal = options.causal,
                            .bias = options.bias,
                            .epsilon = options.epsilon,
                            .activation = options.activation,
                            .branch_squares = options.branch_squares}),
          readout(options.width, options.vocabulary, options.tied),
          placement_(placement),
          options_(options) {
        detail::require_positive("LanguageModel", "positions", options.positions);
    }

    const Options& options() const { return options_; }

    /// Draws the stack by the scheme, both tables with variance 1/2, so that a token enters with second moment 1, and
    /// the readout with variance 1/D; the placement's gain on embeddings multiplies that. When tied, all have variance
    /// 1/D, and the scale sqrt(D) makes up for it.
    void initialize(RandomEngine& random, const Initialization& scheme = Initialization::xavier()) {
        const auto deviation = [&](double variance) {
            return Initializer(random, Initialization::standard_deviation(std::sqrt(variance)));
        };
        const double readout_variance = 1.0 / static_cast<double>(options_.width);
        const double gain = placement_.embedding_gain({.layers = options_.layers});
        embedding.initialize(deviation(gain * gain * (options_.tied ? readout_variance : 0.5)));
        stack.initialize(random, scheme);
        readout.initialize(deviation(readout_variance));
    }

    /// logits (B, S, V) of tokens (B, S); `padding` (B, S) is true where a token is padding.
    void forward(const Tokens& tokens, Activations<T>& logits, Cache& cache, const KeyPaddingMask& padding = {}) const {
        cache.tokens = tokens;
        embedding.forward(tokens, cache.x);
        dropout(cache.x, cache.x, cache.dropout.at(0));
        cache.stack.dropout = cache.dropout.at(1);
        stack.forward(cache.x, cache.y, cache.stack, padding);
        readout.forward(cache.y, embedding, logits);
    }

    /// Adds to gradients, given dlogits = dLoss/dlogits of the last forward with this cache, which it uses up.
    void backward(const Activations<T>& dlogits, Cache& cache, Gradients& gradients) const {
        readout.backward(cache.y, dlogits, embedding, cache.dy, gradients.readout, gradients.embedding);
        stack.backward(cache.dy, cache.x, cache.stack, gradients.stack);
        dropout(cache.x, cache.x, cache.dropout.at(0));
        embedding.backward(cache.tokens, cache.x, gradients.embedding);
    }

private:
    AnyPlacement placement_;
    Options options_;
};

/// Under placement P.
template <class P, class T, class N = LayerNorm<T>>
class LanguageModel : public AnyLanguageModel<T, N> {
    static_assert(explain_placement<P>() && explain_norm<P, N>());

public:
    /// @throws std::invalid_argument when a size is 0, or the width is not divisible by the number of heads
    explicit LanguageModel(const LanguageModelOptions& options) : AnyLanguageModel<T, N>(any_placement<P>, options) {}
};

}  // namespace normplace
