// SPDX-License-Identifier: BSD-3-Clause
//
// The decoder layer (a causal self-attention block, a cross-attention block over the encoder's output, a feed-forward
// block) and the stack of them, which ends as the placement says. Vaswani et al. 2017,
// arXiv:1706.03762.
#pragma once

#include <span>
#include <tuple>

#include <normplace/nn/attention.hpp>
#include <normplace/nn/dropout.hpp>
#include <normplace/nn/feed_forward.hpp>
#include <normplace/nn/layer_stack.hpp>
#include <normplace/nn/residual_block.hpp>

namespace normplace {

struct DecoderOptions {
    std::size_t layers = 0;        ///< L
    std::size_t width = 0;         ///< D, of the memory too
    std::size_t heads = 1;         ///< H
    std::size_t feed_forward = 0;  ///< F
    bool bias = true;              ///< of the linear layers and of the norms
    double epsilon = 1e-5;
    Activation activation = relu;
    NormKind norm = NormKind::layer_norm;  ///< where the norm is AnyNorm, and the placement has none of its own
    std::size_t encoder_layers = 0;        ///< of the encoder that makes the memory; 0: as many as the decoder has
    /// E f(x)^2 of each of the 3L sublayers, as EncoderOptions has it.
    std::vector<double> branch_squares{};
};

/// What the decoder looks at beside its own stream: the encoder's output (B, M, D) and where that is padding (B, M).
template <class T>
struct Memory {
    const Activations<T>& states;
    const KeyPaddingMask& padding;
};

/// Of any placement: compiled once for all of them.
template <class T, class N>
class AnyDecoderLayer {
public:
    using Scalar = T;
    using Options = DecoderOptions;
    static constexpr std::size_t sublayers = 3;
    using SelfAttentionBlock = AnyBlock<Dropout<MultiHeadAttention<T, N>>, N>;
    using CrossAttentionBlock = AnyBlock<Dropout<CrossAttention<T, N>>, N>;
    using FeedForwardBlock = AnyBlock<Dropout<FeedForward<T, N>>, N>;
    using Streams = std::vector<Activations<T>>;

    struct Gradients {
        typename SelfAttentionBlock::Gradients self_attention;
        typename CrossAttentionBlock::Gradients cross_attention;
        typename FeedForwardBlock::Gradients feed_forward;
        template <class Self>
        static auto members(Self& self) {
            return std::make_tuple(named("self_attention", self.self_attention),
                                   named("cross_attention", self.cross_attention),
                                   named("feed_forward", self.feed_forward));
        }
    };
    struct Cache {
        typename SelfAttentionBlock::Cache self_attention;
        typename CrossAttentionBlock::Cache cross_attention;
        typename FeedForwardBlock::Cache feed_forward;
        Streams streams[2];  // the streams, or their gradients, between the blocks
        DropoutKey dropout;  ///< set by the caller before forward; without: no dropout
    };

    SelfAttentionBlock self_attention;
    CrossAttentionBlock cross_attention;
    FeedForwardBlock feed_forward;

    AnyDecoderLayer(const AnyPlacement& placement, const DecoderOptions& options, const Depth& depth)
        : self_attention(placement, attention_options(options, true),
                         detail::with_branches(depth, options.branch_squares, sublayers, 0), norm_options(options)),
          cross_attention(placement, attention_options(options, false),
                          detail::with_branches(depth, options.branch_squares, sublayers, 1), norm_options(options)),
          feed_forward(placement,
                       {.width = options.width,
                        .feed_forward = options.feed_forward,
                        .bias = options.bias,
                        .activation = options.activation},
                       detail::with_branches(depth, options.branch_squares, sublayers, 2), norm_options(options)) {}

    void initialize(RandomEngine& random, const Initialization& scheme = Initialization::xavier()) {
        self_attention.initialize(random, scheme);
        cross_attention.initialize(random, scheme);
        feed_forward.initialize(random, scheme);
    }

