// SPDX-License-Identifier: BSD-3-Clause
//
// The residual block: a sublayer, and a placement that says where its norms go. The block knows no placement by name:
// it follows the formula (any_block.hpp).
#pragma once

#include <normplace/nn/any_block.hpp>

namespace normplace {

/// y = P::formula, with f the sublayer S and norm the normalization N. Parameters, caches and gradients are three
/// separate things, so one block serves many threads.
///
///     ResidualBlock<PreLN, FeedForward<float>> block({.width = 512, .feed_forward = 2048}, {.layer = 3, .layers =
///     12});
///
///     block.forward(x, y, cache);  // x, y: (B, S, D), or a std::vector of these for a placement with more streams
///
///     block.backward(dy, dx, cache, gradients);
template <class P, class S, class N = LayerNorm<typename detail::SublayerScalar<S>::type>>
class ResidualBlock : public AnyBlock<S, N> {
    static_assert(explain_placement<P>() && explain_norm<P, N>());
    static_assert(
        normplace::Sublayer<S>,
        "normplace: a sublayer needs Scalar, Options, Cache, Gradients, kind, width() and initialize(initializer).");
    static_assert(std::constructible_from<N, NormOptions> && std::same_as<typename N::Scalar, typename S::Scalar>,
                  "normplace: a norm is made from NormOptions, and has the sublayer's Scalar: LayerNorm<float> with "
                  "FeedForward<float>.");

public:
    using Placement = P;

    /// @param depth where the block stands: a placement's scalars and gains may depend on it
    /// @throws std::invalid_argument when the sublayer or the norm refuses its options, the depth is not in its stack,
    /// or a scalar is not finite there
    explicit ResidualBlock(const typename S::Options& options, const Depth& depth = {}, double epsilon = 1e-5,
                           bool norm_bias = true)
        : AnyBlock<S, N>(any_placement<P>, options, depth, {.epsilon = epsilon, .bias = norm_bias}) {}
};

}  // namespace normplace
