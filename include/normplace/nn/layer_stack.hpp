// SPDX-License-Identifier: BSD-3-Clause
//
// L layers one after the other, and the placement's final norm if it has one: what the encoder and the decoder share.
// The stack owns the streams between layers; what a layer is made of, and what else it reads (a mask, a memory), it
// does not know.
#pragma once

#include <tuple>
#include <type_traits>
#include <vector>

#include <normplace/nn/dropout.hpp>
#include <normplace/nn/norm.hpp>
#include <normplace/nn/parameters.hpp>
#include <normplace/placement/placement.hpp>

namespace normplace {

/// Parameters are `layers.0.attention.query.weight` and so on (layers counted from 0, as in PyTorch), and
/// `final_norm.gain`.
template <class P, class Layer_, class N>
class LayerStack {
    static_assert(explain_placement<P>());

public:
    using Placement = P;
    using Layer = Layer_;
    using Scalar = typename Layer::Scalar;
    using Options = typename Layer::Options;
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
        Activations<Scalar> streams[2];  // between the layers, in turn; gradients on the way back
        DropoutKey dropout;              ///< set by the caller before forward; without: no dropout
    };

    std::vector<Layer> layers;
    FinalNorm final_norm;

    const Options& options() const { return options_; }

    /// Draws every weight; norms and biases keep their 1 and 0.
    void initialize(RandomEngine& random, const Initialization& scheme = Initialization::xavier()) {
        for (Layer& layer : layers) layer.initialize(random, scheme);
    }

protected:
    LayerStack(const char* name, const Options& options) : name_(name), options_(options) {
        detail::require_positive(name, "layers", options.layers);
        for (std::size_t l = 1; l <= options.layers; ++l) layers.emplace_back(options, Depth{l, options.layers});
        if constexpr (P::final_norm) final_norm = N(NormOptions{options.width, options.epsilon, options.bias});
    }

    /// run(l, layer, x, y, cache) computes one layer.
    template <class Run>
    void forward_layers(const Activations<Scalar>& x, Activations<Scalar>& y, Cache& cache, const Run& run) const {
        detail::require_width(name_, "x", x, options_.width);
        detail::require_distinct(name_, "x", x, "y", y);
        cache.layers.resize(layers.size());
        const Activations<Scalar>* stream = &x;
        for (std::size_t l = 0; l < layers.size(); ++l) {
            const bool last = l + 1 == layers.size();
            Activations<Scalar>& next = last && !P::final_norm ? y : cache.streams[l % 2];
            cache.layers[l].dropout = cache.dropout.at(l);
            run(l, layers[l], *stream, next, cache.layers[l]);
            stream = &next;
        }
        if constexpr (P::final_norm) final_norm.forward(*stream, y, cache.final_norm);
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
        const Activations<Scalar>* gradient = &dy;
        if constexpr (P::final_norm) {
            final_norm.backward(dy, cache.streams[layers.size() % 2], cache.final_norm, gradients.final_norm);
            gradient = &cache.streams[layers.size() % 2];
        }
        for (std::size_t l = layers.size(); l-- > 0;) {
            Activations<Scalar>& next = l == 0 ? dx : cache.streams[l % 2];
            run(l, layers[l], *gradient, next, cache.layers[l], gradients.layers[l]);
            gradient = &next;
        }
    }

private:
    const char* name_;
    Options options_;
};

}  // namespace normplace
