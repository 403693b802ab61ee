// SPDX-License-Identifier: BSD-3-Clause
//
// The feed-forward sublayer: y = W_2 phi(W_1 x + b_1) + b_2, W_1 (F, D), W_2 (D, F).
#pragma once

#include <tuple>

#include <normplace/nn/linear.hpp>
#include <normplace/placement/activation.hpp>

namespace normplace {

struct FeedForwardOptions {
    std::size_t width = 0;         ///< D
    std::size_t feed_forward = 0;  ///< F
    bool bias = true;
    Activation activation = relu;
};

template <class T>
class FeedForward {
public:
    using Scalar = T;
    using Options = FeedForwardOptions;
    static constexpr SublayerKind kind = SublayerKind::feed_forward;

    struct Gradients {
        typename Linear<T>::Gradients linear1, linear2;
        template <class Self>
        static auto members(Self& self) {
            return std::make_tuple(named("linear1", self.linear1), named("linear2", self.linear2));
        }
    };
    struct Cache {
        Activations<T> x;          // (B, S, D)
        Activations<T> hidden;     // (B, S, F), before the activation
        Activations<T> activated;  // (B, S, F)
        Activations<T> gradient;   // (B, S, F), scratch of backward
    };

    Linear<T> linear1;  ///< W_1 (F, D)
    Linear<T> linear2;  ///< W_2 (D, F)

    FeedForward() = default;
    /// @throws std::invalid_argument when a width is 0
    explicit FeedForward(const Options& options)
        : linear1(options.width, options.feed_forward, options.bias),
          linear2(options.feed_forward, options.width, options.bias),
          activation_(options.activation) {}

    std::size_t width() const { return linear1.in(); }

    void initialize(const Initializer& initializer) {
        linear1.initialize(initializer, Role::linear1);
        linear2.initialize(initializer, Role::linear2);
    }

    /// x, y: (B, S, D)
    void forward(const Activations<T>& x, Activations<T>& y, Cache& cache) const {
        detail::require_width("FeedForward", "x", x, width());
        detail::copy(x, cache.x);
        linear1.forward(x, cache.hidden);
        detail::reshape(cache.activated, detail::shape_of(cache.hidden));
        activation_.rows<T>().forward(cache.hidden.data(), cache.activated.data(), cache.hidden.size());
        linear2.forward(cache.activated, y);
    }

    /// dy, dx: (B, S, D). Adds to gradients.
    void backward(const Activations<T>& dy, Activations<T>& dx, Cache& cache, Gradients& gradients) const {
        detail::require_shape("FeedForward", "dy", dy, detail::shape_of(cache.x));
        linear2.backward(cache.activated, dy, cache.gradient, gradients.linear2);
        activation_.rows<T>().backward(cache.hidden.data(), cache.gradient.data(), cache.gradient.data(),
                                       cache.gradient.size());
        linear1.backward(cache.x, cache.gradient, dx, gradients.linear1);
    }

private:
    Activation activation_ = relu;
};

}  // namespace normplace
