// SPDX-License-Identifier: BSD-3-Clause
//
// At finite width the covariance of one pair of tokens is not its mean: x_i.x_j / D fluctuates from pair to pair by
// about 1/sqrt(D). Sums over pairs of different keys feel it as n/D, which is not small: W_q and W_k of random tokens
// gain a factor 1 + n/D. So beside the covariances the estimator carries the variance of the token-dependent part of
// one pair.
#pragma once

#include <cmath>

#include <normplace/analysis/token_kernel.hpp>

namespace normplace {

/// `spread` u is the mean of K_ii minus that of K_ij, i and j in one sequence; the variance of K_ij from pair to pair
/// is `relative` times u^2. For independent Gaussian tokens in D dimensions relative = 1/D: its inverse is the number
/// of dimensions in which tokens effectively differ.
struct Fluctuation {
    double spread = 0.0;
    double relative = 0.0;
    double norm = 0.0;        ///< relative variance of a token's squared norm
    double log_spread = 0.0;  ///< variance of ln u over initializations
};

struct WithinMean {
    double same, different;
};
/// The means of K_ii and of K_ij over i != j in one sequence (0 when there are none).
inline WithinMean mean_within(const TokenLayout& layout, const TokenKernel& kernel) {
    const double trace = layout.trace(kernel), tokens = layout.tokens();
    const double pairs = tokens * static_cast<double>(layout.sequence() - 1);
    return {trace / tokens, pairs > 0.0 ? (layout.total_within(kernel) - trace) / pairs : 0.0};
}

/// The relative variance of one pair of a x + b f(g x): the stream's own fluctuations, which the branch follows with
/// d F_ij / d K_ij, those that the branch adds, `fresh`, and the products of the two parts' independent directions:
/// [(u_x + followed)^2 relative + fresh u_f^2 + 2 u_x u_f / D] / (u_x + u_f)^2, with u_x = `stream.spread` and u_f the
/// two parts' shares of the spread (a^2 and b^2 in them), and `followed` what of u_f follows the stream.
inline double combined_relative(const Fluctuation& stream, double branch_spread, double followed, double fresh,
                                double width) {
    const double own = stream.spread + followed, total = stream.spread + branch_spread;
    if (!(total > 0.0)) return stream.relative;
    const double relative = (own * own * stream.relative + fresh * branch_spread * branch_spread +
                             2.0 * stream.spread * branch_spread / width) /
                            (total * total);
    return std::fmin(relative, 1.0);  // tokens differ in one dimension at least
}

}  // namespace normplace
