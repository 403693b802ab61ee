// SPDX-License-Identifier: BSD-3-Clause
//
// What a residual block needs of the sublayer that it is wrapped around. MultiHeadAttention, CrossAttention and
// FeedForward are sublayers; feed_forward.hpp is the one to copy for your own.
#pragma once

#include <concepts>
#include <cstddef>
#include <tuple>

#include <normplace/nn/initializer.hpp>
#include <normplace/nn/parameters.hpp>

namespace normplace {

/// What a block needs of a sublayer: `Scalar`, `Options`, `Cache`, `Gradients`, its `kind`, the model width `width()`,
/// `forward(x, y, cache)`, `backward(dy, dx, cache, gradients)` and `initialize(initializer)`. Both passes may take
/// further arguments, which the block hands on: a mask, a memory. Backward may use the cache up. A sublayer that
/// keeps its input as `cache.x` may say so, `static constexpr bool input_in_cache = true`: the block then makes the
/// input right there, and forward's x is cache.x itself.
template <class S>
concept Sublayer = std::default_initializable<typename S::Cache> && std::default_initializable<typename S::Gradients> &&
    std::constructible_from<S, const typename S::Options&> &&
    requires(S& sublayer, const S& fixed, const Initializer& initializer) {
    typename S::Scalar;
    { S::kind } -> std::convertible_to<SublayerKind>;
    { fixed.width() } -> std::convertible_to<std::size_t>;
    sublayer.initialize(initializer);
};

/// Where a formula has no f, as at the end of a stack.
template <class T>
struct NoSublayer {
    using Scalar = T;
    struct Options {
        std::size_t width = 0;
    };
    struct Cache {};
    using Gradients = NoParameters;
    static constexpr SublayerKind kind = SublayerKind::other;

    Options options{};
    explicit NoSublayer(const Options& given = {}) : options(given) {}
    std::size_t width() const { return options.width; }
    void initialize(const Initializer&) {}
    void forward(const Activations<T>& x, Activations<T>& y, Cache&) const { y = x; }
    void backward(const Activations<T>& dy, Activations<T>& dx, Cache&, Gradients&) const { dx = dy; }
    template <class Self>
    static std::tuple<> members(Self&) {
        return {};
    }
};

namespace detail {
/// S::Scalar; float where there is none, so that the block can say what S lacks.
template <class S>
struct SublayerScalar {
    using type = float;
};
template <class S>
requires requires { typename S::Scalar; }
struct SublayerScalar<S> {
    using type = typename S::Scalar;
};
}  // namespace detail

}  // namespace normplace