    /// x, y: (B, S, D) of every stream. `observe(kind, stream)` sees the first stream as it leaves each of the three
    /// blocks.
    template <class Observe>
    void forward(std::span<const Activations<T>> x, std::span<Activations<T>> y, Cache& cache, const Memory<T>& memory,
                 Observe&& observe) const {
        lend(cache);
        cache.self_attention.sublayer.dropout = cache.dropout.at(0);
        cache.cross_attention.sublayer.dropout = cache.dropout.at(1);
        cache.feed_forward.sublayer.dropout = cache.dropout.at(2);
        self_attention.forward(x, cache.streams[0], cache.self_attention);
        observe(SublayerKind::attention, cache.streams[0][0]);
        cross_attention.forward(cache.streams[0], cache.streams[1], cache.cross_attention, memory.states,
                                memory.padding);
        observe(SublayerKind::cross_attention, cache.streams[1][0]);
        feed_forward.forward(cache.streams[1], y, cache.feed_forward);
        observe(SublayerKind::feed_forward, y[0]);
    }

    /// One decoding step (attention.hpp): x, y (B, 1, D) of every stream.
    void decode(std::span<const Activations<T>> x, std::span<Activations<T>> y, Cache& cache, const Memory<T>& memory,
                const DecodingStep& step) const {
        lend(cache);
        cache.self_attention.sublayer.dropout = {};
        cache.cross_attention.sublayer.dropout = {};
        cache.feed_forward.sublayer.dropout = {};
        self_attention.forward(x, cache.streams[0], cache.self_attention, step);
        cross_attention.forward(cache.streams[0], cache.streams[1], cache.cross_attention, memory.states,
                                memory.padding, step);
        feed_forward.forward(cache.streams[1], y, cache.feed_forward);
    }
    void select(Cache& cache, std::span<const std::size_t> parents) const {
        self_attention.sublayer.select(cache.self_attention.sublayer, parents);
        cross_attention.sublayer.select(cache.cross_attention.sublayer, parents);
    }

    /// Sets dx and dmemory (B, M, D), adds to gradients. `observe(kind, gradient)` sees dLoss/d(first stream) where it
    /// leaves each block.
    template <class Observe>
    void backward(std::span<const Activations<T>> dy, std::span<Activations<T>> dx, Activations<T>& dmemory,
                  Cache& cache, Gradients& gradients, Observe&& observe) const {
        cache.cross_attention.lent = cache.feed_forward.lent = &self_attention.gates;
        cache.cross_attention.lent_gradients = cache.feed_forward.lent_gradients = &gradients.self_attention.gates;
        observe(SublayerKind::feed_forward, dy[0]);
        feed_forward.backward(dy, cache.streams[1], cache.feed_forward, gradients.feed_forward);
        observe(SublayerKind::cross_attention, cache.streams[1][0]);
        cross_attention.backward(cache.streams[1], cache.streams[0], cache.cross_attention, gradients.cross_attention,
                                 dmemory);
        observe(SublayerKind::attention, cache.streams[0][0]);
        self_attention.backward(cache.streams[0], dx, cache.self_attention, gradients.self_attention);
    }

private:
    void lend(Cache& cache) const {
        for (Streams& streams : cache.streams) streams.resize(self_attention.streams());
        cache.cross_attention.lent = cache.feed_forward.lent = &self_attention.gates;
    }
    static AttentionOptions attention_options(const DecoderOptions& options, bool causal) {
        return {.width = options.width, .heads = options.heads, .causal = causal, .bias = options.bias};
    }
    static NormOptions norm_options(const DecoderOptions& options) {
        return {.epsilon = options.epsilon, .bias = options.bias, .kind = options.norm};
    }
};

/// L decoder layers, and what the placement ends them with: `layers.0.self_attention.query.weight` to
/// `layers.5.feed_forward.norm.bias`, `final_norm.gain`. Of any placement: compiled once for all of them.
template <class T, class N>
class AnyDecoder : public LayerStack<AnyDecoderLayer<T, N>, N> {
    using Stack = LayerStack<AnyDecoderLayer<T, N>, N>;

public:
    using typename Stack::Gradients;
    using typename Stack::Layer;
    struct Cache : Stack::Cache {
        Activations<T> dmemory;  // of one layer
    };

