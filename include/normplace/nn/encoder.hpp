// SPDX-License-Identifier: BSD-3-Clause
//
// The encoder layer (a self-attention block, then a feed-forward block) and the stack of them, which ends in a norm
// exactly when the placement says so.
#pragma once

#include <tuple>
#include <type_traits>
#include <vector>

#include <normplace/nn/attention.hpp>
#include <normplace/nn/feed_forward.hpp>
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
    using AttentionBlock = ResidualBlock<P, MultiHeadAttention<T>, N>;
    using FeedForwardBlock = ResidualBlock<P, FeedForward<T>, N>;

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

/// L encoder layers under placement P, and its final norm if it has one. Parameters are
/// `layers.0.attention.query.weight` to `layers.11.feed_forward.norm.bias` (layers counted from 0, as in PyTorch), and
/// `final_norm.gain`.
template <class P, class T, class N = LayerNorm<T>>
class Encoder {
    static_assert(explain_placement<P>());

public:
    using Scalar = T;
    using Placement = P;
    using Options = EncoderOptions;
    using Layer = EncoderLayer<P, T, N>;
    using FinalNorm = std::conditional_t<P::final_norm, N, NoParameters>;

    struct Gradients {
        std::vector<typename Layer::Gradients> layers;
        typename FinalNorm::Gradients final_norm;
        template <class Self>
        static auto members(Self& self) {
            return std::make_tuple(named("layers", self.layers), named("final_norm", self.final_norm));
        }
    };
    struct Cache {
        std::vector<typename Layer::Cache> layers;
        typename N::Cache final_norm;
        Activations<T> streams[2];  // between the layers, in turn; gradients on the way back
    };

    std::vector<Layer> layers;
    FinalNorm final_norm;

    /// @throws std::invalid_argument when a size is 0, or the width is not divisible by the number of heads
    explicit Encoder(const EncoderOptions& options) : options_(options) {
        detail::require_positive("Encoder", "layers", options.layers);
        for (std::size_t l = 1; l <= options.layers; ++l) layers.emplace_back(options, Depth{l, options.layers});
        if constexpr (P::final_norm) final_norm = N(NormOptions{options.width, options.epsilon, options.bias});
    }

    const EncoderOptions& options() const { return options_; }

    /// Draws every weight; norms and biases keep their 1 and 0.
    void initialize(RandomEngine& random, const Initialization& scheme = Initialization::xavier()) {
        for (Layer& layer : layers) layer.initialize(random, scheme);
    }

    /// x, y: (B, S, D); `mask` (B, S) is true where a token is padding. `observe(layer, kind, stream)` sees the
    /// residual stream as it leaves each block, layers counted from 0.
    template <class Observe>
    void forward(const Activations<T>& x, Activations<T>& y, Cache& cache, const KeyPaddingMask& mask,
                 Observe&& observe) const {
        detail::require_width("Encoder", "x", x, options_.width);
        detail::require_distinct("Encoder", "x", x, "y", y);
        cache.layers.resize(layers.size());
        const Activations<T>* stream = &x;
        for (std::size_t l = 0; l < layers.size(); ++l) {
            const bool last = l + 1 == layers.size();
            Activations<T>& next = last && !P::final_norm ? y : cache.streams[l % 2];
            layers[l].forward(*stream, next, cache.layers[l], mask,
                              [&](SublayerKind kind, const Activations<T>& seen) { observe(l, kind, seen); });
            stream = &next;
        }
        if constexpr (P::final_norm) final_norm.forward(*stream, y, cache.final_norm);
    }
    void forward(const Activations<T>& x, Activations<T>& y, Cache& cache, const KeyPaddingMask& mask = {}) const {
        forward(x, y, cache, mask, [](std::size_t, SublayerKind, const Activations<T>&) {});
    }

    /// Sets dx = dLoss/dx, given dy = dLoss/dy of the last forward with this cache. Adds to gradients.
    /// `observe(layer, kind, gradient)` sees dLoss/d(stream) where the stream leaves each block.
    template <class Observe>
    void backward(const Activations<T>& dy, Activations<T>& dx, Cache& cache, Gradients& gradients,
                  Observe&& observe) const {
        detail::require(cache.layers.size() == layers.size(), "Encoder", [&] {
            return "the cache has " + std::to_string(cache.layers.size()) + " layers, expected " +
                   std::to_string(layers.size()) + "; backward needs the cache of a forward";
        });
        detail::require(gradients.layers.size() == layers.size(), "Encoder", [&] {
            return "gradients have " + std::to_string(gradients.layers.size()) + " layers, expected " +
                   std::to_string(layers.size()) + "; call zero_gradients first";
        });
        detail::require_distinct("Encoder", "dy", dy, "dx", dx);
        const Activations<T>* gradient = &dy;
        if constexpr (P::final_norm) {
            final_norm.backward(dy, cache.streams[layers.size() % 2], cache.final_norm, gradients.final_norm);
            gradient = &cache.streams[layers.size() % 2];
        }
        for (std::size_t l = layers.size(); l-- > 0;) {
            Activations<T>& next = l == 0 ? dx : cache.streams[l % 2];
            layers[l].backward(*gradient, next, cache.layers[l], gradients.layers[l],
                               [&](SublayerKind kind, const Activations<T>& seen) { observe(l, kind, seen); });
            gradient = &next;
        }
    }
    void backward(const Activations<T>& dy, Activations<T>& dx, Cache& cache, Gradients& gradients) const {
        backward(dy, dx, cache, gradients, [](std::size_t, SublayerKind, const Activations<T>&) {});
    }

private:
    EncoderOptions options_;
};

}  // namespace normplace
