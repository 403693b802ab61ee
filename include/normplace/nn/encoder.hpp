// SPDX-License-Identifier: BSD-3-Clause
//
// The encoder layer (a self-attention block, then a feed-forward block) and the stack of them, which ends as the
// placement says.
#pragma once

#include <span>
#include <tuple>
#include <vector>

#include <normplace/nn/attention.hpp>
#include <normplace/nn/dropout.hpp>
#include <normplace/nn/feed_forward.hpp>
#include <normplace/nn/layer_stack.hpp>
#include <normplace/nn/residual_block.hpp>

namespace normplace {

struct EncoderOptions {
    std::size_t layers = 0;        ///< L
    std::size_t width = 0;         ///< D
    std::size_t heads = 1;         ///< H
    std::size_t feed_forward = 0;  ///< F
    bool causal = false;
    bool bias = true;  ///< of the linear layers and of the norms
    double epsilon = 1e-5;
    Activation activation = relu;
    bool output_projection = true;
    NormKind norm = NormKind::layer_norm;  ///< where the norm is AnyNorm, and the placement has none of its own
    std::size_t decoder_layers = 0;        ///< of the decoder that reads this encoder's output; 0: there is none
    /// E f(x)^2 of each of the 2L sublayers, for a placement that starts by them (Admin): `predict<P>(model)` has them
    /// as `branch_squares()`. Empty: nobody knows.
    std::vector<double> branch_squares{};
};

/// Of any placement: compiled once for all of them.
template <class T, class N>
class AnyEncoderLayer {
public:
    using Scalar = T;
    using Options = EncoderOptions;
    static constexpr std::size_t sublayers = 2;
    using AttentionBlock = AnyBlock<Dropout<MultiHeadAttention<T, N>>, N>;
    using FeedForwardBlock = AnyBlock<Dropout<FeedForward<T, N>>, N>;
    using Streams = std::vector<Activations<T>>;

    struct Gradients {
        typename AttentionBlock::Gradients attention;
        typename FeedForwardBlock::Gradients feed_forward;
        template <class Self>
        static auto members(Self& self) {
            return std::make_tuple(named("attention", self.attention), named("feed_forward", self.feed_forward));
        }
    };
    struct Cache {
        typename AttentionBlock::Cache attention;
        typename FeedForwardBlock::Cache feed_forward;
        Streams between;     // the streams, or their gradients, between the two blocks
        DropoutKey dropout;  ///< set by the caller before forward; without: no dropout
    };

    AttentionBlock attention;
    FeedForwardBlock feed_forward;

    AnyEncoderLayer(const AnyPlacement& placement, const EncoderOptions& options, const Depth& depth)
        : attention(placement,
                    {.width = options.width,
                     .heads = options.heads,
                     .causal = options.causal,
                     .bias = options.bias,
                     .output_projection = options.output_projection},
                    detail::with_branches(depth, options.branch_squares, sublayers, 0),
                    {.epsilon = options.epsilon, .bias = options.bias, .kind = options.norm}),
          feed_forward(placement,
                       {.width = options.width,
                        .feed_forward = options.feed_forward,
                        .bias = options.bias,
                        .activation = options.activation},
                       detail::with_branches(depth, options.branch_squares, sublayers, 1),
                       {.epsilon = options.epsilon, .bias = options.bias, .kind = options.norm}) {}

    void initialize(RandomEngine& random, const Initialization& scheme = Initialization::xavier()) {
        attention.initialize(random, scheme);
        feed_forward.initialize(random, scheme);
    }

    /// x, y: (B, S, D) of every stream. `observe(kind, stream)` sees the first stream as it leaves each of the two
    /// blocks.
    template <class Observe>
    void forward(std::span<const Activations<T>> x, std::span<Activations<T>> y, Cache& cache,
                 const KeyPaddingMask& mask, Observe&& observe) const {
        cache.attention.sublayer.dropout = cache.dropout.at(0);
        cache.feed_forward.sublayer.dropout = cache.dropout.at(1);
        cache.feed_forward.lent = &attention.gates;
        cache.between.resize(attention.streams());
        attention.forward(x, cache.between, cache.attention, mask);
        observe(SublayerKind::attention, cache.between[0]);
        feed_forward.forward(cache.between, y, cache.feed_forward);
        observe(SublayerKind::feed_forward, y[0]);
    }
    /// The same for a placement with one stream.
    void forward(const Activations<T>& x, Activations<T>& y, Cache& cache, const KeyPaddingMask& mask = {}) const {
        forward(std::span(&x, 1), std::span(&y, 1), cache, mask, [](SublayerKind, const Activations<T>&) {});
    }

