// SPDX-License-Identifier: BSD-3-Clause
//
// A sublayer in moments, as the placement's formula sees it: forward(covariances of the input) gives those of the
// output, backward(covariances of the output's gradient) gives those of the input's gradient and the expected squared
// gradient norm of every parameter.
#pragma once

#include <vector>

#include <normplace/analysis/fluctuation.hpp>
#include <normplace/analysis/norm_moments.hpp>

namespace normplace {

/// A base class, so that the walk along a placement's plan is compiled once and not once for each sublayer.
class SublayerMoments {
public:
    virtual ~SublayerMoments() = default;
    /// Covariances of the output; `fluctuation` is that of the input (fluctuation.hpp).
    virtual TokenKernel forward(const TokenKernel& input, const Fluctuation& fluctuation) = 0;
    /// How the output's fluctuations follow the input's: d out_ij / d in_ij, on average over pairs of different tokens.
    virtual double transfer() const = 0;
    /// Relative variance of one pair's covariance that the matrices add.
    virtual double fresh(const Fluctuation& input) const = 0;
    /// Relative variance of the output's squared norm, for a given input.
    virtual double norm_variance() const = 0;
    /// Covariances of the gradient at the input. Needs forward's state.
    virtual TokenKernel backward(const TokenKernel& gradient) = 0;

    bool before_norm = false;  ///< whether the output is all that a norm reads

    /// Squared gradient norms of the norms inside, those of the projections first, and of a factor for each head;
    /// backward fills them.
    std::vector<NormSquares> inner_norms;
    std::vector<double> inner_gates;
};

}  // namespace normplace
