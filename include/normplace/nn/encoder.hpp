// SPDX-License-Identifier: BSD-3-Clause
//
// The encoder layer (a self-attention block, then a feed-forward block) and the stack of them, which ends in a norm
// exactly when the placement says so.
#pragma once

#include <tuple>

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
};

template <class P, class T, class N = LayerNorm<T>>
class EncoderLayer {
public:
    using Scalar = T;
    using Options = EncoderOptions;
    using AttentionBlock = ResidualBlock<P, Dropout<MultiHeadAttention<T>>, N>;
    using FeedForwardBlock = ResidualBlock<P, Dropout<FeedForward<T>>, N>;

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
        Activations<T> between;  // the stream, or its gradient, between the two blocks
        DropoutKey dropout;      ///< set by the caller before forward; without: no dropout
    };

    AttentionBlock attention;
    FeedForwardBlock feed_forward;

    explicit EncoderLayer(const EncoderOptions& options, const Depth& depth = {})
        : attention({options.width, options.heads, options.causal, options.bias, options.output_projection}, depth,
                    options.epsilon, options.bias),
          feed_forward({options.width, options.feed_forward, options.bias, options.activation}, depth, options.epsilon,
                       options.bias) {}

    void initialize(RandomEngine& random, const Initialization& scheme = Initialization::xavier()) {
        attention.initialize(random, scheme);
        feed_forward.initialize(random, scheme);
    }

    /// x, y: (B, S, D). `observe(kind, stream)` sees the stream as it leaves each of the two blocks.
    template <class Observe>
    void forward(const Activations<T>& x, Activations<T>& y, Cache& cache, const KeyPaddingMask& mask,
                 Observe&& observe) const {
        cache.attention.sublayer.dropout = cache.dropout.at(0);
        cache.feed_forward.sublayer.dropout = cache.dropout.at(1);
        attention.forward(x, cache.between, cache.attention, mask);
        observe(SublayerKind::attention, cache.between);
        feed_forward.forward(cache.between, y, cache.feed_forward);
        observe(SublayerKind::feed_forward, y);
    }
    void forward(const Activations<T>& x, Activations<T>& y, Cache& cache, const KeyPaddingMask& mask = {}) const {
        forward(x, y, cache, mask, [](SublayerKind, const Activations<T>&) {});
    }

    /// Sets dx, adds to gradients. `observe(kind, gradient)` sees dLoss/d(stream) where the stream leaves each block.
    template <class Observe>
    void backward(const Activations<T>& dy, Activations<T>& dx, Cache& cache, Gradients& gradients,
                  Observe&& observe) const {
        observe(SublayerKind::feed_forward, dy);
        feed_forward.backward(dy, cache.between, cache.feed_forward, gradients.feed_forward);
        observe(SublayerKind::attention, cache.between);
        attention.backward(cache.between, dx, cache.attention, gradients.attention);
    }
    void backward(const Activations<T>& dy, Activations<T>& dx, Cache& cache, Gradients& gradients) const {
        backward(dy, dx, cache, gradients, [](SublayerKind, const Activations<T>&) {});
    }
};

/// L encoder layers under placement P, and its final norm if it has one: `layers.0.attention.query.weight` to
/// `layers.11.feed_forward.norm.bias`, `final_norm.gain`.
template <class P, class T, class N = LayerNorm<T>>
class Encoder : public LayerStack<P, EncoderLayer<P, T, N>, N> {
    using Stack = LayerStack<P, EncoderLayer<P, T, N>, N>;

public:
    using typename Stack::Cache;
    using typename Stack::Gradients;
    using typename Stack::Layer;

    /// @throws std::invalid_argument when a size is 0, or the width is not divisible by the number of heads
    explicit Encoder(const EncoderOptions& options) : Stack("Encoder", options) {}

    /// x, y: (B, S, D); `mask` (B, S) is true where a token is padding. `observe(layer, kind, stream)` sees the
    /// residual stream as it leaves each block, layers counted from 0.
    template <class Observe>
    void forward(const Activations<T>& x, Activations<T>& y, Cache& cache, const KeyPaddingMask& mask,
                 Observe&& observe) const {
        this->forward_layers(x, y, cache,
                             [&](std::size_t l, const Layer& layer, const Activations<T>& in, Activations<T>& out,
                                 typename Layer::Cache& layer_cache) {
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
        this->backward_layers(dy, dx, cache, gradients,
                              [&](std::size_t l, const Layer& layer, const Activations<T>& out, Activations<T>& in,
                                  typename Layer::Cache& layer_cache, typename Layer::Gradients& layer_gradients) {
                                  layer.backward(
                                      out, in, layer_cache, layer_gradients,
                                      [&](SublayerKind kind, const Activations<T>& seen) { observe(l, kind, seen); });
                              });
    }
    void backward(const Activations<T>& dy, Activations<T>& dx, Cache& cache, Gradients& gradients) const {
        backward(dy, dx, cache, gradients, [](std::size_t, SublayerKind, const Activations<T>&) {});
    }
};

}  // namespace normplace