    /// Sets dx, adds to gradients. `observe(kind, gradient)` sees dLoss/d(first stream) where it leaves each block.
    template <class Observe>
    void backward(std::span<const Activations<T>> dy, std::span<Activations<T>> dx, Cache& cache, Gradients& gradients,
                  Observe&& observe) const {
        cache.feed_forward.lent = &attention.gates;
        cache.feed_forward.lent_gradients = &gradients.attention.gates;
        observe(SublayerKind::feed_forward, dy[0]);
        feed_forward.backward(dy, cache.between, cache.feed_forward, gradients.feed_forward);
        observe(SublayerKind::attention, cache.between[0]);
        attention.backward(cache.between, dx, cache.attention, gradients.attention);
    }
    void backward(const Activations<T>& dy, Activations<T>& dx, Cache& cache, Gradients& gradients) const {
        backward(std::span(&dy, 1), std::span(&dx, 1), cache, gradients, [](SublayerKind, const Activations<T>&) {});
    }
};

/// Under placement P.
template <class P, class T, class N = LayerNorm<T>>
class EncoderLayer : public AnyEncoderLayer<T, N> {
    static_assert(explain_placement<P>() && explain_norm<P, N>());

public:
    explicit EncoderLayer(const EncoderOptions& options, const Depth& depth = {})
        : AnyEncoderLayer<T, N>(any_placement<P>, options, depth) {}
};

/// L encoder layers, and what the placement ends them with: `layers.0.attention.query.weight` to
/// `layers.11.feed_forward.norm.bias`, `final_norm.gain`. Of any placement: compiled once for all of them.
template <class T, class N>
class AnyEncoder : public LayerStack<AnyEncoderLayer<T, N>, N> {
    using Stack = LayerStack<AnyEncoderLayer<T, N>, N>;

public:
    using typename Stack::Cache;
    using typename Stack::Gradients;
    using typename Stack::Layer;

    AnyEncoder(const AnyPlacement& placement, const EncoderOptions& options)
        : Stack("Encoder", placement, options,
                {.layers = options.layers,
                 .stack = options.decoder_layers ? StackKind::encoder : StackKind::alone,
                 .other_layers = options.decoder_layers}) {}

    /// x, y: (B, S, D); `mask` (B, S) is true where a token is padding. `observe(layer, kind, stream)` sees the
    /// (first) residual stream as it leaves each block, layers counted from 0.
    template <class Observe>
    void forward(const Activations<T>& x, Activations<T>& y, Cache& cache, const KeyPaddingMask& mask,
                 Observe&& observe) const {
        this->forward_layers(x, y, cache,
                             [&](std::size_t l, const Layer& layer, std::span<const Activations<T>> in,
                                 std::span<Activations<T>> out, typename Layer::Cache& layer_cache) {
                                 layer.forward(
                                     in, out, layer_cache, mask,
                                     [&](SublayerKind kind, const Activations<T>& seen) { observe(l, kind, seen); });
                             });
    }
    void forward(const Activations<T>& x, Activations<T>& y, Cache& cache, const KeyPaddingMask& mask = {}) const {
        forward(x, y, cache, mask, [](std::size_t, SublayerKind, const Activations<T>&) {});
    }

    /// Sets dx = dLoss/dx, given dy = dLoss/dy of the last forward with this cache. Adds to gradients.
    /// `observe(layer, kind, gradient)` sees dLoss/d(stream) where the stream leaves each block.
    template <class Observe>
    void backward(const Activations<T>& dy, Activations<T>& dx, Cache& cache, Gradients& gradients,
                  Observe&& observe) const {
        this->backward_layers(
            dy, dx, cache, gradients,
            [&](std::size_t l, const Layer& layer, std::span<const Activations<T>> out, std::span<Activations<T>> in,
                typename Layer::Cache& layer_cache, typename Layer::Gradients& layer_gradients) {
                layer.backward(out, in, layer_cache, layer_gradients,
                               [&](SublayerKind kind, const Activations<T>& seen) { observe(l, kind, seen); });
            });
    }
    void backward(const Activations<T>& dy, Activations<T>& dx, Cache& cache, Gradients& gradients) const {
        backward(dy, dx, cache, gradients, [](std::size_t, SublayerKind, const Activations<T>&) {});
    }
};

/// Under placement P.
template <class P, class T, class N = LayerNorm<T>>
class Encoder : public AnyEncoder<T, N> {
    static_assert(explain_placement<P>() && explain_norm<P, N>());

public:
    /// @throws std::invalid_argument when a size is 0, or the width is not divisible by the number of heads
    explicit Encoder(const EncoderOptions& options) : AnyEncoder<T, N>(any_placement<P>, options) {}
};

}  // namespace normplace
