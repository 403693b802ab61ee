// SPDX-License-Identifier: BSD-3-Clause
//
// L layers one after the other, and what the placement ends a stack with: what the encoder and the decoder share. The
// stack owns the streams between layers; what a layer is made of, and what else it reads (a mask, a memory), it does
// not know.
#pragma once

#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <normplace/nn/any_block.hpp>
#include <normplace/nn/dropout.hpp>

namespace normplace {

namespace detail {
/// The place of the number-th sublayer, counted from 0, of a layer that has `count`.
inline Depth with_branches(Depth depth, const std::vector<double>& branch_squares, std::size_t count,
                           std::size_t number) {
    const auto before = static_cast<std::ptrdiff_t>(count * (depth.layer - 1) + number);
    if (!branch_squares.empty())
        depth.earlier_branches = std::accumulate(branch_squares.begin(), branch_squares.begin() + before, 0.0);
    return depth;
}
}  // namespace detail

/// Every stream starts as the stack's input. Parameters are `layers.0.attention.query.weight` and so on (layers counted
/// from 0, as in PyTorch), and `final_norm.gain`.
template <class Layer_, class N>
class LayerStack {
public:
    using Layer = Layer_;
    using Scalar = typename Layer::Scalar;
    using Options = typename Layer::Options;
    using Output = AnyBlock<NoSublayer<Scalar>, N>;

    struct Gradients {
        std::vector<typename Layer::Gradients> layers;
        typename Output::Gradients output;
        template <class Self>
        static auto members(Self& self) {
            return std::make_tuple(named("layers", self.layers), named("", self.output));
        }
    };
    struct Cache {
        std::vector<typename Layer::Cache> layers;
        typename Output::Cache output;
        std::vector<Activations<Scalar>> input;       // for each stream, where there are several
        std::vector<Activations<Scalar>> streams[2];  // between the layers, in turn; gradients on the way back
        DropoutKey dropout;                           ///< set by the caller before forward; without: no dropout
    };

    std::vector<Layer> layers;
    Output output;  ///< holds the final norm, as norms[0], if there is one

    const Options& options() const { return options_; }

    /// Draws every weight; norms, gates and biases keep what they start with.
    void initialize(RandomEngine& random, const Initialization& scheme = Initialization::xavier()) {
        for (Layer& layer : layers) layer.initialize(random, scheme);
    }

protected:
    /// @param depth of the first layer
    LayerStack(const char* name, const AnyPlacement& placement, const Options& options, Depth depth)
        : output(Output::output(placement, {options.width}, last_of(depth, options.layers),
                                {.epsilon = options.epsilon, .bias = options.bias, .kind = options.norm})),
          name_(name),
          options_(options),
          streams_(placement.streams()),
          is_output_itself_(streams_ == 1 && placement.output == x) {
        detail::require_positive(name, "layers", options.layers);
        const std::vector<double>& squares = options.branch_squares;
        detail::require(squares.empty() || squares.size() == Layer::sublayers * options.layers, name, [&] {
            return "branch_squares has " + std::to_string(squares.size()) + " numbers, expected " +
                   std::to_string(Layer::sublayers * options.layers) + ", one for each sublayer, or none";
        });
        for (depth.layer = 1; depth.layer <= options.layers; ++depth.layer)
            layers.emplace_back(placement, options, depth);
    }

    /// run(l, layer, x, y, cache) computes one layer, from every stream to every stream.
    template <class Run>
    void forward_layers(const Activations<Scalar>& x, Activations<Scalar>& y, Cache& cache, const Run& run) const {
        detail::require_width(name_, "x", x, options_.width);
        detail::require_distinct(name_, "x", x, "y", y);
        cache.layers.resize(layers.size());
        std::span<const Activations<Scalar>> stream(&x, 1);
        if (streams_ > 1) {
            cache.input.resize(streams_);
            for (Activations<Scalar>& copy : cache.input) detail::copy(x, copy);
            stream = cache.input;
        }
        for (std::size_t l = 0; l < layers.size(); ++l) {
            const bool last = l + 1 == layers.size();
            std::span<Activations<Scalar>> next =
                last && is_output_itself_ ? std::span(&y, 1) : memory(cache.streams[l % 2]);
            cache.layers[l].dropout = cache.dropout.at(l);
            run(l, layers[l], stream, next, cache.layers[l]);
            stream = next;
        }
        if (!is_output_itself_) output.forward(stream, std::span(&y, 1), cache.output);
    }

    /// run(l, layer, dy, dx, cache, gradients) goes back through one layer.
    template <class Run>
    void backward_layers(const Activations<Scalar>& dy, Activations<Scalar>& dx, Cache& cache, Gradients& gradients,
                         const Run& run) const {
        detail::require(cache.layers.size() == layers.size(), name_, [&] {
            return "the cache has " + std::to_string(cache.layers.size()) + " layers, expected " +
                   std::to_string(layers.size()) + "; backward needs the cache of a forward";
        });
        detail::require(gradients.layers.size() == layers.size(), name_, [&] {
            return "gradients have " + std::to_string(gradients.layers.size()) + " layers, expected " +
                   std::to_string(layers.size()) + "; call zero_gradients first";
        });
        detail::require_distinct(name_, "dy", dy, "dx", dx);
        std::span<const Activations<Scalar>> gradient(&dy, 1);
        if (!is_output_itself_) {
            const std::span<Activations<Scalar>> next = memory(cache.streams[layers.size() % 2]);
            output.backward(gradient, next, cache.output, gradients.output);
            gradient = next;
        }
        for (std::size_t l = layers.size(); l-- > 0;) {
            const std::span<Activations<Scalar>> next =
                l == 0 && streams_ == 1 ? std::span(&dx, 1) : memory(cache.streams[l % 2]);
            run(l, layers[l], gradient, next, cache.layers[l], gradients.layers[l]);
            gradient = next;
        }
        if (streams_ == 1) return;
        detail::copy(gradient[0], dx);
        for (const Activations<Scalar>& other : gradient.subspan(1)) {
            const Scalar* more = other.data();
            for (Scalar& entry : dx.storage()) entry += *more++;
        }
    }

private:
    static Depth last_of(Depth depth, std::size_t layers) {
        depth.layer = layers;
        return depth;
    }
    std::span<Activations<Scalar>> memory(std::vector<Activations<Scalar>>& streams) const {
        streams.resize(streams_);
        return streams;
    }

    const char* name_;
    Options options_;
    std::size_t streams_;
    bool is_output_itself_;
};

}  // namespace normplace
