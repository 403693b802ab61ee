// SPDX-License-Identifier: BSD-3-Clause
//
// The encoder-decoder Transformer (Vaswani et al. 2017, arXiv:1706.03762), each stack under a placement of its own:
//
//     memory = encoder(sqrt(D) E_s[source] + P),   logits = U decoder(sqrt(D) E_t[target] + P, memory)
//
// P is the sinusoidal position table. Embeddings start with variance 1/D, so that a token enters with second moment 1.
#pragma once

#include <cmath>
#include <span>
#include <tuple>
#include <vector>

#include <normplace/nn/decoder.hpp>
#include <normplace/nn/encoder.hpp>
#include <normplace/nn/readout.hpp>

namespace normplace {

/// Which of the three matrices of vocabulary size are one.
enum class Tied {
    none,
    readout,    ///< the readout is the target embedding
    everything  ///< the source embedding too; source and target then have one vocabulary
};

struct TransformerOptions {
    std::size_t source_vocabulary = 0, target_vocabulary = 0;
    std::size_t encoder_layers = 0, decoder_layers = 0;
    std::size_t width = 0;         ///< D
    std::size_t heads = 1;         ///< H
    std::size_t feed_forward = 0;  ///< F
    std::size_t positions = 1024;  ///< the longest sequence
    Tied tied = Tied::none;
    bool bias = true;
    double epsilon = 1e-5;
    Activation activation = relu;
    /// As EncoderOptions and DecoderOptions have them: `predict_encoder_decoder` has each stack's.
    std::vector<double> encoder_branch_squares{}, decoder_branch_squares{};
};

/// PE and PD are the placements of the encoder and of the decoder. Parameters: `source.token_embedding.weight` (absent
/// when everything is tied), `target.token_embedding.weight`, `encoder.layers.0...`, `decoder.layers.0...`,
/// `readout.weight` (absent when tied).
/// Of any two placements: compiled once for all of them.
template <class T, class N>
class AnyTransformer {
public:
    using Scalar = T;
    using Options = TransformerOptions;

    struct Gradients {
        typename Embedding<T>::Gradients source, target;
        typename AnyEncoder<T, N>::Gradients encoder;
        typename AnyDecoder<T, N>::Gradients decoder;
        typename Readout<T>::Gradients readout;
        template <class Self>
        static auto members(Self& self) {
            return std::make_tuple(named("source", self.source), named("target", self.target),
                                   named("encoder", self.encoder), named("decoder", self.decoder),
                                   named("readout", self.readout));
        }
    };
    struct Cache {
        Tokens source, target;
        KeyPaddingMask padding;      // of the source
        Activations<T> x, memory;    // (B, M, D): the encoder's input and output; on the way back, their gradients
        Activations<T> tokens, y;    // (B, S, D): the decoder's input and output; on the way back, their gradients
        Activations<T> dy, dmemory;  // (B, S, D), (B, M, D)
        typename AnyEncoder<T, N>::Cache encoder;
        typename AnyDecoder<T, N>::Cache decoder;
        DropoutKey dropout;  ///< set by the caller before forward; without: no dropout
    };

    Embedding<T> source, target;
    AnyEncoder<T, N> encoder;
    AnyDecoder<T, N> decoder;
    Readout<T> readout;

    /// @throws std::invalid_argument when a size is 0, the width is not divisible by the number of heads, or two
    /// vocabularies are to be one and are not
    AnyTransformer(const AnyPlacement& encoder_placement, const AnyPlacement& decoder_placement, const Options& options)
        : source(embedding(options, options.tied == Tied::everything ? 0 : options.source_vocabulary)),
          target(embedding(options, options.target_vocabulary)),
          encoder(encoder_placement, {.layers = options.encoder_layers,
                                      .width = options.width,
                                      .heads = options.heads,
                                      .feed_forward = options.feed_forward,
                                      .bias = options.bias,
                                      .epsilon = options.epsilon,
                                      .activation = options.activation,
                                      .decoder_layers = options.decoder_layers,
                                      .branch_squares = options.encoder_branch_squares}),
          decoder(decoder_placement, {.layers = options.decoder_layers,
                                      .width = options.width,
                                      .heads = options.heads,
                                      .feed_forward = options.feed_forward,
                                      .bias = options.bias,
                                      .epsilon = options.epsilon,
                                      .activation = options.activation,
                                      .encoder_layers = options.encoder_layers,
                                      .branch_squares = options.decoder_branch_squares}),
          readout(options.width, options.target_vocabulary, options.tied != Tied::none),
          encoder_placement_(encoder_placement),
          decoder_placement_(decoder_placement),
          options_(options) {
        detail::require_positive("Transformer", "source vocabulary", options.source_vocabulary);
        detail::require(
            options.tied != Tied::everything || options.source_vocabulary == options.target_vocabulary, "Transformer",
            [&] {
                return "source and target have vocabularies of " + std::to_string(options.source_vocabulary) + " and " +
                       std::to_string(options.target_vocabulary) + " tokens, but are to share one embedding";
            });
    }

