// SPDX-License-Identifier: BSD-3-Clause
//
// The feed-forward sublayer: y = W_2 phi(W_1 x + b_1) + b_2, W_1 (F, D), W_2 (D, F). What W_2 is given may have a norm
// (placement/sublayer_norms.hpp). Dropout of what phi gives, before that norm, is a matter of each forward
// (dropout.hpp): `cache.activation_dropout = DropoutKey{.seed = 1, .rate = 0.1}.at(step)`.
#pragma once

#include <concepts>
#include <tuple>

#include <normplace/detail/workspace.hpp>
#include <normplace/nn/dropout.hpp>
#include <normplace/nn/linear.hpp>
#include <normplace/nn/norm.hpp>
#include <normplace/placement/activation.hpp>
#include <normplace/placement/sublayer_norms.hpp>

namespace normplace {

struct FeedForwardOptions {
    std::size_t width = 0;         ///< D
    std::size_t feed_forward = 0;  ///< F
    bool bias = true;              ///< of the linear layers and of the norm
    Activation activation = relu;
    SublayerNorms norms{};                      ///< `hidden` alone; the others are attention's, and ignored
    double norm_epsilon = 1e-5;                 ///< of that norm
    NormKind norm_kind = NormKind::layer_norm;  ///< where it is AnyNorm
};

/// @tparam N the norm that `options.norms.hidden` asks for; its backward is called with dx = dy
template <class T, class N = LayerNorm<T>>
class FeedForward {
public:
    using Scalar = T;
    using Options = FeedForwardOptions;
    static constexpr SublayerKind kind = SublayerKind::feed_forward;
    static constexpr bool input_in_cache = true;  // sublayer.hpp
    static_assert(NormLayer<N>,
                  "normplace: a norm has Scalar, Gradients, Cache, a constructor from NormOptions, "
                  "forward(x, y, cache) and backward(dy, dx, cache, gradients).");
    static_assert(std::same_as<typename N::Scalar, T>,
                  "normplace: a norm inside a sublayer has the sublayer's Scalar: FeedForward<float, RMSNorm<float>>.");

    struct Gradients {
        typename Linear<T>::Gradients linear1, linear2;
        typename N::Gradients hidden_norm;
        template <class Self>
        static auto members(Self& self) {
            return std::make_tuple(named("linear1", self.linear1), named("linear2", self.linear2),
                                   named("hidden_norm", self.hidden_norm));
        }
    };
    struct Cache {
        Activations<T> x;           // (B, S, D)
        Activations<T> hidden;      // (B, S, F), before the activation; empty for ReLU, which needs only its output
        Activations<T> activated;   // (B, S, F), after dropout
        Activations<T> normalized;  // (B, S, F), of what was activated, where there is a norm; or empty
        typename N::Cache hidden_norm;
        DropoutKey activation_dropout;  ///< for the next forward
        DropoutKey used_dropout;        // by the last forward
        bool filled = false;            // by a forward, and not used up by a backward
    };

    Linear<T> linear1;  ///< W_1 (F, D)
    Linear<T> linear2;  ///< W_2 (D, F)
    N hidden_norm;      ///< of F entries, or without parameters

    FeedForward() = default;
    /// @throws std::invalid_argument when a width is 0
    explicit FeedForward(const Options& options)
        : linear1(options.width, options.feed_forward, options.bias),
          linear2(options.feed_forward, options.width, options.bias),
          activation_(options.activation),
          has_norm_(options.norms.hidden) {
        if (has_norm_)
            hidden_norm = N(NormOptions{.width = options.feed_forward,
                                        .epsilon = options.norm_epsilon,
                                        .bias = options.bias,
                                        .kind = options.norm_kind});
    }

    std::size_t width() const { return linear1.in(); }

    void initialize(const Initializer& initializer) {
        linear1.initialize(initializer, Role::linear1);
        linear2.initialize(initializer, Role::linear2);
    }

    /// x, y: (B, S, D). x may be cache.x.
    void forward(const Activations<T>& x, Activations<T>& y, Cache& cache) const {
        detail::require_width("FeedForward", "x", x, width());
        detail::require_distinct("FeedForward", "x", x, "y", y);
        cache.activation_dropout.check_inside();
        detail::copy(x, cache.x);
        cache.used_dropout = cache.activation_dropout;
        cache.filled = true;
        const detail::Shape<3> hidden_shape{x.shape()[0], x.shape()[1], linear1.out()};
        detail::reshape(cache.activated, hidden_shape);
        detail::reshape(cache.hidden, is_relu() ? detail::Shape<3>{} : hidden_shape);
        detail::reshape(y, detail::shape_of(x));
        T *hidden = is_relu() ? cache.activated.data() : cache.hidden.data(), *activated = cache.activated.data();
        const std::size_t rows = detail::row_count(x), f = linear1.out();
        const detail::SingleThreadedBlas single_threaded_blas;
        detail::parallel_ranges(rows, 2.0 * linear1.work(rows), [&](std::size_t begin, std::size_t end, std::size_t) {
            linear1.forward_rows(x.data(), hidden, begin, end);
            const std::size_t first = begin * f, count = (end - begin) * f;
            activate(hidden + first, activated + first, count);
            drop(activated + first, first, count, cache);
            if (!has_norm_) linear2.forward_rows(activated, y.data(), begin, end);
        });
        if (!has_norm_) return;
        hidden_norm.forward(cache.activated, cache.normalized, cache.hidden_norm);
        detail::parallel_ranges(rows, linear2.work(rows), [&](std::size_t begin, std::size_t end, std::size_t) {
            linear2.forward_rows(cache.normalized.data(), y.data(), begin, end);
        });
    }