    AnyDecoder(const AnyPlacement& placement, const DecoderOptions& options)
        : Stack("Decoder", placement, options,
                {.layers = options.layers,
                 .stack = StackKind::decoder,
                 .other_layers = options.encoder_layers ? options.encoder_layers : options.layers}) {}

    /// x, y: (B, S, D). A token attends to itself, to those before it, and to the whole memory. `observe(layer, kind,
    /// stream)` sees the residual stream as it leaves each block, layers counted from 0.
    template <class Observe>
    void forward(const Activations<T>& x, Activations<T>& y, Cache& cache, const Memory<T>& memory,
                 Observe&& observe) const {
        this->forward_layers(x, y, cache,
                             [&](std::size_t l, const Layer& layer, std::span<const Activations<T>> in,
                                 std::span<Activations<T>> out, typename Layer::Cache& layer_cache) {
                                 layer.forward(
                                     in, out, layer_cache, memory,
                                     [&](SublayerKind kind, const Activations<T>& seen) { observe(l, kind, seen); });
                             });
    }
    void forward(const Activations<T>& x, Activations<T>& y, Cache& cache, const Memory<T>& memory) const {
        forward(x, y, cache, memory, [](std::size_t, SublayerKind, const Activations<T>&) {});
    }

    /// One decoding step: x, y (B, 1, D). What it computes is the row at step.position of the other forward, without
    /// dropout. The memory is read at position 0 only.
    void decode(const Activations<T>& x, Activations<T>& y, Cache& cache, const Memory<T>& memory,
                const DecodingStep& step) const {
        cache.dropout = {};
        this->forward_layers(
            x, y, cache,
            [&](std::size_t, const Layer& layer, std::span<const Activations<T>> in, std::span<Activations<T>> out,
                typename Layer::Cache& layer_cache) { layer.decode(in, out, layer_cache, memory, step); });
    }
    /// Between two decoding steps: sequence i goes on from what was sequence `parents[i]`.
    void select(Cache& cache, std::span<const std::size_t> parents) const {
        for (std::size_t l = 0; l < this->layers.size(); ++l) this->layers[l].select(cache.layers[l], parents);
    }

    /// Sets dx (B, S, D) and dmemory (B, M, D), given dy = dLoss/dy of the last forward with this cache. Adds to
    /// gradients. `observe(layer, kind, gradient)` sees dLoss/d(stream) where the stream leaves each block.
    template <class Observe>
    void backward(const Activations<T>& dy, Activations<T>& dx, Activations<T>& dmemory, Cache& cache,
                  Gradients& gradients, Observe&& observe) const {
        this->backward_layers(
            dy, dx, cache, gradients,
            [&](std::size_t l, const Layer& layer, std::span<const Activations<T>> out, std::span<Activations<T>> in,
                typename Layer::Cache& layer_cache, typename Layer::Gradients& layer_gradients) {
                const bool last = l + 1 == this->layers.size();
                layer.backward(out, in, last ? dmemory : cache.dmemory, layer_cache, layer_gradients,
                               [&](SublayerKind kind, const Activations<T>& seen) { observe(l, kind, seen); });
                if (last) return;
                const T* more = cache.dmemory.data();
                for (T& entry : dmemory.storage()) entry += *more++;
            });
    }
    void backward(const Activations<T>& dy, Activations<T>& dx, Activations<T>& dmemory, Cache& cache,
                  Gradients& gradients) const {
        backward(dy, dx, dmemory, cache, gradients, [](std::size_t, SublayerKind, const Activations<T>&) {});
    }
};

/// Under placement P.
template <class P, class T, class N = LayerNorm<T>>
class Decoder : public AnyDecoder<T, N> {
    static_assert(explain_placement<P>() && explain_norm<P, N>());

public:
    /// @throws std::invalid_argument when a size is 0, or the width is not divisible by the number of heads
    explicit Decoder(const DecoderOptions& options) : AnyDecoder<T, N>(any_placement<P>, options) {}
};

}  // namespace normplace