    const Options& options() const { return options_; }

    /// Draws the stacks by the scheme, embeddings and readout with variance 1/D; the placements' gains on embeddings
    /// multiply that.
    void initialize(RandomEngine& random, const Initialization& scheme = Initialization::xavier()) {
        const auto tables = [&](double gain) {
            return Initializer(
                random, Initialization::standard_deviation(gain / std::sqrt(static_cast<double>(options_.width))));
        };
        if (source.vocabulary())
            source.initialize(tables(encoder_placement_.embedding_gain({.layers = options_.encoder_layers,
                                                                        .stack = StackKind::encoder,
                                                                        .other_layers = options_.decoder_layers})));
        target.initialize(tables(decoder_placement_.embedding_gain({.layers = options_.decoder_layers,
                                                                    .stack = StackKind::decoder,
                                                                    .other_layers = options_.encoder_layers})));
        encoder.initialize(random, scheme);
        decoder.initialize(random, scheme);
        readout.initialize(tables(1.0));
    }

    /// logits (B, S, V) of the token that follows each of `target` (B, S), given `source` (B, M). `padding` (B, M) is
    /// true where the source is padding. The target needs no mask: padding stands at its end, where nobody looks at it
    /// and the loss ignores it.
    void forward(const Tokens& source_tokens, const KeyPaddingMask& padding, const Tokens& target_tokens,
                 Activations<T>& logits, Cache& cache) const {
        encode(source_tokens, padding, cache);
        cache.target = target_tokens;
        target.forward(target_tokens, cache.tokens);
        dropout(cache.tokens, cache.tokens, cache.dropout.at(1));
        cache.decoder.dropout = cache.dropout.at(3);
        decoder.forward(cache.tokens, cache.y, cache.decoder, Memory<T>{cache.memory, cache.padding});
        readout.forward(cache.y, target, logits);
    }

    /// Adds to gradients, given dlogits = dLoss/dlogits of the last forward with this cache, which it uses up.
    void backward(const Activations<T>& dlogits, Cache& cache, Gradients& gradients) const {
        readout.backward(cache.y, dlogits, target, cache.dy, gradients.readout, gradients.target);
        decoder.backward(cache.dy, cache.tokens, cache.dmemory, cache.decoder, gradients.decoder);
        dropout(cache.tokens, cache.tokens, cache.dropout.at(1));
        target.backward(cache.target, cache.tokens, gradients.target);
        encoder.backward(cache.dmemory, cache.x, cache.encoder, gradients.encoder);
        dropout(cache.x, cache.x, cache.dropout.at(0));
        if (source.vocabulary()) source.backward(cache.source, cache.x, gradients.source);
        else target.backward(cache.source, cache.x, gradients.target);
    }

    /// The first half of forward: the memory, for decoding.
    void encode(const Tokens& source_tokens, const KeyPaddingMask& padding, Cache& cache) const {
        cache.source = source_tokens;
        cache.padding = padding;
        (source.vocabulary() ? source : target).forward(source_tokens, cache.x);
        dropout(cache.x, cache.x, cache.dropout.at(0));
        cache.encoder.dropout = cache.dropout.at(2);
        encoder.forward(cache.x, cache.memory, cache.encoder, cache.padding);
    }

    /// One decoding step (attention.hpp) after `encode`: logits (B, 1, V) of what follows the tokens (B, 1) at
    /// step.position, which are sequence i's continuation of what was sequence `parents[i]` in the step before.
    void decode(const Tokens& last, std::span<const std::size_t> parents, const DecodingStep& step,
                Activations<T>& logits, Cache& cache) const {
        if (step.position > 0) decoder.select(cache.decoder, parents);
        target.forward(last, cache.tokens, step.position);
        decoder.decode(cache.tokens, cache.y, cache.decoder, Memory<T>{cache.memory, cache.padding}, step);
        readout.forward(cache.y, target, logits);
    }

private:
    static Embedding<T> embedding(const Options& options, std::size_t vocabulary) {
        if (vocabulary == 0) return {};
        return Embedding<T>({.vocabulary = vocabulary,
                             .width = options.width,
                             .positions = options.positions,
                             .scale = std::sqrt(static_cast<double>(options.width)),
                             .position_kind = PositionKind::sinusoidal});
    }

    AnyPlacement encoder_placement_, decoder_placement_;
    Options options_;
};

/// PE is the encoder's placement and PD the decoder's.
template <class PE, class PD, class T, class N = LayerNorm<T>>
class Transformer : public AnyTransformer<T, N> {
    static_assert(explain_placement<PE>() && explain_placement<PD>() && explain_norm<PE, N>() && explain_norm<PD, N>());

public:
    /// @throws std::invalid_argument when a size is 0, the width is not divisible by the number of heads, or two
    /// vocabularies are to be one and are not
    explicit Transformer(const TransformerOptions& options)
        : AnyTransformer<T, N>(any_placement<PE>, any_placement<PD>, options) {}
};

}  // namespace normplace