    /// dy, dx: (B, S, D). Adds to gradients, and uses the cache up: `activated` becomes the gradient of `hidden`.
    void backward(const Activations<T>& dy, Activations<T>& dx, Cache& cache, Gradients& gradients) const {
        detail::require_filled("FeedForward", cache.filled);
        detail::require_shape("FeedForward", "dy", dy, detail::shape_of(cache.x));
        detail::require_distinct("FeedForward", "dy", dy, "dx", dx);
        detail::reshape(dx, detail::shape_of(dy));
        const std::size_t rows = detail::row_count(dy), d = width(), f = linear1.out();
        const bool keeps_hidden = !is_relu();
        const detail::Shape<3> hidden_shape{dy.shape()[0], dy.shape()[1], f};
        detail::require_shape("FeedForward", "the cache's activated", cache.activated, hidden_shape);
        if (keeps_hidden) detail::require_shape("FeedForward", "the cache's hidden", cache.hidden, hidden_shape);
        if (has_norm_) detail::require_shape("FeedForward", "the cache's normalized", cache.normalized, hidden_shape);
        linear1.require_gradients(gradients.linear1);
        linear2.require_gradients(gradients.linear2);
        T *activated = cache.activated.data(), *normalized = cache.normalized.data();
        linear2.add_gradients(has_norm_ ? normalized : activated, dy.data(), rows, gradients.linear2);
        cache.filled = false;
        const detail::SingleThreadedBlas single_threaded_blas;
        if (has_norm_) {  // it wants whole rows at once: `normalized` becomes the gradient of what was activated
            detail::parallel_ranges(rows, linear2.work(rows), [&](std::size_t begin, std::size_t end, std::size_t) {
                linear2.backward_rows(dy.data(), normalized, begin, end);
            });
            hidden_norm.backward(cache.normalized, cache.normalized, cache.hidden_norm, gradients.hidden_norm);
        }
        detail::parallel_ranges(rows, 2.0 * linear1.work(rows), [&](std::size_t begin, std::size_t end, std::size_t) {
            constexpr std::size_t most_rows = 1024;  // a product of more is no faster, and needs the memory
            detail::Scratch<T> scratch(has_norm_ ? 0 : std::min(most_rows, end - begin) * f);
            for (std::size_t r = begin; r < end; r += most_rows) {
                const std::size_t count = std::min(most_rows, end - r);
                T* dactivated = has_norm_ ? normalized + r * f : scratch.data();
                if (!has_norm_) linear2.backward_rows(dy.data() + r * d, dactivated, 0, count);
                drop(dactivated, r * f, count * f, cache);
                activate_backward(keeps_hidden ? cache.hidden.data() + r * f : nullptr, dactivated, activated + r * f,
                                  count * f);
                linear1.backward_rows(activated, dx.data(), r, r + count);
            }
        });
        linear1.add_gradients(cache.x.data(), activated, rows, gradients.linear1);
    }

private:
    bool is_relu() const { return activation_ == relu; }

    /// `entries` are those of (B, S, F) from the first-th on.
    void drop(T* entries, std::size_t first, std::size_t count, const Cache& cache) const {
        if (cache.used_dropout.rate > 0.0)
            detail::dropout_range(entries, entries, first, first + count, cache.used_dropout);
    }

    // ReLU, and GELU in float, have loops of our own; any other activation brings its own.

    void activate(const T* u, T* y, std::size_t count) const {
        if (is_relu()) return NORMPLACE_KERNEL(rectify, u, y, count);
        if constexpr (std::same_as<T, float>)
            if (activation_ == gelu) return NORMPLACE_KERNEL(gelu_rows, u, y, count);
        activation_.rows<T>().forward(u, y, count);
    }
    /// activated = phi'(u) dactivated, where it was phi(u), or 0 or a multiple of that. ReLU needs nothing but its
    /// output and has no u: where that was dropped, dactivated is 0.
    void activate_backward(const T* u, const T* dactivated, T* activated, std::size_t count) const {
        if (is_relu()) return NORMPLACE_KERNEL(rectify_backward, activated, dactivated, activated, count);
        if constexpr (std::same_as<T, float>)
            if (activation_ == gelu) return NORMPLACE_KERNEL(gelu_backward_rows, u, dactivated, activated, count);
        activation_.rows<T>().backward(u, dactivated, activated, count);
    }

    Activation activation_ = relu;
    bool has_norm_ = false;
};

}  // namespace normplace
